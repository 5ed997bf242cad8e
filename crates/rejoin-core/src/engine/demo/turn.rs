//! The prompt, the outlet, and the signal that cancels a turn: all that an answer needs.

use std::sync::Arc;
use std::time::Duration;

use agent_client_protocol_schema::v1::ContentBlock;
use serde::Serialize;
use tokio::time::{Instant, sleep_until};

use super::session::SessionState;
use super::settings::DemoSettings;
use crate::engine::outlet::Closed;
use crate::engine::{
    Block, Cancel, EngineError, EngineEvent, HistoryError, Opening, Prompt, StopReason,
};
use crate::protocol::Role;
use crate::record::Kind;
use crate::record::header::Workspace;

/// Why an answer stops early.
#[derive(Debug)]
pub(super) enum EarlyStop {
    /// The client cancelled the turn.
    Cancelled,
    /// The turn failed.
    Failed(EngineError),
}

impl From<Closed> for EarlyStop {
    fn from(closed: Closed) -> Self {
        Self::Failed(closed.into())
    }
}

impl From<HistoryError> for EarlyStop {
    fn from(error: HistoryError) -> Self {
        Self::Failed(error.into())
    }
}

/// How a part of an answer ended.
pub(super) type Sent = Result<(), EarlyStop>;

/// How an answer ended.
pub(super) type Done = Result<StopReason, EarlyStop>;

/// A message that is sent chunk by chunk.
#[derive(Debug)]
pub(super) struct DemoMessage {
    id: String,
    role: Role,
}

/// A turn that is being answered.
#[derive(Debug)]
pub(super) struct DemoTurn<'a> {
    /// The prompt that is answered.
    pub(super) prompt: &'a Prompt,
    /// The session, as it was opened.
    pub(super) opening: &'a Opening,
    pub(super) session: &'a SessionState,
    /// Notified when the turn is cancelled.
    pub(super) cancel: &'a Cancel,
}

impl DemoTurn<'_> {
    /// The current settings of the session.
    pub(super) fn settings(&self) -> DemoSettings {
        self.session.settings(&*self.opening.history)
    }

    /// The session's workspace.
    pub(super) fn workspace(&self) -> &Workspace {
        &self.opening.config.workspace
    }

    /// The session's working directory.
    pub(super) fn cwd(&self) -> &str {
        &self.workspace().cwd
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
                reason: "the task that read it panicked".to_owned(),
            })
        })
    }

    /// Begins a message. Consecutive chunks of the same role belong to one message; a thought, a
    /// tool call or a plan ends it.
    pub(super) fn begin(&self, role: Role) -> DemoMessage {
        DemoMessage {
            id: self.opening.ids.message(),
            role,
        }
    }

    /// Sends text in a message, in the chunks that [`pieces`] makes of it.
    pub(super) async fn say(&self, message: &DemoMessage, text: &str) -> Sent {
        for piece in pieces(text) {
            self.chunk(message, &ContentBlock::from(piece)).await?;
        }
        Ok(())
    }

    /// Sends one chunk with any content block.
    pub(super) async fn chunk(&self, message: &DemoMessage, content: &impl Serialize) -> Sent {
        /// Not the schema's own type, which has the id after the content, where readers find it
        /// late, and which drops unknown members of the content.
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct DemoChunk<'a, C> {
            session_update: &'static str,
            message_id: &'a str,
            content: &'a C,
        }
        self.send(&DemoChunk {
            session_update: message.role.chunk(),
            message_id: &message.id,
            content,
        })
        .await
    }

    /// Sends text in a message of its own.
    pub(super) async fn say_alone(&self, role: Role, text: &str) -> Sent {
        self.say(&self.begin(role), text).await
    }

    /// Sends text in a message of its own and ends the turn.
    pub(super) async fn say_all(&self, text: &str) -> Done {
        self.say_alone(Role::Agent, text).await?;
        Ok(StopReason::EndTurn)
    }

    /// Sends an update, unless the turn is cancelled while it waits for room.
    pub(super) async fn send(&self, update: &impl Serialize) -> Sent {
        let sent = self.opening.out.update(json_line(update));
        Ok(self.unless_cancelled(sent).await??)
    }

    /// Sends an update even if the turn is cancelled, to close something that was begun.
    pub(super) async fn send_regardless(&self, update: &impl Serialize) -> Sent {
        Ok(self.opening.out.update(json_line(update)).await?)
    }

    /// Appends a record that is not sent to the client.
    pub(super) async fn append(&self, kind: Kind, payload: String) -> Sent {
        let block = EngineEvent::Block(Block::of(kind, payload));
        Ok(self.opening.out.send(block).await?)
    }

    /// Accesses the disk, which may be slow, on a thread of its own. If the turn is cancelled, the
    /// result is discarded.
    pub(super) async fn on_disk<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, EarlyStop> {
        self.unless_cancelled(uninterrupted(work)).await?
    }

    /// Waits for a future, unless the turn is cancelled first.
    pub(super) async fn unless_cancelled<T>(
        &self,
        doing: impl Future<Output = T> + Send,
    ) -> Result<T, EarlyStop> {
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(EarlyStop::Cancelled),
            done = doing => Ok(done),
        }
    }

    /// Waits for some time.
    pub(super) async fn pause(&self, time: Duration) -> Sent {
        if time.is_zero() {
            return self.unless_cancelled(async {}).await;
        }
        self.wait_until(Instant::now() + time).await
    }

    /// Waits until this moment.
    pub(super) async fn wait_until(&self, moment: Instant) -> Sent {
        self.unless_cancelled(sleep_until(moment)).await
    }
}

