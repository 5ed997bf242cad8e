//! Makes a record of each update of one session: which kind, and with which ids.
//!
//! An update keeps the bytes it came with but for two sorts of places: an id that is missing is
//! put in, and an id that something else has gets a number behind it.

use std::borrow::Cow;
use std::sync::Arc;

use super::calls::Calls;
use super::echo::Echo;
use super::messages::{Change, Messages};
use super::payload::{Fields, Form, Payload};
use super::scan::{self, Span};
use super::splice::Splice;
use crate::record::Kind;
use crate::record::json;
use crate::record::transcript::{Role, SNAPSHOTS};
use crate::sys::Ids;

/// An update as it is written down and sent on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shaped<'a> {
    /// The kind of its record.
    pub kind: Kind,
    /// How its text was made of the notification's parameters.
    pub form: Form,
    /// Its text: borrowed if nothing had to change.
    pub payload: Cow<'a, str>,
    /// Whether it is about a tool call.
    pub is_call: bool,
}

/// What has to be remembered of one session to shape its updates.
#[derive(Debug)]
pub struct Marks {
    messages: Messages,
    calls: Calls,
    /// The prompt of the turn that is running.
    echo: Option<Echo>,
}

impl Marks {
    /// For a session without history.
    pub fn new(ids: Arc<dyn Ids>) -> Self {
        Self {
            messages: Messages::new(ids),
            calls: Calls::default(),
            echo: None,
        }
    }

    /// Takes note of a record that was not made here: to be called for each record of a session's
    /// history, in order, before the first update, and later for updates that others make, such
    /// as those that close the calls of a cancelled turn. Kinds that have no ids are ignored.
    pub fn recall(&mut self, kind: Kind, payload: &str) {
        match kind {
            Kind::Prompt => self.boundary(),
            Kind::End => self.messages.pause(),
            Kind::Ask => {
                // The parameters, or a request that has them.
                let bytes = payload.as_bytes();
                let inner = json::member(bytes, 0, "params").map(|inner| &payload[inner]);
                let params = inner.unwrap_or(payload);
                if let Some(id) = asked(params).and_then(|(_, span)| scan::said(params, span)) {
                    self.calls.recall(&id, false, None);
                }
            }
            Kind::Update | Kind::UpdateParams => {
                if let Some(payload) = Payload::of_record(kind, payload) {
                    self.recall_update(&payload);
                }
            }
            _ => {}
        }
    }

    fn recall_update(&mut self, payload: &Payload<'_>) {
        let (text, fields) = (payload.text(), &payload.fields);
        match name(text, fields) {
            Name::Chunk(role) => {
                if let Some(body) = fields.message.and_then(|span| scan::body(text, span)) {
                    self.messages.recall(role, body);
                }
            }
            Name::Call { begins } => {
                if let Some(id) = fields.call.and_then(|span| scan::said(text, span)) {
                    let status = fields.status.and_then(|span| scan::said(text, span));
                    self.calls.recall(&id, begins, status.as_deref());
                }
            }
            Name::Snapshot | Name::Notice | Name::Other => {}
        }
    }

    fn boundary(&mut self) {
        self.messages.turn_begins();
        self.calls.turn_begins();
    }

    /// A turn begins, with these parameters of `session/prompt`.
    pub fn turn_begins(&mut self, prompt_params: &str) {
        self.boundary();
        self.echo = Some(Echo::new(prompt_params));
    }

    /// The turn has ended.
    pub fn turn_ends(&mut self) {
        self.messages.pause();
        self.echo = None;
    }

