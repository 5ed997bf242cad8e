//! The parts of an agent's message as text: its update, and its session's id.

use std::borrow::Cow;
use std::ops::Range;

use crate::json::{self, Span};
use crate::protocol::UpdateKind;
use crate::record::Kind;
use crate::record::payload::has_shape;
use crate::record::subagents::announced;

/// How a notification's parameters are logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine::agent) enum PayloadForm {
    /// The parameters are a session id and an update; the payload is the `update` object.
    Update,
    /// The parameters have more members; the payload is all of them except the session id.
    Params,
}

/// An update as text, with the positions of the members that are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::engine::agent) struct Payload<'a> {
    pub(in crate::engine::agent) text: Cow<'a, str>,
    pub(in crate::engine::agent) form: PayloadForm,
    pub(in crate::engine::agent) fields: Fields,
}

impl<'a> Payload<'a> {
    /// The payload of a record, whose kind gives its form. `None` if it contains no update.
    pub(in crate::engine::agent) fn of_record(kind: Kind, text: &'a str) -> Option<Self> {
        let form = match kind {
            Kind::Update => PayloadForm::Update,
            Kind::UpdateParams | Kind::UpdateV2 => PayloadForm::Params,
            _ => return None,
        };
        Self::read(form, Cow::Borrowed(text))
    }

    /// Parses a text and records the positions of its members.
    pub(in crate::engine::agent) fn read(form: PayloadForm, text: Cow<'a, str>) -> Option<Self> {
        let fields = match form {
            PayloadForm::Update => fields(&text, json::skip_space(text.as_bytes(), 0))?,
            PayloadForm::Params => {
                let mut found = None;
                json::walk(text.as_bytes(), 0, |name, _, at| {
                    if name != b"update" {
                        return json::value_end(text.as_bytes(), at);
                    }
                    found = fields(&text, at);
                    found.map_or_else(
                        || json::value_end(text.as_bytes(), at),
                        |found| Some(found.whole.end),
                    )
                })?;
                found?
            }
        };
        Some(Self { text, form, fields })
    }

    /// Its text: one JSON object on one line.
    pub(in crate::engine::agent) fn text(&self) -> &str {
        &self.text
    }

    /// The parameters of its notification without the session's id.
    pub(in crate::engine::agent) fn params(&self) -> Cow<'_, str> {
        match self.form {
            PayloadForm::Update => self.params_in_parts().concat().into(),
            PayloadForm::Params => Cow::Borrowed(&self.text),
        }
    }

    /// The text of the parameters without the session's id, in parts: one JSON object on one line.
    pub(in crate::engine::agent) fn params_in_parts(&self) -> [&str; 3] {
        match self.form {
            PayloadForm::Update => ["{\"update\":", &self.text, "}"],
            PayloadForm::Params => ["", &self.text, ""],
        }
    }

    /// The text of the `update` object alone.
    pub(in crate::engine::agent) fn update(&self) -> &str {
        self.fields.whole.of(&self.text)
    }

    /// Whether the update is a report of the agent's state, in version 2.
    pub(in crate::engine::agent) fn is_state(&self) -> bool {
        self.kind() == Some(UpdateKind::SessionState)
    }

    /// Whether readers of a log recognize it as an update.
    pub(in crate::engine::agent) fn has_shape(&self) -> bool {
        let of = |span: Option<Span>| span.map(|span| span.of(&self.text));
        has_shape(of(self.fields.name), of(self.fields.content))
    }

    /// Whether it says that the agent's replay is complete, which is no part of a conversation.
    pub(in crate::engine::agent) fn ends_replay(&self) -> bool {
        let name = self.fields.name.and_then(|name| name.body(&self.text));
        name == Some(UpdateKind::ReplayComplete.name())
    }

    /// The session of the subagent that the update is about.
    pub(in crate::engine::agent) fn subagent(&self) -> Option<String> {
        let is_about_one = self.kind() == Some(UpdateKind::Subagent);
        is_about_one.then(|| announced(self.update()))?
    }

    /// The kind by which the update is recognized at once; none if its name has escapes.
    pub(in crate::engine::agent) fn kind(&self) -> Option<UpdateKind> {
        let name = self.fields.name?.body(&self.text)?;
        Some(UpdateKind::of_name(name.as_bytes()))
    }

    /// The name of the update's kind in the protocol.
    pub(in crate::engine::agent) fn name(&self) -> Option<Cow<'_, str>> {
        self.fields.name?.string(&self.text)
    }
}

