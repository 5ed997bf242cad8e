//! What an engine could not do, in the words of JSON-RPC.

use super::history::HistoryError;
use super::outlet::Closed;

/// An error that the client is answered with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct EngineError {
    /// The JSON-RPC error code. Never -32000, which clients take for a request to sign in, unless
    /// it is one: of the agent behind the engine.
    pub code: i32,
    /// What went wrong, in one line.
    pub message: String,
    /// More about it, as JSON text.
    pub data: Option<String>,
}

impl EngineError {
    /// Code of errors that are nobody's fault but ours.
    pub const INTERNAL: i32 = -32603;
    /// Code of an agent that wants its user to sign in.
    pub const SIGN_IN: i32 = -32000;

    /// Code of an agent that knows no such session.
    pub const NOT_FOUND: i32 = -32002;

    /// An internal error.
    pub fn internal(message: impl Into<String>) -> Self {
        Self {
            code: Self::INTERNAL,
            message: message.into(),
            data: None,
        }
    }

    /// The method is unknown.
    pub fn unknown_method(method: &str) -> Self {
        Self {
            code: -32601,
            message: format!("Method not found: {method}"),
            data: None,
        }
    }

    /// There is no such session.
    pub fn unknown_session() -> Self {
        Self {
            code: Self::NOT_FOUND,
            message: "the agent has no such session".to_owned(),
            data: None,
        }
    }

    /// The client took its request back.
    pub fn cancelled() -> Self {
        Self {
            code: -32800,
            message: "Request cancelled".to_owned(),
            data: None,
        }
    }
}

impl From<Closed> for EngineError {
    fn from(closed: Closed) -> Self {
        Self::internal(closed.to_string())
    }
}

impl From<HistoryError> for EngineError {
    fn from(error: HistoryError) -> Self {
        Self::internal(error.to_string())
    }
}
