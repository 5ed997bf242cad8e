//! What answers a prompt: the contract between a session and its engine.
//!
//! A session hands its engine prompts, one at a time, and an [`Outlet`]. Everything the engine
//! puts into the outlet is written to the session's log and then sent to the client, in that
//! order and byte for byte.

pub mod captured;
pub mod client;
pub mod doing;
pub mod error;
pub mod history;
pub mod local;
pub mod outlet;
pub mod process;
pub mod prompt;
pub mod relay;
pub mod successor;
pub mod wrapped;

use std::fmt;
use std::sync::Arc;

pub use client::ClientAbilities;
pub use doing::Doing;
pub use error::EngineError;
pub use history::{History, HistoryError};
pub use outlet::{Block, Cancel, Outlet, Question, Said};
pub use prompt::{Ended, Prompt, StopReason};
pub use relay::{Patience, Relay};

use crate::record::header::{Party, Place};
use crate::sys::{Ids, SessionId};

/// Something that can hold conversations.
pub trait Engine: Send + Sync + fmt::Debug {
    /// Name and version, for the header of a session.
    fn identity(&self) -> Party;

    /// Begins or continues a conversation. Nothing happens before it is asked for something.
    fn open(&self, opening: Opening) -> Arc<dyn Conversation>;

    /// The process is about to end: so does what the engine has started.
    fn leave(&self, patience: Patience) -> Doing<'static, ()> {
        tracing::trace!(?patience, "nothing to end");
        Box::pin(async {})
    }

    /// The agent behind this engine, if there is one.
    fn relay(&self) -> Option<&dyn Relay> {
        None
    }
}

/// What an engine is told of a session when it is opened.
#[derive(Clone, Debug)]
pub struct Opening {
    /// The session's id.
    pub session: SessionId,
    /// Where it works.
    pub wanted: Wanted,
    /// What the client does for an engine that asks it to.
    pub client: ClientAbilities,
    /// What was said before.
    pub history: Arc<dyn History>,
    /// Where ids of messages and tool calls come from.
    pub ids: Arc<dyn Ids>,
    /// How the agent behind the engine knows the session that this one was just made of, if it
    /// knows that and nothing more than what was said in this one.
    pub origin: Option<String>,
    /// Where everything goes that the engine says, within turns and between them.
    pub out: Outlet,
}

/// How a client wants a session to be: where it works, and whatever else it asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The id by which the client knows the session.
    pub name: String,
    /// Where it works, without anything secret.
    pub place: Place,
    /// The parameters of the request, verbatim. They may hold secrets, so they are kept in memory
    /// only, and never shown.
    pub params: Secret,
}

/// Text that must not be shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub Arc<str>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// One open session as its engine sees it.
pub trait Conversation: Send + Sync {
    /// The commands a client may offer its user, as a JSON array of `AvailableCommand`. An engine
    /// that announces them by itself has none.
    fn commands(&self) -> Option<String>;

    /// The session is to be as the client wants it now.
    fn moved(&self, wanted: Wanted);

    /// Makes ready for the first prompt, or says why that cannot be. May be asked again, and must
    /// be quick then if nothing has changed.
    fn attach(&self, how: Attach) -> Doing<'static, Result<Attached, EngineError>>;

    /// Answers a prompt. Ends soon after `cancel` is called, with [`StopReason::Cancelled`].
    fn prompt(&self, prompt: Prompt, cancel: Cancel) -> Doing<'static, Result<Ended, EngineError>>;

    /// Serves a request of the client that is about this session and that we know nothing of.
    /// `params` is the request's parameters as the client wrote them; the result is JSON text.
    /// When `cancelled` resolves, the client no longer wants it.
    fn call(
        &self,
        method: &str,
        params: String,
        cancelled: Doing<'static, ()>,
    ) -> Doing<'static, Result<Called, EngineError>> {
        drop((params, cancelled));
        let error = EngineError::unknown_method(method);
        Box::pin(async move { Err(error) })
    }

    /// Takes a notification of the client that is about this session.
    fn notify(&self, method: &str, params: String) {
        tracing::debug!(method, length = params.len(), "unknown notification");
    }

    /// The client has given the session a title. Does not wait.
    fn titled(&self, title: &str) {
        tracing::trace!(title, "titled");
    }

    /// The session is closed or deleted. Does not wait.
    fn part(&self, how: Parting) {
        tracing::trace!(?how, "parted");
    }
}

/// Why an engine is to make ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attach {
    /// The session is new.
    New,
    /// The session is new, with the history of another one.
    Fork,
    /// The session is opened again.
    Again,
    /// The session is one that the agent made without us, with the id it has there; all that
    /// the agent shows of it comes back with the answer.
    Import,
}

/// An engine that is ready.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attached {
    /// What the client is answered besides the session's id: the JSON text of an object.
    pub answer: Option<String>,
    /// What is to be kept in the log of how the engine knows the session: the payload of an
    /// `inner` record.
    pub inner: Option<String>,
    /// Updates that say how things are now, to be shown behind the history.
    pub snapshots: Vec<String>,
    /// Names of updates that said how things were and hold no longer.
    pub gone: Vec<&'static str>,
    /// The history of a session that the agent made without us, as it is to stand in the log.
    pub imported: Vec<Block>,
}

/// A request that was served.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Called {
    /// The result, as JSON text.
    pub result: String,
    /// What the log is to know of it: the payload of an `info` record.
    pub info: Option<String>,
    /// What the log is to know of it and the client is sent, in front of the result.
    pub updates: Block,
}

/// How a session is let go of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parting {
    /// It may be opened again.
    Closed,
    /// It is in the trash.
    Deleted,
    /// It never came to be.
    Refused,
}
