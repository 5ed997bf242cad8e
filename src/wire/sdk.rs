//! The two ends of our transport as the SDK's `Lines` takes them: a sink of lines it sends, a
//! stream of lines it receives.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use futures_sink::Sink;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot};

use super::answers::Answer;
use super::message::{Invalid, Message};
use super::shared::Wire;
use super::stash::TICKET;
use super::writer::Gone;

/// From this version on, a client must say who it is.
const VERSION_2: u16 = 2;

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
    /// The latest version of the protocol that is spoken.
    latest: u16,
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
    pub(super) fn new(wire: Arc<Wire>, messages: mpsc::Receiver<Message>, latest: u16) -> Self {
        Self {
            wire,
            messages,
            phase: Phase::New,
            unsent: None,
            latest,
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
                let hello = method == "initialize";
                if hello && let Some(problem) = self.anonymous(&params) {
                    return Err(Invalid {
                        id,
                        code: -32602,
                        message: format!("Invalid params: {problem}"),
                    });
                }
                if hello && !ready {
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

    /// What is wrong with how a client of exactly version 2 says who it is, which it must. Answered
    /// here, so that the SDK does not take a version for agreed upon and the client may try again.
    fn anonymous(&self, params: &str) -> Option<&'static str> {
        let version = number(&member(params, "protocolVersion"));
        if self.latest < VERSION_2 || version != Some(VERSION_2) {
            return None;
        }
        let Ok(Hello { info: Some(info) }) = serde_json::from_str(params) else {
            return Some("`info` is missing");
        };
        let Ok(info) = serde_json::from_str::<Info<'_>>(info.get()) else {
            return Some("`info` must be an object");
        };
        match (is_string(info.name), is_string(info.version)) {
            (false, _) => Some("`info.name` must be a string"),
            (_, false) => Some("`info.version` must be a string"),
            _ => None,
        }
    }

    fn ticketed(&self, id: Option<&str>, method: &str, params: String) -> String {
        let params = match method {
            // The SDK negotiates the version itself, and makes the parameters anew for its own
            // one, so that a ticket would be lost.
            "initialize" => {
                let version = within_range(member(&params, "protocolVersion"));
                self.wire.stash.put_initialize(params);
                if number(&version).is_some_and(|version| version >= VERSION_2) {
                    // It insists on one, and the true one may be large.
                    version + r#","info":{"name":"client","version":"0"}"#
                } else {
                    version
                }
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

/// How a client says who it is.
#[derive(Deserialize)]
struct Hello<'a> {
    #[serde(borrow, default)]
    info: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Info<'a> {
    #[serde(borrow, default)]
    name: Option<&'a RawValue>,
    #[serde(borrow, default)]
    version: Option<&'a RawValue>,
}

fn is_string(value: Option<&RawValue>) -> bool {
    value.is_some_and(|value| value.get().starts_with('"'))
}

/// The version in a member, if it is one.
fn number(version: &str) -> Option<u16> {
    version.rsplit(':').next()?.trim().parse().ok()
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
