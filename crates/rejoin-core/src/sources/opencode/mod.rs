//! OpenCode: one SQLite database, with sessions and their messages. Up to version 1, the parts of
//! messages have a table of their own. Version 2 has tables of its own, in which a message is one
//! row; the old ones may be beside them, with an older state. Before it had a database, each message was a
//! file (`files.rs`).

mod files;

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension as _, Row, params};
use serde_json::{Value, json};

use crate::sys::Timestamp;

use super::content::{self, as_text, diff, text};
use super::conversation::{ConversationBuilder, ToolConversation};
use super::damage::{self, DamagedPlace};
use super::database::{column, open};
use super::subagents::{self, SourceSubagent};
use super::usage::{Spent, number};
use super::{FoundConversation, FoundConversations, ToolFolders, has_extension, json_file, tool};

/// The names that the file has, by the channel of the release.
const DATABASES: [&str; 4] = [
    "opencode.db",
    "opencode2.db",
    "opencode-stable.db",
    "kilo.db",
];

/// `kilo` in `$XDG_DATA_HOME`, or in `~/.local/share`: Kilo is made from OpenCode.
pub(super) fn kilo_root(places: &ToolFolders) -> PathBuf {
    places.folder("XDG_DATA_HOME", ".local/share").join("kilo")
}

/// `opencode` in `$XDG_DATA_HOME`, or in `~/.local/share`, on every system; or the database that
/// `$OPENCODE_DB` names, whose path may be relative to that folder.
pub(super) fn root(places: &ToolFolders) -> PathBuf {
    let data = places.folder("XDG_DATA_HOME", ".local/share");
    let folder = data.join("opencode");
    match places.variables.get("OPENCODE_DB") {
        Some(database) => folder.join(database),
        None => folder,
    }
}

/// The sessions that the user has pinned in OpenCode.
pub(super) fn pins(places: &ToolFolders) -> HashSet<String> {
    pinned(places, "opencode")
}

/// The sessions that the user has pinned in Kilo.
pub(super) fn kilo_pins(places: &ToolFolders) -> HashSet<String> {
    pinned(places, "kilo")
}

/// The pins of the list of sessions in the terminal, which are in a file of their own: `session.json` in the
/// program's folder in `$XDG_STATE_HOME`, or in `~/.local/state`.
fn pinned(places: &ToolFolders, name: &str) -> HashSet<String> {
    let state = places.folder("XDG_STATE_HOME", ".local/state").join(name);
    let known = json_file(&state.join("session.json"));
    let ids = known["pinned"].as_array().into_iter().flatten();
    ids.filter_map(|id| id.as_str().map(str::to_owned))
        .collect()
}

/// The conversations. Those of subagents are parts of others.
pub(super) fn find(root: &Path, search: &mut FoundConversations) {
    let is_database = has_extension(root, &["db"]) || root.is_file();
    let databases = if is_database {
        vec![root.to_owned()]
    } else {
        DATABASES.map(|name| root.join(name)).into()
    };
    // With those of subagents.
    let (mut known, mut is_readable) = (HashSet::new(), true);
    // A session may have been copied from one database into another.
    let mut latest: HashMap<String, FoundConversation> = HashMap::new();
    for path in databases {
        let listed = match open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            opened => {
                opened.and_then(|database| listed(&database, &mut known).map_err(io::Error::other))
            }
        };
        match listed {
            Ok(listed) => {
                for (id, modified) in listed {
                    let known = latest.get(&id);
                    if known.is_none_or(|known| known.modified < modified) {
                        let found = FoundConversation {
                            root: root.to_owned(),
                            path: path.clone(),
                            key: Some(id.clone()),
                            modified,
                            size: 0,
                        };
                        latest.insert(id, found);
                    }
                }
            }
            Err(error) => {
                is_readable = false;
                search.errors.push((path, error));
            }
        }
    }
    search.found.extend(latest.into_values());
    // What a database that cannot be read now has of the files is not known.
    if !is_database && is_readable {
        files::find(root, &known, search);
    }
}

