//! Reads what one record adds to a conversation, for all readers: each keeps the part that it needs.

use std::borrow::Cow;

use crate::json;
use crate::protocol::update::call_id;
use crate::protocol::{Role, UpdateKind};
use crate::record::{Kind, Record};

/// What an update adds to a conversation.
#[derive(Clone, Copy, Debug)]
pub enum Entry<'a> {
    /// A part of a message.
    Chunk(ChunkEntry<'a>),
    /// The beginning of a tool call, or changes to one.
    Call(CallEntry<'a>),
    /// A plan in place of the one before it: the JSON array of its entries.
    Plan(&'a str),
    /// Anything else.
    Other,
}

impl<'a> Entry<'a> {
    /// Reads an update of this kind.
    pub fn of(kind: UpdateKind, update: &'a str) -> Self {
        match kind {
            UpdateKind::Chunk(role) => Self::Chunk(ChunkEntry::new(role, update)),
            UpdateKind::ToolCall | UpdateKind::ToolCallUpdate => Self::Call(CallEntry::of(update)),
            UpdateKind::Plan => {
                json::text_member(update, "entries").map_or(Self::Other, Self::Plan)
            }
            _ => Self::Other,
        }
    }
}

/// The update in a record of the session or of a subagent, in the form of version 1, with the id of
/// the subagent's session as JSON text.
pub fn update_in<'a>(record: &Record<'a>) -> Option<(Option<&'a str>, &'a str)> {
    let payload = record.payload;
    match record.kind {
        Kind::Update | Kind::Output => Some((None, payload)),
        Kind::UpdateParams => Some((None, json::text_member(payload, "update")?)),
        Kind::Subagent => Some((
            Some(json::text_member(payload, "sessionId")?),
            json::text_member(payload, "update")?,
        )),
        _ => None,
    }
}

/// The blocks of a prompt, each as JSON text.
pub fn prompt_blocks(payload: &str) -> impl Iterator<Item = &str> {
    json::text_elements(json::text_member(payload, "prompt").unwrap_or_default())
}

/// A part of a message.
#[derive(Clone, Copy, Debug)]
pub struct ChunkEntry<'a> {
    /// The author of the message.
    pub role: Role,
    /// The JSON text of the message's id, empty if it has none.
    pub message: &'a str,
    update: &'a str,
}

impl<'a> ChunkEntry<'a> {
    fn new(role: Role, update: &'a str) -> Self {
        let id = json::text_member(update, "messageId");
        Self {
            role,
            message: id.filter(|id| *id != "null").unwrap_or_default(),
            update,
        }
    }

    /// The JSON text of its content block, if it has one.
    pub fn content(&self) -> Option<&'a str> {
        json::text_member(self.update, "content").filter(|content| content.starts_with('{'))
    }
}

/// The beginning of a tool call, or changes to one.
#[derive(Clone, Copy, Debug)]
pub struct CallEntry<'a>(&'a str);

impl<'a> CallEntry<'a> {
    /// Reads an update of a tool call.
    pub fn of(update: &'a str) -> Self {
        Self(update)
    }

    /// The call's id, without escapes.
    pub fn id(&self) -> Option<Cow<'a, [u8]>> {
        call_id(self.0.as_bytes())
    }

    /// The members that have a value, each of which replaces the one before it: names, still
    /// escaped, and values as JSON text. `null` means no change, except for raw input and output,
    /// for which it is a value.
    pub fn members(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let update = self.0;
        let mut members = json::members(update.as_bytes(), 0);
        let all = std::iter::from_fn(move || {
            let member = members.as_mut()?.member()?;
            Some((&update[member.key], &update[member.value]))
        });
        all.filter(|(name, value)| *name != "sessionUpdate" && has_value(name, *value == "null"))
    }
}

/// Whether a member of a tool call's update that is `null`, or not, has a value.
pub(super) fn has_value(name: &str, is_null: bool) -> bool {
    !is_null || matches!(name, "rawInput" | "rawOutput")
}
