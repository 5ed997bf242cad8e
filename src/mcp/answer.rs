//! What a tool answers, or why it does not.

use serde_json::Value;

/// The answer of a tool: a text for the model, and the same content as an object.
#[derive(Debug)]
pub(super) struct ToolAnswer {
    pub(super) text: String,
    pub(super) object: Value,
}

/// Why a tool does not answer, for the model.
#[derive(Debug)]
pub(super) struct Refused(pub(super) String);