/// The ids of the sessions that are no subagents', and when they were changed. The ids of all are added to
/// `known`.
fn listed(
    database: &Connection,
    known: &mut HashSet<String>,
) -> rusqlite::Result<Vec<(String, Timestamp)>> {
    let mut in_newer = HashSet::new();
    let mut listed = Vec::new();
    for table in [Tables::V2, Tables::V1] {
        if !table.are_in(database)? {
            continue;
        }
        let query = format!(
            "SELECT id, time_updated, parent_id FROM {}",
            table.sessions()
        );
        let mut query = database.prepare(&query)?;
        let mut rows = query.query([])?;
        while let Some(row) = rows.next()? {
            let (id, modified, parent): (String, i64, Option<String>) =
                (row.get(0)?, row.get(1)?, row.get(2)?);
            known.insert(id.clone());
            if in_newer.insert(id.clone()) && parent.is_none() {
                listed.push((id, Timestamp::from_millis(modified)));
            }
        }
    }
    // A new database has no tables yet.
    Ok(listed)
}

/// A conversation of which [`FoundConversation::key`] is the id.
pub(super) fn read(found: &FoundConversation, limit: i64) -> io::Result<ToolConversation> {
    if has_extension(&found.path, &["json"]) {
        return files::read(found, limit);
    }
    let database = open(&found.path)?;
    let id = found.key.as_deref().unwrap_or_default();
    of(&database, id, limit).map_err(io::Error::other)
}

/// The tables of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tables {
    V1,
    V2,
}

impl Tables {
    /// The table of sessions.
    fn sessions(self) -> &'static str {
        match self {
            Self::V1 => "session",
            Self::V2 => "session_v2",
        }
    }

    /// Whether a database has them.
    fn are_in(self, database: &Connection) -> rusqlite::Result<bool> {
        let query = "SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?)";
        database.query_row(query, [self.sessions()], |row| row.get(0))
    }
}

/// A session without its messages.
#[derive(Debug)]
struct SessionRow {
    tables: Tables,
    cwd: Option<String>,
    title: String,
    is_archived: bool,
    /// The message from which on the user has taken the conversation back.
    revert: Option<String>,
    /// The session that it was forked from, and up to which place there.
    forked: Option<(String, i64)>,
    model: Value,
    /// The sum of its costs.
    spent: Spent,
}

impl SessionRow {
    /// The session in the newer tables that have it.
    fn of(database: &Connection, id: &str) -> rusqlite::Result<Self> {
        for tables in [Tables::V2, Tables::V1] {
            if !tables.are_in(database)? {
                continue;
            }
            let query = format!("SELECT * FROM {} WHERE id = ?", tables.sessions());
            let read = |row: &Row<'_>| Ok(Self::read(database, tables, row));
            if let Some(read) = database.query_row(&query, [id], read).optional()? {
                return Ok(read);
            }
        }
        Err(rusqlite::Error::QueryReturnedNoRows)
    }

    fn read(database: &Connection, tables: Tables, row: &Row<'_>) -> Self {
        let revert = column(row, "revert").map(|revert| json_of(&revert));
        let revert = revert.and_then(|revert| revert["messageID"].as_str().map(str::to_owned));
        // Sessions of early versions, and those that were moved, have only the project's folder.
        let of_project = || {
            let project = column(row, "project_id")?;
            let query = "SELECT worktree FROM project WHERE id = ?";
            let worktree = database.query_row(query, [project], |row| row.get(0));
            worktree.ok().flatten()
        };
        let tokens = |name: &str| {
            let tokens: Option<i64> = row.get(name).ok();
            tokens
                .and_then(|tokens| u64::try_from(tokens).ok())
                .unwrap_or(0)
        };
        let fork = column(row, "fork_session_id");
        let boundary: Option<i64> = row.get("fork_boundary").ok().flatten();
        let archived: Option<i64> = row.get("time_archived").ok().flatten();
        Self {
            tables,
            cwd: column(row, "directory").or_else(of_project),
            title: column(row, "title").unwrap_or_default(),
            is_archived: archived.is_some_and(|at| at > 0),
            revert,
            forked: fork.zip(boundary),
            model: column(row, "model").map_or(Value::Null, |model| json_of(&model)),
            spent: Spent {
                input: tokens("tokens_input"),
                output: tokens("tokens_output"),
                thought: tokens("tokens_reasoning"),
                cached_read: tokens("tokens_cache_read"),
                cached_write: tokens("tokens_cache_write"),
                cost: row.get("cost").unwrap_or(0.0),
            },
        }
    }
}

