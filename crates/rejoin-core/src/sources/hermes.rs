//! Hermes: one SQLite database, `state.db`, for each profile, with sessions and their messages.
//!
//! A compaction keeps what was there before. It adds the summary behind it, between copies of the
//! first and the last messages: in the same session, or in earlier versions in a new one that goes on
//! from it.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row, params};
use serde_json::{Value, json};

use crate::sys::Timestamp;

use super::chat::ChatReader;
use super::content::{self, as_text};
use super::conversation::ToolConversation;
use super::damage::{self, DamagedPlace};
use super::database::{self, column, open};
use super::subagents::{self, SourceSubagent};
use super::tool::arguments;
use super::usage::Spent;
use super::{FoundConversation, FoundConversations, ToolFolders};

/// `$HERMES_HOME`, or `~/.hermes`, on Windows `%LOCALAPPDATA%\hermes`.
pub(super) fn root(places: &ToolFolders) -> PathBuf {
    if cfg!(windows) && !places.variables.contains_key("HERMES_HOME") {
        return places
            .folder("LOCALAPPDATA", "AppData/Local")
            .join("hermes");
    }
    places.folder("HERMES_HOME", ".hermes")
}

const DATABASE: &str = "state.db";

/// The databases: that of the default profile, and those of the others.
fn databases(root: &Path) -> Vec<PathBuf> {
    let profiles = std::fs::read_dir(root.join("profiles"));
    let profiles = profiles.into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = profiles.map(|entry| entry.path().join(DATABASE)).collect();
    paths.sort();
    paths.insert(0, root.join(DATABASE));
    paths
}

/// The sessions that the user has pinned, in each database. Earlier versions have no pins.
pub(super) fn pins(places: &ToolFolders) -> HashSet<String> {
    let pinned = databases(&root(places)).into_iter().filter_map(|path| {
        let database = open(&path).ok()?;
        let mut query = database
            .prepare("SELECT id FROM sessions WHERE pinned")
            .ok()?;
        let ids = query.query_map([], |row| row.get(0)).ok()?;
        Some(ids.filter_map(Result::ok).collect::<Vec<String>>())
    });
    pinned.flatten().collect()
}

/// The conversations: those that Hermes lists, each by its session that goes on.
pub(super) fn find(root: &Path, search: &mut FoundConversations) {
    for path in databases(root) {
        database::find(root, &path, search, |database| {
            let query = "SELECT *, (SELECT MAX(timestamp) FROM messages \
                WHERE session_id = sessions.id) AS last_message FROM sessions";
            let mut query = database.prepare(query)?;
            let sessions = query.query_map([], HermesSession::of)?;
            let sessions: Vec<HermesSession> = sessions.collect::<Result<_, _>>()?;
            Ok(conversations(&sessions))
        });
    }
}

/// The ids of the last sessions of conversations, and when these were changed.
fn conversations(sessions: &[HermesSession]) -> Vec<(String, Timestamp)> {
    let known = sessions
        .iter()
        .map(|session| (session.id.as_str(), session));
    let known: HashMap<&str, &HermesSession> = known.collect();
    let mut next: HashMap<&str, &HermesSession> = HashMap::new();
    for session in sessions.iter().filter(|session| session.may_continue) {
        let parent = session
            .parent
            .as_deref()
            .and_then(|parent| known.get(parent));
        let Some(parent) = parent.filter(|parent| parent.is_compacted) else {
            continue;
        };
        let best = next.entry(&parent.id).or_insert(session);
        if session.rank() > best.rank() {
            *best = session;
        }
    }
    let mut found = Vec::new();
    for first in sessions.iter().filter(|session| session.is_own) {
        let (mut last, mut changed) = (first, first.changed);
        let mut seen = HashSet::from([first.id.as_str()]);
        while let Some(session) = next.get(last.id.as_str())
            && seen.insert(&session.id)
        {
            last = session;
            changed = changed.max(session.changed);
        }
        found.push((last.id.clone(), changed));
    }
    found
}

/// What is known of a session before its messages are read.
#[derive(Debug)]
struct HermesSession {
    id: String,
    parent: Option<String>,
    /// Whether the user has begun it: it is no subagent and goes on from no other one.
    is_own: bool,
    /// Whether it was ended by a compaction, after which another session goes on.
    is_compacted: bool,
    ended: Option<f64>,
    /// Whether it may be the one that goes on.
    may_continue: bool,
    changed: Timestamp,
}

