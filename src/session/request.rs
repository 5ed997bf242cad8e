//! What a session is asked for.

use tokio::sync::oneshot;

use crate::engine::outlet::Cancel;
use crate::engine::{Attached, Block, Ended, EngineError, SessionConfig};
use crate::record::metadata::MetadataChange;
use crate::store::Reader;
use crate::transport::Outcome;

use super::outcome::Refusal;

/// What a client asks of a session. `R` is what its answer is sent with.
#[derive(Debug)]
pub enum Request<R> {
    /// Make the session, which has just been given its id.
    New(R, SessionConfig),
    /// Make the session out of one that the engine's agent has.
    Import {
        /// Where the answer goes.
        reply: R,
        /// How the client wants it.
        config: SessionConfig,
        /// Whether to replay it.
        replay: bool,
    },
    /// Make the session, which has just been given its id, out of the turns of another one.
    Fork(R, SessionConfig, ForkSource),
    /// Let another session be made out of this one.
    ReadForFork(ForkReader),
    /// Replay the history, then go on like this.
    Load(R, SessionConfig),
    /// Replay the history from a message on, then go on like this.
    LoadFrom {
        /// Where the answer goes.
        reply: R,
        /// How the client wants the session.
        config: SessionConfig,
        /// The id of the first message that is replayed.
        message: String,
    },
    /// Go on like this without a replay.
    Resume(R, SessionConfig),
    /// Answer a prompt.
    Prompt {
        /// Where the stop reason goes.
        reply: R,
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
    /// Hand a notification to the engine.
    Notify {
        /// The method's name.
        method: String,
        /// The notification's parameters.
        params: String,
    },
    /// End the running turns, and the prompts that wait for them.
    Cancel {
        /// Whether the client does not answer what the turn asks it for: by the protocol,
        /// `session/cancel` has it do so, and no other end of a turn.
        withdraw: bool,
    },
    /// The request of the prompt with this message's id was cancelled: withdraw it if it is not in
    /// the log yet, else end its turn if that is what answers the request.
    WithdrawPrompt(String),
    /// Take a note of the session. If it is to be archived, it is closed, too.
    MetadataChange(R, MetadataChange),
    /// Tell whether the session is open.
    Status(R),
    /// Release the session.
    Close(R),
    /// Move the session to the trash.
    Delete(R),
}

impl<R> Request<R> {
    /// Whether it ends the session's work, and the turn that is running.
    pub(super) fn ends(&self) -> bool {
        matches!(
            self,
            Self::Close(_)
                | Self::Delete(_)
                | Self::MetadataChange(_, MetadataChange::Archived(true))
        )
    }
}

/// Where a session's log goes that another one is made of.
pub type ForkReader = oneshot::Sender<Result<Reader, Refusal>>;

/// Of what a session is to be made.
#[derive(Debug)]
pub struct ForkSource {
    /// The log of the other one, as soon as that lends it.
    pub lent: oneshot::Receiver<Result<Reader, Refusal>>,
    /// The message that its history is to end with; all of it if none is named.
    pub at: Option<String>,
}

/// A request of the engine that is to be put to the client.
#[derive(Debug)]
pub struct ClientRequest {
    /// Its id in the log.
    pub id: String,
    /// The method's name.
    pub method: String,
    /// The parameters as the client is to see them.
    pub params: String,
    /// Whether it is part of the conversation.
    pub logged: bool,
    /// Told when the engine no longer wants the answer.
    pub cancel: Cancel,
    /// Where the answer goes.
    pub reply: oneshot::Sender<Outcome>,
}

impl ClientRequest {
    /// Whether nobody wants the answer any more.
    pub(super) fn is_moot(&self) -> bool {
        self.reply.is_closed() || self.cancel.is_cancelled()
    }

    /// Resolves when nobody wants the answer any more.
    pub(super) async fn unwanted(&mut self) {
        tokio::select! {
            () = self.cancel.cancelled() => {}
            () = self.reply.closed() => {}
        }
    }

    /// What was asked for, with its answer.
    pub(super) fn answered(self, outcome: Outcome) -> Answered {
        Answered {
            id: self.id,
            logged: self.logged,
            reply: self.reply,
            outcome,
        }
    }
}

/// A request of the engine that the client has answered.
#[derive(Debug)]
pub struct Answered {
    /// Its id in the log.
    pub id: String,
    /// Whether it is part of the conversation.
    pub logged: bool,
    /// Where the answer goes.
    pub reply: oneshot::Sender<Outcome>,
    /// The answer.
    pub outcome: Outcome,
}

/// What an engine made of being attached.
pub type AttachResult = Result<Attached, Refusal>;

/// What an engine made of a prompt.
pub type TurnResult = Result<Ended, EngineError>;

/// Updates as they are logged and sent, in one piece.
pub type Updates = std::sync::Arc<Block>;
