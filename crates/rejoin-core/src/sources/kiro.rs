//! Kiro CLI: of its third engine a folder for each session, `sessions/FOLDER/sess_ID`, with records as
//! JSON lines in `messages.jsonl` and the title in `session.json`; of the second one a file for each
//! session, `sessions/cli/ID.jsonl`, with the title in `ID.json`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::sys::Timestamp;

use super::content::{self, as_text, text};
use super::conversation::{ConversationBuilder, ToolConversation};
use super::subagents::SourceSubagent;
use super::tool::CallsById;
use super::{FoundConversation, ToolFolders, Wanted, has_extension, lines};

/// `.kiro/sessions` in the home folder, and `sessions` in `$KIRO_HOME`, which the second engine uses.
pub(super) fn roots(places: &ToolFolders) -> Vec<PathBuf> {
    let named = places.variables.get("KIRO_HOME").cloned();
    let homes = [Some(places.home.join(".kiro")), named];
    let mut roots: Vec<PathBuf> = homes.into_iter().flatten().collect();
    roots.dedup();
    roots
        .into_iter()
        .map(|root| root.join("sessions"))
        .collect()
}

const MESSAGES: &str = "messages.jsonl";

/// `FOLDER/sess_ID/messages.jsonl`, or `cli/ID.jsonl`.
pub(super) fn is_conversation(path: &Path) -> bool {
    match super::parts(path)[..] {
        ["cli", name] => has_extension(name, &["jsonl"]),
        [folder, session, MESSAGES] => folder != "cli" && session.starts_with("sess_"),
        _ => false,
    }
}

/// `session.json` in the folder of a session, or `ID.json`.
pub(super) fn state(path: &Path) -> PathBuf {
    if is_of_folder(path) {
        return path.with_file_name("session.json");
    }
    path.with_extension("json")
}

fn is_of_folder(path: &Path) -> bool {
    path.ends_with(MESSAGES)
}

pub(super) fn read(
    found: &FoundConversation,
    bytes: &[u8],
    wanted: Wanted<'_>,
) -> ToolConversation {
    let about = super::json_file(&state(&found.path));
    let lines = lines::objects(bytes);
    let conversation = if is_of_folder(&found.path) {
        of_folder(found, &about, &lines.objects, wanted)
    } else {
        of_file(found, &about, &lines.objects)
    };
    conversation.damaged(lines.damage)
}

/// The title of a session that has none yet.
const NEW: &str = "New Session";

/// Sets the title, unless it is the first prompt, cut off.
fn set_title(builder: &mut ConversationBuilder, title: &Value, first: Option<&str>) {
    let title = as_text(title);
    let start = title.trim_end_matches(['…', '.']);
    let is_prompt = first.is_some_and(|first| first.trim_start().starts_with(start));
    if title != NEW && !is_prompt {
        builder.title(&title);
    }
}

/// The files with words of subagents, and that with the title.
pub(super) fn others(found: &FoundConversation) -> Vec<PathBuf> {
    let mut paths = agents(found);
    paths.push(state(&found.path));
    paths
}

/// The files of subagents: those in `sub-executions` in the folder of a session.
fn agents(found: &FoundConversation) -> Vec<PathBuf> {
    if !is_of_folder(&found.path) {
        return Vec::new();
    }
    let folder = found.path.with_file_name("sub-executions");
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.retain(|path| has_extension(path, &["jsonl"]));
    paths.sort();
    paths
}

/// A session of the third engine.
fn of_folder(
    found: &FoundConversation,
    about: &Value,
    records: &[Value],
    wanted: Wanted<'_>,
) -> ToolConversation {
    if about["createdReason"] == "subagent" {
        return ToolConversation::default();
    }
    let cwd = about["workspacePaths"][0].as_str();
    let mut reader = KiroReader::of(records, cwd);
    let builder = &mut reader.builder;
    let model = &about["modelId"];
    builder.state(&Value::Null, model);
    set_title(builder, &about["title"], reader.first.as_deref());
    if let Some(wanted) = wanted {
        let read = agents(found).into_iter().filter_map(|path| {
            let id = path.file_stem()?.to_str()?.to_owned();
            let begun = reader.begun.remove(&id).unwrap_or_default();
            begun.read(id, &path, cwd)
        });
        wanted.extend(read);
    }
    let folder = found.path.parent().and_then(Path::file_name);
    let id = about["id"]
        .as_str()
        .or(folder.and_then(|name| name.to_str()));
    let (id, cwd) = (id.map(str::to_owned), cwd.map(str::to_owned));
    reader.builder.finish(id, cwd)
}

/// A subagent as it was begun.
#[derive(Debug, Default)]
struct BegunSubagent {
    call: Option<String>,
    title: Option<String>,
    prompt: String,
}

