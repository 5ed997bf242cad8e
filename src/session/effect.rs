//! The effects a session's machine asks its actor for.

use crate::record::Kind;
use crate::record::header::Place;
use crate::store::Sync;

use super::outcome::{Done, Refusal};

/// Effects to be performed in order; the first that fails ends the batch.
pub type Batch<R> = Vec<Effect<R>>;

/// One thing the actor is to do.
#[derive(Debug)]
pub enum Effect<R> {
    /// Make the log and open the engine's conversation.
    Create(Place),
    /// Lock the log, recover it, open the engine's conversation; whatever of it is not done yet.
    Open(Place),
    /// Make sure that the session exists, without opening it.
    Check,
    /// Make sure that this process may append to the log: lock it if somebody else had it, recover
    /// it if something could not be written. The client is sent what recovery appends.
    Claim,
    /// If something could not be written, try again to recover the log. What cannot be mended now
    /// is mended by the next [`Claim`](Self::Claim).
    Mend,
    /// Append the session's new folder, roots and MCP servers, if they differ from the log's.
    Reopened,
    /// Append a record.
    Append {
        /// Its kind.
        kind: Kind,
        /// Its id, if its kind has one.
        id: Option<String>,
        /// Its payload.
        payload: String,
        /// How precious it is.
        sync: Sync,
    },
    /// Send the client an update that is in the log.
    Send(String),
    /// Hand the prompt that was appended last to the engine.
    Begin {
        /// The id of the user's message.
        message_id: String,
        /// The prompt's parameters without the session's id.
        params: String,
    },
    /// Tell the engine to stop.
    CancelTurn,
    /// Start replaying the log up to where it ends now.
    Replay,
    /// Open the session, which is not, and replay its log as it is read.
    OpenAndReplay(Place),
    /// Replay what was logged since then, waiting for it.
    CatchUp,
    /// Send what was logged while a replay ran that failed, as it would have been sent live.
    SendHeld,
    /// Send the available commands.
    Announce,
    /// Answer a request.
    Answer(R, Result<Done, Refusal>),
    /// Let go of log and engine.
    Release,
    /// Move the log to the trash, then let go of everything.
    Trash,
}

impl<R> Effect<R> {
    /// The end of a turn.
    pub(super) fn end(payload: serde_json::Value) -> Self {
        let payload = payload.to_string();
        Self::Append {
            kind: Kind::End,
            id: None,
            payload,
            sync: Sync::Turn,
        }
    }
}
