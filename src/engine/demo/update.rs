//! Updates of protocol version 1 as JSON text, ready to be logged and sent.

use serde::Serialize;
use serde_json::Value;

/// A content block made by the engine.
#[derive(Debug, Serialize)]
#[serde(
    tag = "type",
    rename_all = "snake_case",
    rename_all_fields = "camelCase"
)]
pub(super) enum Block<'a> {
    /// Text.
    Text { text: &'a str },
    /// An image file in Base64.
    Image { mime_type: &'a str, data: &'a str },
    /// A text with its URI.
    Resource { resource: TextResource<'a> },
    /// A URI alone.
    ResourceLink {
        uri: &'a str,
        name: &'a str,
        description: &'a str,
        mime_type: &'a str,
        size: usize,
    },
}

/// The contents of an embedded text.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TextResource<'a> {
    /// The URI.
    pub(super) uri: &'a str,
    /// The MIME type.
    pub(super) mime_type: &'a str,
    /// The text.
    pub(super) text: &'a str,
}

/// A chunk of a message; `kind` is the name of the update.
pub(super) fn chunk(kind: &'static str, message_id: &str, content: &impl Serialize) -> String {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Chunk<'a, C> {
        session_update: &'static str,
        message_id: &'a str,
        content: &'a C,
    }
    line(&Chunk {
        session_update: kind,
        message_id,
        content,
    })
}

/// The status of a tool call or a plan's step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Status {
    /// It has not begun.
    Pending,
    /// It is running.
    InProgress,
    /// It has succeeded.
    Completed,
    /// It has failed.
    Failed,
}

/// A new tool call.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolCall<'a, R = Value> {
    /// The call's id.
    #[serde(rename = "toolCallId")]
    pub(super) id: &'a str,
    /// The title that the user sees.
    pub(super) title: &'a str,
    /// The kind, by its name in the protocol.
    pub(super) kind: &'a str,
    /// The status.
    pub(super) status: Status,
    /// The file locations that the call is about.
    pub(super) locations: &'a [Value],
    /// The input of the tool.
    pub(super) raw_input: &'a R,
}

/// A change of a tool call.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolProgress<'a> {
    /// The call's id.
    #[serde(rename = "toolCallId")]
    pub(super) id: &'a str,
    /// The status.
    pub(super) status: Status,
    /// The content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) content: Option<&'a [Value]>,
    /// The output of the tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) raw_output: Option<&'a Value>,
}

/// The update that announces a tool call.
pub(super) fn tool_call(call: &ToolCall<'_, impl Serialize>) -> String {
    tagged("tool_call", call)
}

/// The update that changes a tool call.
pub(super) fn tool_call_update(progress: &ToolProgress<'_>) -> String {
    tagged("tool_call_update", progress)
}

/// One step of a plan.
#[derive(Debug, Serialize)]
pub(super) struct Step<'a> {
    /// The step's description.
    pub(super) content: &'a str,
    /// `high`, `medium` or `low`.
    pub(super) priority: &'a str,
    /// The status; a step never fails.
    pub(super) status: Status,
}

/// The update that shows a plan; it replaces the earlier plan.
pub(super) fn plan(entries: &[Step<'_>]) -> String {
    #[derive(Serialize)]
    struct Plan<'a> {
        entries: &'a [Step<'a>],
    }
    tagged("plan", &Plan { entries })
}

/// An update object whose first member is its kind.
fn tagged(kind: &'static str, fields: &impl Serialize) -> String {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Tagged<'a, F> {
        session_update: &'static str,
        #[serde(flatten)]
        fields: &'a F,
    }
    line(&Tagged {
        session_update: kind,
        fields,
    })
}

fn line(update: &impl Serialize) -> String {
    serde_json::to_string(update).expect("named fields of strings, numbers and JSON always print")
}
