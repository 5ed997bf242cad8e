//! Messages as the API of OpenAI has them, with calls of functions, which several tools keep so.

use serde_json::Value;

use crate::sys::Timestamp;

use super::content::{as_text, text};
use super::conversation::ConversationBuilder;
use super::tool::{CallsById, arguments};

/// Reads messages with calls of functions.
#[derive(Debug, Default)]
pub(super) struct ChatReader {
    pub(super) builder: ConversationBuilder,
    pub(super) calls: CallsById,
}

impl ChatReader {
    /// Adds a message with these images.
    pub(super) fn message(
        &mut self,
        at: Timestamp,
        id: Option<&str>,
        message: &Value,
        images: impl Iterator<Item = Value>,
    ) {
        let said = said(&message["content"]);
        match message["role"].as_str() {
            Some("user") => {
                let said = (!said.is_empty()).then(|| text(&said));
                let blocks = said.into_iter().chain(images).collect();
                self.builder.user(at, id, blocks);
            }
            Some("assistant") => {
                for name in ["reasoning_content", "reasoning"] {
                    if let Some(thought) = message[name].as_str() {
                        self.builder.thought_of(at, id, thought);
                        break;
                    }
                }
                self.builder.agent(at, id, text(&said));
                for call in message["tool_calls"].as_array().into_iter().flatten() {
                    self.call(at, call);
                }
            }
            Some("tool") => {
                let call = as_text(&message["tool_call_id"]);
                let output = said.into();
                self.calls
                    .end(&mut self.builder, at, &call, true, &output, images);
            }
            Some("system" | "developer") => {}
            role => self.builder.unknown(role),
        }
    }

    fn call(&mut self, at: Timestamp, call: &Value) {
        let function = call.get("function").unwrap_or(call);
        let (Some(id), Some(name)) = (call["id"].as_str(), function["name"].as_str()) else {
            return;
        };
        let input = arguments(&function["arguments"]);
        self.calls
            .begin(&mut self.builder, at, id, name, input, None);
    }
}

/// The text of a message: a string, or parts with texts.
fn said(content: &Value) -> String {
    let Some(parts) = content.as_array() else {
        return as_text(content);
    };
    let texts = parts.iter().filter_map(|part| part["text"].as_str());
    texts.collect::<Vec<_>>().join("\n")
}