impl HermesSession {
    fn of(row: &Row<'_>) -> rusqlite::Result<Self> {
        let config = column(row, "model_config").unwrap_or_default();
        let (config, _) = damage::value_or_null(&config);
        let parent = column(row, "parent_session_id");
        let source = column(row, "source").unwrap_or_default();
        let is_subagent = config["_delegate_from"].is_string() || source == "subagent";
        let is_branch = config["_branched_from"].is_string();
        let seconds = |name: &str| row.get(name).unwrap_or(None::<f64>);
        let last = seconds("last_message").or(seconds("started_at"));
        // A rewind changes no time: each counts as a millisecond.
        let rewinds: i64 = row.get("rewind_count").unwrap_or(0);
        Ok(Self {
            id: row.get("id")?,
            is_own: !is_subagent && source != "tool" && (parent.is_none() || is_branch),
            is_compacted: column(row, "end_reason").as_deref() == Some("compression"),
            ended: seconds("ended_at"),
            may_continue: !is_subagent && !is_branch && source != "tool",
            changed: Timestamp::from_millis(millis(last.unwrap_or(0.0)).saturating_add(rewinds)),
            parent,
        })
    }

    /// Of several sessions that go on from one, Hermes takes the one that was compacted in turn, else
    /// one that has not ended, else the one that changed last.
    fn rank(&self) -> (bool, bool, Timestamp, &str) {
        (
            self.is_compacted,
            self.ended.is_none(),
            self.changed,
            &self.id,
        )
    }

    /// Whether it is a subagent of this session.
    fn is_subagent_of(&self, parent: &Self) -> bool {
        let goes_on = self.may_continue && parent.is_compacted;
        !self.is_own && !goes_on
    }

    /// The sessions with a member of this value.
    fn with(database: &Connection, member: &str, value: &str) -> rusqlite::Result<Vec<Self>> {
        let query = format!("SELECT * FROM sessions WHERE {member} = ? ORDER BY started_at, id");
        let mut query = database.prepare(&query)?;
        let rows = query.query_map(params![value], Self::of)?;
        rows.collect()
    }

    /// The sessions of a conversation that ends with this one, the first one first.
    fn chain(database: &Connection, last: &str) -> rusqlite::Result<Vec<Self>> {
        let mut chain = Self::with(database, "id", last)?;
        while let Some(session) = chain.last()
            && let Some(parent) = session.parent.as_deref().filter(|_| session.may_continue)
        {
            let is_known = |of: &Self| chain.iter().any(|session| session.id == of.id);
            let parent = Self::with(database, "id", parent)?.pop();
            match parent.filter(|parent| parent.is_compacted && !is_known(parent)) {
                Some(parent) => chain.push(parent),
                None => break,
            }
        }
        chain.reverse();
        Ok(chain)
    }
}

fn millis(seconds: f64) -> i64 {
    (seconds * 1000.0) as i64
}

/// A conversation of which [`FoundConversation::key`] is the id of the last session.
pub(super) fn read(found: &FoundConversation, limit: i64) -> io::Result<ToolConversation> {
    let id = found.key.as_deref().unwrap_or_default();
    of(&open(&found.path)?, id, limit).map_err(io::Error::other)
}

fn of(database: &Connection, id: &str, limit: i64) -> rusqlite::Result<ToolConversation> {
    let chain = HermesSession::chain(database, id)?;
    let about = AboutSession::of(database, id)?;
    let mut reader = HermesReader::of(database, &chain, about.cwd.as_deref(), limit)?;
    let mut spent = Spent::default();
    for session in &chain {
        spent.add(&AboutSession::of(database, &session.id)?.spent);
    }
    let builder = &mut reader.chat.builder;
    builder.state(&about.branch, &about.model);
    // Hermes knows only the sums of a session: they are those of its last turn.
    builder.spent(None, spent);
    builder.title(&about.title);
    if about.is_archived {
        builder.archive();
    }
    let mut conversation = reader.chat.builder.finish(Some(id.to_owned()), about.cwd);
    if limit < 0 {
        let mut subagents = Vec::new();
        for parent in &chain {
            let children = HermesSession::with(database, "parent_session_id", &parent.id)?;
            for child in children.iter().filter(|child| child.is_subagent_of(parent)) {
                subagents.push(subagent(database, child, &mut reader.delegated)?);
            }
        }
        subagents::merge(&mut conversation, subagents);
    }
    Ok(conversation.damaged(reader.damage))
}

