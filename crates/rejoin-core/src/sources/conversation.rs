//! A conversation as the records of a log, put together in the order in which it is read.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Serialize;
use serde_json::{Value, json};

use crate::record::metadata::ARCHIVED_BY_TOOL;
use crate::record::{Kind, title};
use crate::redact::Redactor;
use crate::sys::{Timestamp, path};

use super::content;
use super::damage::DamagedPlace;
use super::unknown::UnknownKinds;
use super::usage::{self, Ledger, Spent};

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
    /// What was left out because its kind is not known, that of subagents included.
    pub unknown: UnknownKinds,
    /// Where its files are damaged.
    pub damage: Vec<DamagedPlace>,
    /// How many of its messages have no id of their own.
    pub(super) unnamed: usize,
}

impl ToolConversation {
    /// The conversation with more damage.
    pub(super) fn damaged(mut self, damage: Vec<DamagedPlace>) -> Self {
        self.damage.extend(damage);
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
            let title = title::title(&prompt.payload);
            if title.is_some_and(|title| !title::says_nothing(&title)) {
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
    /// Whether this is the note at a tool call whose result is not recorded.
    pub(super) fn is_missing_result(&self) -> bool {
        self.kind == Kind::Update
            && self.payload.len() < LONGEST_NOTE
            && self.payload.contains(NO_RESULT)
            && self.payload.contains(r#""status":"failed""#)
    }

    /// The record with this payload, as the store takes it.
    pub(super) fn as_record<'a>(
        &'a self,
        payload: &'a str,
    ) -> (Timestamp, Kind, Option<&'a str>, &'a str) {
        (self.at, self.kind, self.id.as_deref(), payload)
    }
}

/// The beginning of the ids of messages that the tool has given none.
pub const UNNAMED: &str = "imported_";

/// How a turn ended, if nothing says otherwise.
const END: &str = r#"{"stopReason":"end_turn"}"#;
const CANCELLED: &str = r#"{"stopReason":"cancelled"}"#;

/// The note at a tool call whose result is not recorded, which a later import may find.
pub(super) const NO_RESULT: &str = "no result was recorded";

/// No update with that note is longer, in bytes.
const LONGEST_NOTE: usize = 1024;

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

/// A path as the protocol wants it: one that is not absolute is below this folder. A path of another
/// system stays.
fn absolute(folder: Option<&str>, named: &str) -> Option<String> {
    let folder = Path::new(folder?);
    let drive = named.as_bytes().get(1..3);
    let is_of_windows = matches!(drive, Some(b":\\" | b":/")) || named.starts_with("\\\\");
    let is_relative = !named.is_empty() && !named.starts_with(['/', '~']) && !is_of_windows;
    is_relative.then(|| path::normalize(&folder.join(named).to_string_lossy()))
}

/// Makes the paths in the content or the locations of a tool call absolute.
fn make_absolute(folder: Option<&str>, parts: &mut [Value]) {
    for part in parts {
        if let Some(path) = part["path"]
            .as_str()
            .and_then(|path| absolute(folder, path))
        {
            part["path"] = path.into();
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
    /// The turns that have ended so far.
    ended: Vec<EndedTurn>,
    /// The message and the kind of the last update, if that was a part of a message.
    message: Option<(String, &'static str)>,
    state: ToolState,
    spent: Ledger,
    /// How many messages without an id there were.
    unnamed: usize,
    last: Option<Timestamp>,
    unknown: UnknownKinds,
}

/// The state of a conversation as its tool has recorded it last.
#[derive(Debug, Default)]
struct ToolState {
    /// The folder of relative paths.
    folder: Option<String>,
    title: Option<String>,
    is_archived: bool,
    branch: Option<String>,
    model: Option<String>,
    /// How much of the model's context is used, and how much there is.
    usage: Option<(u64, u64)>,
}

/// A turn that the next prompt has ended, unless one of its tool calls has a result behind that:
/// then the user said something while the agent worked, and both prompts are of one turn.
#[derive(Debug)]
struct EndedTurn {
    /// How many entries are before its end.
    entries: usize,
    /// The time of its last record.
    at: Timestamp,
    has_prompt: bool,
    cancelled: bool,
    /// The tool calls without a result.
    open: BTreeSet<String>,
    spent: BTreeMap<String, Spent>,
    /// See [`Ledger::total`].
    total: Option<f64>,
    /// The model that answered last in it or before it.
    model: Option<String>,
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

    /// Leaves out a record, or a part of one, whose kind is not known.
    pub(super) fn unknown(&mut self, kind: Option<&str>) {
        self.unknown.add(kind);
    }

    /// The time of a record: that one, else the time of the record before, or `first` if there is
    /// none before.
    pub(super) fn at_or(&mut self, at: Option<Timestamp>, first: Timestamp) -> Timestamp {
        self.at(at.or(self.last).or(Some(first)))
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

    /// Adds a block of a thought.
    pub(super) fn thought_block(&mut self, at: Timestamp, id: Option<&str>, block: Value) {
        self.chunk(at, "agent_thought_chunk", id, block);
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

    fn chunk(&mut self, at: Timestamp, kind: &'static str, id: Option<&str>, block: Value) {
        let said = block["text"].as_str().unwrap_or_default();
        let goes_on = match (&self.message, id) {
            (Some((message, last)), Some(id)) => message == id && *last == kind,
            _ => false,
        };
        // White space is a part of a message, and no message.
        if block["type"] == "text" && (said.is_empty() || said.trim().is_empty() && !goes_on) {
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
        self.message = Some((id, kind));
    }

    /// Adds a tool call that is under way.
    pub(super) fn call(&mut self, at: Timestamp, mut call: NewCall<'_>) {
        if let Some((end, _)) = call.title.char_indices().nth(TITLE) {
            call.title.truncate(end);
            call.title.push('…');
        }
        let mut locations: Vec<_> = call
            .locations
            .iter()
            .map(|(path, line)| match line {
                Some(line) => json!({"path": path, "line": line}),
                None => json!({"path": path}),
            })
            .collect();
        make_absolute(self.state.folder.as_deref(), &mut locations);
        make_absolute(self.state.folder.as_deref(), &mut call.content);
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
    pub(super) fn result(&mut self, at: Timestamp, id: &str, ok: bool, mut known: Value) {
        if !self.open.contains(id) {
            self.reopen_turn(id);
        }
        if !self.open.remove(id) {
            return;
        }
        for name in ["content", "locations"] {
            if let Some(parts) = known.get_mut(name).and_then(Value::as_array_mut) {
                make_absolute(self.state.folder.as_deref(), parts);
            }
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

    /// Adds an update of a tool call as the protocol has it, which may begin the call.
    pub(super) fn tool(&mut self, at: Timestamp, id: &str, begins: bool, mut update: Value) {
        if begins {
            self.open.insert(id.to_owned());
        } else if !self.open.contains(id) {
            self.reopen_turn(id);
        }
        if matches!(update["status"].as_str(), Some("completed" | "failed")) {
            self.open.remove(id);
        }
        for name in ["content", "locations"] {
            if let Some(parts) = update.get_mut(name).and_then(Value::as_array_mut) {
                make_absolute(self.state.folder.as_deref(), parts);
            }
        }
        self.update(at, &update);
    }

    /// Whether there is a prompt so far.
    pub(super) fn has_prompt(&self) -> bool {
        self.prompt.is_some() || self.entries.iter().any(|entry| entry.kind == Kind::Prompt)
    }

    /// Whether a tool call is under way.
    pub(super) fn is_open(&self, id: &str) -> bool {
        self.open.contains(id) || self.ended.iter().any(|turn| turn.open.contains(id))
    }

    /// Adds an update.
    pub(super) fn update(&mut self, at: Timestamp, update: &impl Serialize) {
        self.flush();
        self.message = None;
        let update = serde_json::to_string(update).unwrap_or_default();
        self.push(at, Kind::Update, None, update);
    }

    /// Notes that the user cancelled the turn.
    pub(super) fn cancel(&mut self) {
        self.cancelled = true;
    }

    /// Notes the title, as lists show it, if it says anything. The last one counts.
    pub(super) fn title(&mut self, title: &str) {
        self.state.title = title::given(title).or(self.state.title.take());
    }

    /// Notes that the user has put the conversation away.
    pub(super) fn archive(&mut self) {
        self.state.is_archived = true;
    }

    /// Notes the folder to which relative paths belong from here on.
    pub(super) fn folder(&mut self, folder: Option<&str>) {
        if let Some(folder) = folder.filter(|folder| self.state.folder.as_deref() != Some(folder)) {
            self.state.folder = Some(folder.to_owned());
        }
    }

    /// Notes the branch and the model, as far as a record has them. The last ones count.
    pub(super) fn state(&mut self, branch: &Value, model: &Value) {
        for (known, value) in [
            (&mut self.state.branch, branch),
            (&mut self.state.model, model),
        ] {
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
        self.state.usage = Some((used, size));
    }

    /// Notes what a message of the agent has cost. Messages without an id count each.
    pub(super) fn spent(&mut self, message: Option<&str>, spent: Spent) {
        let unnamed = self.entries.len().to_string();
        self.spent.note(message.unwrap_or(&unnamed), spent);
    }

    /// Notes what the whole conversation has cost so far, in US dollars, as the tool has recorded it.
    pub(super) fn total_cost(&mut self, total: f64) {
        self.flush();
        self.spent.total = Some(total);
    }

    /// Removes the last turns.
    pub(super) fn remove_turns(&mut self, mut turns: u64) {
        self.open.clear();
        self.message = None;
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
        let left = self.entries.len();
        self.ended.retain(|turn| turn.entries <= left);
    }

    /// The whole conversation; an empty one if it has no prompt, or no id.
    pub(super) fn finish(mut self, id: Option<String>, cwd: Option<String>) -> ToolConversation {
        self.end_all();
        let at = self.at(None);
        if let Some((used, size)) = self.state.usage.take() {
            let update = json!({"sessionUpdate": "usage_update", "used": used, "size": size});
            self.push(at, Kind::Info, None, update.to_string());
        }
        let prompts = self.entries.iter();
        let mut prompts = prompts.filter(|entry| entry.kind == Kind::Prompt);
        let first = prompts.next().map(|entry| entry.payload.as_str());
        // What a tool has cut off the first prompt is no better than the title that is made of it here.
        let is_made = |title: &String| first.is_some_and(|first| title::is_beginning(title, first));
        let title = self.state.title.take();
        if let Some(title) = title.filter(|title| !is_made(title)) {
            self.push(at, Kind::Info, None, title::update(&title));
        }
        if self.state.is_archived {
            self.push(at, Kind::Info, None, ARCHIVED_BY_TOOL.to_owned());
        }
        let is_complete = self.has_prompt();
        match id.filter(|id| is_complete && !id.is_empty()) {
            Some(id) => ToolConversation {
                id,
                cwd,
                branch: self.state.branch,
                model: self.state.model,
                entries: self.entries,
                unknown: self.unknown,
                damage: Vec::new(),
                unnamed: self.unnamed,
            },
            None => ToolConversation {
                unknown: self.unknown,
                ..ToolConversation::default()
            },
        }
    }

    /// The records of what was read, without the snapshots at their end, what it has cost, and what was
    /// left out.
    pub(super) fn entries(mut self) -> (Vec<NewRecord>, Spent, UnknownKinds) {
        let spent = self.end_all();
        (self.entries, spent, self.unknown)
    }

    /// An id that needs no escaping: the one that is given, if it is such a one.
    fn name(&mut self, id: Option<&str>) -> String {
        let plain = |id: &&str| {
            !id.is_empty() && !id.contains(['"', '\\']) && !id.contains(char::is_control)
        };
        id.filter(plain).map_or_else(
            || {
                self.unnamed += 1;
                format!("{UNNAMED}{}", self.unnamed)
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
        self.message = None;
        let Some(at) = self.entries.last().map(|entry| entry.at) else {
            return;
        };
        let has_prompt = std::mem::take(&mut self.in_turn);
        if !has_prompt && self.open.is_empty() {
            return;
        }
        let (spent, total) = if has_prompt {
            self.spent.take()
        } else {
            (BTreeMap::new(), None)
        };
        self.ended.push(EndedTurn {
            entries: self.entries.len(),
            at,
            has_prompt,
            cancelled: has_prompt && std::mem::take(&mut self.cancelled),
            open: std::mem::take(&mut self.open),
            spent,
            total,
            model: self.state.model.clone(),
        });
    }

    /// Undoes the end of the turn in which this tool call began, and of those since.
    fn reopen_turn(&mut self, call: &str) {
        let mut ended = self.ended.iter();
        let Some(first) = ended.position(|turn| turn.open.contains(call)) else {
            return;
        };
        self.flush();
        for turn in self.ended.split_off(first) {
            self.in_turn |= turn.has_prompt;
            self.open.extend(turn.open);
            self.spent.put_back(turn.spent, turn.total);
        }
    }

    /// Writes the ends of all turns. Returns what they have cost.
    fn end_all(&mut self) -> Spent {
        self.end_turn();
        let mut ended = std::mem::take(&mut self.ended);
        let entries = std::mem::take(&mut self.entries);
        self.entries.reserve(entries.len() + ended.len());
        // The only model of a conversation is known from its state.
        let mut models = ended.iter().filter_map(|turn| turn.model.as_deref());
        let first = models.next();
        if models.all(|model| Some(model) == first) {
            for turn in &mut ended {
                turn.model = None;
            }
        }
        let mut ended = ended.into_iter().peekable();
        let mut sum = Spent::default();
        for (at, entry) in entries.into_iter().enumerate() {
            while let Some(turn) = ended.next_if(|turn| turn.entries <= at) {
                self.end(turn, &mut sum);
            }
            self.entries.push(entry);
        }
        for turn in ended {
            self.end(turn, &mut sum);
        }
        sum
    }

    /// Writes the end of a turn, and before it the ends of its tool calls without a result.
    fn end(&mut self, turn: EndedTurn, sum: &mut Spent) {
        for id in turn.open {
            let note = content::of_call(content::text(NO_RESULT));
            let update = json!({
                "sessionUpdate": "tool_call_update",
                "toolCallId": id,
                "status": "failed",
                "content": [note],
            });
            self.push(turn.at, Kind::Update, None, update.to_string());
        }
        for spent in turn.spent.values() {
            sum.add(spent);
        }
        if turn.has_prompt {
            let end = if turn.cancelled { CANCELLED } else { END };
            let mut end = self.spent.end(&turn.spent, turn.total, end);
            if let Some(model) = turn.model {
                end = usage::with_model(&end, model);
            }
            self.push(turn.at, Kind::End, None, end);
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
