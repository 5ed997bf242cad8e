//! Zed: threads of its own agent in one SQLite database, `threads.db`, each an object of JSON,
//! mostly compressed. Threads with other agents are at those.

use std::io::{self, Read};
use std::path::PathBuf;

use rusqlite::{Connection, params};
use ruzstd::decoding::StreamingDecoder;
use serde_json::Value;

use crate::sys::Timestamp;

use super::content::{self, as_text, text};
use super::conversation::{ConversationBuilder, ToolConversation, UNNAMED};
use super::damage::{self, DamageKind, DamagedPlace};
use super::database::{self, column, open};
use super::subagents::{self, SourceSubagent};
use super::tool::CallsById;
use super::updates::link;
use super::usage::{Spent, number};
use super::{FoundConversation, FoundConversations, ToolFolders};

/// `zed/threads` in `$XDG_DATA_HOME` or `~/.local/share`, or Zed's folder on macOS and Windows.
pub(super) fn root(places: &ToolFolders) -> PathBuf {
    let data = if cfg!(target_os = "macos") {
        places.home.join("Library/Application Support/Zed")
    } else if cfg!(windows) {
        places.folder("LOCALAPPDATA", "AppData/Local").join("Zed")
    } else {
        places.folder("XDG_DATA_HOME", ".local/share").join("zed")
    };
    data.join("threads")
}

/// The threads. Those of subagents are parts of others.
pub(super) fn find(root: &std::path::Path, search: &mut FoundConversations) {
    let path = root.join("threads.db");
    database::find(root, &path, search, |database| {
        let mut query = database.prepare("SELECT * FROM threads")?;
        let rows = query.query_map([], |row| {
            let changed = column(row, "updated_at").unwrap_or_default();
            let changed = Timestamp::parse(&changed).unwrap_or(Timestamp::from_millis(0));
            let is_own = column(row, "parent_id").is_none();
            Ok(is_own.then_some((row.get("id")?, changed)))
        })?;
        rows.filter_map(Result::transpose).collect()
    });
}

/// A thread of which [`FoundConversation::key`] is the id. Each is read as a whole.
pub(super) fn read(found: &FoundConversation, _: i64) -> io::Result<ToolConversation> {
    let id = found.key.as_deref().unwrap_or_default();
    let database = open(&found.path)?;
    let read = thread(&database, id).map_err(io::Error::other)?;
    let mut conversation = read.builder.finish(Some(id.to_owned()), read.cwd);
    let subagents = subagents_of(&database, id).unwrap_or_default();
    subagents::merge(&mut conversation, subagents);
    Ok(conversation.damaged(read.damage))
}

