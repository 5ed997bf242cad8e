//! What an engine adds to a connection if it wraps another agent.

use std::fmt;
use std::sync::Arc;

use crate::transport::Wire;

use super::doing::BoxFuture;
use super::error::EngineError;

/// The agent behind this one.
pub trait Relay: Send + Sync + fmt::Debug {
    /// The client is connected: requests of the agent that belong to no session go to it.
    fn connect(&self, client: Arc<Wire>);

    /// Forwards `initialize`. `params` is what the client sent.
    fn greet(&self, params: String) -> BoxFuture<'static, Greeted>;

    /// Forwards a request that belongs to no session. `id` is the client's id of it, as JSON text,
    /// by which the agent's own requests may refer to it. When `cancelled` resolves, the agent is
    /// notified.
    fn call(
        &self,
        id: &str,
        method: &str,
        params: &str,
        cancelled: BoxFuture<'static, ()>,
    ) -> BoxFuture<'static, Result<String, EngineError>>;

    /// Forwards a notification that belongs to no session.
    fn notify(&self, method: &str, params: &str);

    /// A page of the agent's own sessions, if it lists them.
    fn sessions(&self, asked: Asked) -> BoxFuture<'static, Result<Foreign, EngineError>>;

    /// Further names of the agent in logs, besides that of its engine.
    fn other_names(&self) -> Vec<String> {
        Vec::new()
    }

    /// Whether a session that rejoin does not have may be one of the agent's.
    fn may_know(&self) -> bool;

    /// Whether the agent declared this session capability when it was last initialized.
    fn declares(&self, capability: &str) -> bool;

    /// Deletes a session of the agent that rejoin does not have.
    fn delete(&self, id: &str) -> BoxFuture<'static, Result<(), EngineError>>;

    /// Ends the agent; `patience` says how long it may take to exit by itself.
    fn leave(&self, patience: Patience) -> BoxFuture<'static, ()>;
}

/// The outcome of `initialize`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Greeted {
    /// The agent's own answer: its result as JSON text, or its error.
    Answered(Result<String, EngineError>),
    /// The agent is not available at present, and why.
    Unavailable(EngineError),
}

/// Which of the agent's sessions are requested.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
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
