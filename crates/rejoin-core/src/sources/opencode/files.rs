//! The storage of OpenCode before it had a database: a file of JSON for each session, message and part of a
//! message, `storage/session/PROJECT/SESSION.json`, `storage/message/SESSION/MESSAGE.json` and
//! `storage/part/MESSAGE/PART.json`. The program has left it where it is when it copied it into its database.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::sys::Timestamp;

use super::super::conversation::ToolConversation;
use super::super::subagents::{self, SourceSubagent};
use super::super::{FoundConversation, FoundConversations, has_extension, json_file};
use super::{MOST_SUBAGENTS, OpencodeMessages};

/// The folder of the storage.
const STORAGE: &str = "storage";

/// Adds the sessions that no database has. Those of subagents are parts of others, which shows when they
/// are read.
pub(super) fn find(root: &Path, in_databases: &HashSet<String>, search: &mut FoundConversations) {
    for project in inside(&root.join(STORAGE).join("session")) {
        for path in files(&project) {
            let id = id_of(&path);
            if in_databases.contains(&id) {
                continue;
            }
            match fs::metadata(&path).and_then(|file| file.modified()) {
                Ok(modified) => search.found.push(FoundConversation {
                    root: root.to_owned(),
                    key: Some(id),
                    modified: Timestamp::of_system(modified),
                    path,
                    size: 0,
                }),
                Err(error) => search.errors.push((path, error)),
            }
        }
    }
}

/// A conversation in the storage; up to the message number `limit`, if that is not negative.
pub(super) fn read(found: &FoundConversation, limit: i64) -> io::Result<ToolConversation> {
    let session = StoredSession::of(&found.path)?;
    if session.about["parentID"].is_string() {
        return Ok(ToolConversation::default());
    }
    let cwd = session.cwd();
    let mut messages = session.messages(limit);
    messages
        .builder
        .title(session.about["title"].as_str().unwrap_or_default());
    if session.about["time"]["archived"]
        .as_i64()
        .is_some_and(|at| at > 0)
    {
        messages.builder.archive();
    }
    let (mut damage, mut subagents) = (messages.damage, Vec::new());
    let mut conversation = messages.builder.finish(Some(session.id), cwd);
    let mut calls: Vec<_> = messages.subagents.into_iter().collect();
    let mut known = HashSet::new();
    while limit < 0
        && let Some((child, call)) = calls.pop()
    {
        if known.len() > MOST_SUBAGENTS || !known.insert(child.clone()) {
            continue;
        }
        let path = found.path.with_file_name(&child).with_extension("json");
        if let Ok(session) = StoredSession::of(&path) {
            let read = session.messages(limit);
            damage.extend(read.damage);
            calls.extend(read.subagents);
            subagents.push(SourceSubagent::new(child, Some(call), read.builder));
        }
    }
    // As the database has them.
    subagents.sort_by(|a, b| a.id.cmp(&b.id));
    subagents::merge(&mut conversation, subagents);
    Ok(conversation.damaged(damage))
}

/// A session in the storage.
struct StoredSession {
    storage: PathBuf,
    project: String,
    id: String,
    about: Value,
}

impl StoredSession {
    /// The session in this file.
    fn of(path: &Path) -> io::Result<Self> {
        let storage = path.ancestors().nth(3).unwrap_or(Path::new(""));
        fs::metadata(path)?;
        Ok(Self {
            storage: storage.to_owned(),
            project: path.parent().map(id_of).unwrap_or_default(),
            id: id_of(path),
            about: json_file(path),
        })
    }

    /// The folder, or that of the project if the session is of a version that did not record it.
    fn cwd(&self) -> Option<String> {
        let own = self.about["directory"].as_str().map(str::to_owned);
        own.or_else(|| {
            let project = self.storage.join("project").join(&self.project);
            let project = json_file(&project.with_extension("json"));
            project["worktree"].as_str().map(str::to_owned)
        })
    }

    fn messages(&self, limit: i64) -> OpencodeMessages {
        let mut read = OpencodeMessages::default();
        read.builder.folder(self.cwd().as_deref());
        let end = self.about["revert"]["messageID"].as_str();
        let mut messages = files(&self.storage.join("message").join(&self.id));
        messages.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        for path in messages {
            let message = id_of(&path);
            if end == Some(message.as_str()) {
                break;
            }
            let Some(data) = read.file(&path) else {
                continue;
            };
            let created = data["time"]["created"].as_i64().map(Timestamp::from_millis);
            let parts = files(&self.storage.join("part").join(&message));
            let parts: Vec<_> = parts
                .into_iter()
                .filter_map(|path| Some((id_of(&path), read.file(&path)?)))
                .collect();
            read.message_v1(created, &message, &data, parts);
        }
        read
    }
}

impl OpencodeMessages {
    /// The value in a file, or its damage.
    fn file(&mut self, path: &Path) -> Option<Value> {
        let bytes = super::super::bytes(path).ok()?;
        self.value(&String::from_utf8_lossy(&bytes))
    }
}

/// The id in the name of a file or a folder.
fn id_of(path: &Path) -> String {
    let name = path.file_stem().unwrap_or(OsStr::new(""));
    name.to_string_lossy().into_owned()
}

/// The files and folders in a folder.
fn inside(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// The files of JSON in a folder in the order of their names, which is that of time.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = inside(folder);
    files.retain(|path| has_extension(path, &["json"]));
    files.sort();
    files
}