/// The subagents of a thread. Early versions do not record whose subagent a thread is.
fn subagents_of(database: &Connection, id: &str) -> rusqlite::Result<Vec<SourceSubagent>> {
    let children = "SELECT id FROM threads WHERE parent_id = ? ORDER BY created_at, id";
    let mut query = database.prepare(children)?;
    let ids: Vec<String> = query
        .query_map(params![id], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    let read = ids.into_iter().map(|id| {
        let read = thread(database, &id)?;
        let mut subagent = SourceSubagent::new(&id, None, read.builder).damaged(read.damage);
        subagent.title = read.title;
        Ok(subagent)
    });
    read.collect()
}

/// The longest thread that is read, in bytes.
const LONGEST: u64 = 1 << 30;

fn thread(database: &Connection, id: &str) -> rusqlite::Result<ZedReader> {
    let query = "SELECT * FROM threads WHERE id = ?";
    let (data, kind, title, began, ended, folders) =
        database.query_row(query, params![id], |row| {
            let times = ["created_at", "updated_at"].map(|name| {
                let time = column(row, name).unwrap_or_default();
                Timestamp::parse(&time)
            });
            Ok((
                bytes(row)?,
                column(row, "data_type"),
                column(row, "summary"),
                times[0],
                times[1],
                column(row, "folder_paths"),
            ))
        })?;
    let (data, is_whole) = match kind.as_deref() {
        Some("zstd") => decompressed(&data),
        _ => (data, true),
    };
    let mut reader = ZedReader {
        cwd: folders.and_then(|folders| folders.lines().next().map(str::to_owned)),
        title,
        ..ZedReader::default()
    };
    let (thread, kind) = damage::value_or_null(&String::from_utf8_lossy(&data));
    let kind = kind.or((!is_whole).then_some(DamageKind::Torn));
    reader
        .damage
        .extend(kind.map(|kind| DamagedPlace::of(1, kind)));
    let folder = || {
        thread["initial_project_snapshot"]["worktree_snapshots"][0]["worktree_path"]
            .as_str()
            .map(str::to_owned)
    };
    reader.cwd = reader.cwd.or_else(folder);
    reader.builder.folder(reader.cwd.as_deref());
    reader
        .builder
        .state(&Value::Null, &thread["model"]["model"]);
    // Messages have no times.
    reader.builder.at(began.or(ended));
    let messages = thread["messages"].as_array();
    let messages = messages.map(Vec::as_slice).unwrap_or_default();
    for (number, message) in messages.iter().enumerate() {
        if number + 1 == messages.len() {
            reader.builder.at(ended);
        }
        reader.message(message, &thread["request_token_usage"]);
    }
    if let Some(title) = &reader.title {
        reader.builder.title(title);
    }
    Ok(reader)
}

/// What a row has of a thread, as text or as bytes.
fn bytes(row: &rusqlite::Row<'_>) -> rusqlite::Result<Vec<u8>> {
    let data = row.get_ref("data")?;
    Ok(data.as_bytes_or_null()?.unwrap_or_default().to_owned())
}

/// What was compressed, as far as possible, and whether that is all of it.
fn decompressed(data: &[u8]) -> (Vec<u8>, bool) {
    let mut plain = Vec::new();
    let decoder = StreamingDecoder::new(data);
    let decoded = decoder.map(|decoder| decoder.take(LONGEST).read_to_end(&mut plain));
    let is_whole = decoded.is_ok_and(|read| read.is_ok_and(|len| (len as u64) < LONGEST));
    (plain, is_whole)
}

#[derive(Debug, Default)]
struct ZedReader {
    builder: ConversationBuilder,
    calls: CallsById,
    cwd: Option<String>,
    title: Option<String>,
    damage: Vec<DamagedPlace>,
    messages: usize,
}

impl ZedReader {
    fn message(&mut self, message: &Value, usage: &Value) {
        self.messages += 1;
        let at = self.builder.at(None);
        if let Some(user) = message.get("User") {
            let id = user["id"].as_str();
            let blocks = user["content"].as_array().into_iter().flatten();
            let blocks: Vec<Value> = blocks.filter_map(|part| self.user_block(part)).collect();
            self.builder.user(at, id, blocks);
            if let Some(usage) = id.and_then(|id| usage.get(id)) {
                self.builder.spent(id, spent(usage));
            }
        } else if let Some(agent) = message.get("Agent") {
            self.agent(at, agent);
        } else if let Some(compaction) = message.get("Compaction") {
            let summary = compaction.get("Summary").unwrap_or(compaction);
            self.builder
                .thought(at, None, summary.as_str().unwrap_or_default());
        } else if let Some(role) = message["role"].as_str() {
            self.early(at, role, message);
        } else if message != "Resume" {
            self.builder.unknown(kind_of(message));
        }
    }

    fn user_block(&mut self, part: &Value) -> Option<Value> {
        if let Some(said) = part["Text"].as_str() {
            return (!said.is_empty()).then(|| text(said));
        }
        if let Some(source) = part["Image"]["source"].as_str() {
            return Some(image(source));
        }
        let Some(mention) = part.get("Mention") else {
            self.builder.unknown(kind_of(part));
            return None;
        };
        Some(match path_in(&mention["uri"]) {
            Some(path) => link(path),
            None => text(mention["content"].as_str()?),
        })
    }

    fn agent(&mut self, at: Timestamp, agent: &Value) {
        let id = format!("{UNNAMED}message_{}", self.messages);
        let id = Some(id.as_str());
        for part in agent["content"].as_array().into_iter().flatten() {
            if let Some(said) = part["Text"].as_str() {
                self.builder.agent(at, id, text(said));
            } else if let Some(thinking) = part.get("Thinking") {
                self.builder.thought_of(at, id, &as_text(&thinking["text"]));
            } else if let Some(call) = part.get("ToolUse") {
                self.call(at, call);
            } else if part.get("RedactedThinking").is_none() {
                self.builder.unknown(kind_of(part));
            }
        }
        for (id, result) in agent["tool_results"].as_object().into_iter().flatten() {
            self.result(at, id, result);
        }
    }

    fn call(&mut self, at: Timestamp, call: &Value) {
        let (Some(id), Some(name)) = (call["id"].as_str(), call["name"].as_str()) else {
            return;
        };
        let input = call["input"].clone();
        self.calls
            .begin(&mut self.builder, at, id, name, input, None);
    }

    fn result(&mut self, at: Timestamp, id: &str, result: &Value) {
        let parts = match &result["content"] {
            Value::Array(parts) => parts.as_slice(),
            part => std::slice::from_ref(part),
        };
        let said = |part: &Value| {
            let texts = [part, &part["Text"], &part["text"]];
            texts
                .iter()
                .find_map(|text| text.as_str().map(str::to_owned))
        };
        let output: Vec<String> = parts.iter().filter_map(said).collect();
        let images = parts.iter().filter_map(|part| {
            let sources = [
                &part["Image"]["source"],
                &part["image"]["source"],
                &part["source"],
            ];
            sources
                .iter()
                .find_map(|source| Some(image(source.as_str()?)))
        });
        let ok = result["is_error"] != true;
        let output = output.join("\n").into();
        // What an edit has changed is in the output for the user.
        let (edit, changed) = (&result["output"], changed_path(&result["output"]));
        if let (Some(path), Some(new), true) = (changed, edit["new_text"].as_str(), ok) {
            let change = content::diff(path, edit["old_text"].as_str(), new);
            let outcome = content::outcome(vec![change]);
            return self.builder.result(at, id, ok, outcome);
        }
        self.calls
            .end(&mut self.builder, at, id, ok, &output, images);
    }

    /// A message of a thread as versions before 0.3.0 of the format have it.
    fn early(&mut self, at: Timestamp, role: &str, message: &Value) {
        if message["is_hidden"] == true {
            return;
        }
        let id = format!("{UNNAMED}message_{}", self.messages);
        let id = Some(id.as_str());
        let whole = message["text"].as_str().map(text);
        let segments = message["segments"].as_array().into_iter().flatten();
        let texts = segments.clone().filter(|part| part["type"] == "text");
        let texts = texts.filter_map(|part| part["text"].as_str().map(text));
        let texts: Vec<Value> = whole.into_iter().chain(texts).collect();
        match role {
            "user" => self.builder.user(at, id, texts),
            "assistant" => {
                for part in segments.filter(|part| part["type"] == "thinking") {
                    self.builder.thought_of(at, id, &as_text(&part["text"]));
                }
                for block in texts {
                    self.builder.agent(at, id, block);
                }
            }
            _ => {}
        }
        for call in message["tool_uses"].as_array().into_iter().flatten() {
            self.call(at, call);
        }
        for result in message["tool_results"].as_array().into_iter().flatten() {
            let id = as_text(&result["tool_use_id"]);
            self.result(at, &id, result);
        }
    }
}

/// The kind of a message or a part of one: the name of its only member, or all that it is.
fn kind_of(part: &Value) -> Option<&str> {
    let name = part.as_object().and_then(|members| members.keys().next());
    name.map(String::as_str).or(part.as_str())
}

/// An image, which Zed converts to PNG.
fn image(base64: &str) -> Value {
    content::image_of(base64).unwrap_or_else(|| content::image("image/png", base64))
}

/// The file that an edit has changed, in its output.
fn changed_path(output: &Value) -> Option<&str> {
    let names = ["input_path", "original_path"];
    names.iter().find_map(|name| output[*name].as_str())
}

/// The path in the address of a mention.
fn path_in(uri: &Value) -> Option<&str> {
    let (kind, about) = uri.as_object()?.iter().next()?;
    let is_whole = matches!(kind.as_str(), "File" | "Directory");
    about["abs_path"].as_str().filter(|_| is_whole)
}

fn spent(usage: &Value) -> Spent {
    Spent {
        input: number(&usage["input_tokens"]),
        output: number(&usage["output_tokens"]),
        cached_read: number(&usage["cache_read_input_tokens"]),
        cached_write: number(&usage["cache_creation_input_tokens"]),
        ..Spent::default()
    }
}
