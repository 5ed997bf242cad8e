//! Reads a JSON-RPC message, leaving its values as text.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

/// One line of input.
#[derive(Debug, Deserialize)]
pub(crate) struct Message<'a> {
    #[serde(borrow)]
    pub(crate) id: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(crate) params: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) result: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) error: Option<&'a RawValue>,
}

/// The parameters that this agent looks at; each request has some of them.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Params {
    pub(crate) session_id: String,
    pub(crate) cwd: String,
    pub(crate) mode_id: String,
    pub(crate) config_id: String,
    pub(crate) value: serde_json::Value,
    pub(crate) cursor: Option<String>,
    pub(crate) cursor_id: Option<String>,
    pub(crate) prompt: Option<Box<RawValue>>,
    pub(crate) replay_from: Option<Box<RawValue>>,
    pub(crate) request_id: Option<Box<RawValue>>,
}

impl Params {
    /// Reads them; what is missing or wrong is empty.
    pub(crate) fn read(text: &str) -> Self {
        serde_json::from_str(text).unwrap_or_default()
    }
}

/// A text as JSON.
pub(crate) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A text chunk of a message, as an `update` object.
pub(crate) fn chunk(kind: &str, message: Option<&str>, content: &str) -> String {
    let message = message.map(|id| format!(r#""messageId":{},"#, quoted(id)));
    let message = message.unwrap_or_default();
    format!(r#"{{"sessionUpdate":"{kind}",{message}"content":{content}}}"#)
}

/// A text as a content block.
pub(crate) fn text_block(text: &str) -> String {
    format!(r#"{{"type":"text","text":{}}}"#, quoted(text))
}

/// The blocks of a prompt, given as its JSON array: the text of each as it came, and what it says
/// if it is a text.
pub(crate) fn blocks(prompt: &str) -> Vec<(&str, Option<String>)> {
    #[derive(Deserialize)]
    struct Text {
        text: Option<String>,
    }
    let blocks: Vec<&RawValue> = serde_json::from_str(prompt).unwrap_or_default();
    let blocks = blocks.into_iter().map(RawValue::get);
    let text = |block| {
        serde_json::from_str(block)
            .ok()
            .and_then(|block: Text| block.text)
    };
    blocks.map(|block| (block, text(block))).collect()
}
