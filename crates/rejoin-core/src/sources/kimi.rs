//! Kimi Code: one folder for each session, `sessions/FOLDER/session_ID`, with its events in
//! `agents/main/wire.jsonl` and its title and working directory in `state.json`.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use crate::sys::Timestamp;

use super::content::{self, as_text};
use super::conversation::{ConversationBuilder, ToolConversation};
use super::kimi_cli::{self, block};
use super::subagents::SourceSubagent;
use super::tool::CallsById;
use super::usage::{Spent, number};
use super::{FoundConversation, ToolFolders, Wanted, lines};

/// `$KIMI_CODE_HOME/sessions`, or that in `~/.kimi-code`.
pub(super) fn root(places: &ToolFolders) -> PathBuf {
    places
        .folder("KIMI_CODE_HOME", ".kimi-code")
        .join("sessions")
}

/// `FOLDER/session_ID/agents/main/wire.jsonl`. Others in `agents` are subagents.
pub(super) fn is_conversation(path: &Path) -> bool {
    let parts = super::parts(path);
    matches!(parts[..], [_, _, "agents", "main", "wire.jsonl"])
}

/// `FOLDER/session_ID/state.json`.
pub(super) fn state(path: &Path) -> Option<PathBuf> {
    Some(path.ancestors().nth(3)?.join("state.json"))
}

pub(super) fn read(
    found: &FoundConversation,
    bytes: &[u8],
    wanted: Wanted<'_>,
) -> ToolConversation {
    let lines = lines::objects(bytes);
    let folder = found.path.ancestors().nth(3).unwrap_or(&found.root);
    let state = super::json_file(&folder.join("state.json"));
    let recorded = ["cwd", "workDir"]
        .iter()
        .find_map(|name| state[*name].as_str());
    let mut reader = KimiReader::of(&lines.objects, found.path.parent(), recorded);
    // Other titles are the first prompt, cut off.
    if state["isCustomTitle"] == true || state["titleKind"] == "generated" {
        reader.builder.title(&as_text(&state["title"]));
    }
    if state["archived"] == true {
        reader.builder.archive();
    }
    let cwd = recorded.map(str::to_owned).or(reader.cwd);
    let id = folder.file_name().and_then(|name| name.to_str());
    let conversation = reader.builder.finish(id.map(str::to_owned), cwd);
    if let Some(wanted) = wanted {
        wanted.extend(subagents(found, &reader.agents));
    }
    conversation.damaged(lines.damage)
}

/// The subagents, which have folders beside that of the session's own file. `calls` has the calls that
/// started them.
fn subagents(found: &FoundConversation, calls: &HashMap<String, String>) -> Vec<SourceSubagent> {
    let Some(main) = found.path.parent() else {
        return Vec::new();
    };
    let folders = main.parent().and_then(|folder| fs::read_dir(folder).ok());
    let folders = folders.into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = folders.map(|entry| entry.path()).collect();
    folders.retain(|folder| folder != main && folder.join("wire.jsonl").is_file());
    folders.sort();
    let read = folders.into_iter().filter_map(|folder| {
        let bytes = super::bytes(&folder.join("wire.jsonl")).ok()?;
        let lines = lines::objects(&bytes);
        let reader = KimiReader::of(&lines.objects, Some(&folder), None);
        let id = folder.file_name()?.to_str()?;
        let subagent = SourceSubagent::new(id, calls.get(id).cloned(), reader.builder);
        Some(subagent.damaged(lines.damage))
    });
    read.collect()
}

#[derive(Debug, Default)]
struct KimiReader {
    builder: ConversationBuilder,
    cwd: Option<String>,
    /// The folder with images that are kept outside of the file.
    blobs: Option<PathBuf>,
    /// Whether the events of the turn have said something: a message may repeat it.
    has_events: bool,
    calls: CallsById,
    /// The calls that started subagents, by the subagents' ids.
    agents: HashMap<String, String>,
}

/// The beginnings of operations that are about the program, or repeat what others have.
const SKIPPED: [&str; 21] = [
    "metadata",
    "turn.",
    "prompt.",
    "usage.",
    "llm.",
    "token_counting.",
    "permission.",
    "interaction.",
    "file_history.",
    "agent.",
    "runtime.",
    "profile.",
    "plugin.",
    "context.",
    "tools.",
    "goal.",
    "swarm_mode.",
    "plan_mode.",
    "mcp.",
    "full_compaction.",
    "forked",
];

