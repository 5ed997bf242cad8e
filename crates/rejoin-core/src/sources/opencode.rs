//! OpenCode: one SQLite database, `opencode.db`, with sessions, their messages, and the messages'
//! parts as JSON.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, params};
use serde_json::{Value, json};

use crate::sys::Timestamp;

use super::content::{self, as_text, diff, text};
use super::conversation::{ConversationBuilder, ToolConversation};
use super::database::open;
use super::subagents::{self, SourceSubagent};
use super::usage::{Spent, number};
use super::{FoundConversation, ToolFolders, tool};

/// The file's name.
pub(super) const DATABASE: &str = "opencode.db";

/// `$XDG_DATA_HOME/opencode`, or `~/.local/share/opencode`, on every system.
pub(super) fn root(places: &ToolFolders) -> PathBuf {
    places
        .folder("XDG_DATA_HOME", ".local/share")
        .join("opencode")
}

/// The conversations. Those of subagents are parts of others.
pub(super) fn find(root: &Path) -> io::Result<Vec<FoundConversation>> {
    let path = root.join(DATABASE);
    let database = match open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        opened => opened?,
    };
    let query = "SELECT id, time_updated FROM session WHERE parent_id IS NULL";
    let found = (|| {
        let mut query = database.prepare(query)?;
        let rows = query.query_map([], |row| {
            Ok(FoundConversation {
                root: root.to_owned(),
                path: path.clone(),
                key: Some(row.get(0)?),
                modified: Timestamp::from_millis(row.get(1)?),
                size: 0,
            })
        })?;
        rows.collect::<rusqlite::Result<Vec<_>>>()
    })();
    found.map_err(io::Error::other)
}

/// A conversation of which [`FoundConversation::key`] is the id.
pub(super) fn read(found: &FoundConversation, limit: i64) -> io::Result<ToolConversation> {
    let database = open(&found.path)?;
    let id = found.key.as_deref().unwrap_or_default();
    of(&database, id, limit).map_err(io::Error::other)
}

/// A conversation; up to the message number `limit`, if that is not negative.
fn of(database: &Connection, id: &str, limit: i64) -> rusqlite::Result<ToolConversation> {
    let (cwd, title): (String, String) = database.query_row(
        "SELECT directory, title FROM session WHERE id = ?",
        params![id],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    let mut messages = OpencodeMessages::read(database, id, limit)?;
    // The title of a session that has none yet.
    if !title.starts_with("New session - ") && !title.starts_with("Child session - ") {
        messages.builder.title(&title);
    }
    let mut conversation = messages.builder.finish(Some(id.to_owned()), Some(cwd));
    let (mut calls, mut damaged) = (messages.subagents, messages.damaged);
    let mut subagents = Vec::new();
    // Subagents may have subagents.
    let mut parents: Vec<String> = (limit < 0).then(|| id.to_owned()).into_iter().collect();
    let mut children =
        database.prepare("SELECT id FROM session WHERE parent_id = ? ORDER BY time_created, id")?;
    while let Some(parent) = parents.pop() {
        let ids = children.query_map(params![parent], |row| row.get(0))?;
        for child in ids.collect::<rusqlite::Result<Vec<String>>>()? {
            if parents.len() + subagents.len() > MOST_SUBAGENTS {
                break;
            }
            let read = OpencodeMessages::read(database, &child, limit)?;
            calls.extend(read.subagents);
            damaged += read.damaged;
            subagents.push(SourceSubagent::new(
                &child,
                calls.get(&child).cloned(),
                read.builder,
            ));
            parents.push(child);
        }
    }
    subagents::merge(&mut conversation, subagents);
    Ok(conversation.counted(0, damaged))
}

/// A session with more subagents than this is one that is its own parent.
const MOST_SUBAGENTS: usize = 10_000;

/// The messages of a session.
#[derive(Debug, Default)]
struct OpencodeMessages {
    builder: ConversationBuilder,
    /// The calls that started subagents, by the subagents' sessions.
    subagents: HashMap<String, String>,
    damaged: usize,
}

impl OpencodeMessages {
    fn read(database: &Connection, id: &str, limit: i64) -> rusqlite::Result<Self> {
        let revert: Option<String> = database.query_row(
            "SELECT revert FROM session WHERE id = ?",
            params![id],
            |row| row.get(0),
        )?;
        // The message from which on the user has taken the conversation back.
        let revert = revert.and_then(|revert| serde_json::from_str::<Value>(&revert).ok());
        let revert = revert.and_then(|revert| revert["messageID"].as_str().map(str::to_owned));
        let mut read = Self::default();
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
            if Some(&message) == revert.as_ref() {
                break;
            }
            let Ok(data) = serde_json::from_str::<Value>(&data) else {
                read.damaged += 1;
                continue;
            };
            let at = read.builder.at(Some(Timestamp::from_millis(created)));
            read.builder.state(&Value::Null, &data["modelID"]);
            if data["role"] == "assistant" {
                read.builder.spent(Some(&message), spent(&data));
            }
            let mut prompt = Vec::new();
            let mut rows = parts.query(params![message])?;
            while let Some(row) = rows.next()? {
                let (id, part): (String, String) = (row.get(0)?, row.get(1)?);
                match serde_json::from_str::<Value>(&part) {
                    Ok(part) if data["role"] == "user" => prompt.extend(user(&part)),
                    Ok(part) => {
                        let started = part["state"]["metadata"]["sessionId"].as_str();
                        if let (Some(child), Some(call)) = (started, part["callID"].as_str()) {
                            read.subagents.insert(child.to_owned(), call.to_owned());
                        }
                        assistant(&mut read.builder, at, &message, &id, &part);
                    }
                    Err(_) => read.damaged += 1,
                }
            }
            read.builder.user(at, Some(&message), prompt);
            match data["error"]["name"].as_str() {
                Some("MessageAbortedError") => read.builder.cancel(),
                Some(name) => {
                    let message = data["error"]["data"]["message"].as_str().unwrap_or(name);
                    read.builder.error(at, None, message);
                }
                None => {}
            }
        }
        Ok(read)
    }
}

/// A part of the user's message, unless the program has added it.
fn user(part: &Value) -> Option<Value> {
    match part["type"].as_str()? {
        "text" if part["synthetic"] == true || part["ignored"] == true => None,
        "text" => Some(text(part["text"].as_str()?)),
        "file" => {
            let url = part["url"].as_str()?;
            let link = || {
                let name = part["filename"].as_str().unwrap_or(url);
                json!({"type": "resource_link", "uri": url, "name": name})
            };
            Some(content::data_image(url).unwrap_or_else(link))
        }
        _ => None,
    }
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
        _ => {}
    }
}

/// A tool call, which is one part with its result.
fn call(builder: &mut ConversationBuilder, at: Timestamp, part: &Value) {
    let (Some(id), Some(name)) = (part["callID"].as_str(), part["tool"].as_str()) else {
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
        let outputs = [&state["output"], &state["error"]];
        let output = outputs.into_iter().find(|output| !output.is_null());
        tool::outcome(name, input, ok, output.unwrap_or(&Value::Null))
    };
    let attached = state["attachments"].as_array().into_iter().flatten();
    let attached = attached.filter_map(|file| content::data_image(file["url"].as_str()?));
    content::attach(&mut update, attached);
    let ended = builder.at(Some(time("end").unwrap_or(began)));
    builder.result(ended, id, ok, update);
}
