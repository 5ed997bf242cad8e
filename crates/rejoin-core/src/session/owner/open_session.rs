//! The state of a session while it is open: its log, its engine's conversation, its metadata.

use std::collections::VecDeque;
use std::fmt;
use std::mem;
use std::ops::Range;
use std::sync::Arc;

use tokio::sync::mpsc;

use crate::engine::{
    AttachOutcome, AttachReason, BoxFuture, CloseReason, Conversation, EngineError, EngineEvent,
    Opening, Outlet, SessionConfig, begun,
};
use crate::index::Summary;
use crate::record::header::Workspace;
use crate::record::{AgentPlace, PromptKeys};
use crate::store::{DamageReport, Log, Scan, StoreError};
use crate::sys::{SessionId, Timestamp};

use super::history::SessionHistory;
use crate::session::cursors::Cursors;
use crate::session::link::feed::Responds;
use crate::session::outcome::{Done, Elsewhere, Refusal};
use crate::session::reply::AnswerNote;
use crate::session::{Client, Deps};

/// How many events of an engine are kept while its session is being created.
const EARLY: usize = 16;

/// An open session.
pub(in crate::session) struct OpenSession {
    pub(super) id: SessionId,
    pub(super) deps: Arc<Deps>,
    /// The client that has opened it.
    client: Arc<Client>,
    pub(in crate::session) log: LogAccess,
    pub(in crate::session) conversation: Arc<dyn Conversation>,
    /// The engine's events.
    pub(super) events: mpsc::Receiver<EngineEvent>,
    /// Events that came while the session was being created. They come before the others.
    pub(super) early: VecDeque<EngineEvent>,
    pub(super) history: Arc<SessionHistory>,
    /// The workspace, and whatever else the client asked for.
    pub(super) config: SessionConfig,
    /// The workspace according to the log.
    pub(super) recorded: Workspace,
    /// The catalog's entry.
    pub(in crate::session) summary: Summary,
    /// The title that a client has given the session.
    pub(super) client_title: Option<String>,
    /// The update with the title that was made here, until the agent names the session.
    pub(super) own_title: Option<String>,
    pub(super) damage: Arc<[DamageReport]>,
    /// The record of the agent's session id, until it is logged.
    pub(super) agent_session_id: Option<String>,
    /// Whether the client may still have to be sent the agent's latest id of the session.
    pub(super) has_new_alias: bool,
    /// Whether the agent has just reported ids of its own, without those that only we know.
    pub(super) has_reported_aliases: bool,
    /// The prompts that have idempotency keys.
    pub(super) keys: PromptKeys,
    /// Where the record of the prompt that begins next, or has begun last, is in the log, in bytes.
    pub(in crate::session) prompt_at: u64,
    /// The part of the log that was appended last, in bytes.
    pub(super) last_appended: Range<u64>,
    /// What became of the log since the front of this task was last notified of it.
    pub(super) changes: LogChanges,
    /// When this process last logged a part of the conversation.
    pub(super) active_at: Option<Timestamp>,
    /// Whether another program has put another file in the place of the log.
    pub(super) is_replaced: bool,
    /// The session cursors for the client of the owner's own task, if it is sent any.
    pub(in crate::session) cursors: Option<Cursors>,
}

/// What became of the log of an open session, for those who read it.
#[derive(Clone, Debug, Default)]
pub(in crate::session) struct LogChanges {
    /// The part that was appended, in bytes.
    pub(in crate::session) appended: Option<Range<u64>>,
    /// The log was read again, after another process had it, or after a failed write of this one.
    pub(in crate::session) read_again: Option<LogReread>,
}

/// Why the log of an open session was read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::session) enum LogReread {
    /// A write of this process had failed.
    Recovered,
    /// Another process had the session, or the disk allowed no writes.
    TakenOver,
    /// Another program had put another file in its place: offsets of the one before mean nothing there.
    Replaced,
}

