//! The beginning and the end of a session: it is created, forked, opened, released, deleted.

use std::collections::VecDeque;
use std::mem;

use tokio_util::sync::CancellationToken;

use crate::engine::{Block, CloseReason, History, ListedTimes, SessionConfig, Upstream};
use crate::index::{Catalog, Summary};
use crate::record::header::{ForkedFrom, Header, Implementation, Workspace};
use crate::record::{AgentSessionId, FORMAT, FORMAT_V2, Kind, RewindTarget};
use crate::session::command::{ForkReader, ForkSource};
use crate::session::outcome::Refusal;
use crate::store::{
    ForkError, ForkPoint, Forked, Log, LogReader, RewindError, Scan, Store, StoreError,
};
use crate::sys::{SessionId, blocking};

use super::Owner;
use super::history::SessionHistory;
use super::lock::{lock_or_read, takes_over};
use super::open_session::{LogAccess, LogReread, OpenSession};

/// The sessions that are forked from this one, and the one that this one is forked from.
#[derive(Default)]
pub(in crate::session) struct Forks {
    /// Where the log goes for the forks that were requested and not served yet.
    pub(in crate::session) readers: VecDeque<ForkReader>,
    /// The log of the session that this one is forked from.
    pub(in crate::session) source: Option<ForkSource>,
}

impl Owner {
    /// Opens the conversation of a session that has no log yet.
    pub(in crate::session) fn prepare(&mut self, config: SessionConfig) {
        let summary = Summary {
            cwd: config.workspace.cwd.clone(),
            additional_directories: config.workspace.additional_directories.clone(),
            source: Implementation::shown(&self.deps.engine.identity().name).to_owned(),
            known_as: self.known_as(),
            created_at: self.deps.library.sys.clock.now().to_string(),
            ..Summary::default()
        };
        let (id, deps, client) = (&self.id, &self.deps, &self.fronts.client);
        let session = OpenSession::new(id, deps, client, config, summary, None);
        self.session = Some(session);
    }

    /// The id by which the client knows the session, if that is another one.
    pub(in crate::session) fn known_as(&self) -> Option<String> {
        (self.fronts.client_id != self.id.as_str()).then(|| self.fronts.client_id.clone())
    }

    /// The header of a new session.
    fn header(&self, workspace: &Workspace, forked_from: Option<ForkedFrom>) -> Header {
        let session = self.session.as_ref();
        let own = session.and_then(|session| session.conversation.identity());
        Header {
            format: if self.deps.engine.is_native() {
                FORMAT_V2
            } else {
                FORMAT
            },
            session_id: self.id.to_string(),
            known_as: self.known_as(),
            workspace: workspace.clone(),
            client: self.fronts.client.identity.clone(),
            engine: own.unwrap_or_else(|| self.deps.engine.identity()),
            protocol_version: self.fronts.client.view.version_number(),
            forked_from,
        }
    }

    /// Writes the log of a new session, unless it is kept in memory.
    pub(in crate::session) fn create(
        &mut self,
        agent_session_id: Option<&str>,
        imported: &[Block],
        listed: Option<ListedTimes>,
    ) -> Result<(), Refusal> {
        let header = self
            .session
            .as_ref()
            .map(|session| self.header(&session.recorded, None));
        let (Some(store), Some(session), Some(header)) =
            (&self.deps.library.store, &mut self.session, header)
        else {
            return Ok(());
        };
        let system_prompt = session.new_system_prompt();
        let catalog = self.deps.library.catalog.as_ref();
        let before = catalog.map(|catalog| catalog.before_change());
        let now = self.deps.library.sys.clock.now();
        let new = NewLog {
            agent_session_id,
            system_prompt: system_prompt.as_deref(),
            imported,
            listed: listed.filter(|listed| listed.updated_at < now),
        };
        let log = new.write(store, &self.id, &header)?;
        if self.fronts.client_id != self.id.as_str() {
            tracing::info!(session = %self.id, name = ?self.fronts.client_id, "imported");
        }
        new.summarize(&log, session);
        session.log = LogAccess::Own(log);
        if let (Some(catalog), Some(before)) = (catalog, before) {
            blocking(|| catalog.created(&self.id, &session.summary, before));
        }
        if session.summary.prompts > 0 {
            let scan = blocking(|| store.read(&self.id)?.scan())?;
            session.history.reset(&scan);
        }
        Ok(())
    }

