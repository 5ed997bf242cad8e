//! Conversations: each a pure state machine inside an actor that does what it decides.

pub mod busy;
pub mod version;
pub mod effect;
pub mod history;
pub mod machine;
pub mod outcome;
mod overdue;
pub mod phase;
pub mod registry;
pub mod reply;
pub mod request;

mod access;
mod actor;
mod asked;
mod asking;
mod attached;
mod pending_attach;
mod client_requests;
mod command;
mod expiry;
mod failing;
mod forget;
mod forking;
mod journal;
mod open;
mod noting;
mod pace;
mod perform;
mod playback;
mod prompting;
mod replaying;
pub mod refusal;
mod running;
mod open_session;
mod takeover;
mod telling;
mod turn;
mod withdrawn;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

pub use open_session::Elsewhere;
pub use outcome::{Done, Refusal};
pub use registry::Registry;
pub use reply::{Answer, Reply};
pub use request::Request;
pub use version::ProtocolVersion;

use crate::engine::{ClientAbilities, Engine};
use crate::index::Catalog;
use crate::record::header::Implementation;
use crate::replay::Options;
use crate::store::Store;
use crate::sys::{SessionId, Sys, lock};
use crate::transport::Wire;

/// How many of the sessions without a log that were closed are remembered.
const CLOSED: usize = 10_000;

/// What all sessions of a connection share.
#[derive(Debug)]
pub struct Deps {
    /// Clock, ids, disk.
    pub sys: Sys,
    /// Where logs are kept; `None` keeps sessions in memory.
    pub store: Option<Store>,
    /// The catalog of the store.
    pub catalog: Option<Arc<Catalog>>,
    /// What answers prompts.
    pub engine: Arc<dyn Engine>,
    /// The client's end.
    pub wire: Arc<Wire>,
    /// How histories are replayed.
    pub replay: ReplayPolicy,
    /// After how long without a prompt sessions expire; `None` if they never do.
    pub expire_after: Option<Duration>,
    /// The longest line that the client may send, in bytes: what it could send it can get back.
    pub line_limit: usize,
    /// How long the client may take for what it does for an engine; for ever if there is none.
    pub client_timeout: Option<Duration>,
    /// Whether methods are served that the protocol calls unstable.
    pub unstable: bool,
    /// Who the client says it is, once it has.
    pub client: OnceLock<Implementation>,
    /// How the client is told of turns, once that is agreed upon.
    pub version: OnceLock<ProtocolVersion>,
    /// What the client can do, once it has said so.
    pub abilities: OnceLock<ClientAbilities>,
    /// Sessions without a log that were closed, so that closing them again is no error.
    pub closed: Mutex<BTreeSet<SessionId>>,
}

impl Deps {
    /// How the client is told of turns.
    pub fn version(&self) -> ProtocolVersion {
        self.version.get().copied().unwrap_or_default()
    }

    fn close_in_memory(&self, id: &SessionId) {
        let mut closed = lock(&self.closed);
        closed.insert(id.clone());
        if closed.len() > CLOSED {
            // Ids begin with their time.
            closed.pop_first();
        }
    }

    fn closed_in_memory(&self, id: &SessionId) -> bool {
        lock(&self.closed).contains(id)
    }
}

/// What a notification has around a content block, at most, that a request has not, in bytes.
const AROUND: usize = 4096;

/// How histories are replayed.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReplayPolicy {
    /// Send each chunk as it came.
    pub exact: bool,
    /// Replay only so many of the last turns.
    pub tail: Option<u64>,
    /// Send no more than so many lines in a second, for clients whose queues are short.
    pub rate: Option<u64>,
}

impl ReplayPolicy {
    fn for_session(self, prompts: u64, line_limit: usize) -> Options {
        let skip_turns = self.tail.map_or(0, |tail| prompts.saturating_sub(tail));
        Options {
            skip_turns,
            ..self.for_all(line_limit)
        }
    }

    fn for_all(self, line_limit: usize) -> Options {
        Options {
            exact: self.exact,
            message_limit: line_limit.saturating_add(AROUND),
            ..Options::default()
        }
    }
}