/// How a session can use its log.
#[derive(Debug)]
pub(in crate::session) enum LogAccess {
    /// Locked, for reading and appending.
    Own(Log),
    /// A write has failed: the log must be recovered before anything is appended. It holds no
    /// log once the lock was released.
    Failed(Option<Log>),
    /// For reading: another process has it locked.
    Shared(Elsewhere),
    /// For reading: the disk allows no writes. With the reason for the client.
    ReadOnly(String),
    /// The session is kept in memory.
    Memory,
}

impl LogAccess {
    /// The log, if this process has it locked.
    pub(super) fn locked(self) -> Option<Log> {
        match self {
            Self::Own(log) => Some(log),
            Self::Failed(log) => log,
            _ => None,
        }
    }
}

impl OpenSession {
    /// Opens the engine's conversation of a session without a log. `origin` is the place in
    /// the agent's session at which this one was just forked.
    pub(super) fn new(
        id: &SessionId,
        deps: &Arc<Deps>,
        client: &Arc<Client>,
        config: SessionConfig,
        summary: Summary,
        origin: Option<AgentPlace>,
    ) -> Self {
        let history = SessionHistory::new(id.clone(), deps.library.store.clone());
        let history = Arc::new(history);
        let (conversation, events) = open(id, deps, client, &history, &config, origin);
        Self {
            id: id.clone(),
            deps: deps.clone(),
            client: client.clone(),
            log: LogAccess::Memory,
            conversation,
            events,
            early: VecDeque::new(),
            history,
            recorded: config.workspace.clone(),
            config,
            summary,
            client_title: None,
            own_title: None,
            damage: Arc::from([]),
            agent_session_id: None,
            has_new_alias: false,
            has_reported_aliases: false,
            active_at: None,
            keys: PromptKeys::default(),
            prompt_at: 0,
            last_appended: 0..0,
            changes: LogChanges::default(),
            is_replaced: false,
            cursors: Cursors::of(id, deps, client),
        }
    }

    /// Opens the engine's conversation of a session with a log.
    pub(super) fn with_log(
        id: &SessionId,
        deps: &Arc<Deps>,
        client: &Arc<Client>,
        config: SessionConfig,
        (log, scan): (LogAccess, Scan),
        origin: Option<AgentPlace>,
    ) -> Self {
        let mut session = Self::new(id, deps, client, config, Summary::default(), origin);
        session.log = log;
        session.read(scan);
        session
    }

    /// The log was read.
    pub(super) fn read(&mut self, scan: Scan) {
        if let Some(cursors) = &mut self.cursors {
            cursors.restart();
        }
        self.history.reset(&scan);
        self.summary = Summary::of(&scan);
        self.keys = scan.keys;
        self.client_title = scan.titles.set().map(str::to_owned);
        self.recorded = scan.workspace;
        self.damage = scan.damage.into();
    }

    /// The next request to the client while the session is being created: the engine may need the
    /// response for that. Other events are kept for later, and so are requests of subagents, which the
    /// client does not know yet.
    pub(super) async fn early_request(&mut self) -> EngineEvent {
        while self.early.len() < EARLY {
            match self.events.recv().await {
                Some(EngineEvent::Ask(request)) if request.session.is_some() => {
                    return EngineEvent::Ask(request);
                }
                Some(event) => self.early.push_back(event),
                None => break,
            }
        }
        std::future::pending().await
    }

    /// Closes the engine's conversation.
    pub(super) fn close_conversation(&mut self, reason: CloseReason) {
        // Nothing reads its events any longer, so the engine must not wait for that.
        self.events.close();
        self.conversation.close(reason);
    }

    /// Opens the engine's conversation again.
    pub(super) fn reopen_conversation(&mut self) {
        let (id, deps, client) = (&self.id, &self.deps, &self.client);
        self.config.remove_given_options();
        (self.conversation, self.events) =
            open(id, deps, client, &self.history, &self.config, None);
    }

    /// Reconfigures the session.
    pub(in crate::session) fn configure(&mut self, config: SessionConfig) {
        self.config = config.clone();
        self.conversation.reconfigure(config);
    }

