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
            Form::Update => fields(&text, scan::space(&text, 0))?.0,
            Form::Params => {
                let mut found = None;
                scan::object(&text, scan::space(&text, 0), |name, _, at| {
                    if name != "update" {
                        return scan::value(&text, at);
                    }
                    if let Some((fields, end)) = fields(&text, at) {
                        found = Some(fields);
                        return Some(end);
                    }
                    found = None;
                    scan::value(&text, at)
                })?;
                found?
            }
        };
        Some(Self { text, form, fields })
    }

    /// Its text: one JSON object on one line.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The text of the `update` object alone.
    pub(super) fn update(&self) -> &str {
        let Fields { open, close, .. } = self.fields;
        self.text.get(open..=close).unwrap_or_default()
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
    /// The brace that opens it.
    pub(super) open: usize,
    /// The brace that closes it.
    pub(super) close: usize,
    pub(super) name: Option<Span>,
    pub(super) message: Option<Span>,
    pub(super) call: Option<Span>,
    pub(super) status: Option<Span>,
    pub(super) content: Option<Span>,
}

impl Fields {
    /// The same in a text that begins `by` bytes later.
    pub(super) fn back(self, by: usize) -> Self {
        let back = |span: Option<Span>| span.map(|span| span.back(by));
        Self {
            open: self.open - by,
            close: self.close - by,
            name: back(self.name),
            message: back(self.message),
            call: back(self.call),
            status: back(self.status),
            content: back(self.content),
        }
    }
}

/// Reads the `update` object that begins at `at`: where things stand in it and where it ends.
pub(super) fn fields(text: &str, at: usize) -> Option<(Fields, usize)> {
    let mut fields = Fields {
        open: at,
        close: 0,
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
    fields.close = end - 1;
    Some((fields, end))
}
