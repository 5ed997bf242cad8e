//! An update of an agent as text, with the positions that are needed to log it.

use std::borrow::Cow;

use crate::json::{self, Span};
use crate::record::Kind;
use crate::record::payload::has_shape;

/// How a notification's parameters are logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// They are a session id and an update; the payload is the `update` object.
    Update,
    /// They have more members; the payload is all of them except the session id.
    Params,
}

/// An update as text, with the positions of the members that are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload<'a> {
    pub(super) text: Cow<'a, str>,
    pub(super) form: Form,
    pub(super) fields: Fields,
}

impl<'a> Payload<'a> {
    /// The payload of a record, whose kind gives its form. `None` if it contains no update.
    pub fn of_record(kind: Kind, text: &'a str) -> Option<Self> {
        let form = match kind {
            Kind::Update => Form::Update,
            Kind::UpdateParams => Form::Params,
            _ => return None,
        };
        Self::read(form, Cow::Borrowed(text))
    }

    /// Parses a text and notes the positions of its members.
    pub(super) fn read(form: Form, text: Cow<'a, str>) -> Option<Self> {
        let fields = match form {
            Form::Update => fields(&text, json::skip_space(text.as_bytes(), 0))?,
            Form::Params => {
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

    /// The same with a text of its own, independent of the line.
    pub fn into_owned(self) -> Payload<'static> {
        Payload {
            text: Cow::Owned(self.text.into_owned()),
            form: self.form,
            fields: self.fields,
        }
    }

    /// Its text: one JSON object on one line.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The text of the `update` object alone.
    pub(super) fn update(&self) -> &str {
        self.fields.whole.of(&self.text)
    }

    /// Whether readers of a log recognize it as an update.
    pub fn has_shape(&self) -> bool {
        let of = |span: Option<Span>| span.map(|span| span.of(&self.text));
        has_shape(of(self.fields.name), of(self.fields.content))
    }

    /// The part of the notification's parameters that its text is.
    pub fn form(&self) -> Form {
        self.form
    }

    /// The name of the update's kind in the protocol.
    pub fn name(&self) -> Option<Cow<'_, str>> {
        self.fields.name?.string(&self.text)
    }
}

/// Positions in an `update` object. If a member occurs twice, the last one counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fields {
    /// The object itself.
    pub(super) whole: Span,
    pub(super) name: Option<Span>,
    pub(super) message: Option<Span>,
    pub(super) call: Option<Span>,
    pub(super) status: Option<Span>,
    pub(super) content: Option<Span>,
}

impl Fields {
    /// The same with each position moved.
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