/// A subagent. The call that has started it has its first prompt as a goal.
fn subagent(
    database: &Connection,
    session: &HermesSession,
    delegated: &mut Vec<(String, String)>,
) -> rusqlite::Result<SourceSubagent> {
    let about = AboutSession::of(database, &session.id)?;
    let session = std::slice::from_ref(session);
    let mut read = HermesReader::of(database, session, about.cwd.as_deref(), -1)?;
    read.chat.builder.spent(None, about.spent);
    let goal = read.first.unwrap_or_default();
    let call = delegated.iter().position(|(_, known)| *known == goal);
    let call = call.map(|at| delegated.remove(at).0);
    let subagent = SourceSubagent::new(&session[0].id, call, read.chat.builder);
    let mut subagent = subagent.damaged(read.damage);
    subagent.title = crate::record::title::line_of(&goal);
    Ok(subagent)
}

/// What a session's row says of it.
#[derive(Debug)]
struct AboutSession {
    cwd: Option<String>,
    branch: Value,
    model: Value,
    title: String,
    is_archived: bool,
    spent: Spent,
}

impl AboutSession {
    fn of(database: &Connection, id: &str) -> rusqlite::Result<Self> {
        let query = "SELECT * FROM sessions WHERE id = ?";
        database.query_row(query, params![id], |row| {
            let config = column(row, "model_config").unwrap_or_default();
            let (config, _) = damage::value_or_null(&config);
            let number = |name: &str| {
                let number: i64 = row.get(name).unwrap_or(0);
                u64::try_from(number).unwrap_or(0)
            };
            let cost = |name: &str| row.get(name).unwrap_or(None::<f64>);
            let estimated = cost("estimated_cost_usd").filter(|cost| *cost > 0.0);
            let thought = number("reasoning_tokens");
            let text = |name| column(row, name).map_or(Value::Null, Value::String);
            Ok(Self {
                cwd: column(row, "cwd").or_else(|| config["cwd"].as_str().map(str::to_owned)),
                branch: text("git_branch"),
                model: text("model"),
                title: column(row, "title").unwrap_or_default(),
                is_archived: row.get("archived").unwrap_or(0_i64) != 0,
                spent: Spent {
                    input: number("input_tokens"),
                    output: number("output_tokens").saturating_sub(thought),
                    thought,
                    cached_read: number("cache_read_tokens"),
                    cached_write: number("cache_write_tokens"),
                    cost: cost("actual_cost_usd").or(estimated).unwrap_or(0.0),
                },
            })
        })
    }
}

/// A message as the database has it.
#[derive(Debug)]
struct HermesMessage {
    id: String,
    at: Timestamp,
    role: String,
    content: String,
    calls: String,
    call: String,
    reasoning: Value,
}

impl HermesMessage {
    /// A message that is a part of the conversation: none if the user went back to before it.
    fn of(row: &Row<'_>) -> rusqlite::Result<Option<Self>> {
        // Columns that were added later.
        let is_active = row.get("active").unwrap_or(1_i64) != 0;
        let is_compacted = row.get("compacted").unwrap_or(0_i64) != 0;
        if !is_active && !is_compacted {
            return Ok(None);
        }
        let text = |name| column(row, name).unwrap_or_default();
        let reasoning = ["reasoning_content", "reasoning"];
        let reasoning = reasoning.iter().find_map(|name| column(row, name));
        let id: i64 = row.get("id")?;
        let seconds: f64 = row.get("timestamp").unwrap_or(0.0);
        Ok(Some(Self {
            id: id.to_string(),
            at: Timestamp::from_millis(millis(seconds)),
            role: text("role"),
            content: lossy(row, "content"),
            calls: text("tool_calls"),
            call: text("tool_call_id"),
            reasoning: reasoning.map_or(Value::Null, Value::String),
        }))
    }

    /// Whether a compaction has made one of the other.
    fn is_copy_of(&self, other: &Self) -> bool {
        self.role == other.role
            && self.content == other.content
            && self.calls == other.calls
            && self.call == other.call
    }

    fn is_summary(&self) -> bool {
        SUMMARIES.iter().any(|mark| self.content.contains(mark))
    }
}

/// A text in a row, whatever bytes it has.
fn lossy(row: &Row<'_>, name: &str) -> String {
    match row.get_ref(name) {
        Ok(ValueRef::Text(text) | ValueRef::Blob(text)) => {
            String::from_utf8_lossy(text).into_owned()
        }
        _ => String::new(),
    }
}

/// What begins the summary of a compaction.
const SUMMARIES: [&str; 2] = ["[CONTEXT COMPACTION", "[CONTEXT SUMMARY]:"];

