//! Messages with blocks as the API of Anthropic has them, which several tools keep as they are.

use std::collections::VecDeque;

use serde_json::Value;

use crate::sys::Timestamp;

use super::content::{self, as_text, text};
use super::conversation::ConversationBuilder;
use super::tool::CallsById;
use super::updates::link;

/// Reads messages with blocks.
#[derive(Debug, Default)]
pub(super) struct BlockReader {
    pub(super) builder: ConversationBuilder,
    pub(super) calls: CallsById,
    /// Makes what the user typed of a text, which the tool may have put into tags; nothing if it is
    /// all the tool's own.
    typed: Option<fn(&str) -> Option<String>>,
    /// How many calls without an id there were.
    unnamed: usize,
    /// The calls without an id that have no result yet.
    waiting: VecDeque<String>,
}

impl BlockReader {
    /// A reader of messages in which `typed` finds what the user typed.
    pub(super) fn typed(typed: fn(&str) -> Option<String>) -> Self {
        Self {
            typed: Some(typed),
            ..Self::default()
        }
    }

    /// Adds a message of this role.
    pub(super) fn message(&mut self, at: Timestamp, id: Option<&str>, role: &str, content: &Value) {
        let whole = content.as_str().map(|said| Value::Array(vec![text(said)]));
        let blocks = whole.as_ref().unwrap_or(content);
        let mut prompt = Vec::new();
        for block in blocks.as_array().into_iter().flatten() {
            match (block["type"].as_str().unwrap_or_default(), role) {
                ("tool_use" | "tool_call", _) => self.call(at, block),
                ("tool_result" | "tool-result", _) => self.result(at, block),
                ("thinking" | "reasoning", _) => {
                    let names = ["thinking", "text"];
                    let said = names.iter().find_map(|name| block[*name].as_str());
                    self.builder.thought_of(at, id, said.unwrap_or_default());
                }
                ("text", "user") => {
                    let said = block["text"].as_str().unwrap_or_default();
                    let said = self
                        .typed
                        .map_or(Some(said.to_owned()), |typed| typed(said));
                    prompt.extend(said.filter(|said| !said.is_empty()).map(|said| text(&said)));
                }
                ("redacted_thinking", _) => {}
                (kind, role) => match shown(block) {
                    Some(shown) if role == "user" => prompt.push(shown),
                    Some(shown) => self.builder.agent(at, id, shown),
                    None if kind == "text" => {}
                    None => self.builder.unknown(Some(kind)),
                },
            }
        }
        self.builder.user(at, id, prompt);
    }

    fn call(&mut self, at: Timestamp, block: &Value) {
        let Some(name) = block["name"].as_str() else {
            return;
        };
        if matches!(name, "TodoWrite" | "todo_write")
            && let Some(plan) = content::plan(&block["input"]["todos"], "content")
        {
            return self.builder.update(at, &plan);
        }
        let id = if let Some(id) = block["id"].as_str() {
            id.to_owned()
        } else {
            self.unnamed += 1;
            let id = format!("call_{}", self.unnamed);
            self.waiting.push_back(id.clone());
            id
        };
        let input = block["input"].clone();
        self.calls
            .begin(&mut self.builder, at, &id, name, input, None);
    }

    fn result(&mut self, at: Timestamp, block: &Value) {
        let named = ["tool_use_id", "toolUseID", "toolUseId"];
        let named = named.iter().find_map(|name| block[*name].as_str());
        let named = named.filter(|id| self.calls.has(id)).map(str::to_owned);
        // Results of calls without an id come in their order.
        let id = named.or_else(|| self.waiting.pop_front());
        let id = id.unwrap_or_default();
        let content = &block["content"];
        let parts = content.as_array().into_iter().flatten();
        let texts = parts.clone().filter_map(part_text).collect::<Vec<_>>();
        let output = if !texts.is_empty() {
            texts.join("\n").into()
        } else if content.is_array() {
            Value::Null
        } else {
            content.clone()
        };
        let ok = block["is_error"] != true;
        let images = parts.filter_map(image);
        self.calls
            .end(&mut self.builder, at, &id, ok, &output, images);
    }

    /// Ends the calls without an id whose results are not recorded.
    pub(super) fn end_waiting(&mut self, at: Timestamp) {
        for id in std::mem::take(&mut self.waiting) {
            let none = Value::Null;
            self.calls
                .end(&mut self.builder, at, &id, true, &none, None);
        }
    }
}

/// The text in a part of a result.
fn part_text(part: &Value) -> Option<String> {
    let names = ["text", "result", "content"];
    let text = names
        .iter()
        .map(|name| &part[*name])
        .find(|text| !text.is_null())?;
    Some(as_text(text))
}

/// A block of a message that is shown: a text, an image or a link to a file.
fn shown(block: &Value) -> Option<Value> {
    if let Some(image) = image(block) {
        return Some(image);
    }
    if let Some(path) = block["path"].as_str() {
        return Some(link(path));
    }
    let said = block["text"].as_str()?;
    (!said.is_empty()).then(|| text(said))
}

/// The image in a block.
fn image(block: &Value) -> Option<Value> {
    if block["type"] != "image" {
        return None;
    }
    let source = &block["source"];
    let places = [
        (&source["media_type"], &source["data"]),
        (&source["mediaType"], &source["data"]),
        (&block["mediaType"], &block["data"]),
        (&block["mimeType"], &block["data"]),
    ];
    let found = places
        .iter()
        .find_map(|(kind, data)| Some(content::image(kind.as_str()?, data.as_str()?)));
    found.or_else(|| content::image_of(block["data"].as_str()?))
}