/// Runs blocking work that must not be interrupted, on a thread of its own.
pub(super) async fn uninterrupted<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, EarlyStop> {
    let panicked = |_| EarlyStop::Failed(EngineError::internal("a task of the engine panicked"));
    tokio::task::spawn_blocking(work).await.map_err(panicked)
}

/// The JSON text of what the engine sends.
pub(super) fn json_line(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("named fields of strings, numbers and JSON always print")
}

/// The shortest piece of text that gets a chunk of its own, in bytes: a few words, as models send
/// them.
const SHORTEST: usize = 24;

/// The approximate number of pieces of a long text, so that quoting a large prompt does not take a
/// hundred thousand updates.
const MOST: usize = 64;

/// The pieces of a text, in order, none empty; joined they are the text. They end after a space if
/// one is near, and never inside a character or between CR and LF.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let size = SHORTEST.max(text.len() / MOST);
    let mut left = text;
    std::iter::from_fn(move || {
        let (piece, rest) = left.split_at(end_of_first(left, size));
        left = rest;
        (!piece.is_empty()).then_some(piece)
    })
}

/// The end of the first piece of a text: after the first space beyond `size` bytes, or at twice
/// that size if the text has no space there.
fn end_of_first(text: &str, size: usize) -> usize {
    let Some(tail) = text.get(text.ceil_char_boundary(size)..) else {
        return text.len();
    };
    let start = text.len() - tail.len();
    let limit = text.ceil_char_boundary(start + size);
    match text[start..limit].find(' ') {
        Some(space) => start + space + 1,
        None if text[..limit].ends_with('\r') && text[limit..].starts_with('\n') => limit + 1,
        None => limit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_sentence_is_cut_between_words() {
        let text = "This is the first prompt of this session, and a short one it is.";
        let cut: Vec<_> = pieces(text).collect();
        assert_eq!(
            cut,
            [
                "This is the first prompt ",
                "of this session, and a short ",
                "one it is."
            ]
        );
        assert_eq!(pieces("").count(), 0);
        assert_eq!(pieces("short").collect::<Vec<_>>(), ["short"]);
    }

    #[test]
    fn a_large_text_is_cut_into_few_pieces() {
        let text = "x".repeat(1_000_000);
        assert!(pieces(&text).count() <= MOST);
    }

    proptest! {
        #[test]
        fn nothing_is_lost_or_cut_in_two(text in "(?s)(.|\r\n| |é){0,200}") {
            let cut: Vec<_> = pieces(&text).collect();
            prop_assert_eq!(&cut.concat(), &text);
            for piece in &cut {
                prop_assert!(!piece.is_empty());
            }
            for pair in cut.windows(2) {
                prop_assert!(!(pair[0].ends_with('\r') && pair[1].starts_with('\n')));
            }
        }
    }
}
