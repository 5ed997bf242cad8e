//! The wrapped agent besides its conversations: what a client asks of the agent itself, and the
//! agent's own sessions.

use std::sync::Arc;

use super::error::EngineError;
use super::{BoxFuture, Caller, Engine};
use crate::transport::ClientConnection;

/// An agent that an engine wraps. Messages that rejoin does not implement are forwarded to the agent,
/// and its own sessions can be imported.
pub trait Upstream: Send + Sync {
    /// A client is connected: requests of the agent that belong to no session, and to no request of
    /// another client, go to it.
    fn connect(&self, client: Arc<ClientConnection>);

    /// Forwards `initialize`.
    fn initialize(&self, introduction: Introduction) -> BoxFuture<'static, InitializeOutcome>;

    /// Forwards a request that belongs to no session. When `cancelled` resolves, the agent is notified.
    fn call(
        &self,
        caller: Caller,
        method: &str,
        params: &str,
        cancelled: BoxFuture<'static, ()>,
    ) -> BoxFuture<'static, Result<String, EngineError>>;

    /// Forwards a notification that belongs to no session.
    fn notify(&self, method: &str, params: &str);

    /// Whether this is the session of a subagent, of which nothing but a cancellation is forwarded:
    /// the agent has announced it, or it is in a log that was opened.
    fn is_subagent(&self, id: &str) -> bool;

    /// Forwards the cancellation of a subagent's work, if the running agent has announced the
    /// subagent.
    fn cancel_subagent(&self, id: &str, params: &str);

    /// Whether the agent speaks the client's own version of the protocol, where that is not version 1.
    /// Then nothing that passes between them is converted, and the agent itself reports its state.
    fn is_native(&self) -> bool {
        false
    }

    /// Whether the next attach may fail because the user must sign in first. The client loads the
    /// session again after that, so nothing is replayed before.
    fn may_want_sign_in(&self) -> bool {
        false
    }

    /// An engine like this one, with an agent of its own, for clients that speak another version of
    /// the protocol than this agent. `None` if this agent serves all.
    fn another(&self) -> Option<Arc<dyn Engine>> {
        None
    }

    /// The names that the agent may have in logs.
    fn names(&self) -> Vec<String> {
        Vec::new()
    }

    /// Whether the agent declared this session capability when it was last initialized.
    fn declares(&self, capability: &str) -> bool {
        tracing::trace!(capability, "no agent declares it");
        false
    }

    /// Whether a session that rejoin does not have may be one of the agent's.
    fn may_have_sessions(&self) -> bool {
        false
    }

    /// A page of the agent's own sessions, if it lists them.
    fn sessions(&self, asked: AgentListQuery) -> BoxFuture<'static, Result<Foreign, EngineError>> {
        drop(asked);
        Box::pin(async { Ok(Foreign::default()) })
    }

    /// Deletes a session of the agent that rejoin does not have.
    fn delete(&self, id: &str) -> BoxFuture<'static, Result<(), EngineError>> {
        tracing::trace!(id, "no agent has it");
        Box::pin(async { Ok(()) })
    }
}

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
