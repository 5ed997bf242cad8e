//! Goose: one SQLite database, `sessions.db`, with sessions and their messages, whose content is
//! JSON. Early versions had one file of JSON lines for each session beside it; they were copied into
//! the database later.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, Row, params};
use serde_json::Value;

use crate::sys::Timestamp;

use super::content::{self, as_text, text};
use super::conversation::{ConversationBuilder, ToolConversation};
use super::damage::{self, DamagedPlace};
use super::database::{self, column, open};
use super::subagents::{self, SourceSubagent};
use super::tool::CallsById;
use super::usage::Spent;
use super::{FoundConversation, FoundConversations, ToolFolders, has_extension, lines};

/// The file's name.
const DATABASE: &str = "sessions.db";

/// `$GOOSE_PATH_ROOT/data/sessions`, or `goose/sessions` in `$XDG_DATA_HOME`, or in
/// `~/.local/share`; on Windows `Block/goose/data/sessions` in `%APPDATA%`.
pub(super) fn root(places: &ToolFolders) -> PathBuf {
    let data = match places.variables.get("GOOSE_PATH_ROOT") {
        Some(root) => root.join("data"),
        None if cfg!(windows) => places.settings().join("Block/goose/data"),
        None => places.folder("XDG_DATA_HOME", ".local/share").join("goose"),
    };
    data.join("sessions")
}

/// The conversations. Those of subagents are parts of others.
pub(super) fn find(root: &Path, search: &mut FoundConversations) {
    let path = root.join(DATABASE);
    let mut known = HashSet::new();
    database::find(root, &path, search, |database| {
        let mut own = Vec::new();
        for (id, is_own, modified) in listed(database)? {
            if is_own {
                own.push((id.clone(), modified));
            }
            known.insert(id);
        }
        Ok(own)
    });
    if let Err(error) = find_files(root, &known, &mut search.found)
        && error.kind() != io::ErrorKind::NotFound
    {
        search.errors.push((root.to_owned(), error));
    }
}

/// The files of early versions whose sessions are not in the database.
fn find_files(
    root: &Path,
    known: &HashSet<String>,
    found: &mut Vec<FoundConversation>,
) -> io::Result<()> {
    for file in fs::read_dir(root)? {
        let path = file?.path();
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        let is_new = stem.is_some_and(|stem| !known.contains(stem));
        if !is_new || !has_extension(&path, &["jsonl"]) {
            continue;
        }
        // A link may lead nowhere.
        let Ok(file) = fs::metadata(&path) else {
            continue;
        };
        if file.is_file() {
            found.push(FoundConversation {
                root: root.to_owned(),
                path,
                key: None,
                modified: Timestamp::of_system(file.modified()?),
                size: file.len(),
            });
        }
    }
    Ok(())
}

/// The sessions in the database: their ids, whether they are conversations of their own, and when
/// they were changed.
fn listed(database: &Connection) -> rusqlite::Result<Vec<(String, bool, Timestamp)>> {
    let mut query = database.prepare("SELECT * FROM sessions")?;
    let rows = query.query_map([], |row| {
        let kind = column(row, "session_type");
        let is_own = !matches!(kind.as_deref(), Some("sub_agent" | "hidden"));
        let changed = column(row, "updated_at");
        let changed = changed.and_then(|changed| time(&changed));
        let changed = changed.unwrap_or(Timestamp::from_millis(0));
        Ok((row.get("id")?, is_own, changed))
    })?;
    rows.collect()
}

/// A time in UTC as SQLite writes it.
fn time(text: &str) -> Option<Timestamp> {
    let text = text.replacen(' ', "T", 1);
    Timestamp::parse(&text).or_else(|| Timestamp::parse(&format!("{text}Z")))
}

/// A conversation of which [`FoundConversation::key`] is the id, or that is a file.
pub(super) fn read(found: &FoundConversation, limit: i64) -> io::Result<ToolConversation> {
    match &found.key {
        Some(id) => of(&open(&found.path)?, id, limit).map_err(io::Error::other),
        None => Ok(of_file(found, &super::bytes(&found.path)?)),
    }
}

