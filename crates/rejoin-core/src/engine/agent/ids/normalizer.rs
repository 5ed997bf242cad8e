//! Makes a record of each update of a session: chooses its kind and makes its ids unique.
//!
//! An update keeps its bytes except for its ids: a missing id is inserted, and a number is appended
//! to an id that something else has.

use std::borrow::Cow;
use std::sync::Arc;

use super::calls::CallIds;
use super::echo::{Echo, Steered};
use super::messages::{MessageIdChange, MessageIds};
use crate::engine::agent::parse::{Fields, Payload, PayloadForm};
use crate::json::{self, Span};
use crate::protocol::{Role, UpdateClass, UpdateKind};
use crate::record::Kind;
use crate::sys::Ids;

/// An update as it is logged and sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::engine::agent) struct NormalizedUpdate<'a> {
    /// The kind of its record.
    pub(in crate::engine::agent) kind: Kind,
    /// Which part of the notification's parameters its text is.
    pub(in crate::engine::agent) form: PayloadForm,
    /// Its text: borrowed if nothing was changed.
    pub(in crate::engine::agent) payload: Cow<'a, str>,
    /// Whether the update is about a tool call.
    pub(in crate::engine::agent) is_call: bool,
    /// Whether it only continues the message of the last chunk.
    pub(in crate::engine::agent) continues: bool,
}

/// Tracks the ids of a session and makes them unique.
#[derive(Debug)]
pub(in crate::engine::agent) struct IdNormalizer {
    messages: MessageIds,
    calls: CallIds,
    /// The prompts of running turns, by the ids of their messages.
    echoes: Vec<(String, Echo)>,
    steered: Steered,
}

impl IdNormalizer {
    /// For a session without history.
    pub(in crate::engine::agent) fn new(ids: Arc<dyn Ids>) -> Self {
        Self {
            messages: MessageIds::new(ids),
            calls: CallIds::default(),
            echoes: Vec::new(),
            steered: Steered::default(),
        }
    }

