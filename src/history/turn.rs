//! One turn: what the user said, or all that the agent said and did until the user's next words.

use serde_json::Value;

use crate::record::json;

use super::block::Blocks;
use super::call::Calls;

/// How much one turn may hold, in bytes: with a page that is nearly full, an answer stays below
/// what clients take in one message.
const TURN: usize = 7 * 1024 * 1024;

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    User,
    Assistant,
}

/// A turn as far as its records were read.
#[derive(Debug)]
pub(super) struct Turn {
    role: Role,
    at: String,
    message_id: Option<String>,
    content: Blocks,
    thoughts: Blocks,
    calls: Calls,
    /// The entries of the last plan.
    plan: Option<String>,
    /// Members that tell how it ended.
    end: String,
    budget: usize,
    truncated: bool,
}

impl Turn {
    /// A turn that began at this time, the form of which is that of a record.
    pub(super) fn new(role: Role, at: &str) -> Self {
        Self {
            role,
            at: at.to_owned(),
            message_id: None,
            content: Blocks::default(),
            thoughts: Blocks::default(),
            calls: Calls::default(),
            plan: None,
            end: String::new(),
            budget: TURN,
            truncated: false,
        }
    }

    /// Takes the blocks of a prompt.
    pub(super) fn prompt(&mut self, id: Option<&str>, payload: &str) {
        self.message_id = id.map(|id| format!("\"{id}\""));
        let bytes = payload.as_bytes();
        let Some(mut blocks) = json::member_elements(bytes, 0, "prompt") else {
            return;
        };
        while let Some(block) = blocks.element() {
            // Each as the user sent it.
            self.content.close();
            self.block(&payload[block], "");
        }
    }

    /// Takes an update.
    pub(super) fn update(&mut self, name: &str, update: &str) {
        let bytes = update.as_bytes();
        match name {
            "user_message_chunk" | "agent_message_chunk" | "agent_thought_chunk" => {
                let Some(content) = json::member(bytes, 0, "content") else {
                    return;
                };
                if bytes.get(content.start) != Some(&b'{') {
                    return;
                }
                let message = message_id(update);
                if name == "user_message_chunk" && self.message_id.is_none() {
                    self.message_id = (!message.is_empty()).then(|| message.to_owned());
                }
                if name == "agent_thought_chunk" {
                    let budget = &mut self.budget;
                    let whole = self.thoughts.add(&update[content], message, budget);
                    self.truncated |= !whole;
                } else {
                    self.block(&update[content], message);
                }
            }
            "tool_call" | "tool_call_update" => {
                self.content.close();
                self.thoughts.close();
                self.truncated |= !self.calls.apply(update, &mut self.budget);
            }
            "plan" => {
                let Some(entries) = json::member(bytes, 0, "entries") else {
                    return;
                };
                let before = self.plan.as_ref().map_or(0, String::len);
                match (self.budget + before).checked_sub(entries.len()) {
                    Some(left) => {
                        self.budget = left;
                        self.plan = Some(update[entries].to_owned());
                    }
                    None => self.truncated = true,
                }
            }
            _ => {}
        }
    }

    /// Takes the payload of the record that ended it: a stop reason, an error or an interruption.
    pub(super) fn end(&mut self, payload: &str) {
        let bytes = payload.as_bytes();
        self.end.clear();
        for name in ["stopReason", "error", "interrupted"] {
            if let Some(value) = json::member(bytes, 0, name) {
                self.end.extend([",\"", name, "\":", &payload[value]]);
            }
        }
    }

    /// The JSON object.
    pub(super) fn object(&self) -> String {
        let role = match self.role {
            Role::User => "user",
            Role::Assistant => "assistant",
        };
        let at = Value::from(self.at.as_str());
        let content = self.content.array();
        let mut out = format!(r#"{{"role":"{role}","timestamp":{at},"content":{content}"#);
        let mut member = |name: &str, value: &str| {
            out.extend([",\"", name, "\":", value]);
        };
        if let Some(id) = &self.message_id {
            member("messageId", id);
        }
        if !self.calls.is_empty() {
            member("toolCalls", &self.calls.array());
        }
        if !self.thoughts.is_empty() {
            member("thoughts", &self.thoughts.array());
        }
        if let Some(plan) = &self.plan {
            member("plan", plan);
        }
        if self.truncated {
            member("truncated", "true");
        }
        out.push_str(&self.end);
        out.push('}');
        out
    }

    fn block(&mut self, block: &str, message: &str) {
        let whole = self.content.add(block, message, &mut self.budget);
        self.truncated |= !whole;
    }
}

/// The JSON text of an update's message id; empty if it has none.
pub(super) fn message_id(update: &str) -> &str {
    let bytes = update.as_bytes();
    let id = json::member(bytes, 0, "messageId").filter(|id| bytes[id.start] == b'"');
    id.map_or("", |id| &update[id])
}
