//! Values that the server and an engine that wraps an agent exchange, besides conversations.

use super::error::EngineError;

/// The parameters of `initialize`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Introduction {
    /// In version 1 of the protocol, as JSON text.
    pub params: String,
    /// For an agent that may speak the client's version, if that is not version 1: in both
    /// versions, since the agent chooses.
    pub native: Option<String>,
}

/// The outcome of `initialize`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InitializeOutcome {
    /// The agent's own answer: its result as JSON text, or its error.
    Answered(Result<String, EngineError>),
    /// The agent is not available at present, and why.
    Unavailable(EngineError),
}

/// A request for a page of the agent's sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentListQuery {
    /// Only those with this working directory.
    pub cwd: Option<String>,
    /// The agent's own cursor, for pages behind the first.
    pub cursor: Option<String>,
}

/// A page of the agent's sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Foreign {
    /// The agent's name.
    pub source: String,
    /// Entries as the agent lists them, each the JSON text of a `SessionInfo`.
    pub sessions: Vec<String>,
    /// The agent's cursor for the next page.
    pub next_cursor: Option<String>,
}

/// How long an agent may take to exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// The client has disconnected: close the agent's input, then send SIGTERM, then SIGKILL.
    EndOfInput,
    /// The process is about to end: send SIGTERM at once, then SIGKILL.
    Hurry,
}
