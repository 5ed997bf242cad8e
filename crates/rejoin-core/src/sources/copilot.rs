//! Copilot CLI: one folder for each session, `session-state/ID/events.jsonl`; in older versions one
//! file, `session-state/ID.jsonl`.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::sys::Timestamp;

use super::content::{self, as_text, text};
use super::conversation::{ConversationBuilder, ToolConversation};
use super::subagents::SourceSubagent;
use super::tool::CallsById;
use super::usage::{Spent, number};
use super::{FoundConversation, ToolFolders, Wanted, has_extension, lines, tool};

/// `$COPILOT_HOME/session-state`, or that in `~/.copilot`.
pub(super) fn root(places: &ToolFolders) -> PathBuf {
    places
        .folder("COPILOT_HOME", ".copilot")
        .join("session-state")
}

/// `ID/events.jsonl` or `ID.jsonl`.
pub(super) fn is_conversation(path: &Path) -> bool {
    match super::parts(path)[..] {
        [_, name] => name == "events.jsonl",
        [name] => has_extension(name, &["jsonl"]),
        _ => false,
    }
}

pub(super) fn read(_: &FoundConversation, bytes: &[u8], wanted: Wanted<'_>) -> ToolConversation {
    let lines = lines::objects(bytes);
    let mut reader = CopilotReader::default();
    for event in &lines.objects {
        match event["data"]["parentToolCallId"].as_str() {
            Some(call) => reader.of_subagent(call, event),
            None => reader.event(event),
        }
    }
    let conversation = reader.builder.finish(reader.id, reader.cwd);
    if let Some(wanted) = wanted {
        let agents = reader.subagents.into_iter();
        wanted.extend(
            agents.map(|(call, read)| SourceSubagent::new(&call, Some(call.clone()), read.builder)),
        );
    }
    conversation.damaged(lines.damage)
}

#[derive(Debug, Default)]
struct CopilotReader {
    builder: ConversationBuilder,
    id: Option<String>,
    cwd: Option<String>,
    calls: CallsById,
    /// The tokens of answers since the program was started.
    output: u64,
    /// The conversations of subagents, by the calls that started them.
    subagents: BTreeMap<String, Self>,
    /// Images that are recorded before the messages that have them, by their ids.
    assets: HashMap<String, Value>,
}

/// The beginnings of events that are about the program.
const SKIPPED: [&str; 8] = [
    "session.",
    "hook.",
    "system.",
    "assistant.",
    "subagent.",
    "tool.",
    "permission.",
    "model.",
];

impl CopilotReader {
    fn of_subagent(&mut self, call: &str, event: &Value) {
        self.subagents
            .entry(call.to_owned())
            .or_default()
            .event(event);
    }

    fn event(&mut self, event: &Value) {
        let at = self.builder.time(event["timestamp"].as_str());
        let data = &event["data"];
        match event["type"].as_str() {
            Some("session.start" | "session.resume") => {
                let id = data["sessionId"].as_str().map(str::to_owned);
                self.id = self.id.take().or(id);
                let cwd = data["context"]["cwd"].as_str().map(str::to_owned);
                self.cwd = self.cwd.take().or(cwd);
                self.builder.folder(self.cwd.as_deref());
                let branch = &data["context"]["branch"];
                self.builder.state(branch, &data["selectedModel"]);
            }
            Some("session.binary_asset") => {
                if let (Some(id), Some(image)) = (data["assetId"].as_str(), image(data)) {
                    self.assets.insert(id.to_owned(), image);
                }
            }
            Some("user.message") => self.user(at, event),
            Some("assistant.message") => self.assistant(at, data),
            Some("tool.execution_start") => {
                self.call(
                    at,
                    &data["toolCallId"],
                    &data["toolName"],
                    &data["arguments"],
                    None,
                );
            }
            Some("tool.execution_complete") => self.result(at, data),
            Some("session.error") => {
                let message = as_text(&data["message"]);
                self.builder.error(at, None, &message);
            }
            Some("session.shutdown") => self.shutdown(data),
            Some("session.title_changed") => self.builder.title(&as_text(&data["title"])),
            Some("abort") => self.builder.cancel(),
            Some(kind) if SKIPPED.iter().any(|start| kind.starts_with(start)) => {}
            kind => self.builder.unknown(kind),
        }
    }