fn of(database: &Connection, id: &str, limit: i64) -> rusqlite::Result<ToolConversation> {
    let sessions = "SELECT * FROM sessions WHERE id = ?";
    let (cwd, names, model, used, is_archived) =
        database.query_row(sessions, params![id], |row| {
            let names = ["name", "description"].map(|name| column(row, name));
            let model = column(row, "model_config_json");
            let used: Option<i64> = row.get("total_tokens").ok();
            let is_archived = column(row, "archived_at").is_some();
            Ok((column(row, "working_dir"), names, model, used, is_archived))
        })?;
    let mut reader = GooseReader::of(database, id, limit, cwd.as_deref())?;
    if is_archived {
        reader.builder.archive();
    }
    for name in names.into_iter().rev().flatten() {
        reader.builder.title(&name);
    }
    let model = model.and_then(|model| serde_json::from_str::<Value>(&model).ok());
    let size = model.and_then(|model| model["context_limit"].as_u64());
    let used = used.and_then(|used| u64::try_from(used).ok());
    if let (Some(used), Some(size)) = (used, size) {
        reader.builder.usage(used, size);
    }
    let mut conversation = reader.builder.finish(Some(id.to_owned()), cwd);
    // Early versions do not record whose subagent a session is.
    let children = "SELECT id, name FROM sessions WHERE parent_session_id = ? ORDER BY id";
    if limit < 0
        && let Ok(mut children) = database.prepare(children)
    {
        let mut subagents = Vec::new();
        let mut rows = children.query(params![id])?;
        while let Some(row) = rows.next()? {
            let child: String = row.get(0)?;
            let read = GooseReader::of(database, &child, limit, conversation.cwd.as_deref())?;
            let subagent = SourceSubagent::new(&child, None, read.builder);
            let mut subagent = subagent.damaged(read.damage);
            subagent.title = column(row, "name");
            subagents.push(subagent);
        }
        subagents::merge(&mut conversation, subagents);
    }
    Ok(conversation.damaged(reader.damage))
}

/// A file of an early version: a line about the session, and one for each message.
fn of_file(found: &FoundConversation, bytes: &[u8]) -> ToolConversation {
    let lines = lines::objects(bytes);
    let mut reader = GooseReader::default();
    let mut cwd = None;
    for line in &lines.objects {
        if let Some(role) = line["role"].as_str() {
            let created = line["created"].as_i64();
            let (id, content) = (line["id"].as_str(), &line["content"]);
            reader.message(created, id, role, content, &line["metadata"]);
        } else {
            cwd = line["working_dir"].as_str().map(str::to_owned);
            reader.builder.title(&as_text(&line["description"]));
        }
    }
    let id = found.path.file_stem().and_then(|stem| stem.to_str());
    let conversation = reader.builder.finish(id.map(str::to_owned), cwd);
    conversation.damaged(lines.damage)
}

#[derive(Debug, Default)]
struct GooseReader {
    builder: ConversationBuilder,
    calls: CallsById,
    damage: Vec<DamagedPlace>,
}

impl GooseReader {
    /// Reads the messages of a session in the database, up to this number of them if that is not
    /// negative.
    fn of(
        database: &Connection,
        id: &str,
        limit: i64,
        cwd: Option<&str>,
    ) -> rusqlite::Result<Self> {
        let mut reader = Self::default();
        reader.builder.folder(cwd);
        let mut requests = SpentByRequest::of(database, id, limit);
        // Two messages may have been written in another order than that of their times.
        let messages = "SELECT *, iif(created_timestamp > 100000000000, created_timestamp / 1000, created_timestamp) AS seconds
             FROM messages WHERE session_id = ? ORDER BY seconds, id LIMIT ?";
        let mut query = database.prepare(messages)?;
        let mut rows = query.query(params![id, limit])?;
        let mut number = 0;
        while let Some(row) = rows.next()? {
            number += 1;
            let content = column(row, "content_json").unwrap_or_default();
            let (content, kind) = damage::value_or_null(&content);
            reader
                .damage
                .extend(kind.map(|kind| DamagedPlace::of(number, kind)));
            if content.is_null() {
                continue;
            }
            let metadata = column(row, "metadata_json").unwrap_or_default();
            let metadata = serde_json::from_str(&metadata).unwrap_or_default();
            let created: Option<i64> = row.get("seconds").ok();
            let role = column(row, "role").unwrap_or_default();
            let id = column(row, "message_id");
            if role == "user" {
                requests.note_before(created, &mut reader.builder);
            }
            reader.message(created, id.as_deref(), &role, &content, &metadata);
        }
        requests.note_rest(&mut reader.builder);
        Ok(reader)
    }

