//! The messages of a chat as updates of the protocol.

use serde_json::Value;

use crate::sys::Timestamp;

use super::super::content::{self, text};
use super::super::conversation::ConversationBuilder;
use super::super::usage::{Spent, number};
use super::tools;

/// Reads messages in their order.
#[derive(Debug)]
pub(super) struct GeminiReader {
    builder: ConversationBuilder,
}

impl GeminiReader {
    pub(super) fn new(builder: ConversationBuilder) -> Self {
        Self { builder }
    }

    pub(super) fn finish(self) -> ConversationBuilder {
        self.builder
    }

    pub(super) fn message(&mut self, message: &Value) {
        let at = self.builder.time(message["timestamp"].as_str());
        let id = message["id"].as_str();
        self.builder.state(&Value::Null, &message["model"]);
        let shown = &message["displayContent"];
        let content = if shown.is_null() {
            &message["content"]
        } else {
            shown
        };
        match message["type"].as_str() {
            Some("user") => {
                let mut blocks = blocks(content);
                // The tool's own introduction to the folder.
                blocks.retain(|block| {
                    let said = block["text"].as_str().unwrap_or_default();
                    !said.starts_with("<session_context>")
                });
                self.builder.user(at, id, blocks);
            }
            Some("gemini") => self.answer(at, id, content, message),
            Some("info" | "warning" | "error") => {
                let said = content.as_str().unwrap_or_default();
                if said == "Request cancelled." {
                    self.builder.cancel();
                } else if message["type"] == "error" {
                    self.builder.error(at, id, said);
                }
            }
            kind => self.builder.unknown(kind),
        }
    }

    fn answer(&mut self, at: Timestamp, id: Option<&str>, content: &Value, message: &Value) {
        let tokens = &message["tokens"];
        let cached_read = number(&tokens["cached"]);
        let spent = Spent {
            input: (number(&tokens["input"]) + number(&tokens["tool"])).saturating_sub(cached_read),
            output: number(&tokens["output"]),
            thought: number(&tokens["thoughts"]),
            cached_read,
            ..Spent::default()
        };
        self.builder.spent(id, spent);
        for (n, thought) in message["thoughts"]
            .as_array()
            .into_iter()
            .flatten()
            .enumerate()
        {
            let parts = ["subject", "description"].map(|name| thought[name].as_str());
            let parts = parts.into_iter().flatten().map(str::trim);
            let said = parts.filter(|part| !part.is_empty()).collect::<Vec<_>>();
            let id = id.map(|id| format!("{id}-thought-{n}"));
            self.builder.thought(at, id.as_deref(), &said.join("\n\n"));
        }
        for block in blocks(content) {
            self.builder.agent(at, id, block);
        }
        for call in message["toolCalls"].as_array().into_iter().flatten() {
            let at = self.builder.time(call["timestamp"].as_str());
            if call["name"] == "write_todos" {
                if let Some(plan) = content::plan(&call["args"]["todos"], "description") {
                    self.builder.update(at, &plan);
                }
                continue;
            }
            let Some(id) = call["id"].as_str() else {
                continue;
            };
            self.builder.call(at, tools::call(id, call));
            match call["status"].as_str() {
                Some("executing" | "awaiting_approval" | "scheduled" | "validating") => {}
                status => {
                    let ok = status == Some("success");
                    self.builder.result(at, id, ok, tools::result(call));
                }
            }
        }
    }
}

/// The blocks of a message: a text, or the parts of the API.
fn blocks(content: &Value) -> Vec<Value> {
    match content {
        Value::String(said) if !said.is_empty() => vec![text(said)],
        Value::Array(parts) => parts.iter().filter_map(block).collect(),
        Value::Object(_) => block(content).into_iter().collect(),
        _ => Vec::new(),
    }
}

fn block(part: &Value) -> Option<Value> {
    if let Some(said) = part.as_str().or(part["text"].as_str()) {
        return (!said.is_empty()).then(|| text(said));
    }
    if let Some(image) = content::inline_image(part) {
        return Some(image);
    }
    let file = part["fileData"]["fileUri"].as_str()?;
    Some(text(&format!("[file {file}]")))
}
