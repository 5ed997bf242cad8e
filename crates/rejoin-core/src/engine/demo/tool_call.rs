//! A tool call, from its announcement to its result.

use agent_client_protocol_schema::v1::{ToolCallLocation, ToolCallStatus, ToolKind};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::turn::{DemoTurn, Done, EarlyStop, Sent};

/// A tool call as it is announced.
///
/// Not the schema's own type, which leaves out what has its default value (`pending`, `other`, no
/// locations) and cannot hold an input verbatim. The same goes for the content of calls: the
/// schema's types drop unknown members of an MCP server's blocks, and an `oldText` of `null`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolCall {
    #[serde(rename = "toolCallId")]
    pub(super) id: String,
    title: String,
    kind: ToolKind,
    status: ToolCallStatus,
    locations: Vec<ToolCallLocation>,
    raw_input: Box<RawValue>,
}

/// The result of a tool call.
#[derive(Debug, Default)]
pub(super) struct ToolResult {
    pub(super) failed: bool,
    /// Whether the call failed because the turn was cancelled; the turn then ends, too.
    pub(super) cancelled: bool,
    /// The new content; `None` keeps the current content.
    pub(super) content: Option<Vec<Value>>,
    pub(super) raw_output: Option<Value>,
    /// The agent's text after the call.
    pub(super) comment: String,
}

impl ToolResult {
    /// The call was cancelled, with this content.
    pub(super) fn cancelled(content: Option<Vec<Value>>) -> Self {
        Self {
            failed: true,
            cancelled: true,
            content,
            ..Self::default()
        }
    }

    /// The call failed, for this reason.
    pub(super) fn failed(reason: &str) -> Self {
        Self {
            failed: true,
            content: Some(vec![text(reason)]),
            raw_output: Some(json!({ "error": reason })),
            comment: "That failed; the tool call says why.".to_owned(),
            ..Self::default()
        }
    }
}

#[derive(Serialize)]
#[serde(tag = "sessionUpdate", rename_all = "snake_case")]
enum CallUpdate<'a> {
    ToolCall(&'a ToolCall),
    ToolCallUpdate(CallChanges<'a>),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CallChanges<'a> {
    tool_call_id: &'a str,
    status: ToolCallStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<&'a [Value]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    raw_output: Option<&'a Value>,
}

impl ToolCall {
    /// A new call, which was not announced yet.
    pub(super) fn new(
        turn: &DemoTurn<'_>,
        title: impl Into<String>,
        kind: ToolKind,
        locations: Vec<ToolCallLocation>,
        raw_input: &impl Serialize,
    ) -> Self {
        Self {
            id: turn.opening.ids.tool_call(),
            title: title.into(),
            kind,
            status: ToolCallStatus::Pending,
            locations,
            raw_input: to_raw_value(raw_input).expect("JSON always prints"),
        }
    }

    /// Announces the call, runs `work`, shows the result, and ends the turn with a comment.
    pub(super) async fn answer(
        &self,
        turn: &DemoTurn<'_>,
        work: impl Future<Output = Result<ToolResult, EarlyStop>>,
    ) -> Done {
        let comment = self.run(turn, work).await?;
        turn.say_all(&comment).await
    }

    /// Announces the call, runs `work` and shows the result. Returns the agent's text after the
    /// call. The call is always closed, however the turn ends.
    pub(super) async fn run(
        &self,
        turn: &DemoTurn<'_>,
        work: impl Future<Output = Result<ToolResult, EarlyStop>>,
    ) -> Result<String, EarlyStop> {
        turn.send(&CallUpdate::ToolCall(self)).await?;
        let result = match work.await {
            Ok(result) => result,
            Err(EarlyStop::Cancelled) => ToolResult::cancelled(Some(vec![text("Cancelled.")])),
            Err(failed) => return Err(failed),
        };
        let status = if result.failed {
            ToolCallStatus::Failed
        } else {
            ToolCallStatus::Completed
        };
        // Finished work is reported even if the turn was cancelled meanwhile.
        turn.send_regardless(&CallUpdate::ToolCallUpdate(CallChanges {
            tool_call_id: &self.id,
            status,
            content: result.content.as_deref(),
            raw_output: result.raw_output.as_ref(),
        }))
        .await?;
        if result.cancelled {
            return Err(EarlyStop::Cancelled);
        }
        Ok(result.comment)
    }

    /// Shows that the call is running, with this content if there is any yet.
    pub(super) async fn progress(&self, turn: &DemoTurn<'_>, content: Option<&[Value]>) -> Sent {
        turn.send(&CallUpdate::ToolCallUpdate(CallChanges {
            tool_call_id: &self.id,
            status: ToolCallStatus::InProgress,
            content,
            raw_output: None,
        }))
        .await
    }
}

/// Text as the content of a tool call.
pub(super) fn text(text: &str) -> Value {
    json!({ "type": "content", "content": { "type": "text", "text": text } })
}
