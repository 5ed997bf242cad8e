//! The fold that defines a session's state: what a client shows after all updates.
//!
//! Live stream, log and replay are equal if they fold to the same transcript. The rules follow the
//! protocol's version 1: chunks extend the message they are adjacent to, tool calls are upserted by
//! id, each plan stays where it was sent, and snapshots are state, not history.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::json;
use crate::protocol::{Role, UpdateClass, UpdateKind};
use crate::record::{Kind, Record};

use super::entry::{has_value, update_in};

/// A conversation after a number of updates.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Transcript {
    /// Messages, tool calls and plans, in order.
    pub entries: Vec<TranscriptEntry>,
    /// The last snapshot of each kind, by the name of its update.
    pub state: BTreeMap<String, Value>,
    /// The transcript of each subagent, by its session's id, from its announcement on.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub subagents: BTreeMap<String, Self>,
    /// The index of each tool call among the entries, by its id.
    #[serde(skip)]
    calls: HashMap<String, usize>,
    /// The members of tool calls that were forgotten before they ended, by their ids.
    #[serde(skip)]
    begun: HashMap<String, Map<String, Value>>,
}

/// An entry of the history.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(
    tag = "entry",
    rename_all = "snake_case",
    rename_all_fields = "camelCase"
)]
pub enum TranscriptEntry {
    /// A message, or an adjacent part of one.
    Message {
        /// Its author.
        role: Role,
        /// The message's id, if any of its chunks had one.
        message_id: Option<String>,
        /// Its content. Adjacent text blocks that differ only in their text are joined.
        blocks: Vec<Value>,
        /// Other members of its chunks, such as `_meta`. The last of each name counts.
        extra: Map<String, Value>,
    },
    /// A tool call, where it began.
    ToolCall {
        /// Its id.
        id: String,
        /// All its fields with all its updates applied.
        call: Map<String, Value>,
    },
    /// A complete plan.
    Plan {
        /// The update without its name.
        plan: Map<String, Value>,
    },
    /// An update of a kind that has no rule here.
    Other {
        /// The update as it came.
        update: Value,
    },
}

impl TranscriptEntry {
    /// The text of an update that has no rule here, as content blocks.
    pub fn text_blocks(update: &Value) -> Vec<Cow<'_, Value>> {
        let name = update["sessionUpdate"].as_str().unwrap_or_default();
        let Some(text) = UpdateKind::of_name(name.as_bytes()).text() else {
            return Vec::new();
        };
        match &update[text.member] {
            Value::Array(blocks) => blocks.iter().map(Cow::Borrowed).collect(),
            block @ Value::Object(_) => vec![Cow::Borrowed(block)],
            Value::String(text) => vec![Cow::Owned(json!({ "type": "text", "text": text }))],
            _ => Vec::new(),
        }
    }

    /// About how many bytes it has.
    pub fn size(&self) -> usize {
        match self {
            Self::Message { blocks, extra, .. } => {
                blocks.iter().map(size).sum::<usize>() + members(extra)
            }
            Self::ToolCall { call, .. } => members(call),
            Self::Plan { plan } => members(plan),
            Self::Other { update } => size(update),
        }
    }
}

fn members(object: &Map<String, Value>) -> usize {
    object
        .iter()
        .map(|(key, value)| key.len() + size(value))
        .sum()
}

/// About how many bytes a value has as JSON.
fn size(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(size).sum::<usize>() + 2,
        Value::Object(object) => members(object) + 2,
        _ => 4,
    }
}

impl Transcript {
    /// The entries without the ids of the user's own messages, which the client learns from a replay
    /// only.
    pub fn seen(&self) -> Vec<TranscriptEntry> {
        let mut entries = self.entries.clone();
        for entry in &mut entries {
            if let TranscriptEntry::Message {
                role: Role::User,
                message_id,
                ..
            } = entry
            {
                *message_id = None;
            }
        }
        entries
    }

    /// Applies one record of a log. Only prompts, updates and `info` records with a snapshot change
    /// anything.
    pub fn record(&mut self, record: &Record<'_>) {
        match record.kind {
            Kind::Prompt => self.user_prompt(record.id, record.payload),
            Kind::Info => self.info(record.payload),
            _ => {
                let Some((session, update)) = update_in(record) else {
                    return;
                };
                let session = session.and_then(json::text_body).map(json::unescape);
                let session = session.unwrap_or_default();
                // Updates of a subagent count from its announcement on.
                if record.kind != Kind::Subagent || self.subagents.contains_key(&session) {
                    self.update_of(&session, update);
                }
            }
        }
    }

