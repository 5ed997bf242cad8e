//! Sessions: the owner of each appends to its log and asks its clients; a front shows its client the log.
//! A pure state machine says what is done, and in which order.

pub mod effect;
pub mod link;
pub mod machine;
mod notifier;
pub mod outcome;
pub mod phase;
pub mod registry;
pub mod reply;
pub mod request;

mod command;
mod cursors;
mod front;
mod library;
mod owner;
mod task;

use std::sync::Arc;
use std::time::Duration;

pub use front::growth::Growth;
pub use library::{Library, ListedTools};
pub use link::Owners;
pub use notifier::{NoticeWay, Notifier, NotifyOptions};
pub use outcome::{Done, Elsewhere, Refusal};
pub use phase::Phase;
pub use registry::Registry;
pub use reply::{Answer, Busy, BusyGuard, Reply};
pub use request::{AnswerDue, Request};

use crate::engine::{ClientCapabilities, Engine};
use crate::protocol::{ClientView, UpdateKind};
use crate::record::header::Implementation;
use crate::replay::Options;
use crate::transport::ClientConnection;

/// The dependencies that all sessions of a connection share.
#[derive(Debug)]
pub struct Deps {
    /// The sessions of the process.
    pub library: Arc<Library>,
    /// Answers prompts.
    pub engine: Arc<dyn Engine>,
    /// The client's end.
    pub client: Arc<ClientConnection>,
    /// The relation between the client and the process.
    pub role: ConnectionRole,
    /// How histories are replayed.
    pub replay: ReplayPolicy,
    /// How long the client may take for a request of an engine; without a limit if `None`.
    pub client_timeout: Option<Duration>,
    /// Whether methods are served that the protocol calls unstable.
    pub unstable: bool,
}

/// The relation between a process and a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionRole {
    /// The client has started the process, which ends with the connection.
    Owner,
    /// The process goes on without the connection.
    Guest,
    /// The process goes on without the connection, and the client only looks on.
    Observer,
}

impl ConnectionRole {
    /// Whether the engine serves other connections, too, so that it does not end with this one.
    pub fn shares_engine(self) -> bool {
        self != Self::Owner
    }

    /// Whether the client only looks on, and is asked nothing.
    pub fn observes(self) -> bool {
        self == Self::Observer
    }
}

/// The client of a connection.
#[derive(Debug, Default)]
pub struct Client {
    /// Its name and version, if it has sent them.
    pub identity: Option<Implementation>,
    /// The client's capabilities that matter to an engine.
    pub abilities: ClientCapabilities,
    /// Whether the client shows subagents: in version 1 a capability.
    pub shows_subagents: bool,
    /// The kinds of updates for which it has not declared the capability.
    pub hidden: Vec<UpdateKind>,
    /// Whether the client wants the session index of JetBrains' clients.
    pub has_session_index: bool,
    /// Whether the client wants to be notified that the list of a folder has changed.
    pub wants_list_changes: bool,
    /// The view with which each of its sessions begins.
    pub view: ClientView,
}

impl Client {
    /// The name of the client, if it has sent one.
    pub fn name(&self) -> Option<&str> {
        let identity = self.identity.as_ref()?;
        Some(&identity.name)
    }
}

impl Deps {
    /// Whether clients are offered what the protocol calls by this capability: by rejoin, or because the
    /// wrapped agent declares it.
    pub fn offers(&self, capability: &str) -> bool {
        let declares = || {
            let agent = self.engine.upstream();
            agent.is_some_and(|agent| agent.declares(capability))
        };
        self.library.store.is_some() && (self.unstable || declares())
    }

    /// Whether clients are sent the ids that the wrapped agent has for a session.
    pub fn offers_aliases(&self) -> bool {
        self.unstable && self.library.store.is_some() && self.engine.wraps_agent()
    }
}

/// The maximum number of bytes that a notification with a content block is longer than a request
/// with the same block.
const AROUND: usize = 4096;

/// How histories are replayed.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReplayPolicy {
    /// Send each chunk separately, as it was logged.
    pub exact: bool,
    /// Replay only this many of the last turns.
    pub tail: Option<u64>,
    /// Send at most this many lines in a second, for clients with short queues.
    pub rate: Option<u64>,
    /// Show at most this many bytes of the input and output of a tool call of another tool.
    pub clip: Option<usize>,
}

impl ReplayPolicy {
    fn for_session(self, prompts: u64, deps: &Deps, client: &Client) -> Options {
        let skip_turns = self.tail.map_or(0, |tail| prompts.saturating_sub(tail));
        Options {
            skip_turns,
            ..self.for_all(deps, client)
        }
    }

    fn for_all(self, deps: &Deps, client: &Client) -> Options {
        Options {
            exact: self.exact,
            message_limit: deps.client.line_limit.saturating_add(AROUND),
            hide_subagents: !client.shows_subagents,
            clip: self.clip,
            ..Options::default()
        }
    }
}