/// A value that is written as JSON, or null.
fn json_of(text: &str) -> Value {
    damage::value_or_null(text).0
}

/// A conversation; up to the message number `limit`, if that is not negative.
fn of(database: &Connection, id: &str, limit: i64) -> rusqlite::Result<ToolConversation> {
    let session = SessionRow::of(database, id)?;
    let mut messages = OpencodeMessages::read(database, id, &session, limit)?;
    messages.builder.title(&session.title);
    if session.is_archived {
        messages.builder.archive();
    }
    let mut conversation = messages.builder.finish(Some(id.to_owned()), session.cwd);
    let (mut calls, mut damage) = (messages.subagents, messages.damage);
    let mut subagents = Vec::new();
    // Subagents may have subagents.
    let mut parents: Vec<String> = (limit < 0).then(|| id.to_owned()).into_iter().collect();
    let mut children = database.prepare(&format!(
        "SELECT id FROM {} WHERE parent_id = ? ORDER BY time_created, id",
        session.tables.sessions()
    ))?;
    while let Some(parent) = parents.pop() {
        let ids = children.query_map(params![parent], |row| row.get(0))?;
        for child in ids.collect::<rusqlite::Result<Vec<String>>>()? {
            if parents.len() + subagents.len() > MOST_SUBAGENTS {
                break;
            }
            let session = SessionRow::of(database, &child)?;
            let read = OpencodeMessages::read(database, &child, &session, limit)?;
            calls.extend(read.subagents);
            damage.extend(read.damage);
            subagents.push(SourceSubagent::new(
                &child,
                calls.get(&child).cloned(),
                read.builder,
            ));
            parents.push(child);
        }
    }
    subagents::merge(&mut conversation, subagents);
    Ok(conversation.damaged(damage))
}

/// A session with more subagents than this is one that is its own parent.
const MOST_SUBAGENTS: usize = 10_000;

/// The most forks of forks.
const MOST_FORKS: usize = 100;

/// The messages of a session.
#[derive(Debug, Default)]
struct OpencodeMessages {
    builder: ConversationBuilder,
    /// The calls that started subagents, by the subagents' sessions.
    subagents: HashMap<String, String>,
    damage: Vec<DamagedPlace>,
    /// How many rows were read.
    rows: usize,
    /// Whether an answer says what it has cost.
    has_cost: bool,
}

impl OpencodeMessages {
    fn read(
        database: &Connection,
        id: &str,
        session: &SessionRow,
        limit: i64,
    ) -> rusqlite::Result<Self> {
        let mut read = Self::default();
        read.builder.folder(session.cwd.as_deref());
        match session.tables {
            Tables::V1 => read.read_v1(database, id, session, limit)?,
            Tables::V2 => {
                read.builder.state(&Value::Null, &session.model["id"]);
                read.read_v2(database, id, session, limit)?;
                if !read.has_cost {
                    // The sums are those of the last turn.
                    read.builder.spent(None, session.spent);
                }
            }
        }
        Ok(read)
    }