    /// Restores the state from a record that was not made here. Call it for each record of a
    /// session's history, in order, before the first update, and later for updates from other
    /// sources, such as those that close the calls of a cancelled turn. Kinds without ids are
    /// ignored. `overlaps` is whether a turn was running when a prompt came.
    pub(in crate::engine::agent) fn recall(&mut self, kind: Kind, payload: &str, overlaps: bool) {
        match kind {
            Kind::Prompt if overlaps => self.messages.pause(),
            Kind::Prompt => self.boundary(),
            Kind::End => self.messages.pause(),
            Kind::Ask => {
                // The parameters, or a request that contains them.
                let bytes = payload.as_bytes();
                let inner = json::member(bytes, 0, "params").map(|inner| &payload[inner]);
                let params = inner.unwrap_or(payload);
                if let Some(id) = call_id(params).and_then(|(_, span)| span.string(params)) {
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
        match update_kind(text, fields) {
            UpdateKind::Chunk(role) => {
                if let Some(body) = fields.message.and_then(|span| span.body(text)) {
                    self.messages.recall(role, body);
                }
            }
            kind @ (UpdateKind::ToolCall | UpdateKind::ToolCallUpdate) => {
                if let Some(id) = fields.call.and_then(|span| span.string(text)) {
                    let status = fields.status.and_then(|span| span.string(text));
                    let begins = kind == UpdateKind::ToolCall;
                    self.calls.recall(&id, begins, status.as_deref());
                }
            }
            _ => {}
        }
    }

    fn boundary(&mut self) {
        self.messages.turn_begins();
        self.calls.turn_begins();
    }

    /// A turn begins: the message's id, and the parameters of `session/prompt`, sent with `context`
    /// before them. If it `overlaps` the previous turn, later updates may still belong to that one,
    /// so ids keep their meaning.
    pub(in crate::engine::agent) fn turn_begins(
        &mut self,
        message_id: &str,
        prompt_params: &str,
        context: Option<&str>,
        overlaps: bool,
    ) {
        if overlaps {
            self.messages.pause();
        } else {
            self.boundary();
            self.echoes.clear();
            self.steered.clear();
        }
        let echo = Echo::new(prompt_params, context);
        self.echoes.push((message_id.to_owned(), echo));
    }

    /// The user says something in the middle of a turn: the message's id, and the parameters of the
    /// request. The agent may show it.
    pub(in crate::engine::agent) fn steered(&mut self, message_id: &str, params: &str) {
        self.messages.pause();
        self.steered.said(message_id, params);
    }

    /// The agent has answered that, perhaps that it takes the message. Returns whether the message is to be
    /// recorded now.
    pub(in crate::engine::agent) fn steering_answered(
        &mut self,
        message_id: &str,
        is_taken: bool,
    ) -> bool {
        self.steered.answered(message_id, is_taken)
    }

    /// Whether the content of a message of the user repeats what was said in the middle of a turn and is
    /// recorded.
    pub(in crate::engine::agent) fn repeats_steered(&mut self, content: &str) -> bool {
        self.steered.repeats(content)
    }

    /// The turn of this message has ended.
    pub(in crate::engine::agent) fn turn_ends(&mut self, message_id: &str) {
        self.messages.pause();
        for (id, echo) in std::mem::take(&mut self.echoes) {
            let echo = if id == message_id {
                echo.after_turn()
            } else {
                Some(echo)
            };
            self.echoes.extend(echo.map(|echo| (id, echo)));
        }
    }

    /// Whether an update repeats the context that was sent before the user's prompt. The context is
    /// only for the agent, so the update is not shown.
    pub(in crate::engine::agent) fn repeats_context(&mut self, payload: &Payload<'_>) -> bool {
        if !self.echoes.iter().any(|(_, echo)| echo.has_context()) {
            return false;
        }
        let (text, fields) = (payload.text(), &payload.fields);
        let content = fields.content.map(|content| content.of(text));
        let (UpdateKind::Chunk(Role::User), Some(content)) = (update_kind(text, fields), content)
        else {
            return false;
        };
        let mut echoes = self.echoes.iter_mut();
        echoes.any(|(_, echo)| echo.has_context() && echo.repeats_context(content))
    }

    /// Makes the record of the next update.
    pub(in crate::engine::agent) fn normalize<'a>(
        &mut self,
        payload: Payload<'a>,
    ) -> NormalizedUpdate<'a> {
        let Payload { text, form, fields } = payload;
        let mut kind = match form {
            PayloadForm::Update => Kind::Update,
            PayloadForm::Params => Kind::UpdateParams,
        };
        let (mut is_call, mut continues) = (false, false);
        let changed = match update_kind(&text, &fields) {
            UpdateKind::Chunk(Role::User) if self.is_echo(&text, &fields) => {
                kind = Kind::Transient;
                None
            }
            UpdateKind::Chunk(role) => {
                let changed = self.chunk(role, &text, &fields);
                continues = self.messages.has_continued();
                changed
            }
            call @ (UpdateKind::ToolCall | UpdateKind::ToolCallUpdate) => {
                is_call = true;
                self.messages.pause();
                self.call(call == UpdateKind::ToolCall, &text, &fields)
            }
            other => {
                match other.class() {
                    UpdateClass::History => self.messages.pause(),
                    class => kind = Kind::of_update(class),
                }
                None
            }
        };
        NormalizedUpdate {
            kind,
            form,
            payload: match changed {
                Some(changed) => Cow::Owned(changed),
                None => text,
            },
            is_call,
            continues,
        }
    }

    fn is_echo(&mut self, text: &str, fields: &Fields) -> bool {
        let Some(content) = fields.content else {
            return false;
        };
        let content = content.of(text);
        let mut echoes = self.echoes.iter_mut();
        echoes.any(|(_, echo)| echo.repeats(content)) || self.steered.repeats(content)
    }

    fn chunk(&mut self, role: Role, text: &str, fields: &Fields) -> Option<String> {
        let id = fields.message;
        let given = id.filter(|id| id.of(text) != "null");
        let body = given.and_then(|id| id.body(text));
        if fields.content.is_none() || given.is_some() != body.is_some() {
            // This is not a valid chunk, so it is passed on unchanged.
            self.messages.pause();
            return None;
        }
        match (self.messages.chunk(role, body), id) {
            (MessageIdChange::Number(number), Some(id)) => numbered(text, id, number),
            (MessageIdChange::Give(body, number), null) => {
                Some(with_message_id(text, null, fields.whole, body, number))
            }
            _ => None,
        }
    }

    fn call(&mut self, begins: bool, text: &str, fields: &Fields) -> Option<String> {
        let span = fields.call?;
        let id = span.string(text)?;
        let status = fields.status.and_then(|status| status.string(text));
        let number = if begins {
            self.calls.begin(&id, status.as_deref())
        } else {
            self.calls.update(&id, status.as_deref())
        };
        numbered(text, span, number)
    }

    /// The parameters of an agent's request with the client's id of the tool call; `None` if
    /// nothing changes. A request with a `toolCall` may precede its `tool_call`, so its id counts
    /// as used from now on.
    pub(in crate::engine::agent) fn outgoing(&mut self, params: &str) -> Option<String> {
        let (asks, span) = call_id(params)?;
        let id = span.string(params)?;
        let number = if asks {
            self.calls.ask(&id)
        } else {
            self.calls.number(&id)
        };
        numbered(params, span, number)
    }

    /// The parameters of a client's request with the agent's id of the tool call; `None` if nothing
    /// changes.
    pub(in crate::engine::agent) fn incoming(&self, params: &str) -> Option<String> {
        let (_, span) = call_id(params)?;
        let id = span.string(params)?;
        let own = self.calls.own(&id)?;
        let own = json::quoted(own);
        Some([&params[..span.start], &own, &params[span.end..]].concat())
    }
}

fn update_kind(text: &str, fields: &Fields) -> UpdateKind {
    let name = fields.name.and_then(|span| span.string(text));
    name.map_or(UpdateKind::Other, |name| {
        UpdateKind::of_name(name.as_bytes())
    })
}

/// A text with a number appended to the quoted id at `id`. `None` for the number 0: such an id stays
/// as it is.
fn numbered(text: &str, id: Span, number: u32) -> Option<String> {
    let (before, after) = text.split_at(id.end - 1);
    (number > 0).then(|| format!("{before}~{number}{after}"))
}

/// A text with a message's id: in place of a `null`, or as a new member of `update`. `body` is the
/// id, still escaped.
fn with_message_id(
    text: &str,
    null: Option<Span>,
    update: Span,
    body: &str,
    number: u32,
) -> String {
    let (before, member, after) = match null {
        Some(null) => (&text[..null.start], "", &text[null.end..]),
        None => (
            &text[..update.end - 1],
            ",\"messageId\":",
            &text[update.end - 1..],
        ),
    };
    let number = match number {
        0 => String::new(),
        number => format!("~{number}"),
    };
    [before, member, "\"", body, &number, "\"", after].concat()
}

/// The position of the tool call's id in a request's parameters, and whether they describe the
/// call, as those of `session/request_permission` do: in `toolCall`, or else in `toolCallId`.
fn call_id(params: &str) -> Option<(bool, Span)> {
    let (mut described, mut named) = (None, None);
    let bytes = params.as_bytes();
    json::walk(params.as_bytes(), 0, |name, _, start| {
        match name {
            b"toolCall" if bytes.get(start) == Some(&b'{') => {
                return json::walk(params.as_bytes(), start, |name, _, start| {
                    let end = json::value_end(params.as_bytes(), start)?;
                    if name == b"toolCallId" {
                        described = Some(Span { start, end });
                    }
                    Some(end)
                });
            }
            _ => {}
        }
        let end = json::value_end(params.as_bytes(), start)?;
        if name == b"toolCallId" {
            named = Some(Span { start, end });
        }
        Some(end)
    })?;
    let described = described.map(|span| (true, span));
    described.or(named.map(|span| (false, span)))
}

#[cfg(test)]
#[path = "normalizer_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "properties.rs"]
mod properties;