impl KimiReader {
    /// Reads the operations of a file in this folder, about this working directory.
    fn of(operations: &[Value], folder: Option<&Path>, cwd: Option<&str>) -> Self {
        let mut reader = Self {
            blobs: folder.map(|folder| folder.join("blobs")),
            ..Self::default()
        };
        reader.builder.folder(cwd);
        for operation in operations {
            reader.operation(operation);
        }
        reader
    }

    fn operation(&mut self, operation: &Value) {
        let at = operation["time"].as_i64().map(Timestamp::from_millis);
        let at = self.builder.at(at);
        match operation["type"].as_str() {
            Some("context.append_message") => self.message(at, &operation["message"]),
            Some("context.append_loop_event") => self.event(at, &operation["event"]),
            Some("context.apply_compaction") => {
                self.builder
                    .thought(at, None, &as_text(&operation["summary"]));
            }
            Some("config.update") => {
                if let Some(cwd) = operation["cwd"].as_str() {
                    self.cwd = Some(cwd.to_owned());
                    self.builder.folder(Some(cwd));
                }
            }
            Some("context.undo") => {
                let turns = operation["count"].as_u64().unwrap_or(0);
                self.builder.remove_turns(turns);
            }
            Some("turn.ended") => {
                let reason = operation["reason"].as_str();
                if matches!(reason, Some("cancelled" | "interrupted" | "aborted")) {
                    self.builder.cancel();
                }
            }
            Some(kind) if SKIPPED.iter().any(|start| kind.starts_with(start)) => {}
            kind => self.builder.unknown(kind),
        }
    }

    fn message(&mut self, at: Timestamp, message: &Value) {
        let parts = message["content"].as_array().into_iter().flatten();
        // Others are reminders of the program to the model.
        let kind = message["origin"]["kind"].as_str();
        match message["role"].as_str() {
            Some("user") if kind.is_none_or(|kind| kind == "user") => {
                let blocks = parts.filter_map(|part| self.block(part)).collect();
                self.has_events = false;
                self.builder.user(at, message["id"].as_str(), blocks);
            }
            Some("assistant") if !self.has_events => {
                for part in parts {
                    kimi_cli::said(&mut self.builder, at, None, part);
                }
            }
            _ => {}
        }
    }

    /// A part of a message. Larger images are files of their own, which are named by their content.
    fn block(&self, part: &Value) -> Option<Value> {
        let reference = kimi_cli::image_url(part).and_then(|url| url.strip_prefix("blobref:"));
        let Some((mime_type, name)) = reference.and_then(|reference| reference.split_once(';'))
        else {
            return block(part);
        };
        let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let path = self.blobs.as_ref().filter(|_| is_name)?.join(name);
        Some(match super::bytes(&path) {
            Ok(bytes) if mime_type.starts_with("image/") => {
                content::image(mime_type, &BASE64_STANDARD.encode(bytes))
            }
            _ => content::text(&format!("[image {name}]")),
        })
    }

    fn event(&mut self, at: Timestamp, event: &Value) {
        match event["type"].as_str() {
            Some("content.part") => {
                self.has_events = true;
                let id = event["uuid"].as_str();
                kimi_cli::said(&mut self.builder, at, id, &event["part"]);
            }
            Some("tool.call") => {
                let id = event["toolCallId"].as_str().unwrap_or_default();
                let name = event["name"].as_str().unwrap_or_default();
                let input = event["args"].clone();
                kimi_cli::begin(&mut self.builder, &mut self.calls, at, id, name, input);
            }
            Some("tool.result") => {
                let id = event["toolCallId"].as_str().unwrap_or_default();
                let result = &event["result"];
                let ok = result["isError"] != true;
                let output = kimi_cli::output(&result["output"]);
                let first = output.lines().next().unwrap_or_default();
                if let Some(agent) = first.strip_prefix("agent_id: ") {
                    self.agents.insert(agent.to_owned(), id.to_owned());
                }
                let images = kimi_cli::images(&result["output"], |part| self.block(part));
                let builder = &mut self.builder;
                self.calls.end(builder, at, id, ok, &output.into(), images);
            }
            Some("step.end") => {
                let tokens = &event["usage"];
                let spent = Spent {
                    input: number(&tokens["inputOther"]),
                    output: number(&tokens["output"]),
                    cached_read: number(&tokens["inputCacheRead"]),
                    cached_write: number(&tokens["inputCacheCreation"]),
                    ..Spent::default()
                };
                self.builder.spent(event["uuid"].as_str(), spent);
            }
            _ => {}
        }
    }
}
