//! A conversation as the records of a log, put together in the order in which it is read.

use std::collections::BTreeSet;
use std::path::Path;

use serde::Serialize;
use serde_json::{Value, json};

use crate::record::{Kind, title};
use crate::redact::Redactor;
use crate::sys::Timestamp;

use super::content;
use super::usage::{Ledger, Spent};

/// A conversation of another tool. Without entries, the file did not have one, or only a part of
/// another one.
#[derive(Debug, Default)]
pub struct ToolConversation {
    /// The tool's own id of it.
    pub id: String,
    /// The folder that it is about, if the tool recorded it.
    pub cwd: Option<String>,
    /// The branch of the folder's repository, as last recorded.
    pub branch: Option<String>,
    /// The model that answered last.
    pub model: Option<String>,
    /// Its history.
    pub entries: Vec<NewRecord>,
    /// How many records were not understood.
    pub unknown: usize,
    /// How many lines were damaged.
    pub damaged: usize,
}

impl ToolConversation {
    /// The conversation with more records that were not understood, and more damaged lines.
    pub(super) fn counted(mut self, unknown: usize, damaged: usize) -> Self {
        self.unknown += unknown;
        self.damaged += damaged;
        self
    }

    /// Lets a redactor see the prompts whose beginnings may be the title.
    pub(super) fn expect_titles(&self, redactor: &Redactor) {
        let prompts = self
            .entries
            .iter()
            .filter(|entry| entry.kind == Kind::Prompt);
        for prompt in prompts {
            redactor.expect(&prompt.payload);
            if title::title(&prompt.payload).is_some() {
                break;
            }
        }
    }
}

/// A record of the log to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRecord {
    /// When it was recorded.
    pub at: Timestamp,
    /// The kind of record.
    pub kind: Kind,
    /// The id of a prompt.
    pub id: Option<String>,
    /// The payload.
    pub payload: String,
}

impl NewRecord {
    /// The record with this payload, as the store takes it.
    pub(super) fn as_record<'a>(
        &'a self,
        payload: &'a str,
    ) -> (Timestamp, Kind, Option<&'a str>, &'a str) {
        (self.at, self.kind, self.id.as_deref(), payload)
    }
}

/// How a turn ended, if nothing says otherwise.
const END: &str = r#"{"stopReason":"end_turn"}"#;
const CANCELLED: &str = r#"{"stopReason":"cancelled"}"#;

/// The note at a tool call whose result is not recorded, which a later import may find.
pub(super) const NO_RESULT: &str = "no result was recorded";

/// The longest title of a tool call, in characters: some tools put a whole script there. The input
/// has all of it.
const TITLE: usize = 500;

/// A tool call as it begins.
#[derive(Debug)]
pub(super) struct NewCall<'a> {
    pub(super) id: &'a str,
    pub(super) title: String,
    /// The kind of the protocol: `read`, `edit`, `execute` and others.
    pub(super) kind: &'static str,
    pub(super) input: &'a Value,
    /// The files it works on, each with a line if it is known.
    pub(super) locations: Vec<(String, Option<u64>)>,
    pub(super) content: Vec<Value>,
}

impl NewCall<'_> {
    /// Makes its paths absolute: those that are not are below this folder.
    pub(super) fn resolve(&mut self, cwd: &str) {
        let absolute = |path: &str| Path::new(cwd).join(path).to_string_lossy().into_owned();
        for (path, _) in &mut self.locations {
            *path = absolute(path);
        }
        for part in &mut self.content {
            if let Some(path) = part["path"].as_str().map(absolute) {
                part["path"] = path.into();
            }
        }
    }
}

/// The update for a part of a message. It is written as it is: what tools return may be long.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ChunkUpdate<'a> {
    session_update: &'a str,
    content: &'a Value,
    message_id: &'a str,
}

/// The update for a tool call that begins.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NewCallUpdate<'a> {
    session_update: &'a str,
    #[serde(rename = "toolCallId")]
    id: &'a str,
    title: &'a str,
    kind: &'a str,
    status: &'a str,
    raw_input: &'a Value,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    locations: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    content: Vec<Value>,
}

/// Puts a conversation together.
#[derive(Debug, Default)]
pub(super) struct ConversationBuilder {
    entries: Vec<NewRecord>,
    /// The user's message that is being put together: its time, id and blocks.
    prompt: Option<(Timestamp, String, Vec<Value>)>,
    in_turn: bool,
    cancelled: bool,
    /// The tool calls of the turn without a result.
    open: BTreeSet<String>,
    title: Option<String>,
    branch: Option<String>,
    model: Option<String>,
    /// How much of the model's context is used, and how much there is.
    usage: Option<(u64, u64)>,
    spent: Ledger,
    /// How many messages without an id there were.
    unnamed: usize,
    last: Option<Timestamp>,
}

