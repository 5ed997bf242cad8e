//! Droid: one file of JSON lines for each session, `sessions/FOLDER/ID.jsonl`, with its settings and
//! the sums of its tokens in `ID.settings.json`. Sessions of subagents lie beside those of the user.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::sys::Timestamp;

use super::blocks::BlockReader;
use super::content::{as_text, text};
use super::conversation::ToolConversation;
use super::damage::DamagedPlace;
use super::subagents::SourceSubagent;
use super::usage::{Spent, number};
use super::{FoundConversation, ToolFolders, Wanted, has_extension, lines};

/// `.factory/sessions` in `$FACTORY_HOME_OVERRIDE`, else in the home folder.
pub(super) fn root(places: &ToolFolders) -> PathBuf {
    places
        .folder("FACTORY_HOME_OVERRIDE", "")
        .join(".factory/sessions")
}

/// `FOLDER/ID.jsonl`. In early versions there were no folders.
pub(super) fn is_conversation(path: &Path) -> bool {
    match super::parts(path)[..] {
        // Questions that are asked besides.
        ["btw", _] => false,
        [_, name] | [name] => has_extension(name, &["jsonl"]),
        _ => false,
    }
}

/// `ID.settings.json`.
pub(super) fn state(path: &Path) -> PathBuf {
    path.with_extension("settings.json")
}

/// The record that a session begins with.
const START: &str = "session_start";

pub(super) fn read(
    found: &FoundConversation,
    bytes: &[u8],
    wanted: Wanted<'_>,
) -> ToolConversation {
    let settings = super::json_file(&state(&found.path));
    let (mut reader, damage) = DroidReader::of(bytes, &settings);
    let start = std::mem::take(&mut reader.start);
    if start["callingSessionId"].is_string() || start["decompSessionType"] == "worker" {
        return ToolConversation::default();
    }
    let builder = &mut reader.messages.builder;
    let title = as_text(&start["title"]);
    let first = reader.first.unwrap_or_default();
    // Another title is the first prompt, cut off.
    if title != NEW && !first.starts_with(title.trim_end_matches("...")) {
        builder.title(&title);
    }
    if settings["archivedAt"].is_string() {
        builder.archive();
    }
    if let Some(wanted) = wanted {
        let folder = found.path.parent().unwrap_or(&found.root);
        let named = reader.named.iter();
        wanted.extend(named.filter_map(|id| subagent(&folder.join(format!("{id}.jsonl")))));
    }
    let stem = || found.path.file_stem()?.to_str();
    let id = start["id"].as_str().or_else(stem).map(str::to_owned);
    let cwd = folder_of(&start).map(str::to_owned);
    let conversation = reader.messages.builder.finish(id, cwd);
    conversation.damaged(damage)
}

/// The title of a session without messages.
const NEW: &str = "New Session";

/// The folder of a session, which the user may have changed.
fn folder_of(start: &Value) -> Option<&str> {
    start["lastCwd"].as_str().or(start["cwd"].as_str())
}

/// The files of subagents, and the settings.
pub(super) fn others(found: &FoundConversation, _: &[u8], is_marked: bool) -> Option<Vec<PathBuf>> {
    // Which files are those of subagents is in the results of calls.
    (!is_marked).then(|| vec![state(&found.path)])
}

/// What is in the result of a call that has started a subagent.
pub(super) const MARKS: [&str; 1] = [CHILD];
const CHILD: &str = "session_id: ";

/// A subagent, of which this is the file.
fn subagent(path: &Path) -> Option<SourceSubagent> {
    let bytes = super::bytes(path).ok()?;
    let (reader, damage) = DroidReader::of(&bytes, &super::json_file(&state(path)));
    let call = reader.start["callingToolUseId"].as_str()?.to_owned();
    let id = path.file_stem()?.to_str()?;
    let subagent = SourceSubagent::new(id, Some(call), reader.messages.builder);
    let mut subagent = subagent.damaged(damage);
    subagent.title = reader.start["title"].as_str().map(str::to_owned);
    Some(subagent)
}

#[derive(Debug)]
struct DroidReader {
    messages: BlockReader,
    start: Value,
    /// What the user said first.
    first: Option<String>,
    /// The ids of sessions that results of calls name.
    named: Vec<String>,
}

