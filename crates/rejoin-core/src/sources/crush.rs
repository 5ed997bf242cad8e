//! Crush: a SQLite database, `crush.db`, for each project, in a folder that the list of projects
//! names.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, params};
use serde_json::Value;

use crate::sys::Timestamp;

use super::content::{self, as_text, text};
use super::conversation::{ConversationBuilder, ToolConversation};
use super::damage::{self, DamagedPlace};
use super::database::{self, column, open};
use super::subagents::{self, SourceSubagent};
use super::tool::{CallsById, arguments};
use super::updates::link;
use super::usage::Spent;
use super::{FoundConversation, FoundConversations, ToolFolders};

/// `$CRUSH_GLOBAL_DATA`, or `crush` in `$XDG_DATA_HOME` or `~/.local/share`, on Windows in
/// `%LOCALAPPDATA%`: the folder with the list of projects.
pub(super) fn root(places: &ToolFolders) -> PathBuf {
    if let Some(named) = places.variables.get("CRUSH_GLOBAL_DATA") {
        return named.clone();
    }
    let data = if cfg!(windows) && !places.variables.contains_key("XDG_DATA_HOME") {
        places.folder("LOCALAPPDATA", "AppData/Local")
    } else {
        places.folder("XDG_DATA_HOME", ".local/share")
    };
    data.join("crush")
}

/// The folders of the projects, and where the database of each is.
fn projects(root: &Path) -> Vec<(String, PathBuf)> {
    let list = super::json_file(&root.join("projects.json"));
    let projects = list["projects"].as_array().into_iter().flatten();
    let projects = projects.filter_map(|project| {
        let folder = project["path"].as_str()?;
        let data = Path::new(project["data_dir"].as_str()?).join("crush.db");
        Some((folder.to_owned(), data))
    });
    projects.collect()
}

/// The sessions of all projects. Those of subagents are parts of others.
pub(super) fn find(root: &Path, search: &mut FoundConversations) {
    let mut databases: Vec<PathBuf> = projects(root).into_iter().map(|(_, path)| path).collect();
    databases.sort();
    databases.dedup();
    for path in databases {
        database::find(root, &path, search, |database| {
            let sessions = "SELECT id, updated_at FROM sessions \
                WHERE parent_session_id IS NULL OR parent_session_id = ''";
            let mut query = database.prepare(sessions)?;
            let rows = query.query_map([], |row| Ok((row.get(0)?, time(row.get(1)?))))?;
            rows.collect()
        });
    }
}

/// A time in seconds, or in milliseconds as early versions have some.
fn time(number: i64) -> Timestamp {
    let is_seconds = number < 100_000_000_000;
    Timestamp::from_millis(if is_seconds { number * 1000 } else { number })
}

/// A session of which [`FoundConversation::key`] is the id.
pub(super) fn read(found: &FoundConversation, limit: i64) -> io::Result<ToolConversation> {
    let id = found.key.as_deref().unwrap_or_default();
    let mut projects = projects(&found.root).into_iter();
    let cwd = projects.find(|(_, path)| *path == found.path);
    let cwd = cwd.map(|(folder, _)| folder);
    of(&open(&found.path)?, id, cwd, limit).map_err(io::Error::other)
}

fn of(
    database: &Connection,
    id: &str,
    cwd: Option<String>,
    limit: i64,
) -> rusqlite::Result<ToolConversation> {
    let session = "SELECT title, prompt_tokens, completion_tokens, cost FROM sessions WHERE id = ?";
    let (title, spent) = database.query_row(session, params![id], |row| {
        let number = |at: usize| {
            let number: i64 = row.get(at).unwrap_or(0);
            u64::try_from(number).unwrap_or(0)
        };
        let spent = Spent {
            input: number(1),
            output: number(2),
            cost: row.get(3).unwrap_or(0.0),
            ..Spent::default()
        };
        Ok((column(row, "title"), spent))
    })?;
    let mut reader = CrushReader::of(database, id, cwd.as_deref(), limit)?;
    // Crush knows only the sums of a session: they are those of its last turn.
    reader.builder.spent(None, spent);
    reader.builder.title(title.as_deref().unwrap_or_default());
    let mut conversation = reader.builder.finish(Some(id.to_owned()), cwd);
    if limit < 0 {
        let children =
            "SELECT id, title FROM sessions WHERE parent_session_id = ? ORDER BY created_at";
        let mut query = database.prepare(children)?;
        let mut rows = query.query(params![id])?;
        let mut subagents = Vec::new();
        while let Some(row) = rows.next()? {
            let child: String = row.get(0)?;
            let folder = conversation.cwd.as_deref();
            let read = CrushReader::of(database, &child, folder, limit)?;
            // The id has the message and the call that started it.
            let call = child.split_once("$$").map(|(_, call)| call.to_owned());
            let subagent = SourceSubagent::new(&child, call, read.builder);
            let mut subagent = subagent.damaged(read.damage);
            subagent.title = column(row, "title");
            subagents.push(subagent);
        }
        subagents::merge(&mut conversation, subagents);
    }
    Ok(conversation.damaged(reader.damage))
}

#[derive(Debug, Default)]
struct CrushReader {
    builder: ConversationBuilder,
    calls: CallsById,
    damage: Vec<DamagedPlace>,
}