impl ConversationBuilder {
    /// The time of a record: its own, else that of the one before. Tools have records without a time.
    pub(super) fn time(&mut self, text: Option<&str>) -> Timestamp {
        let at = text.and_then(Timestamp::parse);
        self.at(at)
    }

    /// The time of a record whose own time was parsed: that one, else the time of the record
    /// before.
    pub(super) fn at(&mut self, at: Option<Timestamp>) -> Timestamp {
        let at = at.or(self.last).unwrap_or(Timestamp::from_millis(0));
        self.last = Some(at);
        at
    }

    /// Adds blocks of the user's message with this id, which begins a turn.
    pub(super) fn user(&mut self, at: Timestamp, id: Option<&str>, blocks: Vec<Value>) {
        if blocks.is_empty() {
            return;
        }
        if let (Some((_, known, all)), Some(id)) = (&mut self.prompt, id)
            && known == id
        {
            return all.extend(blocks);
        }
        self.end_turn();
        let id = self.name(id);
        self.prompt = Some((at, id, blocks));
    }

    /// Adds a part of the agent's message with this id.
    pub(super) fn agent(&mut self, at: Timestamp, id: Option<&str>, block: Value) {
        self.chunk(at, "agent_message_chunk", id, block);
    }

    /// Adds a part of a thought.
    pub(super) fn thought(&mut self, at: Timestamp, id: Option<&str>, text: &str) {
        if !text.trim().is_empty() {
            self.chunk(at, "agent_thought_chunk", id, content::text(text));
        }
    }

    /// Adds a thought that belongs to the agent's message with this id. For clients it is a message of
    /// its own.
    pub(super) fn thought_of(&mut self, at: Timestamp, message: Option<&str>, text: &str) {
        let id = message.map(|id| format!("{id}-thought"));
        self.thought(at, id.as_deref(), text);
    }

    /// Adds an error that the user saw.
    pub(super) fn error(&mut self, at: Timestamp, id: Option<&str>, message: &str) {
        self.agent(at, id, content::text(&format!("Error: {message}")));
    }

    fn chunk(&mut self, at: Timestamp, kind: &str, id: Option<&str>, block: Value) {
        if block["type"] == "text" && block["text"].as_str().is_none_or(str::is_empty) {
            return;
        }
        let id = self.name(id);
        self.update(
            at,
            &ChunkUpdate {
                session_update: kind,
                content: &block,
                message_id: &id,
            },
        );
    }

    /// Adds a tool call that is under way.
    pub(super) fn call(&mut self, at: Timestamp, mut call: NewCall<'_>) {
        if let Some((end, _)) = call.title.char_indices().nth(TITLE) {
            call.title.truncate(end);
            call.title.push('…');
        }
        let locations: Vec<_> = call
            .locations
            .iter()
            .map(|(path, line)| match line {
                Some(line) => json!({"path": path, "line": line}),
                None => json!({"path": path}),
            })
            .collect();
        self.update(
            at,
            &NewCallUpdate {
                session_update: "tool_call",
                id: call.id,
                title: &call.title,
                kind: call.kind,
                status: "in_progress",
                raw_input: call.input,
                locations,
                content: call.content,
            },
        );
        self.open.insert(call.id.to_owned());
    }

    /// Ends a tool call. `known` has what else is known of it, such as `content`. A call that is
    /// not under way is ignored: its result was recorded twice, or the call is hidden.
    pub(super) fn result(&mut self, at: Timestamp, id: &str, ok: bool, known: Value) {
        if !self.open.remove(id) {
            return;
        }
        let mut update = json!({
            "sessionUpdate": "tool_call_update",
            "toolCallId": id,
            "status": if ok { "completed" } else { "failed" },
        });
        if let (Value::Object(update), Value::Object(known)) = (&mut update, known) {
            update.extend(known);
        }
        self.update(at, &update);
    }

    /// Whether there is a prompt so far.
    pub(super) fn has_prompt(&self) -> bool {
        self.prompt.is_some() || self.entries.iter().any(|entry| entry.kind == Kind::Prompt)
    }

    /// Whether a tool call is under way.
    pub(super) fn is_open(&self, id: &str) -> bool {
        self.open.contains(id)
    }

    /// Adds an update.
    pub(super) fn update(&mut self, at: Timestamp, update: &impl Serialize) {
        self.flush();
        let update = serde_json::to_string(update).unwrap_or_default();
        self.push(at, Kind::Update, None, update);
    }