/// Positions in an `update` object. If a member occurs twice, the last one counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine::agent) struct Fields {
    /// The object itself.
    pub(in crate::engine::agent) whole: Span,
    pub(in crate::engine::agent) name: Option<Span>,
    pub(in crate::engine::agent) message: Option<Span>,
    pub(in crate::engine::agent) call: Option<Span>,
    pub(in crate::engine::agent) status: Option<Span>,
    pub(in crate::engine::agent) content: Option<Span>,
}

impl Fields {
    /// The fields with each position moved.
    pub(super) fn map(self, to: impl Fn(Span) -> Span) -> Self {
        Self {
            whole: to(self.whole),
            name: self.name.map(&to),
            message: self.message.map(&to),
            call: self.call.map(&to),
            status: self.status.map(&to),
            content: self.content.map(&to),
        }
    }
}

/// Reads the `update` object that begins at `at`.
pub(super) fn fields(text: &str, at: usize) -> Option<Fields> {
    let mut fields = Fields {
        whole: Span { start: at, end: at },
        name: None,
        message: None,
        call: None,
        status: None,
        content: None,
    };
    let end = json::walk(text.as_bytes(), at, |name, _, start| {
        let end = json::value_end(text.as_bytes(), start)?;
        let place = match name {
            b"sessionUpdate" => &mut fields.name,
            b"messageId" => &mut fields.message,
            b"toolCallId" => &mut fields.call,
            b"status" => &mut fields.status,
            b"content" => &mut fields.content,
            _ => return Some(end),
        };
        *place = Some(Span { start, end });
        Some(end)
    })?;
    fields.whole.end = end;
    Some(fields)
}

/// The `sessionId` of some parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::engine::agent) struct NamedSession<'a> {
    /// The agent's session id.
    pub(in crate::engine::agent) id: Cow<'a, str>,
    /// The range of its JSON text, quotes included, in the parameters' text.
    pub(in crate::engine::agent) range: Range<usize>,
}

/// An object's text without its `sessionId` members, otherwise unchanged.
pub(super) fn without_session(object: &str) -> Option<String> {
    let mut rest = String::with_capacity(object.len());
    let mut previous_end = None;
    let mut kept = false;
    let end = json::walk(object.as_bytes(), 0, |name, quote, at| {
        let end = json::value_end(object.as_bytes(), at)?;
        let before = previous_end.replace(end).unwrap_or(0);
        if before == 0 {
            rest.push_str(&object[..quote]);
        }
        if name != b"sessionId" {
            if kept {
                rest.push_str(&object[before..quote]);
            }
            kept = true;
            rest.push_str(&object[quote..end]);
        }
        Some(end)
    })?;
    rest.push_str(&object[previous_end.unwrap_or(1)..end]);
    Some(rest)
}

/// The `sessionId` of an object, such as a request's parameters or its result. `None` if the text
/// is not an object or has no such member.
pub(in crate::engine::agent) fn session_of(text: &str) -> Option<NamedSession<'_>> {
    let mut found = None;
    json::walk(text.as_bytes(), 0, |name, _, start| {
        let end = json::value_end(text.as_bytes(), start)?;
        if name == b"sessionId" {
            found = Some(Span { start, end });
        }
        Some(end)
    })?;
    let found = found?;
    Some(NamedSession {
        id: found.string(text)?,
        range: found.start..found.end,
    })
}

#[cfg(test)]
mod tests {
    use super::super::message::{AgentMessage, read};
    use super::*;

    #[test]
    fn the_id_of_a_session_is_replaced_in_place() {
        let params = r#"{ "sessionId":"inner", "x":"inner", "sessionId" : "in\u006eer" }"#;
        let line = format!(r#"{{"id":1,"params":{params},"method":"m"}}"#);
        let AgentMessage::Request {
            session: Some(named),
            ..
        } = read(line.as_bytes())
        else {
            panic!("{line}");
        };
        assert_eq!(session_of(params), Some(named.clone()));
        assert_eq!(named.id, "inner");
        assert_eq!(
            crate::json::with_string(params, &named.range, "a\"b"),
            r#"{ "sessionId":"inner", "x":"inner", "sessionId" : "a\"b" }"#
        );
        for none in [
            "",
            "[]",
            "{}",
            r#"{"sessionId":null}"#,
            r#"{"a":{"sessionId":"s"}}"#,
        ] {
            assert_eq!(session_of(none), None, "{none}");
        }
    }
}
