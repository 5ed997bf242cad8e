//! Updates of the protocol, as a tool that speaks it keeps them: put together to prompts and turns.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::protocol::{Role, UpdateKind};
use crate::sys::Timestamp;

use super::content::as_text;
use super::conversation::{ConversationBuilder, UNNAMED};

/// Puts a conversation together from the updates of a session.
#[derive(Debug, Default)]
pub(super) struct UpdateReader {
    pub(super) builder: ConversationBuilder,
    /// The author of the last update, if that was a part of a message without an id of its own.
    going_on: Option<Role>,
    /// How many messages without an id there were.
    unnamed: usize,
    /// The tool calls that have begun.
    calls: BTreeSet<String>,
}

impl UpdateReader {
    /// Adds an update of this time: the object with the member `sessionUpdate`.
    pub(super) fn update(&mut self, at: Timestamp, update: &Value) {
        let name = update["sessionUpdate"].as_str().unwrap_or_default();
        let kind = UpdateKind::of_name(name.as_bytes());
        if let UpdateKind::Chunk(role) = kind {
            let id = self.message_id(role, &update["messageId"]);
            return self.block(at, role, &id, update["content"].clone());
        }
        if kind.is_snapshot() {
            return self.snapshot(kind, update);
        }
        self.going_on = None;
        match kind {
            UpdateKind::Message(role) => {
                let id = self.message_id(role, &update["messageId"]);
                self.going_on = None;
                for block in update["content"].as_array().into_iter().flatten() {
                    self.block(at, role, &id, block.clone());
                }
            }
            UpdateKind::ToolCall | UpdateKind::ToolCallUpdate => self.call(at, update),
            UpdateKind::Plan
            | UpdateKind::PlanUpdate
            | UpdateKind::PlanRemoved
            | UpdateKind::Compaction
            | UpdateKind::CompactionSummary => self.builder.update(at, update),
            UpdateKind::SessionState => self.stopped(&update["stopReason"]),
            UpdateKind::Notice
            | UpdateKind::PromptSuggestions
            | UpdateKind::Cursor
            | UpdateKind::ReplayComplete
            | UpdateKind::HistoryTruncated => {}
            // What is not known, or has no place in version 1.
            _ => self
                .builder
                .unknown(Some(name).filter(|name| !name.is_empty())),
        }
    }

    /// Says that a message without an id ends here.
    pub(super) fn end_message(&mut self) {
        self.going_on = None;
    }

    /// Whether a chunk of this author without an id would be a part of the last message.
    pub(super) fn goes_on(&self, author: Role) -> bool {
        self.going_on == Some(author)
    }

    /// Notes why a turn has ended.
    pub(super) fn stopped(&mut self, reason: &Value) {
        self.going_on = None;
        if reason == "cancelled" {
            self.builder.cancel();
        }
    }

    /// Adds a block of a message.
    pub(super) fn block(&mut self, at: Timestamp, role: Role, id: &str, block: Value) {
        match role {
            Role::User => self.builder.user(at, Some(id), vec![block]),
            Role::Agent => self.builder.agent(at, Some(id), block),
            Role::Thought => self.builder.thought_block(at, Some(id), block),
        }
    }

    /// Adds an update of a tool call. One of a call that has not begun, as version 2 begins them,
    /// begins it.
    fn call(&mut self, at: Timestamp, update: &Value) {
        let Some(id) = update["toolCallId"].as_str() else {
            return;
        };
        let mut update = update.clone();
        let is_new = self.calls.insert(id.to_owned());
        let begins = is_new || update["sessionUpdate"] == UpdateKind::ToolCall.name();
        if begins {
            update["sessionUpdate"] = UpdateKind::ToolCall.name().into();
            if !update["title"].is_string() {
                update["title"] = id.into();
            }
        }
        let id = id.to_owned();
        self.builder.tool(at, &id, begins, update);
    }

    fn snapshot(&mut self, kind: UpdateKind, update: &Value) {
        match kind {
            UpdateKind::SessionInfo => self.builder.title(&as_text(&update["title"])),
            UpdateKind::Usage => {
                if let (Some(used), Some(size)) = (update["used"].as_u64(), update["size"].as_u64())
                {
                    self.builder.usage(used, size);
                }
                let cost = &update["cost"];
                let amount = cost["amount"].as_f64();
                if let Some(amount) = amount.filter(|_| cost["currency"] == "USD") {
                    self.builder.total_cost(amount);
                }
            }
            // Commands, modes and options are those of the agent that goes on.
            _ => {}
        }
    }

    /// The id of the message that a chunk is a part of: chunks without one that follow each other
    /// are of one message.
    fn message_id(&mut self, role: Role, given: &Value) -> String {
        if let Some(id) = given.as_str().filter(|id| !id.is_empty()) {
            self.going_on = None;
            return id.to_owned();
        }
        if self.going_on.replace(role) != Some(role) {
            self.unnamed += 1;
        }
        format!("{UNNAMED}message_{}", self.unnamed)
    }
}

/// A block that links to a file.
pub(super) fn link(path: &str) -> Value {
    let name = path.rsplit(['/', '\\']).next().unwrap_or(path);
    json!({"type": "resource_link", "uri": format!("file://{path}"), "name": name})
}
