//! pi: one file of JSON lines for each session, `sessions/FOLDER/TIME_ID.jsonl`. Entries of newer
//! versions name their parents; the conversation is what leads to the last one.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::sys::Timestamp;

use super::content::{self, as_text, text};
use super::conversation::{ConversationBuilder, ToolConversation};
use super::tool::CallsById;
use super::usage::{Spent, number};
use super::{FoundConversation, ToolFolders, Wanted, has_extension, lines};

/// `$PI_CODING_AGENT_DIR/sessions`, or that in `~/.pi/agent`.
pub(super) fn root(places: &ToolFolders) -> PathBuf {
    places
        .folder("PI_CODING_AGENT_DIR", ".pi/agent")
        .join("sessions")
}

/// `FOLDER/TIME_ID.jsonl`.
pub(super) fn is_conversation(path: &Path) -> bool {
    let [_, name] = super::parts(path)[..] else {
        return false;
    };
    has_extension(name, &["jsonl"])
}

pub(super) fn read(_: &FoundConversation, bytes: &[u8], _: Wanted<'_>) -> ToolConversation {
    let lines = lines::objects(bytes);
    let head = lines
        .objects
        .iter()
        .find(|entry| entry["type"] == "session");
    let head = |name| Some(head?[name].as_str()?.to_owned());
    let shown = branch(&lines.objects);
    let mut reader = PiReader::default();
    reader.builder.folder(head("cwd").as_deref());
    for entry in &lines.objects {
        let id = entry["id"].as_str();
        if id.is_none_or(|id| shown.contains(id)) {
            reader.entry(entry);
        }
    }
    let conversation = reader.builder.finish(head("id"), head("cwd"));
    conversation.damaged(lines.damage)
}

/// The ids of the last entry and of those that lead to it. Where one is missing, the entry before is
/// the best guess.
fn branch(entries: &[Value]) -> HashSet<&str> {
    let named = entries.iter().filter(|entry| entry["type"] != "session");
    let named = named.filter_map(|entry| Some((entry["id"].as_str()?, &entry["parentId"])));
    let named: Vec<_> = named.collect();
    let places: HashMap<&str, usize> = named.iter().map(|(id, _)| *id).zip(0..).collect();
    let mut next = named.len().checked_sub(1);
    let mut shown = HashSet::new();
    while let Some((id, parent)) = next.map(|at| named[at]) {
        if !shown.insert(id) {
            break;
        }
        let before = next.and_then(|at| at.checked_sub(1));
        next = parent.as_str().and_then(|parent| {
            let place = places.get(parent).copied();
            place.or(before)
        });
    }
    shown
}

#[derive(Debug, Default)]
struct PiReader {
    builder: ConversationBuilder,
    calls: CallsById,
}

impl PiReader {
    fn entry(&mut self, entry: &Value) {
        let at = self.builder.time(entry["timestamp"].as_str());
        let id = entry["id"].as_str();
        match entry["type"].as_str() {
            Some("message") => self.message(at, id, &entry["message"]),
            Some("compaction" | "branch_summary") => {
                self.builder.thought(at, id, &as_text(&entry["summary"]));
            }
            Some("session_info") => self.builder.title(&as_text(&entry["name"])),
            Some("custom_message") if entry["display"] == true => {
                for block in blocks(&entry["content"]) {
                    self.builder.agent(at, id, block);
                }
            }
            Some(
                "session"
                | "model_change"
                | "thinking_level_change"
                | "label"
                | "custom"
                | "custom_message",
            ) => {}
            kind => self.builder.unknown(kind),
        }
    }

    fn message(&mut self, at: Timestamp, id: Option<&str>, message: &Value) {
        match message["role"].as_str() {
            Some("user") => self.builder.user(at, id, blocks(&message["content"])),
            Some("assistant") => self.assistant(at, id, message),
            Some("toolResult") => {
                let call = message["toolCallId"].as_str().unwrap_or_default();
                let blocks = blocks(&message["content"]);
                let texts = blocks.iter().filter_map(|block| block["text"].as_str());
                let output = texts.collect::<Vec<_>>().join("\n");
                let ok = message["isError"] != true;
                let images = blocks.into_iter().filter(|block| block["type"] == "image");
                let builder = &mut self.builder;
                self.calls
                    .end(builder, at, call, ok, &output.into(), images);
            }
            Some("bashExecution") => {
                let command = as_text(&message["command"]);
                self.builder
                    .user(at, id, vec![text(&format!("!{command}"))]);
                if let Some(output) = content::console(&as_text(&message["output"])) {
                    self.builder.agent(at, None, output["content"].clone());
                }
            }
            Some("custom") if message["display"] == true => {
                for block in blocks(&message["content"]) {
                    self.builder.agent(at, id, block);
                }
            }
            Some("branchSummary" | "compactionSummary") => {
                self.builder.thought(at, id, &as_text(&message["summary"]));
            }
            // The words of the program to the model.
            Some("custom" | "system") => {}
            kind => self.builder.unknown(kind),
        }
    }

    fn assistant(&mut self, at: Timestamp, id: Option<&str>, message: &Value) {
        self.builder.state(&Value::Null, &message["model"]);
        let usage = &message["usage"];
        let spent = Spent {
            input: number(&usage["input"]),
            output: number(&usage["output"]),
            cached_read: number(&usage["cacheRead"]),
            cached_write: number(&usage["cacheWrite"]),
            thought: 0,
            cost: usage["cost"]["total"].as_f64().unwrap_or(0.0),
        };
        self.builder.spent(id, spent);
        for block in message["content"].as_array().into_iter().flatten() {
            match block["type"].as_str() {
                Some("thinking") => {
                    let thinking = as_text(&block["thinking"]);
                    self.builder.thought_of(at, id, &thinking);
                }
                Some("toolCall") => {
                    let (Some(call), Some(name)) = (block["id"].as_str(), block["name"].as_str())
                    else {
                        continue;
                    };
                    let input = block["arguments"].clone();
                    self.calls
                        .begin(&mut self.builder, at, call, name, input, None);
                }
                _ => {
                    for block in blocks(&Value::Array(vec![block.clone()])) {
                        self.builder.agent(at, id, block);
                    }
                }
            }
        }
        match message["stopReason"].as_str() {
            Some("aborted") => self.builder.cancel(),
            Some("error") => {
                let error = as_text(&message["errorMessage"]);
                self.builder.error(at, None, &error);
            }
            _ => {}
        }
    }
}

/// The blocks of a message: a text, or texts and images.
fn blocks(content: &Value) -> Vec<Value> {
    if let Some(said) = content.as_str() {
        return vec![text(said)];
    }
    let blocks = content.as_array().into_iter().flatten();
    let blocks = blocks.filter_map(|block| match block["type"].as_str()? {
        "text" => Some(text(block["text"].as_str()?)),
        "image" => Some(content::image(
            block["mimeType"].as_str()?,
            block["data"].as_str()?,
        )),
        _ => None,
    });
    blocks.collect()
}
