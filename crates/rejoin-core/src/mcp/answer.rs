//! The answer of a tool, or the reason why a call has no answer.

use serde_json::Value;

/// The answer of a tool: a text for the model, and the same content as an object.
#[derive(Debug)]
pub(super) struct ToolAnswer {
    pub(super) text: String,
    pub(super) object: Value,
}

/// The reason for which a tool does not answer, for the model.
#[derive(Debug)]
pub(super) struct Refused(pub(super) String);
