//! Parses one line of the agent: what kind of message it is, and where its parts are.
//!
//! The line is read once, which validates the JSON and records the positions. Text is copied only
//! if it cannot be logged as it is. If a member occurs twice, the last one counts.

use std::borrow::Cow;

use super::payload::{self, Fields, NamedSession, Payload, PayloadForm, without_session};
use crate::json::{self, Span};
use crate::protocol::method;

/// A message of the agent, borrowed from its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::engine::agent) enum AgentMessage<'a> {
    /// A `session/update` notification.
    Update {
        /// The agent's session id.
        session: Cow<'a, str>,
        /// The update to log and send.
        payload: Payload<'a>,
    },
    /// A request, to be answered under `id`.
    Request {
        /// The id's JSON text.
        id: &'a str,
        /// The method's name.
        method: Cow<'a, str>,
        /// The parameters' JSON text; an empty object if there are none.
        params: Cow<'a, str>,
        /// The session that it belongs to.
        session: Option<NamedSession<'a>>,
    },
    /// A notification of another kind, or an update that has no session or no update.
    Notification {
        /// The method's name.
        method: Cow<'a, str>,
        /// The parameters' JSON text; an empty object if there are none.
        params: Cow<'a, str>,
        /// The session that it belongs to.
        session: Option<NamedSession<'a>>,
    },
    /// A response to one of our requests.
    Response {
        /// The id's JSON text.
        id: &'a str,
        /// The result or the error.
        outcome: ResponseOutcome<'a>,
    },
    /// Nothing but white space.
    Blank,
    /// Not a message, with the reason.
    Invalid(&'static str),
}

/// How a request was answered, as JSON text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::engine::agent) enum ResponseOutcome<'a> {
    /// The `result`: any value.
    Result(Cow<'a, str>),
    /// The `error`: an object if the agent keeps to JSON-RPC.
    Error(Cow<'a, str>),
}

/// The positions of the parts of a message's parameters.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Params {
    whole: Option<Span>,
    session: Option<Span>,
    pub(super) update: Option<Fields>,
    /// The number of members.
    members: usize,
}

/// The positions of the parts of a message.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MessageSpans {
    id: Option<Span>,
    method: Option<Span>,
    result: Option<Span>,
    error: Option<Span>,
    pub(super) params: Params,
}

impl MessageSpans {
    /// The envelope with each position moved.
    pub(super) fn map(&self, to: impl Fn(Span) -> Span) -> Self {
        let params = &self.params;
        Self {
            id: self.id.map(&to),
            method: self.method.map(&to),
            result: self.result.map(&to),
            error: self.error.map(&to),
            params: Params {
                whole: params.whole.map(&to),
                session: params.session.map(&to),
                update: params.update.map(|fields| fields.map(&to)),
                members: params.members,
            },
        }
    }
}

/// Parses one line, with or without its line break.
pub(in crate::engine::agent) fn read(line: &[u8]) -> AgentMessage<'_> {
    text_of(line)
        .and_then(|text| Some(classify(text, &envelope(text)?)))
        .unwrap_or_else(|| refused(line))
}

/// A line as text, if it is valid UTF-8.
pub(super) fn text_of(line: &[u8]) -> Option<&str> {
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
    std::str::from_utf8(line).ok()
}

/// Classifies a line that is not a JSON object.
pub(super) fn refused(line: &[u8]) -> AgentMessage<'_> {
    let Some(text) = text_of(line) else {
        return AgentMessage::Invalid("it is not UTF-8");
    };
    let start = json::skip_space(text.as_bytes(), 0);
    match text.as_bytes().get(start) {
        None => AgentMessage::Blank,
        Some(b'{') => AgentMessage::Invalid("it is not valid JSON"),
        Some(b'[') if json::value_end(text.as_bytes(), start).is_some() => {
            AgentMessage::Invalid("it is a batch, which the protocol does not have")
        }
        Some(_) => AgentMessage::Invalid("it is not a JSON object"),
    }
}

