//! pi and Oh My Pi: one file of JSON lines for each session, `sessions/FOLDER/TIME_ID.jsonl`. Entries of newer
//! versions name their parents; the conversation is what leads to the last one.

mod agents;

pub(super) use agents::others;

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use crate::sys::Timestamp;

use super::content::{self, as_text, text};
use super::conversation::{ConversationBuilder, ToolConversation};
use super::tool::CallsById;
use super::usage::{Spent, number};
use super::{FoundConversation, RecordLinks, ToolFolders, Wanted, has_extension, lines};

/// `$PI_CODING_AGENT_DIR/sessions`, or that in `~/.pi/agent`.
pub(super) fn root(places: &ToolFolders) -> PathBuf {
    places
        .folder("PI_CODING_AGENT_DIR", ".pi/agent")
        .join("sessions")
}

/// `sessions` in the folder of Oh My Pi's agent and in those of its profiles, and where it has moved them
/// to: `omp` in `$XDG_DATA_HOME`.
pub(super) fn omp_roots(places: &ToolFolders) -> Vec<PathBuf> {
    let own = places.home.join(".omp");
    let moved = places.variables.get("XDG_DATA_HOME");
    let moved = moved.map(|data| data.join("omp"));
    let mut roots = vec![own.join("agent/sessions")];
    roots.extend(moved.iter().map(|moved| moved.join("sessions")));
    let profiles = [Some(own), moved].into_iter().flatten();
    let profiles = profiles.flat_map(|folder| fs::read_dir(folder.join("profiles")));
    let mut profiles: Vec<PathBuf> = profiles
        .flatten()
        .flatten()
        .map(|profile| profile.path())
        .collect();
    profiles.sort();
    for profile in profiles {
        roots.extend(["agent/sessions", "sessions"].map(|sessions| profile.join(sessions)));
    }
    roots
}

/// `FOLDER/TIME_ID.jsonl`.
pub(super) fn is_conversation(path: &Path) -> bool {
    let [_, name] = super::parts(path)[..] else {
        return false;
    };
    has_extension(name, &["jsonl"])
}

pub(super) fn read(
    found: &FoundConversation,
    bytes: &[u8],
    wanted: Wanted<'_>,
) -> ToolConversation {
    let lines = lines::objects(bytes);
    let head = lines
        .objects
        .iter()
        .find(|entry| entry["type"] == "session");
    let head = |name| Some(head?[name].as_str()?.to_owned());
    let mut builder = ConversationBuilder::default();
    builder.folder(head("cwd").as_deref());
    builder.title(&head("title").unwrap_or_default());
    let mut reader = PiReader::new(found, builder);
    reader.branch(&lines.objects, |_| true);
    if let Some(wanted) = wanted {
        wanted.extend(agents::read(found, &lines.objects));
    }
    let conversation = reader.builder.finish(head("id"), head("cwd"));
    conversation.damaged(lines.damage)
}

/// How entries follow from each other.
pub(super) const LINKS: RecordLinks = RecordLinks {
    names: |entry, names| {
        names.extend(entry["id"].as_str());
        let blocks = entry["message"]["content"].as_array().into_iter().flatten();
        names.extend(blocks.filter_map(|block| block["id"].as_str()));
    },
    needs: |entry, needed| {
        needed.extend(entry["parentId"].as_str());
        needed.extend(entry["message"]["toolCallId"].as_str());
        true
    },
};

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

#[derive(Debug)]
struct PiReader {
    builder: ConversationBuilder,
    calls: CallsById,
    /// The folder with the images of Oh My Pi.
    blobs: PathBuf,
}

impl PiReader {
    fn new(found: &FoundConversation, builder: ConversationBuilder) -> Self {
        Self {
            builder,
            calls: CallsById::default(),
            blobs: found.root.with_file_name("blobs"),
        }
    }

    /// Reads the entries that lead to the last one and are wanted.
    fn branch(&mut self, entries: &[Value], is_wanted: impl Fn(&str) -> bool) {
        let shown = branch(entries);
        for entry in entries {
            let id = entry["id"].as_str();
            if id.is_none_or(|id| shown.contains(id) && is_wanted(id)) {
                self.entry(entry);
            }
        }
    }