impl BegunSubagent {
    /// Reads its records, which are without the prompt.
    fn read(self, id: String, path: &Path, cwd: Option<&str>) -> Option<SourceSubagent> {
        let lines = lines::objects(&super::bytes(path).ok()?);
        let mut reader = KiroReader::default();
        reader.builder.folder(cwd);
        let first = lines.objects.first()?["timestamp"].as_str();
        let at = reader.builder.time(first);
        let prompt = Some(text(&self.prompt)).filter(|_| !self.prompt.is_empty());
        reader.builder.user(at, None, prompt.into_iter().collect());
        for record in &lines.objects {
            reader.record(record);
        }
        let subagent = SourceSubagent::new(id, self.call, reader.builder);
        let mut subagent = subagent.damaged(lines.damage);
        subagent.title = self.title;
        Some(subagent)
    }
}

#[derive(Debug, Default)]
struct KiroReader {
    builder: ConversationBuilder,
    calls: CallsById,
    /// What the user said first.
    first: Option<String>,
    /// The subagents, by their ids.
    begun: HashMap<String, BegunSubagent>,
}

impl KiroReader {
    /// Reads the records of a session about this folder, without those that the user took back.
    fn of(records: &[Value], cwd: Option<&str>) -> Self {
        let mut reader = Self::default();
        reader.builder.folder(cwd);
        let mut shown: Vec<&Value> = Vec::new();
        for record in records {
            let payload = &record["payload"];
            if payload["type"] == "tombstone" && payload["kind"] == "checkpoint_revert" {
                let target = &payload["effectiveFromMessageId"];
                let kept = shown.iter().position(|record| record["id"] == *target);
                shown.truncate(kept.unwrap_or(shown.len()));
            } else {
                shown.push(record);
            }
        }
        for record in shown {
            reader.record(record);
        }
        reader
    }

    fn record(&mut self, record: &Value) {
        let at = self.builder.time(record["timestamp"].as_str());
        let (id, payload) = (record["id"].as_str(), &record["payload"]);
        let said = payload["content"].as_str().unwrap_or_default();
        match payload["type"].as_str() {
            Some("user") => self.user(at, id, payload),
            Some("assistant") => match payload["operationType"].as_str() {
                Some("Reasoning") => self.builder.thought_of(at, id, said),
                Some("Summary") => self.builder.thought(at, id, said),
                _ => self.builder.agent(at, id, text(said)),
            },
            Some("tool_call") => self.call(at, payload),
            Some("tool_result") => {
                let call = as_text(&payload["toolCallId"]);
                let ok = payload["success"] != false;
                let output = said.into();
                self.note_subagent(payload, &call);
                self.calls
                    .end(&mut self.builder, at, &call, ok, &output, None);
            }
            Some("sub_agent_start") => {
                let begun = self.begun.entry(as_text(&payload["subSessionId"]));
                let begun = begun.or_default();
                begun.prompt = as_text(&payload["prompt"]);
                let names = ["explanation", "subAgentName"].map(|name| &payload[name]);
                let title = names.into_iter().filter_map(Value::as_str);
                begun.title = title
                    .into_iter()
                    .find(|title| !title.is_empty())
                    .map(str::to_owned);
            }
            Some("turn_end") => {
                if payload["stopReason"] == "cancelled" {
                    self.builder.cancel();
                }
            }
            Some("error") => {
                let message = as_text(&payload["message"]);
                self.builder.error(at, id, &message);
            }
            // What is for the model or the program.
            Some(
                "tombstone"
                | "system"
                | "agent_note"
                | "tool_revert"
                | "mode_change"
                | "session_event"
                | "session_start"
                | "session_metadata"
                | "sub_agent_complete"
                | "sub_agent_progress"
                | "steering_inclusion"
                | "turn_start"
                | "usage_summary"
                | "ContextualHookInvoked"
                | "pending_interaction"
                | "interaction_resolved",
            ) => {}
            kind => self.builder.unknown(kind),
        }
    }

    fn user(&mut self, at: Timestamp, id: Option<&str>, payload: &Value) {
        // The words of hooks and notices are the program's.
        let is_notice = payload["_meta"]["kiro"]["notification"].is_object();
        if payload["source"] == "hook" || payload["kind"].is_string() || is_notice {
            return;
        }
        let said = payload["content"].as_str().filter(|said| !said.is_empty());
        if self.first.is_none() {
            self.first = said.map(str::to_owned);
        }
        let images = payload["images"].as_array().into_iter().flatten();
        let images = images.filter_map(|image| {
            let (kind, data) = (image["mimeType"].as_str()?, image["data"].as_str()?);
            Some(content::image(kind, data))
        });
        let blocks = said.map(text).into_iter().chain(images).collect();
        self.builder.user(at, id, blocks);
    }

