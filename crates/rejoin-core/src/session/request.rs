//! The requests that a session accepts from its client, and those of its engine to the client.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::engine::{AttachOutcome, Block, EngineError, PromptEnd, SessionConfig};
use crate::record::RewindTarget;
use crate::record::metadata::MetadataChange;
use crate::store::ForkPoint;
use crate::transport::Outcome;

use super::outcome::Refusal;

/// A request of the client. `R` is what its answer is sent with.
#[derive(Debug)]
pub enum Request<R> {
    /// Create the session, which has just been given its id.
    New(R, SessionConfig),
    /// Create the session from one that the engine's agent has.
    Import {
        /// Where the answer goes.
        reply: R,
        /// The workspace.
        config: SessionConfig,
        /// Whether to replay it.
        replay: bool,
    },
    /// Create the session, which has just been given its id, from the turns of another one. The
    /// task has the other one's log.
    Fork {
        /// Where the answer goes.
        reply: R,
        /// The workspace.
        config: SessionConfig,
        /// Where the history ends; all of it without one.
        at: Option<ForkPoint>,
    },
    /// Open the log for another session that is forked from this one.
    ReadForFork,
    /// Replay the history and continue.
    Load(R, SessionConfig),
    /// Replay the history from a message on and continue.
    LoadFrom {
        /// Where the answer goes.
        reply: R,
        /// The workspace.
        config: SessionConfig,
        /// The id of the first message that is replayed.
        message: String,
    },
    /// Continue without a replay.
    Resume(R, SessionConfig),
    /// Answer a prompt.
    Prompt {
        /// Where the answer goes.
        reply: R,
        /// When the answer is due.
        due: AnswerDue,
        /// The id of the user's message.
        message_id: String,
        /// The prompt's parameters without the session's id.
        params: String,
    },
    /// Serve a request that only the engine knows.
    Call {
        /// Where the result goes.
        reply: R,
        /// The method's name.
        method: String,
        /// The request's parameters.
        params: String,
    },
    /// Pass a notification to the engine.
    Notify {
        /// The method's name.
        method: String,
        /// The notification's parameters.
        params: String,
    },
    /// Cancel the running turns, and the prompts that wait for them.
    Cancel {
        /// Whether to withdraw the requests that the client has not answered. By the protocol the
        /// client answers them itself after `session/cancel`, and after no other end of a turn.
        withdraw: bool,
    },
    /// The client has gone, or the process is ending: end the running turns, unless another process
    /// runs them.
    Leave(Leaving),
    /// The request of the prompt with this message id was cancelled: withdraw the prompt if it is
    /// not logged yet, or else cancel its turn if the request is still unanswered.
    WithdrawPrompt(String),
    /// Change the session's title, or archive it, which also closes it.
    MetadataChange(R, MetadataChange),
    /// Let the conversation go on from an earlier place.
    Rewind {
        /// Where the answer goes.
        reply: R,
        /// The place.
        target: RewindTarget,
        /// The name of the client that has asked for it, if it has one.
        client: Option<String>,
    },
    /// Report whether the session is open.
    Status(R),
    /// Close the session.
    Close(R),
    /// Move the session to the trash. It is refused while others have the session open.
    Delete(R),
    /// Move the session to the trash, also for others that have it open.
    DeleteForAll(R),
}

impl<R> Request<R> {
    /// Whether it opens a session that exists.
    pub(super) fn opens(&self) -> bool {
        matches!(
            self,
            Self::Load(..) | Self::LoadFrom { .. } | Self::Resume(..)
        )
    }

    /// Whether it closes the session, and cancels the running turns for that.
    pub(super) fn closes(&self) -> bool {
        matches!(
            self,
            Self::Close(_)
                | Self::Delete(_)
                | Self::DeleteForAll(_)
                | Self::MetadataChange(_, MetadataChange::Archived(true))
        )
    }

    /// Whether the running turns, and the prompts that wait for them, are cancelled for it.
    pub(super) fn cancels_turns(&self) -> bool {
        let rewinds = matches!(self, Self::Rewind { target, .. } if target.cancels_turns());
        rewinds || self.closes()
    }
}

/// Who leaves, which decides whether turns end as cancelled or as interrupted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leaving {
    /// The client of the session's task. Its turns are cancelled. The turns of these messages, which other
    /// clients have sent, are interrupted.
    Client {
        /// The ids of the messages.
        others: Vec<String>,
    },
    /// The process, although none of its clients has asked for that. All turns are interrupted.
    Process,
}

impl Leaving {
    /// Whether the turn of this message ends against the will of the client that has sent it.
    pub fn interrupts(&self, message_id: &str) -> bool {
        match self {
            Self::Client { others } => others.iter().any(|other| other == message_id),
            Self::Process => true,
        }
    }
}

/// When the request of a prompt is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AnswerDue {
    /// At the end of its turn. A prompt that comes during another turn is refused, unless the engine
    /// takes several prompts. One that waits when the client cancels is logged as cancelled.
    TurnEnds,
    /// When it is logged; updates report its turn, in which no other runs. A prompt that comes
    /// during another turn waits. It is refused if the client cancels, or closes the session, before
    /// it is logged.
    Logged,
}

/// A prompt that the log has under an idempotency key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedPrompt {
    /// The id of the user's message.
    pub message_id: String,
    /// The state of its turn.
    pub state: RecordedState,
}

/// The state of the turn of a prompt in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordedState {
    /// The turn has no end.
    Open,
    /// The turn has ended: the payload of the record.
    Ended(String),
    /// The process has ended before any engine could get the prompt: its parameters.
    NotBegun(String),
}

/// A request of the engine to the client.
#[derive(Clone, Debug)]
pub struct ClientRequest {
    /// Whether it is about the session of a subagent.
    pub of_subagent: bool,
    /// Its id in the log.
    pub id: String,
    /// The method's name.
    pub method: String,
    /// The parameters as the client gets them.
    pub params: String,
    /// Whether the request and its response are part of the conversation.
    pub logged: bool,
    /// Whether it has the form of the client's version already.
    pub is_native: bool,
}

/// The client's response to a request of the engine, or what replaces it.
#[derive(Clone, Debug)]
pub struct ClientResponse {
    /// The request's id in the log.
    pub id: String,
    /// Whether it is part of the conversation.
    pub logged: bool,
    /// The response.
    pub outcome: Outcome,
    /// The name of the client that has sent it, if the session has several.
    pub client: Option<String>,
}

impl ClientRequest {
    /// A response to this request.
    pub fn response(&self, outcome: Outcome) -> ClientResponse {
        ClientResponse {
            id: self.id.clone(),
            logged: self.logged,
            outcome,
            client: None,
        }
    }
}

/// The result of attaching the engine.
pub type AttachResult = Result<AttachOutcome, Refusal>;

/// The engine's result for a prompt.
pub type TurnResult = Result<PromptEnd, EngineError>;

/// Updates that are logged and sent in one piece.
pub type Updates = Arc<Block>;
