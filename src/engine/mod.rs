//! What answers a prompt: the contract between a session and its engine.
//!
//! A session hands its engine prompts, one at a time, and an [`Outlet`]. Everything the engine
//! puts into the outlet is written to the session's log and then sent to the client, in that
//! order and byte for byte.

pub mod local;
pub mod outlet;
pub mod prompt;
pub mod wrapped;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

pub use outlet::{Cancel, Outlet};
pub use prompt::Prompt;

use crate::record::header::{Party, Place};
use crate::sys::{Ids, SessionId};

/// Something that can hold conversations.
pub trait Engine: Send + Sync + fmt::Debug {
    /// Name and version, for the header of a session.
    fn identity(&self) -> Party;

    /// Begins or continues a conversation.
    fn open(&self, opening: Opening) -> Box<dyn Conversation>;
}

/// What an engine is told of a session when it is opened.
#[derive(Clone, Debug)]
pub struct Opening {
    /// The session's id.
    pub session: SessionId,
    /// Where it works.
    pub place: Place,
    /// What was said before.
    pub history: Arc<dyn History>,
    /// Where ids of messages and tool calls come from.
    pub ids: Arc<dyn Ids>,
}

/// The earlier part of a conversation, as far as engines need it.
pub trait History: Send + Sync + fmt::Debug {
    /// How many prompts came before the one being answered.
    fn prompts(&self) -> u64;

    /// An earlier prompt; `index` counts from 0, the oldest. May read the disk.
    fn prompt(&self, index: u64) -> Result<Prompt, HistoryError>;
}

/// An earlier prompt could not be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot read prompt {index} of the session: {reason}")]
pub struct HistoryError {
    /// Which prompt was asked for.
    pub index: u64,
    /// Why it cannot be read.
    pub reason: String,
}

/// One open session as its engine sees it.
pub trait Conversation: Send {
    /// The commands a client may offer its user, as a JSON array of `AvailableCommand`.
    fn commands(&self) -> Option<String>;

    /// Answers a prompt. Ends soon after `cancel` is called, with [`StopReason::Cancelled`].
    fn prompt<'a>(
        &'a mut self,
        prompt: &'a Prompt,
        out: &'a Outlet,
        cancel: &'a Cancel,
    ) -> Pin<Box<dyn Future<Output = Result<StopReason, TurnError>> + Send + 'a>>;
}

/// Why a turn ended, in the protocol's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// The answer is complete.
    EndTurn,
    /// The model's limit was reached.
    MaxTokens,
    /// The limit of requests in one turn was reached.
    MaxTurnRequests,
    /// The engine declined to answer.
    Refusal,
    /// The client cancelled the turn.
    Cancelled,
}

impl StopReason {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::EndTurn,
        Self::MaxTokens,
        Self::MaxTurnRequests,
        Self::Refusal,
        Self::Cancelled,
    ];

    /// The protocol's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::EndTurn => "end_turn",
            Self::MaxTokens => "max_tokens",
            Self::MaxTurnRequests => "max_turn_requests",
            Self::Refusal => "refusal",
            Self::Cancelled => "cancelled",
        }
    }

    /// The reason of a protocol name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == name)
    }
}

/// A turn that failed: what the client is answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct TurnError {
    /// The JSON-RPC error code. Never -32000, which clients take for a request to sign in.
    pub code: i32,
    /// What went wrong, in one line.
    pub message: String,
}

impl From<outlet::Closed> for TurnError {
    fn from(closed: outlet::Closed) -> Self {
        Self {
            code: -32603,
            message: closed.to_string(),
        }
    }
}

impl From<HistoryError> for TurnError {
    fn from(error: HistoryError) -> Self {
        Self {
            code: -32603,
            message: error.to_string(),
        }
    }
}