    fn message(
        &mut self,
        created: Option<i64>,
        id: Option<&str>,
        role: &str,
        content: &Value,
        metadata: &Value,
    ) {
        let created = created.map(|seconds| Timestamp::from_millis(seconds.saturating_mul(1000)));
        let at = self.builder.at(created);
        // What only the model gets, such as the summary of a compaction.
        if metadata["userVisible"] == false {
            return;
        }
        let mut prompt = Vec::new();
        for part in content.as_array().into_iter().flatten() {
            match (part["type"].as_str(), role) {
                (Some("text" | "image"), "user") => prompt.extend(block(part)),
                (Some("text" | "image"), _) => {
                    if let Some(block) = block(part) {
                        self.builder.agent(at, id, block);
                    }
                }
                (Some("thinking"), _) => {
                    let thought = part["thinking"].as_str().unwrap_or_default();
                    self.builder.thought_of(at, id, thought);
                }
                (Some("toolRequest" | "frontendToolRequest"), _) => self.call(at, part),
                (Some("toolResponse"), _) => self.result(at, part),
                (Some("systemNotification" | "conversationCompacted"), _) => {
                    let note = part["msg"].as_str().unwrap_or_default();
                    self.builder.thought(at, None, note);
                }
                (
                    Some(
                        "redactedThinking"
                        | "reasoning"
                        | "toolConfirmationRequest"
                        | "actionRequired"
                        | "contextLengthExceeded"
                        | "summarizationRequested",
                    ),
                    _,
                ) => {}
                (kind, _) => self.builder.unknown(kind),
            }
        }
        self.builder.user(at, id, prompt);
    }

    fn call(&mut self, at: Timestamp, part: &Value) {
        let (Some(id), call) = (part["id"].as_str(), &part["toolCall"]["value"]) else {
            return;
        };
        // Without a value, the model's call was no valid one.
        let name = call["name"].as_str().unwrap_or("invalid");
        let input = call["arguments"].clone();
        let name = tool(name, &input).to_owned();
        let builder = &mut self.builder;
        self.calls.begin(builder, at, id, &name, input, None);
    }

    fn result(&mut self, at: Timestamp, part: &Value) {
        let id = part["id"].as_str().unwrap_or_default();
        let result = &part["toolResult"];
        let value = &result["value"];
        let ok = result["status"] == "success" && value["isError"] != true;
        let parts = value.as_array().or(value["content"].as_array());
        let parts = parts.map(Vec::as_slice).unwrap_or_default();
        // Some tools answer the model and the user differently.
        let is_for_user = |part: &&Value| match audience(part) {
            Some(audience) => audience.iter().any(|who| who == "user"),
            None => true,
        };
        let mut shown: Vec<&Value> = parts.iter().filter(is_for_user).collect();
        if shown.is_empty() {
            shown = parts.iter().collect();
        }
        let texts = shown.iter().filter_map(|part| {
            let resource = part["resource"]["text"].as_str();
            part["text"].as_str().or(resource)
        });
        let mut output = texts.collect::<Vec<_>>().join("\n");
        if !ok && output.is_empty() {
            output = as_text(&result["error"]);
        }
        let images = shown.iter().filter(|part| part["type"] == "image");
        let images = images.filter_map(|part| block(part));
        let builder = &mut self.builder;
        self.calls.end(builder, at, id, ok, &output.into(), images);
    }
}

/// What the requests of a session have cost, which Goose has recorded since version 15 of its database.
/// What earlier ones have cost is known as a sum, which counts in the last turn.
#[derive(Debug, Default)]
struct SpentByRequest {
    /// Of each its number, its time in seconds, its model and its cost, the last one first.
    requests: Vec<(i64, i64, Option<String>, Spent)>,
    rest: Spent,
}

