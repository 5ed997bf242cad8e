//! A tool call as it is shown from its beginning to its end.

use serde_json::{Value, json};

use crate::engine::StopReason;
use crate::engine::local::sample::text;
use crate::engine::local::turn::{Done, Sent, Stop, Turn, Voice};
use crate::engine::local::update::{Status, ToolCall, ToolProgress, tool_call, tool_call_update};

/// What a person and a client see of a tool call before it does anything.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) kind: &'static str,
    pub(crate) locations: Vec<Value>,
    pub(crate) raw_input: Value,
}

/// How the work of a tool call ended.
#[derive(Debug, Default)]
pub(crate) struct Worked {
    pub(crate) failed: bool,
    /// Whether that is since the turn was cancelled, which ends with it.
    pub(crate) cancelled: bool,
    /// What it shows; none leaves what it shows already.
    pub(crate) content: Option<Vec<Value>>,
    pub(crate) raw_output: Option<Value>,
    /// What the agent says of it afterwards.
    pub(crate) said: String,
}

impl Worked {
    /// It was cancelled when it showed this.
    pub(crate) fn cancelled(content: Option<Vec<Value>>) -> Self {
        Self {
            failed: true,
            cancelled: true,
            content,
            ..Self::default()
        }
    }

    /// It failed, and this is why.
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
    /// Announces the call, has `work` done, says how it ended, and ends the turn. However that is,
    /// the call does not stay open.
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
        // What was done is told, whoever has cancelled meanwhile.
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

    /// The call is being worked on.
    pub(crate) async fn begins(&self, turn: &Turn<'_>) -> Sent {
        turn.send(self.moved(Status::InProgress, None, None)).await
    }

    /// It is being worked on, and shows this.
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