/// Removes the copies that compactions have made: before each summary those of the first messages,
/// behind it those of the last ones.
fn without_copies(messages: Vec<HermesMessage>) -> Vec<HermesMessage> {
    let mut is_copy = vec![false; messages.len()];
    for (at, summary) in messages.iter().enumerate() {
        if !summary.is_summary() {
            continue;
        }
        let same = |a: usize, b: usize, len: usize| {
            (0..len).all(|by| messages[a + by].is_copy_of(&messages[b + by]))
        };
        let first = (1..=at / 2).rev().find(|len| same(at - len, 0, *len));
        let end = at - first.unwrap_or(0);
        let rest = messages.len() - at - 1;
        let last = (1..=end.min(rest)).rev();
        let last = last.into_iter().find(|len| same(end - len, at + 1, *len));
        is_copy[end..at].fill(true);
        is_copy[at + 1..at + 1 + last.unwrap_or(0)].fill(true);
    }
    let mut is_copy = is_copy.into_iter();
    let mut messages = messages;
    messages.retain(|_| is_copy.next() == Some(false));
    messages
}

#[derive(Debug, Default)]
struct HermesReader {
    chat: ChatReader,
    damage: Vec<DamagedPlace>,
    /// The calls that start subagents, each with a goal of it.
    delegated: Vec<(String, String)>,
    /// What the user said first.
    first: Option<String>,
    /// The calls that change the list of tasks, which is in their results.
    lists: HashSet<String>,
}

impl HermesReader {
    /// Reads the messages of sessions, up to about this number of them if that is not negative.
    fn of(
        database: &Connection,
        sessions: &[HermesSession],
        cwd: Option<&str>,
        limit: i64,
    ) -> rusqlite::Result<Self> {
        let mut reader = Self::default();
        reader.chat.builder.folder(cwd);
        let query = "SELECT * FROM messages WHERE session_id = ? ORDER BY id LIMIT ?";
        let mut query = database.prepare(query)?;
        let mut messages = Vec::new();
        for session in sessions {
            let rows = query.query_map(params![session.id, limit], HermesMessage::of)?;
            for message in rows {
                messages.extend(message?);
            }
            if usize::try_from(limit).is_ok_and(|limit| messages.len() >= limit) {
                break;
            }
        }
        for (number, message) in (1..).zip(without_copies(messages)) {
            reader.message(number, &message);
        }
        Ok(reader)
    }

    /// A value in a row, and where it is damaged.
    fn value(&mut self, number: usize, text: &str) -> Value {
        let (value, kind) = damage::value_or_null(text);
        self.damage
            .extend(kind.map(|kind| DamagedPlace::of(number, kind)));
        value
    }

    fn message(&mut self, number: usize, message: &HermesMessage) {
        let at = self.chat.builder.at(Some(message.at));
        let id = Some(message.id.as_str());
        if message.is_summary() {
            return self.chat.builder.thought(at, id, &message.content);
        }
        let parts = message.content.strip_prefix("\0json:");
        let parts = parts.map(|parts| self.value(number, parts));
        match message.role.as_str() {
            "tool" => self.result(at, &message.call, &message.content),
            "session_meta" => {}
            role => {
                let images = parts.as_ref().and_then(Value::as_array);
                let images = images.into_iter().flatten();
                let images: Vec<Value> = images.filter_map(image).collect();
                let content = parts.unwrap_or_else(|| match role {
                    "user" => typed(&message.content).into(),
                    _ => message.content.as_str().into(),
                });
                if role == "user" && self.first.is_none() {
                    self.first = content.as_str().map(str::to_owned);
                }
                let calls = self.calls(number, &message.calls);
                let whole = json!({
                    "role": role,
                    "content": content,
                    "reasoning_content": message.reasoning,
                    "tool_calls": calls,
                });
                self.chat.message(at, id, &whole, images.into_iter());
            }
        }
    }

    /// The calls of a message, without those of the list of tasks.
    fn calls(&mut self, number: usize, calls: &str) -> Vec<Value> {
        if calls.is_empty() {
            return Vec::new();
        }
        let calls = self.value(number, calls);
        let mut shown = Vec::new();
        for call in calls.as_array().into_iter().flatten() {
            let id = as_text(&call["id"]);
            let function = call.get("function").unwrap_or(call);
            if function["name"] == "todo" {
                self.lists.insert(id);
                continue;
            }
            if function["name"] == "delegate_task" {
                let input = arguments(&function["arguments"]);
                let tasks = input["tasks"].as_array().into_iter().flatten();
                let goals = tasks.chain([&input]).filter_map(|of| of["goal"].as_str());
                let goals = goals.map(|goal| (id.clone(), goal.trim().to_owned()));
                self.delegated.extend(goals);
            }
            shown.push(call.clone());
        }
        shown
    }

