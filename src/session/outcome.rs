//! How a session's requests end, in words that know no protocol version.

use crate::engine::{Ended, EngineError};
use crate::store::Holder;

use super::phase::Phase;

/// A request that was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Done {
    /// The session exists and is durable. The engine's own part of the answer, as JSON text.
    Created(Option<String>),
    /// The session exists, with the history of another one, and is durable. The engine's own part of
    /// the answer.
    Forked(Option<String>),
    /// The whole history was replayed. The engine's own part of the answer.
    Loaded(Option<String>),
    /// The session goes on. The engine's own part of the answer.
    Resumed(Option<String>),
    /// A prompt is in the log, as the message with this id, and is answered next.
    Taken(String),
    /// A turn ended.
    Stopped(Ended),
    /// The engine has served a request, with this result as JSON text.
    Served(String),
    /// The session has this title now.
    Titled(String),
    /// A note of the session was taken.
    Noted,
    /// How the session is.
    Status {
        /// Whether it is open here.
        open: bool,
        /// What it is doing.
        phase: Phase,
    },
    /// The session is released.
    Closed,
    /// The session is in the trash, or never was.
    Deleted,
}

/// A request that was not done, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is no such session.
    #[error("session not found")]
    NotFound,
    /// The session has no message with that id.
    #[error("there is no such message in the session")]
    ReplayStartNotFound,
    /// The session exists, but was closed or never opened on this connection.
    #[error("the session is not open: load or resume it first")]
    NotOpen,
    /// The session was closed and has no log, so it cannot be opened again.
    #[error("the session was closed, and it is not kept: make a new one")]
    Forgotten,
    /// A session was to be forked at a message that it does not have.
    #[error("the session has no such message in its finished turns")]
    ForkPointNotFound,
    /// A prompt is being answered.
    #[error("there is already an active prompt execution")]
    PromptInProgress,
    /// Another process, or another connection of this one, has the session open.
    #[error("{message}")]
    InUse {
        /// Who has it, in words.
        message: String,
        /// Who has it, if that is known.
        holder: Option<Holder>,
    },
    /// The log's beginning cannot be read, so nothing is shown and nothing is written.
    #[error("{0}")]
    Damaged(String),
    /// The log's format is of a later version.
    #[error("{0}")]
    Newer(String),
    /// The disk did not do what it was asked to.
    #[error("{0}")]
    Storage(String),
    /// The engine failed, or refuses.
    #[error(transparent)]
    Engine(EngineError),
    /// The client cancelled the request.
    #[error("the request was cancelled")]
    Cancelled,
    /// The client no longer reads.
    #[error("the client has closed the connection")]
    Gone,
}