impl DroidReader {
    fn of(bytes: &[u8], settings: &Value) -> (Self, Vec<DamagedPlace>) {
        let lines = lines::objects(bytes);
        let start = lines.objects.iter().find(|line| line["type"] == START);
        let mut reader = Self {
            messages: BlockReader::typed(typed),
            start: start.cloned().unwrap_or_default(),
            first: None,
            named: Vec::new(),
        };
        let builder = &mut reader.messages.builder;
        builder.folder(folder_of(&reader.start));
        builder.state(&settings["worktree"]["branch"], &settings["model"]);
        for line in &lines.objects {
            reader.line(line);
        }
        let usage = &settings["tokenUsage"];
        let thought = number(&usage["thinkingTokens"]);
        // Droid knows only the sums of a session: they are those of its last turn.
        reader.messages.builder.spent(
            None,
            Spent {
                input: number(&usage["inputTokens"]),
                output: number(&usage["outputTokens"]).saturating_sub(thought),
                thought,
                cached_read: number(&usage["cacheReadTokens"]),
                cached_write: number(&usage["cacheCreationTokens"]),
                cost: 0.0,
            },
        );
        (reader, lines.damage)
    }

    fn line(&mut self, line: &Value) {
        let at = self.messages.builder.time(line["timestamp"].as_str());
        let id = line["id"].as_str();
        match line["type"].as_str() {
            Some("message") => self.message(at, id, &line["message"]),
            Some("compaction_state") => {
                let summary = as_text(&line["summaryText"]);
                self.messages.builder.thought(at, id, &summary);
            }
            Some("agent_turn_outcome") => {
                if line["reason"] == "cancelled" {
                    self.messages.builder.cancel();
                }
            }
            // The list of tasks is also what the call has that changed it.
            Some(START | "todo_state" | "session_end") => {}
            kind => self.messages.builder.unknown(kind),
        }
    }

    fn message(&mut self, at: Timestamp, id: Option<&str>, message: &Value) {
        let is_hidden =
            message["visibility"] == "llm_only" || message["hiddenFromUserViews"] == true;
        // What the user's programs have said between tool calls.
        if is_hidden || message["hookEventName"].is_string() {
            return;
        }
        let blocks = message["content"].as_array().into_iter().flatten();
        for block in blocks.filter(|block| block["type"] == "tool_result") {
            let named = block["content"].as_str().unwrap_or_default();
            let named = named.lines().filter_map(|line| line.strip_prefix(CHILD));
            let is_name = |id: &&str| !id.contains(['/', '\\', '.']) && !id.is_empty();
            for id in named.map(str::trim).filter(is_name) {
                if !self.named.iter().any(|known| known == id) {
                    self.named.push(id.to_owned());
                }
            }
        }
        let role = message["role"].as_str().unwrap_or_default();
        if role == "user" && self.first.is_none() {
            self.first = first_text(&message["content"]);
        }
        match role {
            // A note of the program to the user.
            "system" => {
                if let Some(note) = first_text(&message["content"]) {
                    self.messages.builder.agent(at, id, text(&note));
                }
            }
            _ => self.messages.message(at, id, role, &message["content"]),
        }
        let model = &message["modelId"];
        self.messages.builder.state(&Value::Null, model);
    }
}

/// The first text in a message that somebody typed.
fn first_text(content: &Value) -> Option<String> {
    if let Some(said) = content.as_str() {
        return typed(said);
    }
    let blocks = content.as_array().into_iter().flatten();
    let mut texts = blocks.filter_map(|block| block["text"].as_str());
    texts.find_map(typed)
}

/// What the user typed, without the program's notes to the model; of the prompt to a subagent, its
/// task.
fn typed(said: &str) -> Option<String> {
    let mut said = said.trim_start();
    while let Some(note) = said.strip_prefix("<system-reminder>") {
        said = note.split_once("</system-reminder>")?.1.trim_start();
    }
    if let Some((_, task)) = said.split_once("---BEGIN TASK FROM PARENT AGENT---\n") {
        let task = task.split("\n---END TASK FROM PARENT AGENT---").next();
        said = task.unwrap_or(said);
    }
    (!said.is_empty()).then(|| said.to_owned())
}
