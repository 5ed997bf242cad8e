//! The two ends of our transport as the SDK's `Lines` takes them: a sink of lines it sends, a
//! stream of lines it receives.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use futures_sink::Sink;
use tokio::sync::{mpsc, oneshot};

use super::answers::Answer;
use super::message::{Invalid, Message};
use super::shared::Wire;
use super::stash::TICKET;
use super::writer::Gone;

/// The largest `protocolVersion` or `requestId` that is shown to the SDK, in bytes.
const SHOWN: usize = 4096;

/// Lines that the SDK sends.
#[derive(Debug)]
pub struct Outgoing(Arc<Wire>);

impl Outgoing {
    pub(super) fn new(wire: Arc<Wire>) -> Self {
        Self(wire)
    }
}

impl Sink<String> for Outgoing {
    type Error = io::Error;

    fn poll_ready(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.writer.poll_room(cx).map_err(Into::into)
    }

    fn start_send(self: Pin<&mut Self>, line: String) -> io::Result<()> {
        let line = self.0.raws.restore(line);
        self.0.writer.put_line(line.as_bytes())?;
        self.0.answers.passed(&line);
        Ok(())
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The writer sends as fast as the other side reads; nobody has to wait for it.
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.writer.poll_written(cx).map_err(Into::into)
    }
}

/// Lines that the SDK receives.
#[derive(Debug)]
pub struct Incoming {
    wire: Arc<Wire>,
    messages: mpsc::Receiver<Message>,
    phase: Phase,
    /// An error line that waits for room in the writer.
    unsent: Option<String>,
}

/// How far the connection is.
#[derive(Debug)]
enum Phase {
    /// Nothing is served before `initialize`.
    New,
    /// `initialize` is being answered; what follows it waits, so that a file of requests can be
    /// piped in.
    Initializing(oneshot::Receiver<Answer>),
    /// `initialize` was answered with a result.
    Ready,
}

impl Stream for Incoming {
    type Item = io::Result<String>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            if let Some(line) = &this.unsent {
                if let Err(Gone) = ready!(this.wire.writer.poll_control(cx, line.as_bytes())) {
                    return Poll::Ready(None);
                }
                this.unsent = None;
            }
            if let Phase::Initializing(answered) = &mut this.phase {
                let answered = ready!(Pin::new(answered).poll(cx));
                let done = answered == Ok(Answer::Result);
                this.phase = if done { Phase::Ready } else { Phase::New };
            }
            ready!(this.wire.stash.poll_room(cx));
            let Some(message) = ready!(this.messages.poll_recv(cx)) else {
                // Who says nothing any more answers nothing any more.
                this.wire.calls.close();
                return Poll::Ready(None);
            };
            match this.admit(message) {
                Ok(Some(line)) => return Poll::Ready(Some(Ok(line))),
                Ok(None) => {}
                Err(invalid) => this.unsent = Some(invalid.line()),
            }
        }
    }
}

impl Incoming {
    pub(super) fn new(wire: Arc<Wire>, messages: mpsc::Receiver<Message>) -> Self {
        Self {
            wire,
            messages,
            phase: Phase::New,
            unsent: None,
        }
    }

    /// The line the SDK is to see in a message's place.
    fn admit(&mut self, message: Message) -> Result<Option<String>, Invalid> {
        let ready = matches!(self.phase, Phase::Ready);
        match message {
            Message::Blank => Ok(None),
            Message::Invalid(invalid) => Err(invalid),
            Message::Response(line) => {
                // What the SDK asked for it finds itself; so far it asks for nothing.
                let settled = self.wire.calls.settle(&line);
                Ok((ready && !settled).then_some(line))
            }
            Message::Notification { method, params } => {
                Ok(ready.then(|| self.ticketed(None, &method, params)))
            }
            Message::Request { id, method, params } => {
                if method == "initialize" && !ready {
                    self.phase = Phase::Initializing(self.wire.answers.expect(&id));
                } else if !ready {
                    let message = "the connection is not initialized: send `initialize` first";
                    return Err(Invalid {
                        id,
                        code: -32600,
                        message: message.to_owned(),
                    });
                }
                Ok(Some(self.ticketed(Some(&id), &method, params)))
            }
        }
    }

    fn ticketed(&self, id: Option<&str>, method: &str, params: String) -> String {
        let params = match method {
            // The SDK negotiates the version itself, and makes the parameters anew for its own
            // one, so that a ticket would be lost.
            "initialize" => {
                let version = within_range(member(&params, "protocolVersion"));
                self.wire.stash.put_initialize(params);
                version
            }
            // The SDK marks the request as cancelled.
            "$/cancel_request" => {
                let request = member(&params, "requestId");
                let comma = if request.is_empty() { "" } else { "," };
                format!(
                    r#"{request}{comma}"{TICKET}":{}"#,
                    self.wire.stash.put(params)
                )
            }
            _ => format!(r#""{TICKET}":{}"#, self.wire.stash.put(params)),
        };
        let method = serde_json::Value::from(method);
        let id = id.map(|id| format!(r#""id":{id},"#)).unwrap_or_default();
        format!(r#"{{"jsonrpc":"2.0",{id}"method":{method},"params":{{{params}}}}}"#)
    }
}

/// The SDK knows versions of 16 bits; a later one than all of those is a later one still.
fn within_range(version: String) -> String {
    let number = version.rsplit(':').next().unwrap_or_default();
    let integer = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
    if integer && number.parse::<u16>().is_err() {
        return format!(r#""protocolVersion":{}"#, u16::MAX);
    }
    version
}

/// One member of an object with its name, as text; nothing if it is absent or large.
fn member(params: &str, name: &str) -> String {
    struct Member<'a>(&'a str);
    impl<'de> serde::de::DeserializeSeed<'de> for Member<'_> {
        type Value = Option<&'de serde_json::value::RawValue>;
        fn deserialize<D: serde::Deserializer<'de>>(self, d: D) -> Result<Self::Value, D::Error> {
            d.deserialize_map(self)
        }
    }
    impl<'de> serde::de::Visitor<'de> for Member<'_> {
        type Value = Option<&'de serde_json::value::RawValue>;
        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("an object")
        }
        fn visit_map<A: serde::de::MapAccess<'de>>(
            self,
            mut map: A,
        ) -> Result<Self::Value, A::Error> {
            let mut found = None;
            while let Some(key) = map.next_key::<std::borrow::Cow<'de, str>>()? {
                let value: &serde_json::value::RawValue = map.next_value()?;
                if key == self.0 {
                    found = Some(value);
                }
            }
            Ok(found)
        }
    }
    let mut deserializer = serde_json::Deserializer::from_str(params);
    match serde::de::DeserializeSeed::deserialize(Member(name), &mut deserializer) {
        Ok(Some(value)) if value.get().len() <= SHOWN => format!("\"{name}\":{}", value.get()),
        _ => String::new(),
    }
}