    /// Applies a prompt: `params` is the JSON of the request's parameters. The result is the same
    /// as for the chunks that the prompt is replayed as.
    pub fn user_prompt(&mut self, message_id: Option<&str>, params: &str) {
        let Some(Value::Object(mut params)) = json::tree(params) else {
            return;
        };
        if let Some(Value::Array(blocks)) = params.remove("prompt") {
            for block in blocks {
                let id = message_id.map(ToOwned::to_owned);
                self.chunk(Role::User, id, block, Map::new());
            }
        }
    }

    /// Applies one update: the JSON of the `update` object. Anything else is kept as
    /// [`TranscriptEntry::Other`].
    pub fn update(&mut self, update_json: &str) {
        self.update_of("", update_json);
    }

    fn update_of(&mut self, session: &str, update: &str) {
        let tree = json::tree(update).unwrap_or_else(|| Value::String(update.to_owned()));
        self.take_of(session, tree);
    }

    /// Takes an update of the session, or of an announced subagent.
    fn take_of(&mut self, session: &str, update: Value) {
        let is_announcement = update["sessionUpdate"] == UpdateKind::Subagent.name();
        let announced = ["sessionId", "subagentSessionId"]
            .iter()
            .find_map(|name| update[*name].as_str().map(str::to_owned));
        match self.subagents.get_mut(session) {
            Some(subagent) => subagent.take(update),
            None => self.take(update),
        }
        if let Some(announced) = announced.filter(|_| is_announcement) {
            self.subagents.entry(announced).or_default();
        }
    }

    /// Applies a whole line of the protocol. Only `session/update` notifications change anything.
    /// An update belongs to the session unless its session is an announced subagent's.
    ///
    /// Other members next to `update` are about delivery and not part of the conversation.
    pub fn notification(&mut self, line: &str) {
        let Some(Value::Object(mut message)) = json::tree(line) else {
            return;
        };
        if message.get("method").and_then(Value::as_str) != Some("session/update") {
            return;
        }
        if let Some(Value::Object(params)) = message.remove("params") {
            self.session_update(params);
        }
    }

    /// Applies the parameters of a `session/update` notification.
    pub fn session_update(&mut self, mut params: Map<String, Value>) {
        if let Some(update) = params.remove("update") {
            let session = params.get("sessionId").and_then(Value::as_str);
            self.take_of(session.unwrap_or_default(), update);
        }
    }

    /// Drops the first entries, and all of subagents. What follows about tool calls that have begun
    /// among them is an entry of its own.
    pub fn forget(&mut self, count: usize) {
        for entry in self.entries.drain(..count) {
            if let TranscriptEntry::ToolCall { id, mut call } = entry {
                let status = call.get("status").and_then(Value::as_str);
                if !matches!(status, Some("completed" | "failed")) {
                    call.retain(|name, _| name == "title" || name == "kind");
                    self.begun.insert(id, call);
                }
            }
        }
        self.calls.retain(|_, at| {
            let stays = *at >= count;
            *at = at.saturating_sub(count);
            stays
        });
        for subagent in self.subagents.values_mut() {
            subagent.forget(subagent.entries.len());
        }
    }

    /// About how many bytes its entries have.
    pub fn size(&self) -> usize {
        let inner = self.subagents.values().map(Self::size);
        self.entries
            .iter()
            .map(TranscriptEntry::size)
            .chain(inner)
            .sum()
    }

    /// Applies the payload of an `info` record: a snapshot, the parameters of a notification with
    /// one, or data of our own, which is not part of the conversation.
    fn info(&mut self, payload: &str) {
        let Some(Value::Object(mut members)) = json::tree(payload) else {
            return;
        };
        if !members.contains_key("sessionUpdate") {
            match members.remove("update") {
                Some(Value::Object(update)) => members = update,
                _ => return,
            }
        }
        if let Some(Value::String(name)) = members.get("sessionUpdate") {
            let name = name.clone();
            self.snapshot(&name, members);
        }
    }

    fn snapshot(&mut self, name: &str, members: Map<String, Value>) {
        match self.state.get_mut(name) {
            Some(Value::Object(before)) if name == UpdateKind::SessionInfo.name() => {
                before.extend(members);
            }
            _ => {
                self.state.insert(name.to_owned(), Value::Object(members));
            }
        }
    }