    /// Notes that the user cancelled the turn.
    pub(super) fn cancel(&mut self) {
        self.cancelled = true;
    }

    /// Notes the title, as lists show it. The last one counts.
    pub(super) fn title(&mut self, title: &str) {
        self.title = title::plain(title).or(self.title.take());
    }

    /// Notes the branch and the model, as far as a record has them. The last ones count.
    pub(super) fn state(&mut self, branch: &Value, model: &Value) {
        for (known, value) in [(&mut self.branch, branch), (&mut self.model, model)] {
            let value = value.as_str();
            // Claude Code writes `<synthetic>` for what no model has said.
            let value = value.filter(|value| !value.is_empty() && !value.starts_with('<'));
            if let Some(value) = value.filter(|value| known.as_deref() != Some(value)) {
                *known = Some(value.to_owned());
            }
        }
    }

    /// Notes how many tokens of the model's context are used, and how many there are. The last ones
    /// count.
    pub(super) fn usage(&mut self, used: u64, size: u64) {
        self.usage = Some((used, size));
    }

    /// Notes what a message of the agent has cost. Messages without an id count each.
    pub(super) fn spent(&mut self, message: Option<&str>, spent: Spent) {
        let unnamed = self.entries.len().to_string();
        self.spent.note(message.unwrap_or(&unnamed), spent);
    }

    /// Removes the last turns.
    pub(super) fn remove_turns(&mut self, mut turns: u64) {
        self.open.clear();
        self.cancelled = false;
        if self.prompt.take().is_some() {
            turns = turns.saturating_sub(1);
        }
        while turns > 0 && self.entries.iter().any(|entry| entry.kind == Kind::Prompt) {
            while let Some(removed) = self.entries.pop() {
                if removed.kind == Kind::Prompt {
                    break;
                }
            }
            turns -= 1;
        }
        self.in_turn = false;
    }

    /// The whole conversation; an empty one if it has no prompt, or no id.
    pub(super) fn finish(mut self, id: Option<String>, cwd: Option<String>) -> ToolConversation {
        self.end_turn();
        let at = self.at(None);
        if let Some((used, size)) = self.usage.take() {
            let update = json!({"sessionUpdate": "usage_update", "used": used, "size": size});
            self.push(at, Kind::Info, None, update.to_string());
        }
        if let Some(title) = self.title.take() {
            let update = json!({"sessionUpdate": "session_info_update", "title": title});
            self.push(at, Kind::Info, None, update.to_string());
        }
        let is_complete = self.has_prompt();
        match id.filter(|id| is_complete && !id.is_empty()) {
            Some(id) => ToolConversation {
                id,
                cwd,
                branch: self.branch,
                model: self.model,
                entries: self.entries,
                ..ToolConversation::default()
            },
            None => ToolConversation::default(),
        }
    }

    /// The records of what was read, without the snapshots at their end.
    pub(super) fn entries(mut self) -> Vec<NewRecord> {
        self.end_turn();
        self.entries
    }

    /// An id that needs no escaping: the one that is given, if it is such a one.
    fn name(&mut self, id: Option<&str>) -> String {
        let plain = |id: &&str| {
            !id.is_empty() && !id.contains(['"', '\\']) && !id.contains(char::is_control)
        };
        id.filter(plain).map_or_else(
            || {
                self.unnamed += 1;
                format!("imported_{}", self.unnamed)
            },
            str::to_owned,
        )
    }

    /// Writes the prompt that was put together.
    fn flush(&mut self) {
        if let Some((at, id, blocks)) = self.prompt.take() {
            let payload = json!({ "prompt": blocks }).to_string();
            self.push(at, Kind::Prompt, Some(id), payload);
            self.in_turn = true;
        }
    }

    /// Ends the turn with the time of its last record.
    fn end_turn(&mut self) {
        self.flush();
        let Some(at) = self.entries.last().map(|entry| entry.at) else {
            return;
        };
        for id in std::mem::take(&mut self.open) {
            let note = content::of_call(content::text(NO_RESULT));
            let update = json!({
                "sessionUpdate": "tool_call_update",
                "toolCallId": id,
                "status": "failed",
                "content": [note],
            });
            self.push(at, Kind::Update, None, update.to_string());
        }
        if std::mem::take(&mut self.in_turn) {
            let cancelled = std::mem::take(&mut self.cancelled);
            let end = if cancelled { CANCELLED } else { END };
            let end = self.spent.end_turn(end);
            self.push(at, Kind::End, None, end);
        }
    }

    fn push(&mut self, at: Timestamp, kind: Kind, id: Option<String>, payload: String) {
        self.entries.push(NewRecord {
            at,
            kind,
            id,
            payload,
        });
    }
}
