//! The two ends of our transport as the SDK's `Lines` takes them: a sink of lines it sends, a
//! stream of lines it receives.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use futures_sink::Sink;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot};

use super::answers::Answer;
use super::message::{Invalid, Message};
use super::raws;
use super::shared::Wire;
use super::stash::TICKET;
use super::writer::Gone;
use crate::protocol::error::{INVALID_PARAMS, INVALID_REQUEST, error_data, name_of};

/// From this version on, a client must identify itself.
const VERSION_2: u16 = 2;

/// The largest `protocolVersion` or `requestId` that is passed to the SDK, in bytes.
const SHOWN: usize = 4096;

/// Lines that the SDK sends.
#[derive(Debug)]
pub struct Outgoing(Arc<Wire>);

impl Outgoing {
    pub(super) fn new(wire: Arc<Wire>) -> Self {
        Self(wire)
    }
}

/// The relevant members of a line that the SDK sends.
#[derive(Deserialize)]
struct Sent {
    /// `null` is a valid id, too.
    #[serde(default, deserialize_with = "present")]
    id: Option<Value>,
    method: Option<IgnoredAny>,
    error: Option<IgnoredAny>,
}

impl Sent {
    /// The id of the request that the line answers, and whether it is a result or an error.
    fn answer(line: &str) -> Option<(Value, Answer)> {
        match serde_json::from_str(line) {
            Ok(Self {
                id: Some(id),
                method: None,
                error,
            }) => {
                let failed = error.is_some();
                Some((
                    id,
                    if failed {
                        Answer::Error
                    } else {
                        Answer::Result
                    },
                ))
            }
            _ => None,
        }
    }
}

fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

impl Sink<String> for Outgoing {
    type Error = io::Error;

    fn poll_ready(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.writer.poll_room(cx).map_err(Into::into)
    }

    fn start_send(self: Pin<&mut Self>, line: String) -> io::Result<()> {
        let line = with_data(line);
        // Large results are still placeholders here, so this is short.
        let answer = Sent::answer(&line);
        let own = answer
            .as_ref()
            .and_then(|(id, _)| Some((id, self.0.flow.own(id)?)));
        let line = match own {
            Some((id, own)) => line.replacen(&format!("\"id\":{id}"), &format!("\"id\":{own}"), 1),
            None => line,
        };
        let line = self.0.raws.restore(line);
        self.0.writer.put_line(line.as_bytes())?;
        if let Some((id, answer)) = answer {
            self.0.answers.passed(&id, answer);
            self.0.flow.end(&id);
        }
        Ok(())
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The writer sends as fast as the other side reads, so there is no need to wait.
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
    /// An error line that is waiting for room in the writer.
    unsent: Option<String>,
    /// The latest supported version of the protocol.
    latest: u16,
}

/// The state of the connection.
#[derive(Debug)]
enum Phase {
    /// Nothing is served before `initialize`.
    New,
    /// `initialize` is being answered. What follows it waits, so that a file of requests can be
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
            ready!(this.wire.flow.poll_room(cx, &this.wire.raws));
            let Some(message) = ready!(this.messages.poll_recv(cx)) else {
                // A client that sends no more input sends no more responses.
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

    /// The line that the SDK gets for a message.
    fn admit(&mut self, message: Message) -> Result<Option<String>, Invalid> {
        let ready = matches!(self.phase, Phase::Ready);
        match message {
            Message::Blank => Ok(None),
            Message::Invalid(invalid) => Err(invalid),
            Message::Response(line) => {
                // The SDK matches responses to its own requests; so far it sends none.
                let settled = self.wire.calls.settle(&line);
                Ok((ready && !settled).then_some(line))
            }
            Message::Notification { method, params } => {
                Ok(ready.then(|| self.ticketed(None, &method, params)))
            }
            Message::Request { id, method, params } => {
                let hello = method == "initialize";
                if hello && let Some(problem) = self.unfit(&params) {
                    return Err(Invalid {
                        id,
                        code: INVALID_PARAMS,
                        message: format!("Invalid params: {problem}"),
                    });
                }
                if !hello && !ready {
                    let message = "the connection is not initialized: send `initialize` first";
                    return Err(Invalid {
                        id,
                        code: INVALID_REQUEST,
                        message: message.to_owned(),
                    });
                }
                let id = self.wire.flow.begin(&id, &method, params.len());
                if hello && !ready {
                    self.phase = Phase::Initializing(self.wire.answers.expect(&id));
                }
                Ok(Some(self.ticketed(Some(&id), &method, params)))
            }
        }
    }

    /// What is wrong with an `initialize`: its version, or the client's `info`, which is required
    /// if the version is exactly 2. Checked here, so that the SDK does not consider a version
    /// negotiated and the client may try again.
    fn unfit(&self, params: &str) -> Option<&'static str> {
        let version = member(params, "protocolVersion");
        if version.is_empty() {
            return Some("`protocolVersion` is missing");
        }
        if !is_integer(value_of(&version)) {
            return Some("`protocolVersion` must be an integer from 0 on");
        }
        if self.latest < VERSION_2 || number(&version) != Some(VERSION_2) {
            return None;
        }
        let Ok(Hello { info: Some(info) }) = serde_json::from_str(params) else {
            return Some("`info` is missing");
        };
        let Ok(info) = serde_json::from_str::<Info<'_>>(info.get()) else {
            return Some("`info` must be an object");
        };
        match (info.name, info.version) {
            (None, _) => Some("`info.name` is missing"),
            (name, _) if !is_string(name) => Some("`info.name` must be a string"),
            (_, None) => Some("`info.version` is missing"),
            (_, version) if !is_string(version) => Some("`info.version` must be a string"),
            _ => None,
        }
    }