    fn read_v1(
        &mut self,
        database: &Connection,
        id: &str,
        session: &SessionRow,
        limit: i64,
    ) -> rusqlite::Result<()> {
        let mut messages = database.prepare(
            "SELECT id, data, time_created FROM message WHERE session_id = ?
             ORDER BY time_created, id LIMIT ?",
        )?;
        let mut parts = database
            .prepare("SELECT id, data FROM part WHERE message_id = ? ORDER BY time_created, id")?;
        let mut rows = messages.query(params![id, limit])?;
        while let Some(row) = rows.next()? {
            let (message, data, created): (String, String, i64) =
                (row.get(0)?, row.get(1)?, row.get(2)?);
            if Some(&message) == session.revert.as_ref() {
                break;
            }
            let Some(data) = self.value(&data) else {
                continue;
            };
            let mut found = Vec::new();
            let mut rows = parts.query(params![message])?;
            while let Some(row) = rows.next()? {
                let (id, part): (String, String) = (row.get(0)?, row.get(1)?);
                found.extend(self.value(&part).map(|part| (id, part)));
            }
            let created = Timestamp::from_millis(created);
            self.message_v1(Some(created), &message, &data, found);
        }
        Ok(())
    }

    /// A message of version 1 with its parts.
    fn message_v1(
        &mut self,
        created: Option<Timestamp>,
        message: &str,
        data: &Value,
        parts: Vec<(String, Value)>,
    ) {
        let at = self.builder.at(created);
        self.builder.state(&Value::Null, &data["modelID"]);
        if data["role"] == "assistant" {
            self.builder.spent(Some(message), spent(data));
        }
        let mut prompt = Vec::new();
        for (id, part) in parts {
            if data["role"] == "user" {
                prompt.extend(user(&part));
            } else {
                self.part(at, message, &id, &part);
            }
        }
        self.builder.user(at, Some(message), prompt);
        self.error(at, &data["error"]);
    }

    /// A value in a row, or its damage.
    fn value(&mut self, text: &str) -> Option<Value> {
        self.rows += 1;
        let (value, kind) = match damage::value(text) {
            Ok((value, kind)) => (Some(value), kind),
            Err(kind) => (None, Some(kind)),
        };
        let row = self.rows;
        self.damage
            .extend(kind.map(|kind| DamagedPlace::of(row, kind)));
        value
    }

    /// A part of an answer.
    fn part(&mut self, at: Timestamp, message: &str, id: &str, part: &Value) {
        let state = &part["state"];
        let started = [&state["metadata"], &state["structured"]];
        let started = started.into_iter().find_map(|of| of["sessionId"].as_str());
        if let (Some(child), Some(call)) = (started, call_id(part)) {
            self.subagents.insert(child.to_owned(), call.to_owned());
        }
        assistant(&mut self.builder, at, message, id, part);
    }

    /// The error with which an answer has ended.
    fn error(&mut self, at: Timestamp, error: &Value) {
        match error["name"].as_str().or(error["type"].as_str()) {
            Some("MessageAbortedError" | "aborted") => self.builder.cancel(),
            Some(name) => {
                let messages = [&error["data"]["message"], &error["message"]];
                let message = messages.into_iter().find_map(Value::as_str);
                self.builder.error(at, None, message.unwrap_or(name));
            }
            None => {}
        }
    }

