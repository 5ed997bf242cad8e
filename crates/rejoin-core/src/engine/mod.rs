//! The contract between a session and the engine that answers its prompts.
//!
//! A session hands its engine prompts, one at a time unless the engine takes more, and an
//! [`Outlet`]. Everything the engine puts into the outlet is appended to the session's log and then
//! sent to the client, in that order and byte for byte.

pub mod terminal_text;
pub mod client;
pub mod clients;
pub mod error;
pub mod history;
pub mod demo;
pub mod outlet;
pub mod process;
pub mod prompt;
pub mod known;
pub mod upstream;
pub mod proxy;
pub mod agent;
pub mod choice;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use serde_json::json;
use zeroize::Zeroizing;

pub use client::ClientCapabilities;
pub use clients::{Caller, Clients};
pub use error::EngineError;
pub use history::{History, HistoryError};
pub use outlet::{Block, Cancel, EngineEvent, EventFilter, Outlet, Question, SpareTexts};
pub use prompt::{Prompt, PromptEnd, StopReason};
pub use upstream::{AgentListQuery, Foreign, InitializeOutcome, Introduction, Patience, Upstream};

use crate::json::{text_member, with_members};
use crate::record::header::{Implementation, Workspace};
use crate::record::{AgentPlace, CurrentSettings};
use crate::sys::{Ids, SessionId, Timestamp};

/// A boxed future that can move between threads.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The future after it was polled once: what it does without waiting is done.
pub fn begun<T: Send + 'static>(mut future: BoxFuture<'static, T>) -> BoxFuture<'static, T> {
    let mut context = Context::from_waker(Waker::noop());
    match future.as_mut().poll(&mut context) {
        Poll::Ready(value) => Box::pin(std::future::ready(value)),
        Poll::Pending => future,
    }
}

/// Answers the prompts of sessions.
pub trait Engine: Send + Sync + fmt::Debug {
    /// Name and version, for the header of a session.
    fn identity(&self) -> Implementation;

    /// Begins or continues a conversation. Does no work before the first call on it.
    fn open(&self, opening: Opening) -> Arc<dyn Conversation>;

    /// The process is about to end: ends everything that the engine has started.
    fn leave(&self, patience: Patience) -> BoxFuture<'static, ()> {
        tracing::trace!(?patience, "nothing to end");
        Box::pin(async {})
    }

    /// The modes, models and options with which a session would be opened, according to what its log says:
    /// the members of a response, in the form of version 1.
    fn recorded_options(&self, settings: &CurrentSettings) -> String {
        tracing::trace!(agent = settings.agent, "no options");
        "{}".to_owned()
    }

    /// The agent that answers the prompts, if the engine wraps one. Its conversations accept prompts
    /// while they answer others, which the agent orders itself.
    fn upstream(&self) -> Option<&dyn Upstream> {
        None
    }
}

impl dyn Engine {
    /// Whether this engine wraps an agent.
    pub fn wraps_agent(&self) -> bool {
        self.upstream().is_some()
    }

    /// Whether it wraps an agent that is native, see [`Upstream::is_native`].
    pub fn is_native(&self) -> bool {
        self.upstream().is_some_and(Upstream::is_native)
    }

    /// The names that the wrapped agent may have in logs. There are none without such an agent.
    pub fn agent_names(&self) -> Vec<String> {
        self.upstream().map(Upstream::names).unwrap_or_default()
    }
}

/// The session that an engine is to open, its client, its history and its outlet.
#[derive(Clone, Debug)]
pub struct Opening {
    /// The session's id.
    pub session: SessionId,
    /// Its workspace and the parameters of the request.
    pub config: SessionConfig,
    /// The client's capabilities that matter to the engine.
    pub client: ClientCapabilities,
    /// The earlier part of the conversation.
    pub history: Arc<dyn History>,
    /// The source of ids for messages and tool calls.
    pub ids: Arc<dyn Ids>,
    /// The place in the agent's session at which this one was just forked, if the agent has there
    /// exactly the history of this one.
    pub origin: Option<AgentPlace>,
    /// Where the engine sends its events, within turns and between them.
    pub out: Outlet,
}

/// The configuration of a session: its workspace and the parameters of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionConfig {
    /// The id by which the client knows the session.
    pub name: String,
    /// The workspace without anything secret.
    pub workspace: Workspace,
    /// The parameters of the request, verbatim. They may hold secrets, so they are kept in memory
    /// only, and are never shown.
    pub params: Secret,
}

/// The member of a request that opens a session with values for its options.
const GIVEN_OPTIONS: &str = "configOptions";

impl SessionConfig {
    /// The values that the client has given options, as a JSON array.
    pub fn given_options(&self) -> Option<String> {
        let given = text_member(&self.params.0, GIVEN_OPTIONS);
        given.filter(|given| *given != "null").map(str::to_owned)
    }

    /// Removes these values. They count for one request; after that, those that the user has chosen since.
    pub fn remove_given_options(&mut self) {
        if text_member(&self.params.0, GIVEN_OPTIONS).is_some() {
            let others = with_members(&self.params.0, &[GIVEN_OPTIONS], &[]);
            self.params = Secret(Arc::new(others.into()));
        }
    }
}

