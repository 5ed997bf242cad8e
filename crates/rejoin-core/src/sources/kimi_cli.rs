//! kimi-cli: one folder for each session, `sessions/FOLDER/ID`. Its `wire.jsonl` has what the user
//! saw. `context.jsonl` has what the model got, and is read where the other has no prompt. The
//! working directory is in none of them: the folder's name is made from it, and `kimi.json` lists
//! those that are known.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::sys::Timestamp;

use super::content::{self, as_text, diff, text};
use super::conversation::{ConversationBuilder, ToolConversation};
use super::subagents::SourceSubagent;
use super::tool::{CallsById, arguments};
use super::usage::{Spent, number};
use super::{FoundConversation, ToolFolders, Wanted, has_extension, lines};

/// `$KIMI_SHARE_DIR/sessions`, or that in `~/.kimi`.
pub(super) fn root(places: &ToolFolders) -> PathBuf {
    places.folder("KIMI_SHARE_DIR", ".kimi").join("sessions")
}

/// `FOLDER/ID/context.jsonl`, which every session has, or `FOLDER/ID.jsonl` of early versions.
pub(super) fn is_conversation(path: &Path) -> bool {
    match super::parts(path)[..] {
        [_, _, name] => name == "context.jsonl",
        [_, name] => has_extension(name, &["jsonl"]),
        _ => false,
    }
}

/// `FOLDER/ID/state.json`.
pub(super) fn state(path: &Path) -> Option<PathBuf> {
    let has_folder = path.file_stem().is_some_and(|name| name == "context");
    has_folder.then(|| path.with_file_name("state.json"))
}

pub(super) fn read(
    found: &FoundConversation,
    bytes: &[u8],
    wanted: Wanted<'_>,
) -> ToolConversation {
    let has_folder = found.path.file_stem().is_some_and(|name| name == "context");
    let parent = found.path.parent().unwrap_or(&found.root);
    let (id, group) = if has_folder {
        (parent.file_name(), parent.parent())
    } else {
        (found.path.file_stem(), Some(parent))
    };
    let wire = has_folder.then(|| parent.join("wire.jsonl"));
    let wire = wire.and_then(|path| super::bytes(&path).ok());
    let wire = lines::objects(&wire.unwrap_or_default());
    let cwd = group.and_then(|group| cwd(found, group));
    let mut reader = KimiCliReader::of(&wire.objects, cwd.as_deref());
    let mut damage = wire.damage;
    if !reader.builder.has_prompt() {
        reader = KimiCliReader::default();
        reader.builder.folder(cwd.as_deref());
        let context = lines::objects(bytes);
        for message in &context.objects {
            reader.message(found.modified, message);
        }
        damage.extend(context.damage);
    }
    let state = state(&found.path).map(|path| super::json_file(&path));
    let state = state.unwrap_or_default();
    reader.builder.title(&as_text(&state["custom_title"]));
    let id = id.and_then(|id| id.to_str()).map(str::to_owned);
    if state["archived"] == true {
        reader.builder.archive();
    }
    if let Some(wanted) = wanted {
        wanted.extend(agents(&wire.objects, cwd.as_deref()));
    }
    let conversation = reader.builder.finish(id, cwd);
    conversation.damaged(damage)
}

/// The subagents, whose records are among those of the session.
fn agents(records: &[Value], cwd: Option<&str>) -> Vec<SourceSubagent> {
    let mut of_agent: BTreeMap<String, (Option<String>, Vec<Value>)> = BTreeMap::new();
    for record in records {
        let payload = &record["message"]["payload"];
        if record["message"]["type"] != "SubagentEvent" {
            continue;
        }
        let calls = ["parent_tool_call_id", "task_tool_call_id"];
        let call = calls.iter().find_map(|name| payload[*name].as_str());
        let Some(id) = payload["agent_id"].as_str().or(call) else {
            continue;
        };
        let (_, own) = of_agent
            .entry(id.to_owned())
            .or_insert_with(|| (call.map(str::to_owned), Vec::new()));
        own.push(json!({"timestamp": record["timestamp"], "message": payload["event"]}));
    }
    let read = of_agent.into_iter().map(|(id, (call, records))| {
        SourceSubagent::new(id, call, KimiCliReader::of(&records, cwd).builder)
    });
    read.collect()
}

/// The working directory of a folder: its name is the MD5 of the path, behind the name of the
/// system that has it, if that is not this one.
fn cwd(found: &FoundConversation, folder: &Path) -> Option<String> {
    let known = super::json_file(&found.root.parent()?.join("kimi.json"));
    let name = folder.file_name()?.to_str()?;
    let hash = name.rsplit('_').next()?;
    let paths = known["work_dirs"].as_array()?.iter();
    let mut paths = paths.filter_map(|known| known["path"].as_str());
    let path = paths.find(|path| format!("{:x}", md5::compute(path)) == hash)?;
    Some(path.to_owned())
}