    fn user(&mut self, at: Timestamp, event: &Value) {
        let data = &event["data"];
        let mut blocks = vec![text(data["content"].as_str().unwrap_or_default())];
        for attachment in data["attachments"].as_array().into_iter().flatten() {
            let asset = attachment["assetId"].as_str();
            if let Some(image) = asset.and_then(|id| self.assets.get(id)) {
                blocks.push(image.clone());
            } else if let Some(path) = attachment["path"].as_str() {
                let name = attachment["displayName"].as_str().unwrap_or(path);
                let uri = format!("file://{path}");
                blocks.push(json!({"type": "resource_link", "uri": uri, "name": name}));
            } else {
                blocks.extend(image(attachment));
            }
        }
        self.builder.user(at, event["id"].as_str(), blocks);
    }

    fn assistant(&mut self, at: Timestamp, data: &Value) {
        let id = data["messageId"].as_str();
        let reasoning = data["reasoningText"].as_str().unwrap_or_default();
        self.builder.thought_of(at, id, reasoning);
        let said = data["content"].as_str().unwrap_or_default();
        self.builder.agent(at, id, text(said));
        let spent = Spent {
            output: number(&data["outputTokens"]),
            ..Spent::default()
        };
        self.output += spent.output;
        self.builder.spent(id, spent);
        for request in data["toolRequests"].as_array().into_iter().flatten() {
            let title = request["toolTitle"].as_str();
            let (id, name) = (&request["toolCallId"], &request["name"]);
            self.call(at, id, name, &request["arguments"], title);
        }
    }

    /// The tokens since the program was started. Those of answers are known already.
    fn shutdown(&mut self, data: &Value) {
        let models = data["modelMetrics"].as_object().into_iter().flatten();
        let sum = |name: &str| {
            models
                .clone()
                .map(|(_, of)| number(&of["usage"][name]))
                .sum()
        };
        let [input, output, cached_read, cached_write]: [u64; 4] = [
            "inputTokens",
            "outputTokens",
            "cacheReadTokens",
            "cacheWriteTokens",
        ]
        .map(sum);
        let mut spent = Spent {
            input: input.saturating_sub(cached_read + cached_write),
            output,
            cached_read,
            cached_write,
            ..Spent::default()
        };
        if spent == Spent::default() {
            // Some versions have the numbers of all models together, each token in one of them.
            let of = |name: &str| number(&data["tokenDetails"][name]["tokenCount"]);
            spent.input = of("input");
            spent.output = of("output");
            spent.cached_read = of("cache_read");
            spent.cached_write = of("cache_write");
        }
        spent.output = spent
            .output
            .saturating_sub(std::mem::take(&mut self.output));
        self.builder.spent(None, spent);
    }

    /// A tool call, which is recorded with the message and again when it begins.
    fn call(
        &mut self,
        at: Timestamp,
        id: &Value,
        name: &Value,
        given: &Value,
        title: Option<&str>,
    ) {
        let (Some(id), Some(name)) = (id.as_str(), name.as_str()) else {
            return;
        };
        if !self.calls.has(id) {
            let input = tool::arguments(given);
            let builder = &mut self.builder;
            self.calls.begin(builder, at, id, name, input, title);
        }
    }

    fn result(&mut self, at: Timestamp, data: &Value) {
        let id = data["toolCallId"].as_str().unwrap_or_default();
        let ok = data["success"] != false;
        let outputs = [&data["result"]["content"], &data["error"]["message"]];
        let output = outputs.into_iter().find(|output| !output.is_null());
        let output = output.unwrap_or(&Value::Null);
        let parts = data["result"]["contents"].as_array().into_iter().flatten();
        let images = parts.filter_map(image);
        self.calls
            .end(&mut self.builder, at, id, ok, output, images);
    }
}

/// The image in a part of a message or a result.
fn image(part: &Value) -> Option<Value> {
    let mime_type = part["mimeType"].as_str()?;
    let is_image = mime_type.starts_with("image/");
    let data = part["data"].as_str().filter(|_| is_image)?;
    Some(content::image(mime_type, data))
}