    /// Has the engine attach.
    pub(super) fn attach(
        &self,
        how: AttachReason,
    ) -> BoxFuture<'static, Result<AttachOutcome, EngineError>> {
        // The process that has the log has the conversation, too.
        let how = if self.is_unlocked() {
            AttachReason::Elsewhere
        } else {
            how
        };
        let attach = self.conversation.attach(how);
        // What a new session needs is requested before what the client sends next.
        if how == AttachReason::New {
            begun(attach)
        } else {
            attach
        }
    }

    /// Answers what opens the session in its engine.
    pub(in crate::session) fn describe(&self, responds: Responds<Option<String>>) {
        let attached = self.conversation.attach(AttachReason::Elsewhere);
        tokio::spawn(async move {
            let attached = attached.await.map_err(Refusal::Engine);
            responds.answer(attached.map(|attached| attached.answer));
        });
    }

    /// What an answer with this result says about the session.
    pub(in crate::session) fn note(&mut self, result: &Result<Done, Refusal>) -> AnswerNote {
        let damage = if matches!(result, Ok(Done::Forked(_))) {
            // The damage of a fork is in the session that it was made from.
            mem::replace(&mut self.damage, Arc::from([]))
        } else {
            self.damage.clone()
        };
        AnswerNote {
            damage,
            elsewhere: self.elsewhere().cloned(),
            read_only: match &self.log {
                LogAccess::ReadOnly(reason) => Some(reason.clone()),
                _ => None,
            },
        }
    }

    /// Where the record of the prompt that begins is, in bytes, if there is a log.
    pub(super) fn prompt_offset(&self) -> Option<u64> {
        matches!(self.log, LogAccess::Own(_)).then_some(self.prompt_at)
    }

    /// Where the log ends, in bytes, if this process has it locked.
    pub(in crate::session) fn log_end(&self) -> Option<u64> {
        match &self.log {
            LogAccess::Own(log) | LogAccess::Failed(Some(log)) => Some(log.end()),
            _ => None,
        }
    }

    /// A write has failed.
    pub(super) fn failed_to_append(&mut self, error: &StoreError) {
        let log = match mem::replace(&mut self.log, LogAccess::Failed(None)) {
            LogAccess::Own(log) => Some(log),
            _ => None,
        };
        if matches!(error, StoreError::Replaced { .. }) {
            // The next request opens the file that has the name now.
            self.is_replaced = true;
        } else if let StoreError::Fenced { holder, .. } = error {
            self.log = LogAccess::Shared(Elsewhere {
                attached: false,
                holder: holder.as_deref().cloned(),
                running: false,
            });
        } else {
            self.log = LogAccess::Failed(log);
        }
    }

    /// Whether the log must be locked before it can be written.
    pub(in crate::session) fn is_unlocked(&self) -> bool {
        matches!(
            self.log,
            LogAccess::Shared(_) | LogAccess::ReadOnly(_) | LogAccess::Failed(None)
        )
    }

    /// The other process that has the session open.
    pub(in crate::session) fn elsewhere(&self) -> Option<&Elsewhere> {
        match &self.log {
            LogAccess::Shared(elsewhere) => Some(elsewhere),
            _ => None,
        }
    }
}

fn open(
    id: &SessionId,
    deps: &Deps,
    client: &Client,
    history: &Arc<SessionHistory>,
    config: &SessionConfig,
    origin: Option<AgentPlace>,
) -> (Arc<dyn Conversation>, mpsc::Receiver<EngineEvent>) {
    let (out, events) = Outlet::new();
    let conversation = deps.engine.open(Opening {
        session: id.clone(),
        config: config.clone(),
        client: client.abilities,
        history: history.clone(),
        ids: deps.library.sys.ids.clone(),
        origin,
        out,
    });
    (conversation, events)
}

impl fmt::Debug for OpenSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenSession")
            .field("log", &self.log)
            .finish_non_exhaustive()
    }
}
