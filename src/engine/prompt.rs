//! A prompt as engines get it: the request's own JSON, with a reading of its blocks.

use serde_json::Value;

use crate::record::json;

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
    /// The content blocks, in order, for reading: odd numbers and broken strings beside what is
    /// read are no obstacle.
    pub fn blocks(&self) -> Vec<Value> {
        match json::tree(&self.params) {
            Some(Value::Object(mut params)) => match params.remove("prompt") {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_reads_does_not_matter() {
        let params = r#"{"prompt":[{"type":"text","text":"a"},{"type":"text","text":"b","_meta":{"n":1e400,"s":"\ud83d"}}]}"#;
        let prompt = Prompt {
            message_id: "msg_1".to_owned(),
            params: params.to_owned(),
        };
        assert_eq!(prompt.text(), "a\nb");
    }
}