    /// Locks the log of a session that is not open here, and opens the engine's conversation.
    pub(in crate::session) fn open(&mut self, config: SessionConfig) -> Result<(), Refusal> {
        let Some(store) = &self.deps.library.store else {
            return Err(Refusal::NotFound);
        };
        if self.deps.library.has_expired(&self.id) {
            return Err(Refusal::NotFound);
        }
        let by_force = takes_over(&config);
        let opened = blocking(|| lock_or_read(store, &self.id, by_force, &mut |_| {}))?;
        self.install(opened, config);
        Ok(())
    }

    /// Uses a log that was opened.
    pub(in crate::session) fn install(
        &mut self,
        (log, scan): (LogAccess, Scan),
        config: SessionConfig,
    ) {
        for damage in &scan.damage {
            tracing::warn!(session = %self.id, %damage, "the log is damaged");
        }
        self.fronts.opened(&scan.header);
        let opened = (log, scan);
        let (id, deps, client) = (&self.id, &self.deps, &self.fronts.client);
        let session = OpenSession::with_log(id, deps, client, config, opened, None);
        self.session = Some(session);
    }

    /// Opens the log for another session. Later events of this session, such as its deletion, do
    /// not matter to that one.
    pub(in crate::session) fn read_for_fork(&mut self) {
        let log = self.open_for_fork();
        if let Some(reader) = self.forks.readers.pop_front() {
            // The other session may have ended.
            reader.send(log).ok();
        }
    }

    fn open_for_fork(&self) -> Result<LogReader, Refusal> {
        let Some(store) = &self.deps.library.store else {
            return Err(Refusal::NotFound);
        };
        if self.session.is_none() {
            self.deps.library.check(&self.id)?;
        }
        let mut log = blocking(|| store.read(&self.id))?;
        if let Some(end) = self.log_end() {
            log.limit(end);
        }
        Ok(log)
    }

    /// Writes the log as a copy of the other session's, and opens the engine's conversation.
    pub(in crate::session) async fn fork(
        &mut self,
        config: SessionConfig,
        at: Option<ForkPoint>,
        request: Option<CancellationToken>,
    ) -> Result<(), Refusal> {
        let (Some(store), Some(source)) =
            (self.deps.library.store.clone(), self.forks.source.take())
        else {
            return Err(Refusal::NotFound);
        };
        // The other session's task ends without sending it only at the end of the connection.
        let mut source = source.await.map_err(|_| Refusal::Gone)??;
        let (message_id, cursor_id) = match &at {
            Some(ForkPoint::Message(message)) => (Some(message.clone()), None),
            Some(ForkPoint::Cursor(cursor)) => (None, Some(cursor.clone())),
            None => (None, None),
        };
        let from = ForkedFrom {
            session_id: source.id().to_string(),
            message_id,
            cursor_id,
        };
        let header = self.header(&config.workspace, Some(from));
        let catalog = self.deps.library.catalog.clone();
        let id = self.id.clone();
        let work = move || {
            let cancelled = || {
                request
                    .as_ref()
                    .is_some_and(CancellationToken::is_cancelled)
            };
            let before = catalog.as_deref().map(Catalog::before_change);
            let forked = store.fork(&mut source, &id, &header, at.as_ref(), &cancelled)?;
            if let (Some(catalog), Some(before)) = (catalog, before) {
                catalog.created(&id, &Summary::of(&forked.scan), before);
            }
            Ok(forked)
        };
        // The copy may take a while, and other sessions must not wait for it.
        let forked = tokio::task::spawn_blocking(work).await;
        let forked = forked
            .map_err(|_| Refusal::Storage("the fork failed unexpectedly".to_owned()))?
            .map_err(refusal);
        self.install_fork(forked?, config)
    }

    fn install_fork(&mut self, forked: Forked, config: SessionConfig) -> Result<(), Refusal> {
        for damage in &forked.damage {
            tracing::warn!(session = %self.id, %damage, "the log of the forked session is damaged");
        }
        let agent = self.deps.engine.identity().name;
        let origin = forked.origin.filter(|origin| origin.session.agent == agent);
        self.fronts.opened(&forked.scan.header);
        let opened = (LogAccess::Own(forked.log), forked.scan);
        let (id, deps, client) = (&self.id, &self.deps, &self.fronts.client);
        let mut session = OpenSession::with_log(id, deps, client, config, opened, origin);
        session.damage = forked.damage.into();
        self.session.insert(session).record_workspace_change()
    }