    /// The messages of a session of version 2, in which a fork may go on from the rows of the session
    /// that it was made from.
    fn read_v2(
        &mut self,
        database: &Connection,
        id: &str,
        session: &SessionRow,
        limit: i64,
    ) -> rusqlite::Result<()> {
        let place = |message: &str| {
            let query = "SELECT seq FROM session_message WHERE session_id = ? AND id = ?";
            database
                .query_row(query, [id, message], |row| row.get::<_, i64>(0))
                .optional()
        };
        let end = session.revert.as_deref().map(place).transpose()?.flatten();
        let mut of_sessions = vec![(id.to_owned(), end.unwrap_or(i64::MAX))];
        let mut forked = session.forked.clone();
        while let Some((from, boundary)) = forked.take().filter(|_| of_sessions.len() < MOST_FORKS)
        {
            let fork = of_sessions.last().map(|(id, _)| id.clone());
            let query =
                "SELECT EXISTS (SELECT 1 FROM session_message WHERE session_id = ? AND seq <= ?)";
            let has_copies: bool =
                database.query_row(query, params![fork, boundary], |row| row.get(0))?;
            if has_copies {
                break;
            }
            let before = SessionRow::of(database, &from).ok();
            forked = before.and_then(|before| before.forked);
            of_sessions.push((from, boundary.saturating_add(1)));
        }
        let mut messages = database.prepare(
            "SELECT id, type, data, time_created FROM session_message
             WHERE session_id = ? AND seq < ? ORDER BY seq, time_created, id LIMIT ?",
        )?;
        for (session, end) in of_sessions.into_iter().rev() {
            let mut rows = messages.query(params![session, end, limit])?;
            while let Some(row) = rows.next()? {
                let (message, kind, data): (String, String, String) =
                    (row.get(0)?, row.get(1)?, row.get(2)?);
                let created: Option<i64> = row.get(3)?;
                let at = self.builder.at(created.map(Timestamp::from_millis));
                if let Some(data) = self.value(&data) {
                    self.message_v2(at, &message, &kind, &data);
                }
            }
        }
        Ok(())
    }

    /// A message of version 2, which has its parts.
    fn message_v2(&mut self, at: Timestamp, message: &str, kind: &str, data: &Value) {
        match kind {
            "user" => {
                let mut blocks: Vec<Value> = data["text"].as_str().map(text).into_iter().collect();
                let files = data["files"].as_array().into_iter().flatten();
                blocks.extend(files.filter_map(file));
                self.builder.user(at, Some(message), blocks);
            }
            "assistant" => {
                self.builder.state(&Value::Null, &data["model"]["id"]);
                let spent = spent(data);
                self.has_cost |= spent != Spent::default();
                self.builder.spent(Some(message), spent);
                let parts = data["content"].as_array().into_iter().flatten();
                for (place, part) in parts.enumerate() {
                    self.part(at, message, &format!("{message}-{place}"), part);
                }
                self.error(at, &data["error"]);
            }
            "shell" => {
                let command = as_text(&data["command"]);
                let prompt = text(&format!("!{command}"));
                self.builder.user(at, Some(message), vec![prompt]);
                if let Some(output) = content::console(&as_text(&data["output"])) {
                    self.builder.agent(at, None, output["content"].clone());
                }
            }
            "compaction" => self
                .builder
                .thought(at, Some(message), &as_text(&data["summary"])),
            "model-switched" => self.builder.state(&Value::Null, &data["model"]["id"]),
            // About the program, or its words to the model.
            "system" | "synthetic" | "agent-switched" | "location-switched" | "idle" => {}
            kind => self.builder.unknown(Some(kind)),
        }
    }
}

/// The id of a tool call.
fn call_id(part: &Value) -> Option<&str> {
    part["callID"].as_str().or(part["id"].as_str())
}

/// A part of the user's message, unless the program has added it.
fn user(part: &Value) -> Option<Value> {
    match part["type"].as_str()? {
        "text" if part["synthetic"] == true || part["ignored"] == true => None,
        "text" => Some(text(part["text"].as_str()?)),
        "file" => file(part),
        _ => None,
    }
}

/// A file that is attached to a message.
fn file(part: &Value) -> Option<Value> {
    let url = part["url"].as_str().or(part["uri"].as_str())?;
    let link = || {
        let name = part["filename"].as_str().or(part["name"].as_str());
        json!({"type": "resource_link", "uri": url, "name": name.unwrap_or(url)})
    };
    Some(content::data_image(url).unwrap_or_else(link))
}