/// Text that must not be shown. It is overwritten in memory when it is dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub Arc<Zeroizing<String>>);

impl Secret {
    /// A secret copy of a text.
    pub fn new(text: &str) -> Self {
        Self(Arc::new(Zeroizing::new(text.to_owned())))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// An open session as its engine sees it.
pub trait Conversation: Send + Sync {
    /// Name and version of what answers the prompts, if that differs from one of the engine's
    /// sessions to another.
    fn identity(&self) -> Option<Implementation> {
        None
    }

    /// The commands a client may offer its user, as a JSON array of `AvailableCommand`. `None` from
    /// an engine that sends `available_commands_update` itself.
    fn commands(&self) -> Option<String>;

    /// The client has reconfigured the session.
    fn reconfigure(&self, config: SessionConfig);

    /// Prepares for the first prompt, or reports why that is not possible. May be called again, and
    /// must then be quick if nothing has changed.
    fn attach(&self, how: AttachReason) -> BoxFuture<'static, Result<AttachOutcome, EngineError>>;

    /// Answers a prompt. Ends soon after `cancel` is called, with [`StopReason::Cancelled`].
    fn prompt(
        &self,
        prompt: Prompt,
        cancel: Cancel,
    ) -> BoxFuture<'static, Result<PromptEnd, EngineError>>;

    /// Serves a client's request about this session whose method rejoin does not implement.
    /// `params` is the request's parameters as the client wrote them; the result is JSON text.
    /// `cancelled` resolves when the client withdraws the request.
    fn call(
        &self,
        method: &str,
        params: String,
        cancelled: BoxFuture<'static, ()>,
    ) -> BoxFuture<'static, Result<Called, EngineError>> {
        drop((params, cancelled));
        let error = EngineError::unknown_method(method);
        Box::pin(async move { Err(error) })
    }

    /// Handles a client's notification about this session.
    fn notify(&self, method: &str, params: String) {
        tracing::debug!(method, length = params.len(), "unknown notification");
    }

    /// The client has given the session a title. Does not wait.
    fn title_changed(&self, title: &str) {
        tracing::trace!(title, "title changed");
    }

    /// The session is closed or deleted. Does not wait.
    fn close(&self, reason: CloseReason) {
        tracing::trace!(?reason, "closed");
    }
}

/// Why an engine is to attach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttachReason {
    /// The session is new.
    New,
    /// The session is new and has the history of another one.
    Fork,
    /// The session is opened again.
    Again,
    /// Another process has the session open. The engine starts nothing and answers with the
    /// session's state according to its log.
    Elsewhere,
    /// The agent created the session without rejoin, under the id it has there. The answer contains
    /// everything that the agent replays of it.
    Import,
}

/// The result of attaching an engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AttachOutcome {
    /// The members of the response besides the session's id: the JSON text of an object.
    pub answer: Option<String>,
    /// The record of the agent's session id: the payload of an `inner` record.
    pub agent_session_id: Option<String>,
    /// How the agent was attached to the session, in one word.
    pub way: Option<&'static str>,
    /// Snapshots to be sent after the replay.
    pub snapshots: Block,
    /// Records to be logged and not sent: the client learns of them from the answer.
    pub info: Block,
    /// Names of updates in the log that no longer describe the current state.
    pub gone: Vec<&'static str>,
    /// The history of a session that the agent created without rejoin, as it is to be logged.
    pub imported: Vec<Block>,
    /// The times of that session in the agent's list.
    pub listed: Option<ListedTimes>,
    /// Why the agent could not open the session, if this is the session without its agent.
    pub agent_error: Option<String>,
}

impl AttachOutcome {
    /// The session without its agent, of which only the history can be read, if `how` allows that: the
    /// next prompt tries again.
    pub fn without_agent(how: AttachReason, error: EngineError) -> Result<Self, EngineError> {
        if matches!(how, AttachReason::New | AttachReason::Import) {
            return Err(error);
        }
        tracing::warn!(%error, "opening the session without its agent");
        let note = json!({ "_meta": { "rejoin": { "agent": { "error": error.message } } } });
        Ok(Self {
            answer: Some(note.to_string()),
            agent_error: Some(error.message),
            ..Self::default()
        })
    }
}

/// The times of a session in an agent's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedTimes {
    /// When it was created, if the agent says so, and else the other time.
    pub created_at: Timestamp,
    /// Its last activity.
    pub updated_at: Timestamp,
}

/// The result of a request that [`Conversation::call`] served.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Called {
    /// The result, as JSON text.
    pub result: String,
    /// Records to be logged and not sent: the client learns of them from the result.
    pub info: Block,
    /// Updates to be logged and sent to the client before the result.
    pub updates: Block,
}

/// How a session is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// The session may be opened again.
    Closed,
    /// The session is in the trash.
    Deleted,
    /// The session was never created.
    Refused,
}
