//! What a session needs while it is open: its log, its engine's conversation, what it knows of
//! itself.

use std::fmt;
use std::sync::Arc;

use crate::engine::{Conversation, Opening};
use crate::index::Summary;
use crate::record::header::Place;
use crate::store::{DamageReport, Log};
use crate::sys::SessionId;

use super::Deps;
use super::history::SessionHistory;

/// An open session's belongings.
pub(super) struct Seat {
    pub(super) hold: Hold,
    /// Absent while a turn has it.
    pub(super) conversation: Option<Box<dyn Conversation>>,
    pub(super) history: Arc<SessionHistory>,
    /// Where the session works.
    pub(super) place: Place,
    /// Where the log says that it works.
    pub(super) recorded: Place,
    /// What the catalog shows.
    pub(super) summary: Summary,
    pub(super) damage: Arc<[DamageReport]>,
    /// The commands the engine offers, as JSON text.
    pub(super) commands: Option<String>,
    /// Whether the conversation was opened for another place or an older history.
    pub(super) stale: bool,
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

impl Seat {
    /// Opens the engine's conversation anew.
    pub(super) fn reopen_conversation(&mut self, id: &SessionId, deps: &Deps) {
        let conversation = deps.engine.open(Opening {
            session: id.clone(),
            place: self.place.clone(),
            history: self.history.clone(),
            ids: deps.sys.ids.clone(),
        });
        self.commands = conversation.commands();
        self.conversation = Some(conversation);
        self.stale = false;
    }

    /// Where the log ends, in bytes, if this process may append to it.
    pub(super) fn log_end(&self) -> Option<u64> {
        match &self.hold {
            Hold::Own(log) => Some(log.end()),
            Hold::Shared | Hold::Memory => None,
        }
    }
}

impl fmt::Debug for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seat")
            .field("hold", &self.hold)
            .finish_non_exhaustive()
    }
}
