//! What a session needs while it is open: its log, its engine's conversation, what it knows of
//! itself.

use std::fmt;
use std::sync::Arc;

use tokio::sync::mpsc;

use crate::engine::{Conversation, Opening, Outlet, Said, Wanted};
use crate::index::Summary;
use crate::record::header::Place;
use crate::store::{DamageReport, Log};
use crate::sys::SessionId;

use super::Deps;
use super::history::SessionHistory;

/// An open session's belongings.
pub(super) struct Seat {
    pub(super) hold: Hold,
    pub(super) conversation: Arc<dyn Conversation>,
    /// What the engine says.
    pub(super) said: mpsc::Receiver<Said>,
    pub(super) history: Arc<SessionHistory>,
    /// Where the session works, and whatever else the client asked for.
    pub(super) wanted: Wanted,
    /// Where the log says that it works.
    pub(super) recorded: Place,
    /// What the catalog shows.
    pub(super) summary: Summary,
    /// The title that a client has given it.
    pub(super) titled: Option<String>,
    pub(super) damage: Arc<[DamageReport]>,
    /// How the engine knows the session, as long as that is not in the log.
    pub(super) inner: Option<String>,
    /// Whether something could not be written, so that the log wants recovery.
    pub(super) broken: bool,
    /// Where the record that was appended last begins, in bytes.
    pub(super) last_offset: Option<u64>,
    /// How far the client knows the log, in bytes: what is behind was never sent.
    pub(super) shown: u64,
}

/// How a session has its log.
#[derive(Debug)]
pub(super) enum Hold {
    /// Locked, for reading and appending.
    Own(Log),
    /// For reading: somebody else has it locked.
    Shared,
    /// There is none: the session is kept in memory.
    Memory,
}

/// What a seat is made of.
#[derive(Debug)]
pub(super) struct Furniture {
    pub(super) hold: Hold,
    pub(super) history: SessionHistory,
    pub(super) wanted: Wanted,
    pub(super) recorded: Place,
    pub(super) summary: Summary,
    pub(super) titled: Option<String>,
    pub(super) damage: Arc<[DamageReport]>,
    pub(super) shown: u64,
    /// How the agent behind the engine knows the session that this one was just made of.
    pub(super) origin: Option<String>,
}

impl Seat {
    /// Opens the engine's conversation.
    pub(super) fn new(id: &SessionId, deps: &Deps, furniture: Furniture) -> Self {
        let history = Arc::new(furniture.history);
        let (conversation, said) = open(id, deps, &history, &furniture.wanted, furniture.origin);
        Self {
            hold: furniture.hold,
            conversation,
            said,
            history,
            wanted: furniture.wanted,
            recorded: furniture.recorded,
            summary: furniture.summary,
            titled: furniture.titled,
            damage: furniture.damage,
            inner: None,
            broken: false,
            last_offset: None,
            shown: furniture.shown,
        }
    }

    /// Opens the engine's conversation anew.
    pub(super) fn reopen_conversation(&mut self, id: &SessionId, deps: &Deps) {
        (self.conversation, self.said) = open(id, deps, &self.history, &self.wanted, None);
    }

    /// The session is to be as the client wants it now.
    pub(super) fn moved(&mut self, wanted: Wanted) {
        if self.wanted != wanted {
            self.wanted = wanted.clone();
            self.conversation.moved(wanted);
        }
    }

    /// Where the log ends, in bytes, if this process may append to it.
    pub(super) fn log_end(&self) -> Option<u64> {
        match &self.hold {
            Hold::Own(log) => Some(log.end()),
            Hold::Shared | Hold::Memory => None,
        }
    }
}

fn open(
    id: &SessionId,
    deps: &Deps,
    history: &Arc<SessionHistory>,
    wanted: &Wanted,
    origin: Option<String>,
) -> (Arc<dyn Conversation>, mpsc::Receiver<Said>) {
    let (out, said) = Outlet::new();
    let conversation = deps.engine.open(Opening {
        session: id.clone(),
        wanted: wanted.clone(),
        client: deps.abilities.get().copied().unwrap_or_default(),
        history: history.clone(),
        ids: deps.sys.ids.clone(),
        origin,
        out,
    });
    (conversation, said)
}

impl fmt::Debug for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seat")
            .field("hold", &self.hold)
            .finish_non_exhaustive()
    }
}
