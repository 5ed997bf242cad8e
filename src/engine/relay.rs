//! What an engine adds to a connection if it is an agent of its own behind this one.

use std::fmt;
use std::sync::Arc;

use crate::wire::Wire;

use super::doing::Doing;
use super::error::EngineError;

/// An agent that this one stands in front of.
pub trait Relay: Send + Sync + fmt::Debug {
    /// The client's end has come up: requests of the agent that belong to no session go there.
    fn connect(&self, client: Arc<Wire>);

    /// Hands on `initialize`. `params` is what the client sent.
    fn greet(&self, params: String) -> Doing<'static, Greeted>;

    /// Hands on a request that is about no session. `id` is the client's id of it, as JSON text, in
    /// whose terms the agent's own requests may name it. When `cancelled` resolves, the agent is
    /// told.
    fn call(
        &self,
        id: &str,
        method: &str,
        params: &str,
        cancelled: Doing<'static, ()>,
    ) -> Doing<'static, Result<String, EngineError>>;

    /// Hands on a notification that is about no session.
    fn notify(&self, method: &str, params: &str);

    /// A page of the sessions that the agent itself knows, if it tells.
    fn sessions(&self, asked: Asked) -> Doing<'static, Result<Foreign, EngineError>>;

    /// Whether a session that we know nothing of may be one of the agent's.
    fn may_know(&self) -> bool;

    /// Whether the agent says that it forks sessions.
    fn forks(&self) -> bool;

    /// Deletes a session of the agent that we know nothing of.
    fn delete(&self, id: &str) -> Doing<'static, Result<(), EngineError>>;

    /// Ends the agent: it has until then to end by itself.
    fn leave(&self, patience: Patience) -> Doing<'static, ()>;
}

/// What became of `initialize`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Greeted {
    /// The agent's own answer: its result as JSON text, or its error.
    Answered(Result<String, EngineError>),
    /// There is no agent at present, and why.
    Unavailable(EngineError),
}

/// Which of the agent's sessions are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// Only those that work there.
    pub cwd: Option<String>,
    /// The agent's own cursor, for pages behind the first.
    pub cursor: Option<String>,
}

/// Sessions that the agent knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Foreign {
    /// The agent's name.
    pub source: String,
    /// Entries as the agent lists them, each the JSON text of a `SessionInfo`.
    pub sessions: Vec<String>,
    /// The agent's cursor for the next page.
    pub next_cursor: Option<String>,
}

/// How long an agent may take to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// The client has left: the agent sees the end of its input, then is asked, then is killed.
    EndOfInput,
    /// The process is to end: the agent is asked at once, then killed.
    Hurry,
}
