//! What an answer needs: the prompt, the outlet, and the signal that cancels it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio::time::{Instant, sleep_until};

use super::always::Always;
use super::kept::Kept;
use super::mcp::Servers;
use super::pieces::pieces;
use super::settings::Settings;
use super::update;
use crate::engine::outlet::Closed;
use crate::engine::{
    Block, Cancel, ClientAbilities, EngineError, EngineEvent, HistoryError, Opening, Outlet,
    Prompt, StopReason,
};
use crate::record::Kind;
use crate::record::header::Workspace;

/// Why an answer stops early.
#[derive(Debug)]
pub(super) enum Stop {
    /// The client cancelled the turn.
    Cancelled,
    /// The turn failed.
    Failed(EngineError),
}

impl From<Closed> for Stop {
    fn from(closed: Closed) -> Self {
        Self::Failed(closed.into())
    }
}

impl From<HistoryError> for Stop {
    fn from(error: HistoryError) -> Self {
        Self::Failed(error.into())
    }
}

/// How a part of an answer ended.
pub(super) type Sent = Result<(), Stop>;

/// How an answer ended.
pub(super) type Done = Result<StopReason, Stop>;

/// Whose text a message contains.
#[derive(Clone, Copy, Debug)]
pub(super) enum Voice {
    /// The agent's answer.
    Answer,
    /// The agent's thoughts.
    Thought,
}

/// A message that is sent chunk by chunk.
#[derive(Debug)]
pub(super) struct Message {
    id: String,
    voice: Voice,
}

/// A turn that is being answered.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    /// What the user sent.
    pub(super) prompt: &'a Prompt,
    opening: &'a Opening,
    kept: &'a Kept,
    cancel: &'a Cancel,
}

impl<'a> Turn<'a> {
    /// A turn that has not sent anything yet.
    pub(super) fn new(
        opening: &'a Opening,
        kept: &'a Kept,
        prompt: &'a Prompt,
        cancel: &'a Cancel,
    ) -> Self {
        Self {
            prompt,
            opening,
            kept,
            cancel,
        }
    }

    /// The current settings of the session.
    pub(super) fn settings(&self) -> Settings {
        self.kept.chosen.now(&*self.opening.history)
    }

    /// The user's permanent permissions and rejections.
    pub(super) fn always(&self) -> &Always {
        &self.kept.always
    }

    /// The MCP servers of the session.
    pub(super) fn servers(&self) -> &Servers {
        &self.kept.servers
    }

    /// The guard program for commands.
    pub(super) fn guard(&self) -> Option<&Path> {
        self.kept.guard.as_deref()
    }

    /// What the client can do for us.
    pub(super) fn client(&self) -> ClientAbilities {
        self.opening.client
    }

    /// Where all events are sent.
    pub(super) fn out(&self) -> &Outlet {
        &self.opening.out
    }

    /// Notified when the turn is cancelled.
    pub(super) fn cancel(&self) -> &Cancel {
        self.cancel
    }

    /// The session's workspace.
    pub(super) fn place(&self) -> &Workspace {
        &self.opening.config.place
    }

    /// A unique name.
    pub(super) fn unique(&self) -> String {
        self.opening.ids.uuid().simple().to_string()
    }

    /// The session's working directory.
    pub(super) fn cwd(&self) -> &str {
        &self.opening.config.place.cwd
    }

    /// The number of prompts before this one.
    pub(super) fn earlier_prompts(&self) -> u64 {
        self.opening.history.prompts()
    }

    /// An earlier prompt, counted from 0. It is read on a thread of its own, since it may be large
    /// and on a slow disk.
    pub(super) async fn earlier_prompt(&self, index: u64) -> Result<Prompt, HistoryError> {
        let history = Arc::clone(&self.opening.history);
        let reading = tokio::task::spawn_blocking(move || history.prompt(index));
        reading.await.unwrap_or_else(|_| {
            Err(HistoryError {
                what: format!("prompt {index}"),
                reason: "reading it was broken off".to_owned(),
            })
        })
    }

    /// An id for a new tool call.
    pub(super) fn new_tool_call(&self) -> String {
        self.opening.ids.tool_call()
    }

    /// Begins a message. Consecutive chunks of the same kind belong to one message; a thought, a
    /// tool call or a plan ends it.
    pub(super) fn begin(&self, voice: Voice) -> Message {
        Message {
            id: self.opening.ids.message(),
            voice,
        }
    }

    /// Sends text in a message, in the chunks that [`pieces`] makes of it.
    pub(super) async fn say(&self, message: &Message, text: &str) -> Sent {
        for piece in pieces(text) {
            self.chunk(message, &update::Block::Text { text: piece })
                .await?;
        }
        Ok(())
    }

    /// Sends one chunk with any content block.
    pub(super) async fn chunk(&self, message: &Message, block: &impl Serialize) -> Sent {
        let kind = match message.voice {
            Voice::Answer => "agent_message_chunk",
            Voice::Thought => "agent_thought_chunk",
        };
        self.send(update::chunk(kind, &message.id, block)).await
    }

    /// Sends text in a message of its own.
    pub(super) async fn say_alone(&self, voice: Voice, text: &str) -> Sent {
        self.say(&self.begin(voice), text).await
    }

    /// Sends text in a message of its own and ends the turn.
    pub(super) async fn say_all(&self, text: &str) -> Done {
        self.say_alone(Voice::Answer, text).await?;
        Ok(StopReason::EndTurn)
    }

    /// Sends an update, unless the turn is cancelled while it waits for room.
    pub(super) async fn send(&self, update: String) -> Sent {
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(Stop::Cancelled),
            sent = self.opening.out.update(update) => Ok(sent?),
        }
    }

    /// Appends a record that is not sent to the client.
    pub(super) async fn keep(&self, kind: Kind, payload: String) -> Sent {
        Ok(self
            .out()
            .say(EngineEvent::Block(Block::of(kind, payload)))
            .await?)
    }

    /// Accesses the disk, which may be slow, on a thread of its own. If the turn is cancelled, the
    /// result is discarded.
    pub(super) async fn on_disk<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Stop> {
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(Stop::Cancelled),
            done = to_the_end(work) => done,
        }
    }

    /// Sends an update even if the turn is cancelled, to close something that was begun.
    pub(super) async fn send_regardless(&self, update: String) -> Sent {
        Ok(self.opening.out.update(update).await?)
    }

    /// Waits for a future, unless the turn is cancelled first.
    pub(super) async fn unless_cancelled<T>(
        &self,
        doing: impl Future<Output = T> + Send,
    ) -> Result<T, Stop> {
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(Stop::Cancelled),
            done = doing => Ok(done),
        }
    }

    /// Waits for some time.
    pub(super) async fn pause(&self, time: Duration) -> Sent {
        if time.is_zero() {
            return Ok(());
        }
        self.wait_until(Instant::now() + time).await
    }

    /// Waits until this moment.
    pub(super) async fn wait_until(&self, moment: Instant) -> Sent {
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(Stop::Cancelled),
            () = sleep_until(moment) => Ok(()),
        }
    }
}

/// Runs blocking work that must not be interrupted, on a thread of its own.
pub(super) async fn to_the_end<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Stop> {
    let broken = |_| Stop::Failed(EngineError::internal("the work was broken off"));
    tokio::task::spawn_blocking(work).await.map_err(broken)
}
