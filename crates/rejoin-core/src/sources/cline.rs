//! Cline: one folder for each session, `sessions/ID`, with its messages in `ID.messages.json` and its
//! title and folder in `ID.json`. As an extension of an editor it has the tasks of
//! [`cline_tasks`](super::cline_tasks).

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::sys::Timestamp;

use super::blocks::BlockReader;
use super::content::as_text;
use super::conversation::ToolConversation;
use super::damage::{self, DamagedPlace};
use super::subagents::SourceSubagent;
use super::usage::{Spent, number};
use super::{FoundConversation, ToolFolders, Wanted, cline_tasks};

/// The folder of the extension in an editor.
const EXTENSION: &str = "saoudrizwan.claude-dev";

/// `sessions` and `tasks` in `$CLINE_DATA_DIR`, or in `data` in `$CLINE_DIR` or `~/.cline`, and the
/// tasks of the extension. `$CLINE_SESSION_DATA_DIR` is the folder of the sessions.
pub(super) fn roots(places: &ToolFolders) -> Vec<PathBuf> {
    let home = || places.folder("CLINE_DIR", ".cline").join("data");
    let data = places.variables.get("CLINE_DATA_DIR").cloned();
    let data = data.unwrap_or_else(home);
    let sessions = places.variables.get("CLINE_SESSION_DATA_DIR").cloned();
    let sessions = sessions.unwrap_or_else(|| data.join("sessions"));
    let mut roots = vec![sessions, data.join("tasks")];
    roots.extend(cline_tasks::roots(places, EXTENSION));
    roots
}

/// The tasks that the user has marked as favorites.
pub(super) fn pins(places: &ToolFolders) -> HashSet<String> {
    let favorites = roots(places).into_iter().flat_map(cline_tasks::favorites);
    favorites.collect()
}

/// The end of the name of a file with messages.
const MESSAGES: &str = ".messages.json";

/// `ID/ID.messages.json`, or the file of a task.
pub(super) fn is_conversation(path: &Path) -> bool {
    match super::parts(path)[..] {
        [id, name] if name.strip_suffix(MESSAGES) == Some(id) => true,
        _ => cline_tasks::is_conversation(path),
    }
}

/// `ID.json` beside the messages of a session.
pub(super) fn state(path: &Path) -> Option<PathBuf> {
    let id = path.file_name()?.to_str()?.strip_suffix(MESSAGES)?;
    Some(path.with_file_name(format!("{id}.json")))
}

pub(super) fn read(
    found: &FoundConversation,
    bytes: &[u8],
    wanted: Wanted<'_>,
) -> ToolConversation {
    let Some(state) = state(&found.path) else {
        return cline_tasks::read(found, bytes, wanted);
    };
    let session = super::json_file(&state);
    if session["is_subagent"] == true || session["parent_session_id"].is_string() {
        return ToolConversation::default();
    }
    let folders = [&session["cwd"], &session["workspace_root"]];
    let cwd = folders.iter().find_map(|folder| folder.as_str());
    let (mut reader, saved, damage) = messages(bytes, cwd);
    reader
        .builder
        .title(&as_text(&session["metadata"]["title"]));
    let id = saved["sessionId"]
        .as_str()
        .or(session["session_id"].as_str());
    if let Some(wanted) = wanted {
        wanted.extend(subagents(found, cwd));
    }
    let cwd = cwd.map(str::to_owned);
    let conversation = reader.builder.finish(id.map(str::to_owned), cwd);
    conversation.damaged(damage)
}

/// The messages in a file about this folder, and the object in it.
fn messages(bytes: &[u8], cwd: Option<&str>) -> (BlockReader, Value, Vec<DamagedPlace>) {
    let (saved, kind) = damage::value_or_null(&String::from_utf8_lossy(bytes));
    let mut reader = BlockReader::typed(typed);
    reader.builder.folder(cwd);
    for message in saved["messages"].as_array().into_iter().flatten() {
        let at = message["ts"].as_i64().map(Timestamp::from_millis);
        let at = reader.builder.at(at);
        let id = message["id"].as_str();
        let role = message["role"].as_str().unwrap_or_default();
        reader.message(at, id, role, &message["content"]);
        let model = &message["modelInfo"]["id"];
        reader.builder.state(&Value::Null, model);
        let metrics = &message["metrics"];
        if metrics.is_object() {
            let (read, written) = (
                number(&metrics["cacheReadTokens"]),
                number(&metrics["cacheWriteTokens"]),
            );
            let spent = Spent {
                input: number(&metrics["inputTokens"]).saturating_sub(read + written),
                output: number(&metrics["outputTokens"]),
                cached_read: read,
                cached_write: written,
                thought: 0,
                cost: metrics["cost"].as_f64().unwrap_or(0.0),
            };
            reader.builder.spent(id, spent);
        }
    }
    let damage = kind.map(|kind| DamagedPlace::of(1, kind));
    (reader, saved, damage.into_iter().collect())
}

/// What the user typed: without the tag around it, and not the program's notes.
fn typed(said: &str) -> Option<String> {
    if said.starts_with("<SYSTEM_NOTICE>") {
        return None;
    }
    let inside = |tag: &str| {
        let (_, rest) = said.split_once(&format!("<{tag}"))?;
        let (inside, _) = rest.split_once('>')?.1.split_once(&format!("</{tag}>"))?;
        Some(inside.trim().to_owned())
    };
    Some(inside("user_input").unwrap_or_else(|| said.to_owned()))
}

/// The other files with words of a conversation.
pub(super) fn others(found: &FoundConversation) -> Vec<PathBuf> {
    let Some(state) = state(&found.path) else {
        return cline_tasks::others(found);
    };
    let mut paths = agents(found);
    paths.push(state);
    paths
}

/// The files of a session's subagents: other files of messages in its folder.
fn agents(found: &FoundConversation) -> Vec<PathBuf> {
    let folder = found.path.parent();
    let entries = folder.and_then(|folder| std::fs::read_dir(folder).ok());
    let paths = entries.into_iter().flatten().flatten();
    let paths = paths.map(|entry| entry.path());
    let mut paths: Vec<PathBuf> = paths
        .filter(|path| *path != found.path && state(path).is_some())
        .collect();
    paths.sort();
    paths
}

/// The subagents of a session.
fn subagents(found: &FoundConversation, cwd: Option<&str>) -> Vec<SourceSubagent> {
    let paths = agents(found).into_iter();
    let read = paths.filter_map(|path| {
        let name = path
            .file_name()?
            .to_str()?
            .strip_suffix(MESSAGES)?
            .to_owned();
        let (reader, _, damage) = messages(&super::bytes(&path).ok()?, cwd);
        Some(SourceSubagent::new(name, None, reader.builder).damaged(damage))
    });
    read.collect()
}