    fn result(&mut self, at: Timestamp, call: &str, content: &str) {
        let result: Value = serde_json::from_str(content).unwrap_or_default();
        if self.lists.contains(call) {
            if let Some(plan) = content::plan(&result["todos"], "content") {
                self.chat.builder.update(at, &plan);
            }
            return;
        }
        let code = result["exit_code"].as_i64().unwrap_or(0);
        let error = &result["error"];
        let ok = result["success"] != false && code == 0 && (error.is_null() || error == "");
        let texts = ["output", "content"].map(|name| result[name].as_str());
        let output = texts.into_iter().flatten().next().unwrap_or(content);
        // An error beside the output is a part of it.
        let error = error.as_str().filter(|_| output != content);
        let output = [output, error.unwrap_or_default()].join("\n");
        let output = output.trim_end();
        let builder = &mut self.chat.builder;
        self.chat
            .calls
            .end(builder, at, call, ok, &output.into(), None);
    }
}

/// What the user typed: without the text of a skill and what is recalled from memory.
fn typed(said: &str) -> String {
    let mut said = said.to_owned();
    while let Some((before, rest)) = said.split_once("<memory-context>")
        && let Some((_, after)) = rest.split_once("</memory-context>")
    {
        said = [before, after].concat();
    }
    let is_skill = [
        "[IMPORTANT: The user has invoked the \"",
        "[SYSTEM: The user has invoked the \"",
    ]
    .iter()
    .find_map(|start| said.strip_prefix(start));
    let Some(rest) = is_skill else {
        return said.trim().to_owned();
    };
    let marks = [
        "The user has provided the following instruction alongside the skill invocation: ",
        "\nUser instruction: ",
    ];
    let typed = marks.iter().find_map(|mark| rest.split_once(mark));
    let typed = typed.map(|(_, typed)| {
        let ends = ["\n\n[Runtime note:", "\n\n[Loaded as part of the "];
        let end = ends.iter().filter_map(|end| typed.find(end)).min();
        typed[..end.unwrap_or(typed.len())].trim()
    });
    let skill = rest.split('"').next().unwrap_or_default();
    let command = format!("/{skill} {}", typed.unwrap_or_default());
    command.trim().to_owned()
}

/// The image in a part of a message.
fn image(part: &Value) -> Option<Value> {
    let url = &part["image_url"];
    content::data_image(url["url"].as_str().or(url.as_str())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(texts: &[&str]) -> Vec<HermesMessage> {
        let messages = texts.iter().map(|text| HermesMessage {
            id: String::new(),
            at: Timestamp::from_millis(0),
            role: "user".to_owned(),
            content: (*text).to_owned(),
            calls: String::new(),
            call: String::new(),
            reasoning: Value::Null,
        });
        messages.collect()
    }

    #[test]
    fn copies_of_a_compaction_are_left_out_and_repeated_words_stay() {
        let summary = "[CONTEXT COMPACTION] so far";
        for (stored, shown) in [
            (vec!["a", "b", "a"], vec!["a", "b", "a"]),
            (
                vec!["a", "b", "c", "d", "a", summary, "c", "d", "e", "d"],
                vec!["a", "b", "c", "d", summary, "e", "d"],
            ),
            (vec!["a", "b", summary, "b"], vec!["a", "b", summary]),
            (vec![summary, "a"], vec![summary, "a"]),
            (
                vec!["a", "b", "a", summary, "b", "c", "a", summary, "c", "d"],
                vec!["a", "b", summary, "c", summary, "d"],
            ),
        ] {
            let left = without_copies(messages(&stored));
            let left: Vec<&str> = left.iter().map(|one| one.content.as_str()).collect();
            assert_eq!(left, shown, "{stored:?}");
        }
    }

    #[test]
    fn what_was_typed_with_a_skill_is_the_prompt() {
        let skill = "[IMPORTANT: The user has invoked the \"review\" skill, indicating they want you \
            to follow its instructions.]\n\nBody.";
        let with = format!(
            "{skill}\n\nThe user has provided the following instruction alongside the skill \
             invocation: look at main\n\n[Runtime note: x]"
        );
        for (said, shown) in [
            ("  plain  ", "plain"),
            (skill, "/review"),
            (&with, "/review look at main"),
            ("a <memory-context>old</memory-context>b", "a b"),
        ] {
            assert_eq!(typed(said), shown);
        }
    }
}