impl SpentByRequest {
    /// The requests of this session; none if only its beginning is read.
    fn of(database: &Connection, id: &str, limit: i64) -> Self {
        if limit >= 0 {
            return Self::default();
        }
        let query = "SELECT * FROM usage_ledger WHERE session_id = ? ORDER BY id DESC";
        let requests = database.prepare(query).and_then(|mut query| {
            let rows = query.query_map([id], |row| {
                let spent = spent_in(row, "");
                Ok((
                    row.get("id")?,
                    row.get("created_timestamp")?,
                    column(row, "model"),
                    spent,
                ))
            })?;
            rows.collect::<rusqlite::Result<Vec<_>>>()
        });
        let requests = requests.unwrap_or_default();
        let sums = "SELECT * FROM sessions WHERE id = ?";
        let sum = database.query_row(sums, [id], |row| Ok(spent_in(row, "accumulated_")));
        let mut known = Spent::default();
        for (.., spent) in &requests {
            known.add(spent);
        }
        let sum = sum.unwrap_or_default();
        let rest = Spent {
            input: sum.input.saturating_sub(known.input),
            output: sum.output.saturating_sub(known.output),
            cached_read: sum.cached_read.saturating_sub(known.cached_read),
            cached_write: sum.cached_write.saturating_sub(known.cached_write),
            thought: 0,
            cost: (sum.cost - known.cost).max(0.0),
        };
        Self { requests, rest }
    }

    /// Notes those that were made before this time; all without a time.
    fn note_before(&mut self, time: Option<i64>, builder: &mut ConversationBuilder) {
        let is_before = |at: i64| time.is_none_or(|time| at < time);
        while let Some((number, _, model, spent)) =
            self.requests.pop_if(|(_, at, ..)| is_before(*at))
        {
            builder.state(&Value::Null, &model.map_or(Value::Null, Value::from));
            builder.spent(Some(&format!("request-{number}")), spent);
        }
    }

    /// Notes the others, and what is known as a sum.
    fn note_rest(mut self, builder: &mut ConversationBuilder) {
        self.note_before(None, builder);
        builder.spent(Some("rest"), self.rest);
    }
}

/// The cost in the columns of a row whose names have this beginning.
fn spent_in(row: &Row<'_>, start: &str) -> Spent {
    let number = |name: &str| {
        let number: Option<i64> = row.get(format!("{start}{name}").as_str()).ok();
        number
            .and_then(|number| u64::try_from(number).ok())
            .unwrap_or(0)
    };
    let (input, output) = (number("input_tokens"), number("output_tokens"));
    let (cached_read, cached_write) = (number("cache_read_tokens"), number("cache_write_tokens"));
    // Most providers count what they have cached as input, too, which the sum shows.
    let cached = cached_read.saturating_add(cached_write);
    let has_cached = number("total_tokens") <= input.saturating_add(output);
    Spent {
        input: if has_cached {
            input.saturating_sub(cached)
        } else {
            input
        },
        output,
        cached_read,
        cached_write,
        thought: 0,
        cost: row.get(format!("{start}cost").as_str()).unwrap_or(0.0),
    }
}

/// For whom a part of a result is meant.
fn audience(part: &Value) -> Option<&Vec<Value>> {
    let annotated = part["annotations"]["audience"].as_array();
    annotated.or(part["audience"].as_array())
}

/// The name of a tool without that of its extension, where that says as much. One tool edits files,
/// and what it does is an argument.
fn tool<'a>(name: &'a str, input: &'a Value) -> &'a str {
    let own = name.strip_prefix("developer__").unwrap_or(name);
    match (own, input["command"].as_str()) {
        ("text_editor", Some(command @ ("view" | "write" | "str_replace" | "insert"))) => command,
        _ => own,
    }
}

fn block(part: &Value) -> Option<Value> {
    if let Some(said) = part["text"].as_str() {
        return Some(text(said));
    }
    let mime_type = part["mimeType"].as_str()?;
    Some(content::image(mime_type, part["data"].as_str()?))
}