    fn call(&mut self, at: Timestamp, payload: &Value) {
        let (Some(id), Some(name)) = (payload["toolCallId"].as_str(), payload["toolName"].as_str())
        else {
            return;
        };
        self.note_subagent(payload, id);
        if !self.calls.has(id) {
            let (input, title) = (payload["args"].clone(), payload["title"].as_str());
            self.calls
                .begin(&mut self.builder, at, id, name, input, title);
        }
    }

    /// Notes which call has started a subagent.
    fn note_subagent(&mut self, payload: &Value, call: &str) {
        if let Some(id) = payload["_meta"]["kiro"]["agentSubtaskId"].as_str() {
            let begun = self.begun.entry(id.to_owned()).or_default();
            begun.call.get_or_insert_with(|| call.to_owned());
        }
    }
}

/// A session of the second engine.
fn of_file(found: &FoundConversation, about: &Value, records: &[Value]) -> ToolConversation {
    // Without a parent, the reason is the usual one.
    let is_child = about["parent_session_id"].as_str().is_some();
    if is_child && about["session_created_reason"] != "rewind" {
        return ToolConversation::default();
    }
    let time = |name: &str| about[name].as_str().and_then(Timestamp::parse);
    let cwd = about["cwd"].as_str();
    let mut reader = KiroReader::default();
    reader.builder.folder(cwd);
    let state = &about["session_state"]["rts_model_state"]["model_info"]["model_id"];
    reader.builder.state(&Value::Null, state);
    // Only prompts have times of their own.
    let began = time("created_at").unwrap_or(found.modified);
    reader.builder.at(Some(began));
    let last = records.len().saturating_sub(1);
    for (number, record) in records.iter().enumerate() {
        if number == last {
            reader.builder.at(time("updated_at"));
        }
        reader.entry(record);
    }
    let first = reader.first.take();
    set_title(&mut reader.builder, &about["title"], first.as_deref());
    let stem = || found.path.file_stem()?.to_str();
    let id = about["session_id"].as_str().or_else(stem);
    let (id, cwd) = (id.map(str::to_owned), cwd.map(str::to_owned));
    reader.builder.finish(id, cwd)
}

impl KiroReader {
    /// A record of the second engine.
    fn entry(&mut self, record: &Value) {
        let data = &record["data"];
        let sent = data["meta"]["timestamp"].as_i64();
        let sent = sent.map(|seconds| Timestamp::from_millis(seconds.saturating_mul(1000)));
        let at = self.builder.at(sent);
        let id = data["message_id"].as_str();
        let blocks = data["content"].as_array().into_iter().flatten();
        match record["kind"].as_str() {
            Some("Prompt") => {
                let texts = blocks.filter_map(|block| self.shown(block));
                let texts: Vec<String> = texts.collect();
                if self.first.is_none() {
                    self.first = texts.first().cloned();
                }
                let texts = texts.iter().map(|said| text(said)).collect();
                self.builder.user(at, id, texts);
            }
            Some("AssistantMessage") => {
                for block in blocks {
                    let call = &block["data"];
                    if block["kind"] != "toolUse" {
                        if let Some(said) = self.shown(block) {
                            self.builder.agent(at, id, text(&said));
                        }
                    } else if let (Some(id), Some(name)) =
                        (call["toolUseId"].as_str(), call["name"].as_str())
                    {
                        let input = call["input"].clone();
                        self.calls
                            .begin(&mut self.builder, at, id, name, input, None);
                    }
                }
            }
            Some("ToolResults") => {
                for block in blocks.filter(|block| block["kind"] == "toolResult") {
                    self.result(at, &block["data"]);
                }
            }
            Some("Compaction") => {
                let summary = as_text(&data["summary"]);
                self.builder.thought(at, id, &summary);
            }
            Some("CancelledPrompt") => self.builder.cancel(),
            Some("Clear") => {}
            kind => self.builder.unknown(kind),
        }
    }

    /// The text of a block; another kind of one is counted.
    fn shown(&mut self, block: &Value) -> Option<String> {
        if block["kind"] != "text" {
            self.builder.unknown(block["kind"].as_str());
        }
        let said = block["data"].as_str().filter(|_| block["kind"] == "text");
        said.filter(|said| !said.is_empty()).map(str::to_owned)
    }

    fn result(&mut self, at: Timestamp, result: &Value) {
        let call = as_text(&result["toolUseId"]);
        let mut ok = result["status"] != "error";
        let mut output = Vec::new();
        for part in result["content"].as_array().into_iter().flatten() {
            let data = &part["data"];
            // What a command has said, and how it ended.
            if let Some(code) = data["exit_status"].as_str() {
                ok = ok && code.rsplit(' ').next() == Some("0");
                let said = ["stdout", "stderr"].map(|name| as_text(&data[name]));
                output.extend(said.into_iter().filter(|said| !said.is_empty()));
            } else {
                output.push(as_text(data));
            }
        }
        let output = output.join("\n").into();
        self.calls
            .end(&mut self.builder, at, &call, ok, &output, None);
    }
}
