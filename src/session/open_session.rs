//! What a session needs while it is open: its log, its engine's conversation, what it knows of
//! itself.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use tokio::sync::mpsc;

use crate::engine::{Conversation, EngineEvent, Opening, Outlet, SessionConfig};
use crate::index::Summary;
use crate::record::header::Workspace;
use crate::store::{DamageReport, Holder, Log, StoreError};
use crate::sys::{SessionId, Timestamp};

use super::Deps;
use super::history::SessionHistory;

/// How much of what an engine says is kept while its session is being made.
const EARLY: usize = 16;

/// An open session's belongings.
pub(super) struct OpenSession {
    pub(super) log: LogAccess,
    pub(super) conversation: Arc<dyn Conversation>,
    /// What the engine says.
    pub(super) said: mpsc::Receiver<EngineEvent>,
    /// What it said while the session was being made, which comes before all else.
    pub(super) early: VecDeque<EngineEvent>,
    pub(super) history: Arc<SessionHistory>,
    /// Where the session works, and whatever else the client asked for.
    pub(super) config: SessionConfig,
    /// Where the log says that it works.
    pub(super) recorded: Workspace,
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
    /// When the conversation went on last in this process.
    pub(super) active_at: Option<Timestamp>,
    /// How far the client knows the log, in bytes: what is behind was never sent.
    pub(super) shown: u64,
    /// Whether another process wrote what was never sent, so that it is to be replayed: the
    /// client has not seen the prompts in it either.
    pub(super) behind: bool,
}

/// How a session has its log.
#[derive(Debug)]
pub(super) enum LogAccess {
    /// Locked, for reading and appending.
    Own(Log),
    /// For reading: another process has it locked.
    Shared(Elsewhere),
    /// For reading: the disk takes no writes. Why, for people.
    ReadOnly(String),
    /// There is none: the session is kept in memory.
    Memory,
}

/// What is known of a session that another process has open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Elsewhere {
    /// Who has it, if that is known.
    pub holder: Option<Holder>,
    /// Whether a turn was running there when the log was read last.
    pub running: bool,
}

/// What a seat is made of.
#[derive(Debug)]
pub(super) struct OpenSessionParts {
    pub(super) log: LogAccess,
    pub(super) history: SessionHistory,
    pub(super) config: SessionConfig,
    pub(super) recorded: Workspace,
    pub(super) summary: Summary,
    pub(super) titled: Option<String>,
    pub(super) damage: Arc<[DamageReport]>,
    pub(super) shown: u64,
    /// How the agent behind the engine knows the session that this one was just made of.
    pub(super) origin: Option<String>,
}

impl OpenSession {
    /// Opens the engine's conversation.
    pub(super) fn new(id: &SessionId, deps: &Deps, parts: OpenSessionParts) -> Self {
        let history = Arc::new(parts.history);
        let (conversation, said) = open(id, deps, &history, &parts.config, parts.origin);
        Self {
            log: parts.log,
            conversation,
            said,
            early: VecDeque::new(),
            history,
            config: parts.config,
            recorded: parts.recorded,
            summary: parts.summary,
            titled: parts.titled,
            damage: parts.damage,
            inner: None,
            broken: false,
            last_offset: None,
            active_at: None,
            shown: parts.shown,
            behind: false,
        }
    }

    /// What the engine asks the client for while the session is being made: it may need the answer
    /// for that. All else that it says is kept for later.
    pub(super) async fn early_question(&mut self) -> EngineEvent {
        while self.early.len() < EARLY {
            match self.said.recv().await {
                Some(question @ EngineEvent::Ask(_)) => return question,
                Some(said) => self.early.push_back(said),
                None => break,
            }
        }
        std::future::pending().await
    }

    /// Opens the engine's conversation anew.
    pub(super) fn reopen_conversation(&mut self, id: &SessionId, deps: &Deps) {
        (self.conversation, self.said) = open(id, deps, &self.history, &self.config, None);
    }

    /// The session is to be as the client wants it now.
    pub(super) fn moved(&mut self, config: SessionConfig) {
        if self.config != config {
            self.config = config.clone();
            self.conversation.moved(config);
        }
    }

    /// Where the prompt that was just appended begins, in bytes, if there is a log.
    pub(super) fn prompt_offset(&self) -> Option<u64> {
        self.last_offset
            .filter(|_| matches!(self.log, LogAccess::Own(_)))
    }

    /// Where the log ends, in bytes, if this process may append to it.
    pub(super) fn log_end(&self) -> Option<u64> {
        match &self.log {
            LogAccess::Own(log) => Some(log.end()),
            LogAccess::Shared(_) | LogAccess::ReadOnly(_) | LogAccess::Memory => None,
        }
    }

    /// Something could not be written: the log is recovered before anything else is.
    pub(super) fn failed_to_append(&mut self, error: &StoreError) {
        self.broken = true;
        if matches!(error, StoreError::Replaced { .. }) {
            // What has the name now is opened by the next request. Places in this file mean nothing
            // there, so nothing of it is sent as if the client had missed it.
            self.log = LogAccess::Shared(Elsewhere::default());
            self.shown = u64::MAX;
        }
    }

    /// Whether the log can only be read, as long as it is not locked.
    pub(super) fn reads_only(&self) -> bool {
        matches!(self.log, LogAccess::Shared(_) | LogAccess::ReadOnly(_))
    }

    /// Why this process cannot append to the log, if the disk is to blame.
    pub(super) fn read_only(&self) -> Option<&str> {
        match &self.log {
            LogAccess::ReadOnly(reason) => Some(reason),
            _ => None,
        }
    }

    /// What is known of it if another process has it open.
    pub(super) fn elsewhere(&self) -> Option<&Elsewhere> {
        match &self.log {
            LogAccess::Shared(elsewhere) => Some(elsewhere),
            _ => None,
        }
    }
}

fn open(
    id: &SessionId,
    deps: &Deps,
    history: &Arc<SessionHistory>,
    config: &SessionConfig,
    origin: Option<String>,
) -> (Arc<dyn Conversation>, mpsc::Receiver<EngineEvent>) {
    let (out, said) = Outlet::new();
    let conversation = deps.engine.open(Opening {
        session: id.clone(),
        config: config.clone(),
        client: deps.abilities.get().copied().unwrap_or_default(),
        history: history.clone(),
        ids: deps.sys.ids.clone(),
        origin,
        out,
    });
    (conversation, said)
}

impl fmt::Debug for OpenSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seat")
            .field("hold", &self.log)
            .finish_non_exhaustive()
    }
}
