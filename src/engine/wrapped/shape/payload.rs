//! What a session's update is made of, as far as it has to be known to write it down.

use std::borrow::Cow;

use super::scan::{self, Span};
use crate::record::Kind;

/// How a notification's parameters are written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// They are a session's id and an update; the payload is the `update` object.
    Update,
    /// They have more members; the payload is all of them but the session's id.
    Params,
}

/// An update as text, with the places of what has to be looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload<'a> {
    pub(super) text: Cow<'a, str>,
    pub(super) form: Form,
    pub(super) fields: Fields,
}

impl<'a> Payload<'a> {
    /// The payload of an earlier record, whose kind tells its form. `None` if it holds no update.
    pub fn of_record(kind: Kind, text: &'a str) -> Option<Self> {
        let form = match kind {
            Kind::Update => Form::Update,
            Kind::UpdateParams => Form::Params,
            _ => return None,
        };
        Self::read(form, Cow::Borrowed(text))
    }

    /// Reads a text for the places of what is in it.
    pub(super) fn read(form: Form, text: Cow<'a, str>) -> Option<Self> {
        let fields = match form {
            Form::Update => fields(&text, scan::space(&text, 0))?,
            Form::Params => {
                let mut found = None;
                scan::object(&text, scan::space(&text, 0), |name, _, at| {
                    if name != "update" {
                        return scan::value(&text, at);
                    }
                    found = fields(&text, at);
                    found.map_or_else(|| scan::value(&text, at), |found| Some(found.whole.end))
                })?;
                found?
            }
        };
        Some(Self { text, form, fields })
    }

    /// The same with a text of its own, to be taken elsewhere without its line.
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

    /// How it was made of the notification's parameters.
    pub fn form(&self) -> Form {
        self.form
    }

    /// What kind of update it is, by the name that the protocol has for it.
    pub fn name(&self) -> Option<Cow<'_, str>> {
        scan::said(&self.text, self.fields.name?)
    }
}

/// Where things stand in an `update` object. Of several with one name it is the last.
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
    /// The same with each place moved.
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
    let end = scan::object(text, at, |name, _, start| {
        let end = scan::value(text, start)?;
        let place = match name {
            "sessionUpdate" => &mut fields.name,
            "messageId" => &mut fields.message,
            "toolCallId" => &mut fields.call,
            "status" => &mut fields.status,
            "content" => &mut fields.content,
            _ => return Some(end),
        };
        *place = Some(Span { start, end });
        Some(end)
    })?;
    fields.whole.end = end;
    Some(fields)
}