    fn take(&mut self, update: Value) {
        let name = update.get("sessionUpdate").and_then(Value::as_str);
        let name = name.unwrap_or_default().to_owned();
        let left = match update {
            Value::Object(members) => self.known(&name, members),
            other => Err(other),
        };
        if let Err(update) = left {
            self.entries.push(TranscriptEntry::Other { update });
        }
    }

    /// Applies an update of a known kind. Returns it as an error if no rule matches.
    fn known(&mut self, name: &str, mut members: Map<String, Value>) -> Result<(), Value> {
        let kind = UpdateKind::of_name(name.as_bytes());
        match kind {
            UpdateKind::Chunk(role) => {
                let id = match members.get("messageId") {
                    None | Some(Value::Null) => None,
                    Some(Value::String(id)) => Some(id.clone()),
                    Some(_) => return Err(Value::Object(members)),
                };
                let Some(block) = members.remove("content") else {
                    return Err(Value::Object(members));
                };
                members.retain(|key, _| key != "sessionUpdate" && key != "messageId");
                self.chunk(role, id, block, members);
            }
            UpdateKind::ToolCall | UpdateKind::ToolCallUpdate => {
                let Some(Value::String(id)) = members.get("toolCallId") else {
                    return Err(Value::Object(members));
                };
                let id = id.clone();
                let begins = kind == UpdateKind::ToolCall && !self.calls.contains_key(&id);
                members.retain(|key, value| {
                    key != "sessionUpdate" && (begins || has_value(key, value.is_null()))
                });
                self.tool_call(id, members);
            }
            UpdateKind::Plan => {
                members.retain(|key, _| key != "sessionUpdate");
                self.entries.push(TranscriptEntry::Plan { plan: members });
            }
            _ => match kind.class() {
                UpdateClass::History => return Err(Value::Object(members)),
                UpdateClass::Snapshot => self.snapshot(name, members),
                UpdateClass::Event => {}
            },
        }
        Ok(())
    }

    /// Extends the last message, or begins one. Two different ids mean two messages. If an id is
    /// missing, adjacent chunks of one role belong together, as clients show them.
    fn chunk(&mut self, role: Role, id: Option<String>, block: Value, more: Map<String, Value>) {
        if let Some(TranscriptEntry::Message {
            role: last_role,
            message_id,
            blocks,
            extra,
        }) = self.entries.last_mut()
            && *last_role == role
            && (message_id.is_none() || id.is_none() || *message_id == id)
        {
            if message_id.is_none() {
                *message_id = id;
            }
            extra.extend(more);
            if let Some(block) = append_text(blocks, block) {
                blocks.push(block);
            }
            return;
        }
        self.entries.push(TranscriptEntry::Message {
            role,
            message_id: id,
            blocks: vec![block],
            extra: more,
        });
    }

    /// Begins a tool call, or applies an update to one: a field in the update replaces the previous
    /// value, collections as a whole.
    fn tool_call(&mut self, new: String, fields: Map<String, Value>) {
        let place = self
            .calls
            .get(&new)
            .and_then(|at| self.entries.get_mut(*at));
        if let Some(TranscriptEntry::ToolCall { call, .. }) = place {
            call.extend(fields);
        } else {
            let mut call = self.begun.remove(&new).unwrap_or_default();
            call.extend(fields);
            self.calls.insert(new.clone(), self.entries.len());
            self.entries
                .push(TranscriptEntry::ToolCall { id: new, call });
        }
    }
}

/// Appends the text of `block` to the last block if they differ only in their text. Returns the
/// block otherwise.
fn append_text(blocks: &mut [Value], block: Value) -> Option<Value> {
    let (Some(Value::Object(last)), Value::Object(next)) = (blocks.last_mut(), &block) else {
        return Some(block);
    };
    let alike = next.get("type").and_then(Value::as_str) == Some("text")
        && next.len() == last.len()
        && next
            .iter()
            .all(|(key, value)| key == "text" || last.get(key) == Some(value));
    match (last.get_mut("text"), next.get("text")) {
        (Some(Value::String(text)), Some(Value::String(more))) if alike => {
            text.push_str(more);
            None
        }
        _ => Some(block),
    }
}

#[cfg(test)]
#[path = "transcript_tests.rs"]
mod tests;
