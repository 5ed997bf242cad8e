//! The effects that a session's machine has performed.

use std::sync::Arc;

use crate::engine::{
    AttachReason, Block, CloseReason, EngineError, ListedTimes, Prompt, PromptEnd, SessionConfig,
};
use crate::json;
use crate::protocol::error::ErrorKind;
use crate::record::metadata::MetadataChange;
use crate::record::{Kind, RewindTarget};
use crate::store::{ForkPoint, Sync, TURN_INTERRUPTED};
use crate::transport::Outcome;

use super::link::message::Route;
use super::outcome::{Done, Refusal};
use super::phase::Phase;
use super::request::{ClientRequest, Updates};

/// Effects to be performed in order; the first that fails ends the batch.
pub type Batch<R> = Vec<Effect<R>>;

/// An action of the owner of a session, or of its front.
#[derive(Debug)]
pub enum Effect<R> {
    /// Open the engine's conversation of a session that is not in the store yet.
    Prepare(SessionConfig),
    /// Write the log of a new session, all of it at once.
    Create {
        /// The record of the agent's session id.
        agent_session_id: Option<String>,
        /// The history of an imported session.
        imported: Vec<Block>,
        /// Its times in the agent's list.
        listed: Option<ListedTimes>,
    },
    /// Write the log of a new session as a copy of another one's, up to a place if one is named,
    /// and open the engine's conversation.
    Fork(SessionConfig, Option<ForkPoint>),
    /// Open the log for another session that is forked from this one.
    ReadForFork,
    /// Record a change of the session's metadata. The session need not be open.
    MetadataChange(MetadataChange),
    /// Lock the log, recover it and open the engine's conversation, as far as that is not done yet.
    Open(SessionConfig),
    /// Fail unless the session exists. Opens nothing.
    Check,
    /// Make sure that this process may append to the log: lock it if another process had it, recover
    /// it after a failed write. The client is sent what recovery appends.
    Claim,
    /// Look for the prompt that the log has under an idempotency key.
    FindKey {
        /// The key.
        key: String,
        /// The message id of the prompt that has come with it.
        message_id: String,
    },
    /// Let the conversation go on from an earlier place, in the log and in the engine, and show the clients
    /// what the log has then.
    Rewind {
        /// The place.
        target: RewindTarget,
        /// The name of the client that has asked for it.
        client: Option<String>,
    },
    /// After a failed write, try to recover the log. If that fails, the next [`Claim`](Self::Claim)
    /// tries again.
    RetryRecovery,
    /// Append the workspace if it differs from the log's, and the agent's session id if it is new.
    RecordWorkspaceChange,
    /// Append records, all of them or none. A front that is level counts as having been shown them.
    Append(Updates, Sync),
    /// Show the client those of the records just appended that are updates, unless it reads the log.
    Send(Updates),
    /// Send the client an update that is not in the log.
    Notify(Notification),
    /// Have the engine attach to the session.
    Attach(AttachReason),
    /// Remember the agent's session id until it is logged with the next prompt.
    KeepAgentSessionId(String),
    /// Pass the prompt that was appended last to the engine.
    Begin(Prompt),
    /// Count the prompt that was appended last as an earlier one. The engine never gets it.
    Skip(Prompt),
    /// Have something end early.
    Cancel(Work),
    /// Send a request of the engine to the client.
    Ask(ClientRequest),
    /// Pass the client's response to the engine, by the request's id. Without one the engine learns
    /// that there will be none.
    Respond(String, Option<Outcome>),
    /// Have the engine serve a request.
    Call {
        /// Where the result goes.
        reply: R,
        /// The method's name.
        method: String,
        /// The request's parameters.
        params: String,
    },
    /// Pass a notification of the client to the engine.
    Forward {
        /// The method's name.
        method: String,
        /// The notification's parameters.
        params: String,
    },
    /// Have the owner in another task serve a request.
    Pass(Route<R>),
    /// Start to replay the log up to its current end.
    Replay {
        /// How to open the session, if it is not open: its log is read once for both.
        open: Option<SessionConfig>,
        /// The id of the message to start from, which must be in the log.
        from: Option<String>,
    },
    /// Start to replay what was logged since the replay began, and then to send snapshots. Logged
    /// snapshots with the given names of updates are left out.
    CatchUp(Block, Vec<&'static str>),
    /// End a replay that failed, and send what was logged meanwhile as it would have been sent live.
    AbandonReplay,
    /// Answer a request.
    Answer(R, Result<Done, Refusal>),
    /// Release log and engine, and a replay that is not finished. The log of a deleted session, and
    /// of one that was not created whole, goes to the trash.
    Release(CloseReason),
}

/// An update that is not in the log.
#[derive(Debug)]
pub enum Notification {
    /// Updates with the current state.
    Snapshots(Block),
    /// The available commands.
    Commands,
    /// The prompt that was appended last, as it is in the log.
    UserMessage(Prompt),
    /// The session's state.
    State(Phase),
}

/// Something that an effect cancels.
#[derive(Debug, PartialEq, Eq)]
pub enum Work {
    /// Attaching the engine.
    Attach,
    /// All running turns.
    Turns,
    /// All running turns, whose results are lost: the engine has little time to end them.
    FailedTurns,
    /// The request of one prompt, by its message id, while the engine answers others, too.
    Turn(String),
    /// The work of the engine without a prompt.
    OwnWork,
    /// The requests of the engine that the client has not answered. The engine gets a response in
    /// the client's place.
    ClientRequests,
}

impl<R> Effect<R> {
    /// Appends a record that must be synced like the end of a turn.
    pub(super) fn synced(kind: Kind, id: Option<&str>, payload: &str) -> Self {
        Self::Append(one(kind, id, payload), Sync::Turn)
    }

    /// Appends a record that need not be synced before the end of the turn.
    pub(super) fn record(kind: Kind, id: Option<&str>, payload: &str) -> Self {
        Self::Append(one(kind, id, payload), Sync::Buffered)
    }

    /// Reports what the session is doing.
    pub(super) fn state(phase: Phase) -> Self {
        Self::Notify(Notification::State(phase))
    }
}

/// A block of a single record. Ids that are made here need no escaping in JSON.
fn one(kind: Kind, id: Option<&str>, payload: &str) -> Updates {
    let mut block = Block::default();
    match id {
        Some(id) => block.push_with_id(kind, id, payload),
        None => block.push(kind, payload),
    }
    Arc::new(block)
}

/// The payload of the `end` record of a turn.
pub(super) fn end_of(result: &Result<PromptEnd, Refusal>) -> String {
    let error = match result {
        Ok(ended) => return ended.result(),
        // As the next process that has the session would log it after a crash.
        Err(Refusal::Interrupted) => return TURN_INTERRUPTED.to_owned(),
        Err(Refusal::Engine(error)) => error.json(),
        // Not logged: the store does not take it. The client gets the code that version 1 has for that.
        Err(Refusal::Storage(why)) => ErrorKind::StorageFailed.object(why),
        Err(Refusal::Unreachable(why)) => ErrorKind::StoreUnreachable.object(why),
        Err(Refusal::InUse { message, .. }) => ErrorKind::SessionInUse.object(message),
        Err(refusal) => EngineError::internal(refusal.to_string()).json(),
    };
    json::Object::new().raw("error", &error).end()
}