    fn ticketed(&self, id: Option<&str>, method: &str, params: String) -> String {
        let params = match method {
            // The SDK negotiates the version itself and rewrites the parameters for its own
            // version, so a ticket would be lost.
            "initialize" => {
                let version = within_range(member(&params, "protocolVersion"));
                self.wire.stash.put_initialize(params);
                if number(&version).is_some_and(|version| version >= VERSION_2) {
                    // The SDK requires one, and the real one may be large.
                    version + r#","info":{"name":"client","version":"0"}"#
                } else {
                    version
                }
            }
            // The SDK marks the request as cancelled.
            "$/cancel_request" => {
                let mut params = params;
                let mut request = member(&params, "requestId");
                if let Some(shown) = self.wire.flow.shown(value_of(&request)) {
                    request = format!("\"requestId\":{shown}");
                    params = format!("{{{request}}}");
                }
                let comma = if request.is_empty() { "" } else { "," };
                format!(
                    r#"{request}{comma}"{TICKET}":{}"#,
                    self.wire.stash.put(params)
                )
            }
            _ => format!(r#""{TICKET}":{}"#, self.wire.stash.put(params)),
        };
        let method = Value::from(method);
        let id = id.map(|id| format!(r#""id":{id},"#)).unwrap_or_default();
        format!(r#"{{"jsonrpc":"2.0",{id}"method":{method},"params":{{{params}}}}}"#)
    }
}

/// The maximum length of an error that the SDK itself creates, in bytes.
const ERROR: usize = 4096;

/// Adds to an error of the SDK the data that all our errors have. If its data is a string, that is
/// appended to the message. Errors from elsewhere have a name in their data, or a placeholder for
/// the data if they come from an agent, and are not changed.
fn with_data(line: String) -> String {
    if line.len() > ERROR || !line.contains("\"error\":{") {
        return line;
    }
    let Ok(mut response) = serde_json::from_str::<Value>(&line) else {
        return line;
    };
    let error = &mut response["error"];
    let code = error["code"].as_i64().and_then(|code| code.try_into().ok());
    let message = error["message"].as_str().unwrap_or_default();
    let (message, more) = match &error["data"] {
        Value::String(reason) => (format!("{message}: {reason}"), None),
        Value::Object(data) if !data.contains_key("error") && !data.contains_key(raws::MARK) => {
            (message.to_owned(), Some(data.clone()))
        }
        _ => return line,
    };
    let mut data = error_data(name_of(code.unwrap_or_default()), &message);
    data.extend(more.into_iter().flatten());
    error["data"] = data.into();
    error["message"] = message.into();
    response.to_string()
}

/// The client's identification.
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

/// The value in the text of a member.
fn value_of(member: &str) -> &str {
    member.split_once(':').map_or("", |(_, value)| value).trim()
}

fn is_integer(value: &str) -> bool {
    !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit())
}

/// The version in a member, if it is one.
fn number(version: &str) -> Option<u16> {
    value_of(version).parse().ok()
}

/// The SDK only knows versions of 16 bits. A larger one becomes the largest of those.
fn within_range(version: String) -> String {
    let number = value_of(&version);
    if is_integer(number) && number.parse::<u16>().is_err() {
        return format!(r#""protocolVersion":{}"#, u16::MAX);
    }
    version
}

/// A member of an object with its name, as text. Empty if it is absent or too large.
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