/// The cost of a step.
fn spent(tokens: &Value) -> Spent {
    Spent {
        input: number(&tokens["input_other"]),
        output: number(&tokens["output"]),
        cached_read: number(&tokens["input_cache_read"]),
        cached_write: number(&tokens["input_cache_creation"]),
        ..Spent::default()
    }
}

#[derive(Debug, Default)]
struct KimiCliReader {
    builder: ConversationBuilder,
    calls: CallsById,
    /// The arguments of calls, put together from their parts.
    arguments: HashMap<String, String>,
    /// Calls of the model's answer that is being read. Their arguments may not be complete.
    pending: Vec<(Timestamp, Value)>,
}

/// Records that are about the program, or repeat what others have.
const SKIPPED: [&str; 17] = [
    "ApprovalRequest",
    "ApprovalRequestResolved",
    "ApprovalResponse",
    "BtwBegin",
    "BtwEnd",
    "CompactionBegin",
    "CompactionEnd",
    "HookRequest",
    "HookResolved",
    "HookTriggered",
    "MCPLoadingBegin",
    "MCPLoadingEnd",
    "Notification",
    "QuestionRequest",
    "SubagentEvent",
    "ToolCallPart",
    "ToolCallRequest",
];

impl KimiCliReader {
    /// Reads the records of a file about this folder.
    fn of(records: &[Value], cwd: Option<&str>) -> Self {
        let mut arguments: HashMap<String, String> = HashMap::new();
        let mut last = String::new();
        for record in records {
            let payload = &record["message"]["payload"];
            let part = match record["message"]["type"].as_str() {
                Some("ToolCall") => {
                    last = as_text(&payload["id"]);
                    &payload["function"]["arguments"]
                }
                Some("ToolCallPart") => &payload["arguments_part"],
                _ => continue,
            };
            let all = arguments.entry(last.clone()).or_default();
            all.push_str(part.as_str().unwrap_or_default());
        }
        let mut reader = Self {
            arguments,
            ..Self::default()
        };
        reader.builder.folder(cwd);
        for record in records {
            reader.record(record);
        }
        // The file may have been cut off.
        reader.begin_calls();
        reader
    }

    fn record(&mut self, record: &Value) {
        let seconds = record["timestamp"].as_f64();
        let at = seconds.map(|seconds| Timestamp::from_millis((seconds * 1000.0) as i64));
        let at = self.builder.at(at);
        let payload = &record["message"]["payload"];
        match record["message"]["type"].as_str() {
            Some("TurnBegin" | "SteerInput") => {
                self.begin_calls();
                self.builder.user(at, None, blocks(&payload["user_input"]));
            }
            Some("ContentPart") => said(&mut self.builder, at, None, payload),
            Some("ToolCall") => self.pending.push((at, payload.clone())),
            Some("ToolResult") => {
                self.begin_calls_until(as_text(&payload["tool_call_id"]).as_str());
                self.result(at, payload);
            }
            Some("StatusUpdate") => {
                self.begin_calls();
                let number = |name: &str| payload[name].as_u64();
                if let (Some(used), Some(size)) =
                    (number("context_tokens"), number("max_context_tokens"))
                {
                    self.builder.usage(used, size);
                }
                self.builder.spent(None, spent(&payload["token_usage"]));
            }
            Some("StepBegin" | "TurnEnd") => self.begin_calls(),
            Some("StepInterrupted") => {
                self.begin_calls();
                self.builder.cancel();
            }
            Some("PlanDisplay") => {
                let plan = text(payload["content"].as_str().unwrap_or_default());
                self.builder.agent(at, None, plan);
            }
            Some(kind) if SKIPPED.contains(&kind) => {}
            None if record["type"] == "metadata" => {}
            kind => self.builder.unknown(kind),
        }
    }

    /// Begins the calls of an answer that is complete.
    fn begin_calls(&mut self) {
        for (at, call) in std::mem::take(&mut self.pending) {
            self.call(at, &call);
        }
    }

    /// Begins those up to one that has a result, so it is complete, too.
    fn begin_calls_until(&mut self, id: &str) {
        let at = self.pending.iter().position(|(_, call)| call["id"] == id);
        let rest = self.pending.split_off(at.map_or(0, |at| at + 1));
        self.begin_calls();
        self.pending = rest;
    }

    fn call(&mut self, at: Timestamp, call: &Value) {
        let id = call["id"].as_str().unwrap_or_default();
        let name = call["function"]["name"].as_str().unwrap_or_default();
        let all = self.arguments.get(id).cloned().map(Value::from);
        let input = arguments(all.as_ref().unwrap_or(&call["function"]["arguments"]));
        begin(&mut self.builder, &mut self.calls, at, id, name, input);
    }

