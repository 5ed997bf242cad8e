//! Updates of version 1 of the protocol as the JSON text that goes into log and wire.

use serde::Serialize;
use serde_json::Value;

/// A content block that the engine makes itself.
#[derive(Debug, Serialize)]
#[serde(
    tag = "type",
    rename_all = "snake_case",
    rename_all_fields = "camelCase"
)]
pub(super) enum Block<'a> {
    /// Words.
    Text { text: &'a str },
    /// A picture, its file in Base64.
    Image { mime_type: &'a str, data: &'a str },
    /// A text that comes with its address.
    Resource { resource: TextResource<'a> },
    /// An address alone.
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
    /// Where it is from.
    pub(super) uri: &'a str,
    /// What it is.
    pub(super) mime_type: &'a str,
    /// What it says.
    pub(super) text: &'a str,
}

/// A chunk of a message; `kind` says whose.
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

/// How far a tool call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Status {
    /// Nothing was done yet.
    Pending,
    /// It is at work.
    InProgress,
    /// It has done its work.
    Completed,
    /// It has failed.
    Failed,
}

/// A tool call that begins.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolCall<'a, R = Value> {
    /// The call's id.
    #[serde(rename = "toolCallId")]
    pub(super) id: &'a str,
    /// What a person reads of it.
    pub(super) title: &'a str,
    /// The protocol's name of what sort of tool it is.
    pub(super) kind: &'a str,
    /// How far it is.
    pub(super) status: Status,
    /// Which places in files it is about.
    pub(super) locations: &'a [Value],
    /// What the tool is called with.
    pub(super) raw_input: &'a R,
}

/// What changes in a tool call.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolProgress<'a> {
    /// The call's id.
    #[serde(rename = "toolCallId")]
    pub(super) id: &'a str,
    /// How far it is.
    pub(super) status: Status,
    /// What it shows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) content: Option<&'a [Value]>,
    /// What the tool gave back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) raw_output: Option<&'a Value>,
}

/// The update that shows a new tool call.
pub(super) fn tool_call(call: &ToolCall<'_, impl Serialize>) -> String {
    tagged("tool_call", call)
}

/// The update that moves a tool call on.
pub(super) fn tool_call_update(progress: &ToolProgress<'_>) -> String {
    tagged("tool_call_update", progress)
}

/// One step of a plan.
#[derive(Debug, Serialize)]
pub(super) struct Step<'a> {
    /// What is to be done.
    pub(super) content: &'a str,
    /// `high`, `medium` or `low`.
    pub(super) priority: &'a str,
    /// How far it is; a plan's steps never fail.
    pub(super) status: Status,
}

/// The update that shows a plan; it replaces the one before.
pub(super) fn plan(entries: &[Step<'_>]) -> String {
    #[derive(Serialize)]
    struct Plan<'a> {
        entries: &'a [Step<'a>],
    }
    tagged("plan", &Plan { entries })
}

/// An update with its kind in front.
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