    /// Shapes the next update.
    pub fn shape<'a>(&mut self, payload: Payload<'a>) -> Shaped<'a> {
        let Payload { text, form, fields } = payload;
        let mut kind = match form {
            Form::Update => Kind::Update,
            Form::Params => Kind::UpdateParams,
        };
        let mut is_call = false;
        let splice = match name(&text, &fields) {
            Name::Chunk(Role::User) if self.is_echo(&text, &fields) => {
                kind = Kind::Transient;
                None
            }
            Name::Chunk(role) => self.chunk(role, &text, &fields),
            Name::Call { begins } => {
                is_call = true;
                self.messages.pause();
                self.call(begins, &text, &fields)
            }
            Name::Snapshot => {
                kind = Kind::Info;
                None
            }
            Name::Notice => {
                kind = Kind::Transient;
                None
            }
            Name::Other => {
                self.messages.pause();
                None
            }
        };
        Shaped {
            kind,
            form,
            payload: match splice {
                Some(splice) => Cow::Owned(splice.apply(&text)),
                None => text,
            },
            is_call,
        }
    }

    fn is_echo(&mut self, text: &str, fields: &Fields) -> bool {
        match (&mut self.echo, fields.content) {
            (Some(echo), Some(content)) => echo.repeats(content.of(text)),
            _ => false,
        }
    }

    fn chunk(&mut self, role: Role, text: &str, fields: &Fields) -> Option<Splice<'_>> {
        let id = fields.message;
        let given = id.filter(|id| id.of(text) != "null");
        let body = given.and_then(|id| scan::body(text, id));
        if fields.content.is_none() || given.is_some() != body.is_some() {
            // The protocol has no such chunk, so it is not ours to mend.
            self.messages.pause();
            return None;
        }
        match (self.messages.chunk(role, body), id) {
            (Change::Number(number), Some(id)) => Splice::number(id, number),
            (Change::Give(body, number), null) => {
                Some(Splice::message(null, fields.whole, body, number))
            }
            _ => None,
        }
    }

    fn call(&mut self, begins: bool, text: &str, fields: &Fields) -> Option<Splice<'_>> {
        let span = fields.call?;
        let id = scan::said(text, span)?;
        let status = fields.status.and_then(|status| scan::said(text, status));
        let number = if begins {
            self.calls.begin(&id, status.as_deref())
        } else {
            self.calls.update(&id, status.as_deref())
        };
        Splice::number(span, number)
    }

    /// The parameters of a request of the agent with the id of its tool call as the client knows
    /// it; `None` if that is how it stands there. What has a `toolCall` may come before the call
    /// itself, so this takes note of it.
    pub fn outward(&mut self, params: &str) -> Option<String> {
        let (asks, span) = asked(params)?;
        let id = scan::said(params, span)?;
        let number = if asks {
            self.calls.ask(&id)
        } else {
            self.calls.number(&id)
        };
        Splice::number(span, number).map(|splice| splice.apply(params))
    }

    /// The parameters of a request of the client with the id of the tool call as the agent knows
    /// it; `None` if that is how it stands there.
    pub fn inward(&self, params: &str) -> Option<String> {
        let (_, span) = asked(params)?;
        let id = scan::said(params, span)?;
        let own = self.calls.own(&id)?;
        let own = serde_json::Value::from(own).to_string();
        Some([&params[..span.start], &own, &params[span.end..]].concat())
    }
}

/// What an update is called, as far as it matters here.
enum Name {
    Chunk(Role),
    Call { begins: bool },
    Snapshot,
    Notice,
    Other,
}

fn name(text: &str, fields: &Fields) -> Name {
    let name = fields.name.and_then(|span| scan::said(text, span));
    match name.as_deref() {
        Some("tool_call") => Name::Call { begins: true },
        Some("tool_call_update") => Name::Call { begins: false },
        Some("notice") => Name::Notice,
        Some(name) if SNAPSHOTS.contains(&name) => Name::Snapshot,
        Some(name) => Role::of_chunk(name).map_or(Name::Other, Name::Chunk),
        None => Name::Other,
    }
}

/// Where a request's parameters name a tool call, and whether they describe it, as those of
/// `session/request_permission` do: in `toolCall`, or else in `toolCallId`.
fn asked(params: &str) -> Option<(bool, Span)> {
    let (mut described, mut named) = (None, None);
    let bytes = params.as_bytes();
    scan::object(params, scan::space(params, 0), |name, _, start| {
        match name {
            "toolCall" if bytes.get(start) == Some(&b'{') => {
                return scan::object(params, start, |name, _, start| {
                    let end = scan::value(params, start)?;
                    if name == "toolCallId" {
                        described = Some(Span { start, end });
                    }
                    Some(end)
                });
            }
            _ => {}
        }
        let end = scan::value(params, start)?;
        if name == "toolCallId" {
            named = Some(Span { start, end });
        }
        Some(end)
    })?;
    let described = described.map(|span| (true, span));
    described.or(named.map(|span| (false, span)))
}

#[cfg(test)]
#[path = "marks_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "properties.rs"]
mod properties;