    fn result(&mut self, at: Timestamp, result: &Value) {
        let id = result["tool_call_id"].as_str().unwrap_or_default();
        let value = &result["return_value"];
        let ok = value["is_error"] != true;
        let shown = value["display"].as_array().into_iter().flatten();
        let changes: Vec<Value> = shown.filter_map(change).collect();
        if ok && !changes.is_empty() && self.calls.has(id) {
            let update = json!({ "content": changes });
            return self.builder.result(at, id, ok, update);
        }
        let images = images(&value["output"], block);
        let output = match output(&value["output"]) {
            output if output.trim().is_empty() && images.is_empty() => as_text(&value["message"]),
            output => output,
        };
        let builder = &mut self.builder;
        self.calls.end(builder, at, id, ok, &output.into(), images);
    }

    /// A message of the file for the model, which has no times.
    fn message(&mut self, at: Timestamp, message: &Value) {
        let at = self.builder.at(Some(at));
        match message["role"].as_str() {
            Some("user") if is_summary(&message["content"]) => {
                let blocks = blocks(&message["content"]);
                let said = blocks.iter().filter_map(|block| block["text"].as_str());
                let said = said.filter(|said| !said.starts_with("<system>"));
                let summary = said.collect::<Vec<_>>().join("\n");
                self.builder.thought(at, None, &summary);
            }
            Some("user") => {
                let blocks = blocks(&message["content"]).into_iter();
                let blocks = blocks.filter(|block| !is_reminder(block));
                self.builder.user(at, None, blocks.collect());
            }
            Some("assistant") => {
                if let Some(said) = message["content"].as_str() {
                    self.builder.agent(at, None, text(said));
                }
                for part in message["content"].as_array().into_iter().flatten() {
                    said(&mut self.builder, at, None, part);
                }
                for call in message["tool_calls"].as_array().into_iter().flatten() {
                    self.call(at, call);
                }
            }
            Some("tool") => {
                let id = message["tool_call_id"].as_str().unwrap_or_default();
                let output = output(&message["content"]);
                let ok = !output.starts_with("<system>ERROR");
                let images = images(&message["content"], block);
                let builder = &mut self.builder;
                self.calls.end(builder, at, id, ok, &output.into(), images);
            }
            Some(role) if role.starts_with('_') => {}
            kind => self.builder.unknown(kind),
        }
    }
}

/// Adds a part of what the model said.
pub(super) fn said(
    builder: &mut ConversationBuilder,
    at: Timestamp,
    id: Option<&str>,
    part: &Value,
) {
    if let Some(thought) = part["think"].as_str() {
        builder.thought(at, id, thought);
    } else if let Some(block) = block(part) {
        builder.agent(at, id, block);
    }
}

/// Begins a tool call, or updates the plan if that is what the tool does.
pub(super) fn begin(
    builder: &mut ConversationBuilder,
    calls: &mut CallsById,
    at: Timestamp,
    id: &str,
    name: &str,
    input: Value,
) {
    let is_plan = name.starts_with("Todo") || name == "SetTodoList";
    match content::plan(&input["todos"], "title").filter(|_| is_plan) {
        Some(plan) => builder.update(at, &plan),
        None => calls.begin(builder, at, id, name, input, None),
    }
}

/// Whether the program has put these words into the conversation.
fn is_reminder(block: &Value) -> bool {
    let text = block["text"].as_str().unwrap_or_default();
    text.starts_with("<system-reminder>")
}

/// Whether a message of the user's is the summary of a compaction, which the program has put there.
fn is_summary(content: &Value) -> bool {
    let first = content.as_str().or(content[0]["text"].as_str());
    first.is_some_and(|first| first.starts_with("<system>Previous context has been compacted"))
}

/// The images in the output of a tool call. `block` reads a part of it.
pub(super) fn images(output: &Value, block: impl Fn(&Value) -> Option<Value>) -> Vec<Value> {
    let parts = output.as_array().into_iter().flatten();
    let blocks = parts.filter_map(block);
    blocks.filter(|block| block["type"] == "image").collect()
}

/// The output of a tool call, which is a text or parts.
pub(super) fn output(output: &Value) -> String {
    let Some(parts) = output.as_array() else {
        return as_text(output);
    };
    let texts = parts.iter().filter_map(|part| part["text"].as_str());
    texts.collect::<Vec<_>>().join("\n")
}

/// A change of a file as it was shown.
fn change(shown: &Value) -> Option<Value> {
    if shown["type"] != "diff" {
        return None;
    }
    let old = shown["old_text"].as_str().filter(|old| !old.is_empty());
    Some(diff(
        shown["path"].as_str()?,
        old,
        shown["new_text"].as_str()?,
    ))
}

/// The blocks of what the user said: a text, or parts.
fn blocks(content: &Value) -> Vec<Value> {
    match content {
        Value::String(said) => vec![text(said)],
        Value::Array(parts) => parts.iter().filter_map(block).collect(),
        _ => Vec::new(),
    }
}

/// A part of a message.
pub(super) fn block(part: &Value) -> Option<Value> {
    if let Some(said) = part["text"].as_str() {
        return Some(text(said));
    }
    content::data_image(image_url(part)?)
}

/// The URL of an image.
pub(super) fn image_url(part: &Value) -> Option<&str> {
    let url = part["imageUrl"]["url"].as_str();
    url.or(part["image_url"]["url"].as_str())
}