/// Parses a message, if the text is a JSON object.
pub(super) fn envelope(text: &str) -> Option<MessageSpans> {
    let start = json::skip_space(text.as_bytes(), 0);
    let mut found = MessageSpans::default();
    let end = json::walk(text.as_bytes(), start, |name, _, at| {
        if name == b"params" {
            let (params, end) = params(text, at)?;
            found.params = params;
            return Some(end);
        }
        let end = json::value_end(text.as_bytes(), at)?;
        let place = match name {
            b"id" => &mut found.id,
            b"method" => &mut found.method,
            b"result" => &mut found.result,
            b"error" => &mut found.error,
            _ => return Some(end),
        };
        *place = Some(Span { start: at, end });
        Some(end)
    })?;
    (json::skip_space(text.as_bytes(), end) == text.len()).then_some(found)
}

/// Parses parameters of any type, and returns the position of their end, too.
fn params(text: &str, start: usize) -> Option<(Params, usize)> {
    let mut found = Params::default();
    let end = if text.as_bytes().get(start) == Some(&b'{') {
        json::walk(text.as_bytes(), start, |name, _, at| {
            found.members += 1;
            if name == b"update" && text.as_bytes().get(at) == Some(&b'{') {
                let fields = payload::fields(text, at)?;
                found.update = Some(fields);
                return Some(fields.whole.end);
            }
            let end = json::value_end(text.as_bytes(), at)?;
            match name {
                b"sessionId" => found.session = Some(Span { start: at, end }),
                b"update" => found.update = None,
                _ => {}
            }
            Some(end)
        })?
    } else {
        json::value_end(text.as_bytes(), start)?
    };
    found.whole = Some(Span { start, end });
    Some((found, end))
}

/// Classifies a message.
pub(super) fn classify<'a>(text: &'a str, envelope: &MessageSpans) -> AgentMessage<'a> {
    let Some(method) = envelope.method else {
        return response(text, envelope);
    };
    let Some(method) = method.string(text) else {
        return AgentMessage::Invalid("its method is not a string");
    };
    let params = &envelope.params;
    let session = params.session.and_then(|span| span.string(text));
    if let (None, method::SESSION_UPDATE, Some(session), Some(update)) =
        (envelope.id, &*method, &session, params.update)
        && let Some(payload) = payload(text, params, update)
    {
        return AgentMessage::Update {
            session: session.clone(),
            payload,
        };
    }
    let whole = params.whole.filter(|whole| whole.of(text) != "null");
    let session = whole
        .zip(session)
        .zip(params.session)
        .map(|((whole, id), span)| {
            let span = span.back(whole.start);
            NamedSession {
                id,
                range: span.start..span.end,
            }
        });
    let params = whole.map_or(Cow::Borrowed("{}"), |whole| one_line(whole.of(text)));
    match envelope.id {
        Some(id) => AgentMessage::Request {
            id: id.of(text),
            method,
            params,
            session,
        },
        None => AgentMessage::Notification {
            method,
            params,
            session,
        },
    }
}

fn response<'a>(text: &'a str, envelope: &MessageSpans) -> AgentMessage<'a> {
    let Some(id) = envelope.id else {
        return AgentMessage::Invalid("it has neither a method nor an id");
    };
    // Some agents write both `error` and `result`, one of them as `null`.
    let error = envelope.error.filter(|error| error.of(text) != "null");
    let outcome = match (error, envelope.result) {
        (Some(error), _) => ResponseOutcome::Error(one_line(error.of(text))),
        (None, Some(result)) => ResponseOutcome::Result(one_line(result.of(text))),
        (None, None) => return AgentMessage::Invalid("it has neither a method nor a result"),
    };
    AgentMessage::Response {
        id: id.of(text),
        outcome,
    }
}

fn payload<'a>(text: &'a str, params: &Params, fields: Fields) -> Option<Payload<'a>> {
    if params.members == 2 {
        let start = fields.whole.start;
        return Some(Payload {
            text: one_line(fields.whole.of(text)),
            form: PayloadForm::Update,
            fields: fields.map(|span| span.back(start)),
        });
    }
    let rest = without_session(params.whole?.of(text))?;
    Payload::read(
        PayloadForm::Params,
        Cow::Owned(one_line(&rest).into_owned()),
    )
}

/// Valid JSON without the carriage returns that may be between its tokens: a line of a log must not
/// contain one. Strings contain none, as they must escape them.
fn one_line(json: &str) -> Cow<'_, str> {
    if memchr::memchr(b'\r', json.as_bytes()).is_some() {
        Cow::Owned(json.replace('\r', " "))
    } else {
        Cow::Borrowed(json)
    }
}

#[cfg(test)]
#[path = "message_tests.rs"]
mod tests;