fn spent(message: &Value) -> Spent {
    let tokens = &message["tokens"];
    Spent {
        input: number(&tokens["input"]),
        output: number(&tokens["output"]),
        thought: number(&tokens["reasoning"]),
        cached_read: number(&tokens["cache"]["read"]),
        cached_write: number(&tokens["cache"]["write"]),
        cost: message["cost"].as_f64().unwrap_or(0.0),
    }
}

fn assistant(
    builder: &mut ConversationBuilder,
    at: Timestamp,
    message: &str,
    id: &str,
    part: &Value,
) {
    let time = |value: &Value| value.as_i64().map(Timestamp::from_millis);
    let began = time(&part["time"]["start"]).unwrap_or(at);
    match part["type"].as_str() {
        Some("text") if part["synthetic"] != true && part["ignored"] != true => {
            let began = builder.at(Some(began));
            let said = part["text"].as_str().unwrap_or_default();
            builder.agent(began, Some(message), text(said));
        }
        Some("reasoning") => {
            let began = builder.at(Some(began));
            builder.thought(began, Some(id), part["text"].as_str().unwrap_or_default());
        }
        Some("tool") => call(builder, at, part),
        // Words of the program to the model, and what it notes for itself.
        Some(
            "text" | "file" | "agent" | "subtask" | "compaction" | "patch" | "retry" | "snapshot"
            | "step-start" | "step-finish",
        ) => {}
        kind => builder.unknown(kind),
    }
}

/// A tool call, which is one part with its result.
fn call(builder: &mut ConversationBuilder, at: Timestamp, part: &Value) {
    let name = part["tool"].as_str().or(part["name"].as_str());
    let (Some(id), Some(name)) = (call_id(part), name) else {
        return;
    };
    let state = &part["state"];
    let input = &state["input"];
    let time = |name: &str| state["time"][name].as_i64().map(Timestamp::from_millis);
    let began = builder.at(Some(time("start").unwrap_or(at)));
    if name == "todowrite" {
        if let Some(plan) = content::plan(&input["todos"], "content") {
            builder.update(began, &plan);
        }
        return;
    }
    let mut call = tool::call(id, name, name, input);
    if let (Some(title), true) = (state["title"].as_str(), call.title == name)
        && !title.is_empty()
    {
        title.clone_into(&mut call.title);
    }
    builder.call(began, call);
    let metadata = &state["metadata"];
    let exit = metadata["exit"].as_i64();
    let ok = match state["status"].as_str() {
        Some("completed") => exit.is_none_or(|code| code == 0) && name != "invalid",
        Some("error") => false,
        // The call was never finished.
        _ => return,
    };
    let file = &metadata["filediff"];
    let change = match (file["before"].as_str(), file["after"].as_str()) {
        (Some(before), Some(after)) if ok => {
            let path = as_text(&file["file"]);
            Some(diff(&path, Some(before), after))
        }
        _ => None,
    };
    let mut update = if let Some(change) = change {
        json!({ "content": [change] })
    } else {
        let outputs = [
            &state["output"],
            &state["error"]["message"],
            &state["error"],
        ];
        let output = outputs.into_iter().find(|output| !output.is_null());
        // In version 2, it may be in parts.
        let parts = state["content"].as_array().into_iter().flatten();
        let parts = parts.filter_map(|part| part["text"].as_str());
        let output = output.cloned();
        let output = output.unwrap_or_else(|| parts.collect::<Vec<_>>().join("\n").into());
        tool::outcome(name, input, ok, &output)
    };
    let attached = [&state["attachments"], &state["content"]].into_iter();
    let attached = attached.filter_map(Value::as_array).flatten();
    let attached = attached
        .filter_map(|file| content::data_image(file["url"].as_str().or(file["uri"].as_str())?));
    content::attach(&mut update, attached);
    let ended = builder.at(Some(time("end").unwrap_or(began)));
    builder.result(ended, id, ok, update);
}
