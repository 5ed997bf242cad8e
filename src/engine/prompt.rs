//! A prompt as engines get it: the request's own JSON, with a reading of its blocks.

use serde_json::Value;

/// One prompt of the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// The id of the user's message.
    pub message_id: String,
    /// The parameters of `session/prompt` without the session's id, verbatim: an object with a
    /// `prompt` array of content blocks and perhaps `_meta`.
    pub params: String,
}

impl Prompt {
    /// The content blocks, in order. What cannot be read as a block is left out.
    pub fn blocks(&self) -> Vec<Value> {
        match serde_json::from_str::<Value>(&self.params) {
            Ok(Value::Object(mut params)) => match params.remove("prompt") {
                Some(Value::Array(blocks)) => blocks,
                _ => Vec::new(),
            },
            _ => Vec::new(),
        }
    }

    /// The text blocks, joined by line breaks.
    pub fn text(&self) -> String {
        let blocks = self.blocks();
        let texts = blocks.iter().filter(|block| block["type"] == "text");
        texts
            .filter_map(|block| block["text"].as_str())
            .collect::<Vec<_>>()
            .join("\n")
    }
}
