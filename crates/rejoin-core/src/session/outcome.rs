//! How requests to a session end, in terms that know no protocol version.

use serde::{Deserialize, Serialize};

use crate::engine::{EngineError, PromptEnd, StopReason};
use crate::store::{Holder, StoreError};
use crate::sys::with_causes;

use super::phase::Phase;

/// A request that was done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Done {
    /// The session exists and is durable. With the engine's part of the answer, as JSON text.
    Created(Option<String>),
    /// The session exists with the history of another one, and is durable. With the engine's part
    /// of the answer.
    Forked(Option<String>),
    /// The whole history was replayed. With the engine's part of the answer.
    Loaded(Option<String>),
    /// The session continues. With the engine's part of the answer.
    Resumed(Option<String>),
    /// A prompt is logged as the message with this id, and is answered next.
    Accepted(String),
    /// A prompt was sent before with the same idempotency key, and was logged as the message with this
    /// id.
    Repeated {
        /// The id of the first prompt's message.
        message_id: String,
        /// What became of it.
        phase: Phase,
    },
    /// A turn has ended.
    Stopped(PromptEnd),
    /// The engine has served a request, with this result as JSON text.
    Served(String),
    /// The session has this title now.
    Titled(String),
    /// The session was archived, or is no longer.
    Archived,
    /// The conversation goes on from an earlier place.
    Rewound,
    /// The conversation goes on from behind the message with this id.
    RewoundTo(String),
    /// The state of the session.
    Status {
        /// Whether it is open here.
        open: bool,
        /// The session's state.
        phase: Phase,
    },
    /// The session is closed.
    Closed,
    /// The session is in the trash, or never existed.
    Deleted,
}

/// The state of a session that another process has open, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Elsewhere {
    /// The process, if it is known.
    pub holder: Option<Holder>,
    /// Whether a turn was running there when the log was last read.
    pub running: bool,
    /// Whether that process serves the session's requests.
    pub attached: bool,
}

/// Why a request was refused, or has failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Refusal {
    /// The session does not exist.
    #[error("session not found")]
    NotFound,
    /// The message to replay from does not exist.
    #[error("the session has no message with that id")]
    ReplayStartNotFound,
    /// The session exists, but was closed or never opened on this connection.
    #[error("the session is not open: load or resume it first")]
    NotOpen,
    /// The session was closed and has no log, so it cannot be opened again.
    #[error("the session was closed, and it is not kept: make a new one")]
    Forgotten,
    /// The message to fork at does not exist.
    #[error("the session has no such message in its finished turns")]
    ForkPointNotFound,
    /// The cursor to fork at is not one of the session's.
    #[error("the session has no such cursor")]
    CursorNotFound,
    /// The place to go back to does not exist.
    #[error("the session has no such place to go back to")]
    RewindPointNotFound,
    /// The message that another prompt is to replace is not one of the user.
    #[error("the message is not one of the user")]
    NotOfUser,
    /// A prompt is being answered.
    #[error("there is already an active prompt execution")]
    PromptInProgress {
        /// The name of the client that has sent it, if the session has several.
        client: Option<String>,
    },
    /// The client only looks on.
    #[error("this client only looks on: to take part, it loads the session without `observe`")]
    Observes,
    /// Another process, or another connection of this one, has the session open.
    #[error("{message}")]
    InUse {
        /// The sentence for the client.
        message: String,
        /// The process, if it is known.
        holder: Option<Holder>,
    },
    /// Another process has imported the session meanwhile, so that it can be opened as any other.
    #[error("another process has just imported the session: load it again")]
    Imported,
    /// The process that ran the turn was about to end, which the client had not asked for.
    #[error("the turn was interrupted: the process that ran it was asked to end")]
    Interrupted,
    /// The prompt was sent before with the same idempotency key, and its turn was interrupted.
    #[error(
        "the turn of this prompt was interrupted, and may have had effects: it is not repeated"
    )]
    RepeatInterrupted {
        /// The id of the first prompt's message.
        message_id: String,
    },
    /// The process that had the session ended before it answered.
    #[error("the process that had the session open has ended before it answered")]
    OwnerEnded,
    /// The client goes before the process that has the session has answered.
    #[error(
        "the client has gone before the answer, and the process that has the session open goes on"
    )]
    ClientLeft,
    /// The log's header cannot be read, so nothing is replayed and nothing is written.
    #[error("{0}")]
    Damaged(String),
    /// The log has a later format.
    #[error("{0}")]
    Newer(String),
    /// The disk has failed.
    #[error("{0}")]
    Storage(String),
    /// The database that has the sessions cannot be reached.
    #[error("{0}")]
    Unreachable(String),
    /// The engine has failed, or refuses.
    #[error(transparent)]
    Engine(EngineError),
    /// The client has cancelled the request.
    #[error("the request was cancelled")]
    Cancelled,
    /// The client no longer reads.
    #[error("the client has closed the connection")]
    Gone,
}

impl Refusal {
    /// Whether the log may be recovered at once: a database that does not answer is not asked again
    /// before something needs it.
    pub(super) fn is_recoverable_at_once(&self) -> bool {
        !matches!(self, Self::Unreachable(_))
    }

    /// The result of a turn whose end could not be logged for this reason. A client that has cancelled
    /// the turn gets that answer if the store did not answer: the end may be logged later, and nobody
    /// waits for that.
    pub(super) fn of_turn(&self, is_cancelled: bool) -> Result<PromptEnd, Self> {
        if is_cancelled && !self.is_recoverable_at_once() {
            Ok(PromptEnd::Because(StopReason::Cancelled))
        } else {
            Err(self.clone())
        }
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        let message = error.to_string();
        match error {
            StoreError::NotFound { .. } => Self::NotFound,
            StoreError::InUse { holder, .. } => Self::InUse { message, holder },
            StoreError::Fenced { holder, .. } => Self::InUse {
                message,
                holder: holder.map(|holder| *holder),
            },
            StoreError::Unreachable { .. } => Self::Unreachable(message),
            StoreError::Newer { .. } => Self::Newer(message),
            StoreError::Headerless { .. } | StoreError::WrongId { .. } => Self::Damaged(message),
            error => Self::Storage(with_causes(&error)),
        }
    }
}