impl CrushReader {
    /// Reads the messages of a session, up to this number of them if that is not negative.
    fn of(
        database: &Connection,
        id: &str,
        cwd: Option<&str>,
        limit: i64,
    ) -> rusqlite::Result<Self> {
        let mut reader = Self::default();
        reader.builder.folder(cwd);
        let messages =
            "SELECT * FROM messages WHERE session_id = ? ORDER BY created_at, rowid LIMIT ?";
        let mut query = database.prepare(messages)?;
        let mut rows = query.query(params![id, limit])?;
        let mut number = 0;
        while let Some(row) = rows.next()? {
            number += 1;
            let parts = column(row, "parts").unwrap_or_default();
            let (parts, kind) = damage::value_or_null(&parts);
            reader
                .damage
                .extend(kind.map(|kind| DamagedPlace::of(number, kind)));
            let created: i64 = row.get("created_at").unwrap_or(0);
            let at = reader.builder.at(Some(time(created)));
            let model = column(row, "model").map_or(Value::Null, Value::String);
            reader.builder.state(&Value::Null, &model);
            let is_summary: i64 = row.get("is_summary_message").unwrap_or(0);
            let role = column(row, "role").unwrap_or_default();
            let id = column(row, "id");
            reader.message(at, id.as_deref(), &role, is_summary != 0, &parts);
        }
        Ok(reader)
    }

    fn message(
        &mut self,
        at: Timestamp,
        id: Option<&str>,
        role: &str,
        is_summary: bool,
        parts: &Value,
    ) {
        let mut prompt = Vec::new();
        for part in parts.as_array().into_iter().flatten() {
            let data = &part["data"];
            let said = data["text"].as_str().unwrap_or_default();
            match (part["type"].as_str().unwrap_or_default(), role) {
                ("text", _) if is_summary => self.builder.thought(at, id, said),
                ("text", "user") if !said.is_empty() => prompt.push(text(said)),
                ("text", "user") => {}
                ("text", _) => self.builder.agent(at, id, text(said)),
                ("reasoning", _) => {
                    self.builder.thought_of(at, id, &as_text(&data["thinking"]));
                }
                ("binary", "user") => prompt.extend(attached(data)),
                ("image_url", "user") => {
                    prompt.extend(content::data_image(&as_text(&data["url"])));
                }
                ("shell_command", _) => {
                    prompt.push(text(&format!("!{}", as_text(&data["command"]))));
                    let output = content::console(&as_text(&data["output"]));
                    self.builder.user(at, id, std::mem::take(&mut prompt));
                    if let Some(output) = output {
                        self.builder.agent(at, None, output["content"].clone());
                    }
                }
                ("tool_call", _) => self.call(at, data),
                ("tool_result", _) => self.result(at, data),
                ("finish", _) => self.finished(at, data),
                (kind, _) => self.builder.unknown(Some(kind)),
            }
        }
        self.builder.user(at, id, prompt);
    }

    fn call(&mut self, at: Timestamp, call: &Value) {
        let (Some(id), Some(name)) = (call["id"].as_str(), call["name"].as_str()) else {
            return;
        };
        let input = arguments(&call["input"]);
        if name == "todos"
            && let Some(plan) = content::plan(&input["todos"], "content")
        {
            self.builder.update(at, &plan);
            return;
        }
        self.calls
            .begin(&mut self.builder, at, id, name, input, None);
    }

    fn result(&mut self, at: Timestamp, result: &Value) {
        let id = as_text(&result["tool_call_id"]);
        let ok = result["is_error"] != true;
        let mime_type = as_text(&result["mime_type"]);
        let data = result["data"]
            .as_str()
            .filter(|_| mime_type.starts_with("image/"));
        let image = data.map(|data| content::image(&mime_type, data));
        // Both sides of an edit are for the user.
        let about = arguments(&result["metadata"]);
        let (old, new) = (&about["old_content"], &about["new_content"]);
        let calls = &self.calls;
        if let (Some(path), Some(new), true) = (calls.path(&id), new.as_str(), ok) {
            let old = old.as_str().filter(|old| !old.is_empty());
            let change = content::diff(path, old, new);
            return self
                .builder
                .result(at, &id, ok, content::outcome(vec![change]));
        }
        calls.end(&mut self.builder, at, &id, ok, &result["content"], image);
    }

    fn finished(&mut self, at: Timestamp, finish: &Value) {
        match finish["reason"].as_str() {
            Some("canceled") => self.builder.cancel(),
            Some("error" | "content_filter") => {
                let parts = [as_text(&finish["message"]), as_text(&finish["details"])];
                let parts: Vec<_> = parts.iter().filter(|part| !part.is_empty()).collect();
                let message = parts.iter().map(|part| part.as_str()).collect::<Vec<_>>();
                self.builder.error(at, None, &message.join(": "));
            }
            _ => {}
        }
    }
}

/// A file that was put to a prompt: an image, or a link.
fn attached(file: &Value) -> Option<Value> {
    let mime_type = file["MIMEType"].as_str().unwrap_or_default();
    if mime_type.starts_with("image/")
        && let Some(data) = file["Data"].as_str()
    {
        return Some(content::image(mime_type, data));
    }
    file["Path"].as_str().map(link)
}