    /// Releases log and engine.
    pub(in crate::session) fn release(&mut self, reason: CloseReason) {
        self.attach = None;
        let is_import = self.known_as().is_some();
        let Some(mut session) = self.session.take() else {
            return;
        };
        self.questions.withdraw();
        session.close_conversation(reason);
        let (library, refused) = (&self.deps.library, reason == CloseReason::Refused);
        if matches!(session.log, LogAccess::Memory) && !refused {
            library.close_in_memory(&self.id);
        }
        let Some(log) = session.log.locked() else {
            return;
        };
        // The log was created, but not whole, and the client does not know of it. An imported log is whole,
        // and may be loaded later.
        if refused && !is_import {
            if let Err(error) = library.trash(&self.id, Some(log)) {
                tracing::warn!(session = %self.id, %error, "an incomplete session remains");
            }
            return;
        }
        // While the log is locked, so that this cannot overwrite a later entry.
        if let Some(catalog) = &library.catalog {
            // Updates between two turns count, too.
            if let Some(at) = session.active_at.filter(|_| session.summary.prompts > 0) {
                session.summary.set_active(&at.to_string());
            }
            blocking(|| catalog.closed(&self.id, &session.summary));
        }
        drop(log);
    }

    /// Moves the session to the trash, whether it is open or not.
    pub(in crate::session) fn delete(&mut self) -> Result<(), Refusal> {
        // The conversation of an open session knows the agent's ids.
        let (engine, store) = (&self.deps.engine, &self.deps.library.store);
        let agent_ids = match (&self.session, store) {
            (None, Some(store)) if engine.wraps_agent() => {
                match agent_session_ids(&engine.identity().name, store, &self.id) {
                    // A session that was to be imported and was not has only its agent's id.
                    ids if ids.is_empty() => self.known_as().into_iter().collect(),
                    ids => ids,
                }
            }
            _ => Vec::new(),
        };
        let session = self.session.as_mut();
        let log = session
            .and_then(|session| mem::replace(&mut session.log, LogAccess::Failed(None)).locked());
        self.deps.library.trash(&self.id, log)?;
        self.fronts.notify_stopped();
        if let Some(mut session) = self.session.take() {
            session.close_conversation(CloseReason::Deleted);
        }
        if let Some(agent) = self.deps.engine.upstream() {
            delete_at_agent(agent, agent_ids);
        }
        Ok(())
    }
}

/// Has the agent delete its sessions. Does not wait.
fn delete_at_agent(agent: &dyn Upstream, ids: Vec<String>) {
    for id in ids {
        let deleted = agent.delete(&id);
        tokio::spawn(async move {
            if let Err(error) = deleted.await {
                tracing::info!(%error, "the agent does not delete its session");
            }
        });
    }
}

/// The ids by which the agent of this name knows a session, according to its log.
fn agent_session_ids(agent: &str, store: &Store, id: &SessionId) -> Vec<String> {
    let mut ids = Vec::new();
    let history = SessionHistory::new(id.clone(), Some(store.clone()));
    let walked = history.walk(&mut |record| {
        if record.kind == Kind::AgentSessionId
            && let Some(known) = AgentSessionId::read(record.payload)
            && known.agent == agent
            && !ids.contains(&known.id)
        {
            ids.push(known.id);
        }
    });
    if let Err(error) = walked {
        tracing::debug!(session = %id, %error, "cannot find the agent's ids of a session");
    }
    ids
}

/// The log of a new session.
struct NewLog<'a> {
    /// The record of the agent's session id.
    agent_session_id: Option<&'a str>,
    /// The record of the system prompt.
    system_prompt: Option<&'a str>,
    /// The history of an imported session.
    imported: &'a [Block],
    /// Its times in the agent's list.
    listed: Option<ListedTimes>,
}

