//! Shows a tool call from its beginning to its end.

use serde_json::{Value, json};

use crate::engine::StopReason;
use crate::engine::demo::sample::text;
use crate::engine::demo::turn::{Done, Sent, Stop, Turn, Voice};
use crate::engine::demo::update::{Status, ToolCall, ToolProgress, tool_call, tool_call_update};

/// The parts of a tool call that are shown before it does anything.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) kind: &'static str,
    pub(crate) locations: Vec<Value>,
    pub(crate) raw_input: Value,
}

/// The outcome of a tool call's work.
#[derive(Debug, Default)]
pub(crate) struct Worked {
    pub(crate) failed: bool,
    /// Whether it failed because the turn was cancelled; the turn then ends, too.
    pub(crate) cancelled: bool,
    /// The new content; `None` keeps the current content.
    pub(crate) content: Option<Vec<Value>>,
    pub(crate) raw_output: Option<Value>,
    /// The agent's text after the call.
    pub(crate) said: String,
}

impl Worked {
    /// The call was cancelled, with this content.
    pub(crate) fn cancelled(content: Option<Vec<Value>>) -> Self {
        Self {
            failed: true,
            cancelled: true,
            content,
            ..Self::default()
        }
    }

    /// The call failed, for this reason.
    pub(crate) fn failed(reason: &str) -> Self {
        Self {
            failed: true,
            cancelled: false,
            content: Some(vec![text(reason)]),
            raw_output: Some(json!({ "error": reason })),
            said: "That is not done; the tool call says why.".to_owned(),
        }
    }
}

impl Shown {
    /// Announces the call, runs `work`, shows the outcome, and ends the turn. The call is always
    /// closed, however the turn ends.
    pub(crate) async fn during(
        &self,
        turn: &Turn<'_>,
        work: impl Future<Output = Result<Worked, Stop>>,
    ) -> Done {
        turn.send(tool_call(&self.call())).await?;
        let worked = match work.await {
            Ok(worked) => worked,
            Err(Stop::Cancelled) => Worked::cancelled(Some(vec![text("Cancelled.")])),
            Err(failed) => return Err(failed),
        };
        let status = if worked.failed {
            Status::Failed
        } else {
            Status::Completed
        };
        let (content, raw_output) = (worked.content.as_deref(), worked.raw_output.as_ref());
        // Finished work is reported even if the turn was cancelled meanwhile.
        turn.send_regardless(self.moved(status, content, raw_output))
            .await?;
        if worked.cancelled {
            return Err(Stop::Cancelled);
        }
        turn.say_alone(Voice::Answer, &worked.said).await?;
        Ok(StopReason::EndTurn)
    }

    /// The call as it is announced.
    pub(crate) fn call(&self) -> ToolCall<'_> {
        ToolCall {
            id: &self.id,
            title: &self.title,
            kind: self.kind,
            status: Status::Pending,
            locations: &self.locations,
            raw_input: &self.raw_input,
        }
    }

    /// Marks the call as running.
    pub(crate) async fn begins(&self, turn: &Turn<'_>) -> Sent {
        turn.send(self.moved(Status::InProgress, None, None)).await
    }

    /// Shows this content while the call is running.
    pub(crate) async fn shows(&self, turn: &Turn<'_>, content: &[Value]) -> Sent {
        let update = self.moved(Status::InProgress, Some(content), None);
        turn.send(update).await
    }

    fn moved(
        &self,
        status: Status,
        content: Option<&[Value]>,
        raw_output: Option<&Value>,
    ) -> String {
        tool_call_update(&ToolProgress {
            id: &self.id,
            status,
            content,
            raw_output,
        })
    }
}