    fn entry(&mut self, entry: &Value) {
        let at = self.builder.time(entry["timestamp"].as_str());
        let id = entry["id"].as_str();
        match entry["type"].as_str() {
            Some("message") => self.message(at, id, &entry["message"]),
            Some("compaction" | "branch_summary") => {
                self.builder.thought(at, id, &as_text(&entry["summary"]));
            }
            Some("session_info") => self.builder.title(&as_text(&entry["name"])),
            Some("title" | "title_change") => self.builder.title(&as_text(&entry["title"])),
            Some("model_usage") => self.spent(id, &entry["usage"]),
            Some("custom_message") if entry["display"] == true => {
                for block in self.blocks(&entry["content"]) {
                    self.builder.agent(at, id, block);
                }
            }
            Some(
                "session"
                | "model_change"
                | "thinking_level_change"
                | "label"
                | "custom"
                | "custom_message"
                | "archive"
                | "credential_pin"
                | "mode_change"
                | "reset_boundary"
                | "service_tier_change"
                | "session_init"
                | "ttsr_injection",
            ) => {}
            kind => self.builder.unknown(kind),
        }
    }

    fn message(&mut self, at: Timestamp, id: Option<&str>, message: &Value) {
        match message["role"].as_str() {
            Some("user") => {
                let blocks = self.blocks(&message["content"]);
                self.builder.user(at, id, blocks);
            }
            Some("assistant") => self.assistant(at, id, message),
            Some("toolResult") => {
                let call = message["toolCallId"].as_str().unwrap_or_default();
                let blocks = self.blocks(&message["content"]);
                let texts = blocks.iter().filter_map(|block| block["text"].as_str());
                let output = texts.collect::<Vec<_>>().join("\n");
                let ok = message["isError"] != true;
                let images = blocks.into_iter().filter(|block| block["type"] == "image");
                let builder = &mut self.builder;
                self.calls
                    .end(builder, at, call, ok, &output.into(), images);
            }
            Some(kind @ ("bashExecution" | "pythonExecution")) => {
                let is_python = kind == "pythonExecution";
                let command = as_text(&message[if is_python { "code" } else { "command" }]);
                self.builder
                    .user(at, id, vec![text(&format!("!{command}"))]);
                if let Some(output) = content::console(&as_text(&message["output"])) {
                    self.builder.agent(at, None, output["content"].clone());
                }
            }
            Some("custom") if message["display"] == true => {
                for block in self.blocks(&message["content"]) {
                    self.builder.agent(at, id, block);
                }
            }
            Some("branchSummary" | "compactionSummary") => {
                self.builder.thought(at, id, &as_text(&message["summary"]));
            }
            // The words of the program to the model.
            Some("custom" | "system" | "developer") => {}
            kind => self.builder.unknown(kind),
        }
    }

    fn assistant(&mut self, at: Timestamp, id: Option<&str>, message: &Value) {
        self.builder.state(&Value::Null, &message["model"]);
        self.spent(id, &message["usage"]);
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
                    // Of calls that start subagents.
                    let tasks = [&input["task"], &input["tasks"][0]["description"]];
                    let task = tasks.into_iter().find_map(Value::as_str).map(str::to_owned);
                    let builder = &mut self.builder;
                    self.calls
                        .begin(builder, at, call, name, input, task.as_deref());
                }
                _ => {
                    for block in self.blocks(&Value::Array(vec![block.clone()])) {
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

    /// Notes what a message has cost.
    fn spent(&mut self, id: Option<&str>, usage: &Value) {
        let spent = Spent {
            input: number(&usage["input"]),
            output: number(&usage["output"]),
            cached_read: number(&usage["cacheRead"]),
            cached_write: number(&usage["cacheWrite"]),
            thought: 0,
            cost: usage["cost"]["total"].as_f64().unwrap_or(0.0),
        };
        self.builder.spent(id, spent);
    }

    /// The blocks of a message: a text, or texts and images.
    fn blocks(&self, content: &Value) -> Vec<Value> {
        if let Some(said) = content.as_str() {
            return vec![text(said)];
        }
        let blocks = content.as_array().into_iter().flatten();
        let blocks = blocks.filter_map(|block| match block["type"].as_str()? {
            "text" => Some(text(block["text"].as_str()?)),
            "image" => Some(self.image(block["mimeType"].as_str()?, block["data"].as_str()?)),
            _ => None,
        });
        blocks.collect()
    }

    /// An image. Oh My Pi has larger ones in files that are named by their content.
    fn image(&self, mime_type: &str, data: &str) -> Value {
        let Some(name) = data.strip_prefix("blob:sha256:") else {
            return content::image(mime_type, data);
        };
        let is_name = name.bytes().all(|byte| byte.is_ascii_hexdigit());
        let read = || super::bytes(&self.blobs.join(name)).ok();
        match is_name.then(read).flatten() {
            Some(bytes) => content::image(mime_type, &BASE64_STANDARD.encode(bytes)),
            None => text(&format!("[image {name}]")),
        }
    }
}