impl NewLog<'_> {
    fn first(&self) -> impl Iterator<Item = (Kind, Option<&str>, &str)> + Clone {
        let agent = self.agent_session_id;
        let agent = agent.map(|payload| (Kind::AgentSessionId, None, payload));
        let system_prompt = self
            .system_prompt
            .map(|payload| (Kind::Info, None, payload));
        agent.into_iter().chain(system_prompt)
    }

    fn history(&self) -> impl Iterator<Item = (Kind, Option<&str>, &str)> + Clone {
        let entries = self.imported.iter().flat_map(Block::iter);
        entries.map(|entry| (entry.kind, entry.id, entry.payload))
    }

    fn write(&self, store: &Store, id: &SessionId, header: &Header) -> Result<Log, Refusal> {
        let created = blocking(|| match self.listed {
            Some(listed) => {
                let dated = |at| move |(kind, id, payload)| (at, kind, id, payload);
                let records = self.first().map(dated(listed.created_at));
                let records = records.chain(self.history().map(dated(listed.updated_at)));
                store.create_dated(id, header, listed.created_at, records)
            }
            None => store.create_with(id, header, self.first().chain(self.history())),
        });
        created.map_err(|error| match error {
            StoreError::Exists { .. } => Refusal::Imported,
            error => error.into(),
        })
    }

    /// Adds the new log to the summary of its session.
    fn summarize(&self, log: &Log, session: &mut OpenSession) {
        // A reader of the log gets the same time.
        let at = log.last_at().map(|at| at.to_string());
        let at = at.unwrap_or_else(|| session.summary.created_at.clone());
        let (created_at, updated_at) = match self.listed {
            Some(listed) => {
                session.summary.restored_at = Some(at);
                (listed.created_at.to_string(), listed.updated_at.to_string())
            }
            None => (at.clone(), at),
        };
        for (kind, id, payload) in self.first() {
            session.history.note(kind, payload);
            session.summary.apply(kind, id, &created_at, payload);
        }
        for (kind, id, payload) in self.history() {
            session.summary.apply(kind, id, &updated_at, payload);
        }
        session.has_new_alias = self.agent_session_id.is_some();
        session.summary.created_at = created_at;
        session.summary.scanned = log.end();
    }
}

/// Lets the conversation of a session whose log is locked go on from an earlier place. `client` is the name of
/// the client that has asked for it.
pub(in crate::session) fn rewind(
    session: &mut OpenSession,
    target: &RewindTarget,
    client: Option<String>,
) -> Result<(), Refusal> {
    let LogAccess::Own(log) = &mut session.log else {
        // A session in memory has no records.
        return Err(Refusal::RewindPointNotFound);
    };
    let (id, library) = (&session.id, &session.deps.library);
    if let Some(catalog) = &library.catalog {
        // If this process dies before it updates the entry, the next list reads the log.
        blocking(|| catalog.opened(id));
    }
    let mark_id = library.sys.ids.message();
    let scan = match blocking(|| log.rewind(target, &mark_id, client)) {
        Ok(scan) => scan,
        Err(RewindError::Store(error)) => {
            tracing::error!(session = %id, %error, "cannot append to the log");
            session.failed_to_append(&error);
            return Err(error.into());
        }
        Err(RewindError::NotOfUser) => return Err(Refusal::NotOfUser),
        Err(RewindError::NoSuchPlace) if matches!(target, RewindTarget::Cursor(_)) => {
            return Err(Refusal::CursorNotFound);
        }
        Err(RewindError::NoSuchPlace | RewindError::NothingUndone) => {
            return Err(Refusal::RewindPointNotFound);
        }
    };
    session.changes.read_again = Some(LogReread::Recovered);
    session.read(scan);
    if let Some(catalog) = &session.deps.library.catalog {
        blocking(|| catalog.put(&session.id, &session.summary));
    }
    session.agent_session_id = None;
    session.early.clear();
    session.close_conversation(CloseReason::Closed);
    session.reopen_conversation();
    Ok(())
}

fn refusal(error: ForkError) -> Refusal {
    match error {
        ForkError::Store(StoreError::NotFound { .. }) => Refusal::NotFound,
        ForkError::Store(error) => error.into(),
        ForkError::ForkPointNotFound => Refusal::ForkPointNotFound,
        ForkError::CursorNotFound => Refusal::CursorNotFound,
        ForkError::Cancelled => Refusal::Cancelled,
    }
}
