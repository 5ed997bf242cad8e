//! The effects a session's machine asks its actor for.

use crate::engine::{Attach, Block, CloseReason, EngineError, SessionConfig};
use crate::record::Kind;
use crate::record::metadata::MetadataChange;
use crate::store::Sync;

use super::outcome::{Done, Refusal};
use super::phase::Phase;
use super::request::{Answered, ClientRequest, ForkReader, ForkSource, TurnResult, Updates};

/// Effects to be performed in order; the first that fails ends the batch.
pub type Batch<R> = Vec<Effect<R>>;

/// One thing the actor is to do.
#[derive(Debug)]
pub enum Effect<R> {
    /// Open the engine's conversation of a session that is not in the store yet.
    Prepare(SessionConfig),
    /// Make the log, all of it at once.
    Create {
        /// How the engine knows the session.
        inner: Option<String>,
        /// What was said in it before it was ours.
        imported: Vec<Block>,
    },
    /// Make the log out of another session's, and open the engine's conversation.
    Fork(SessionConfig, ForkSource),
    /// Hand the log to whoever makes another session out of it.
    ReadForFork(ForkReader),
    /// Write down what a client notes of the session, which need not be open.
    MetadataChange(MetadataChange),
    /// Lock the log, recover it, open the engine's conversation; whatever of it is not done yet.
    Open(SessionConfig),
    /// Make sure that the session exists, without opening it.
    Check,
    /// Make sure that this process may append to the log: lock it if somebody else had it, recover
    /// it if something could not be written. The client is sent what recovery appends.
    Claim,
    /// If something could not be written, try again to recover the log. What cannot be mended now
    /// is mended by the next [`Claim`](Self::Claim).
    RetryRecovery,
    /// Append the session's new folder, roots and MCP servers, if they differ from the log's, and
    /// how the engine knows the session now, if that is new.
    RecordWorkspaceChange,
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
    /// Append records, all of them or none.
    AppendBlock(Updates),
    /// Send the client an update that is in the log.
    Send(String),
    /// Send the client those of a block's updates that are for it; they are in the log.
    SendBlock(Updates),
    /// Send the client updates that say how things are now.
    SendSnapshots(Vec<String>),
    /// Have the engine make ready.
    Attach(Attach),
    /// Stop waiting for the engine to be ready.
    AbortAttach,
    /// Remember how the engine knows the session now, until it can be written down.
    KeepInner(String),
    /// Hand the prompt that was appended last to the engine.
    Begin {
        /// The id of the user's message.
        message_id: String,
        /// The prompt's parameters without the session's id.
        params: String,
    },
    /// Count a prompt that was appended last among the earlier ones; the engine never sees it.
    Skip {
        /// The id of the user's message.
        message_id: String,
        /// The prompt's parameters without the session's id.
        params: String,
    },
    /// Tell the engine to stop answering.
    CancelTurns,
    /// Tell the engine that the request of one prompt was cancelled, while it answers others, too.
    CancelTurn(String),
    /// Put a request of the engine to the client.
    Ask(ClientRequest),
    /// Tell the client that nothing it was asked for is wanted any more, and answer the engine in
    /// its place.
    Withdraw,
    /// Hand the client's answer to the engine.
    Deliver(Answered),
    /// Have the engine serve a request.
    Call {
        /// Where the result goes.
        reply: R,
        /// The method's name.
        method: String,
        /// The request's parameters.
        params: String,
    },
    /// Hand a notification to the engine.
    Notify {
        /// The method's name.
        method: String,
        /// The notification's parameters.
        params: String,
    },
    /// Have the next replay begin with this message, which must be in the log.
    Seek(String),
    /// Start replaying the log up to where it ends now.
    Replay,
    /// Open the session, which is not, and replay its log as it is read.
    OpenAndReplay(SessionConfig),
    /// Replay what was logged since then, waiting for it, and then how things are now. What held
    /// no longer does, by the names of its updates, is left out.
    CatchUp(Vec<String>, Vec<&'static str>),
    /// Send what was logged while a replay ran that failed, as it would have been sent live.
    SendHeld,
    /// Send the available commands.
    Announce,
    /// Show the client the prompt that was appended last, as it stands in the log.
    Echo {
        /// The id of the user's message.
        message_id: String,
        /// The prompt's parameters without the session's id.
        params: String,
    },
    /// Tell the client what the session is doing.
    Tell(Phase),
    /// Answer a request.
    Answer(R, Result<Done, Refusal>),
    /// Let go of log and engine, and of a replay that was not caught up with. The log of a session
    /// that never came to be goes to the trash.
    Release(CloseReason),
    /// Move the log to the trash, then let go of everything.
    Trash,
}

impl<R> Effect<R> {
    /// The end of a turn, with the id of its prompt's message if it does not go without saying.
    pub(super) fn end(id: Option<String>, payload: String) -> Self {
        Self::Append {
            kind: Kind::End,
            id,
            payload,
            sync: Sync::Turn,
        }
    }

    /// A record that may wait for the end of the turn to be safe.
    pub(super) fn record(kind: Kind, id: Option<String>, payload: String) -> Self {
        Self::Append {
            kind,
            id,
            payload,
            sync: Sync::Buffered,
        }
    }
}

/// How the end of a turn is written down.
pub(super) fn end_of(result: &TurnResult) -> String {
    match result {
        Ok(ended) => ended.result(),
        Err(error) => failure(error),
    }
}

fn failure(error: &EngineError) -> String {
    let message = serde_json::Value::from(error.message.as_str());
    let data = error.data.as_ref();
    let data = data
        .map(|data| format!(r#","data":{data}"#))
        .unwrap_or_default();
    format!(
        r#"{{"error":{{"code":{},"message":{message}{data}}}}}"#,
        error.code
    )
}
