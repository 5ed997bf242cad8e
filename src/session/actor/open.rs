//! Creates and opens a session's log, and records the workspace in it.

use tokio::task::JoinError;

use crate::engine::{AttachOutcome, Block, EngineError, ListedTimes, SessionConfig};
use crate::index::Summary;
use crate::record::header::{ForkedFrom, Header, Implementation, Workspace};
use crate::record::metadata::system_prompt_record;
use crate::record::{AgentSessionId, FORMAT, FORMAT_V2, Kind};
use crate::session::effect::Batch;
use crate::session::open_session::{LogAccess, OpenSession};
use crate::session::outcome::Refusal;
use crate::session::reply::Reply;
use crate::store::{Scan, StoreError, Sync};
use crate::sys::blocking;

use super::Actor;
use super::lock::{lock_or_read, released, takes_over};

impl Actor {
    /// Opens the conversation of a session that has no log yet.
    pub(super) fn prepare(&mut self, config: SessionConfig) {
        let summary = Summary {
            cwd: config.place.cwd.clone(),
            additional_directories: config.place.additional_directories.clone(),
            source: Implementation::shown(&self.deps.engine.identity().name).to_owned(),
            known_as: self.known_as(),
            created_at: self.deps.sys.clock.now().to_string(),
            ..Summary::default()
        };
        let session = OpenSession::new(&self.id, &self.deps, &self.client, config, summary, None);
        self.session = Some(session);
    }

    /// The id by which the client knows the session, if that is another one.
    pub(super) fn known_as(&self) -> Option<String> {
        (self.name != self.id.as_str()).then(|| self.name.clone())
    }

    /// The header of a new session.
    pub(super) fn header(&self, place: &Workspace, forked_from: Option<ForkedFrom>) -> Header {
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
            place: place.clone(),
            client: self.client.identity.clone(),
            engine: own.unwrap_or_else(|| self.deps.engine.identity()),
            protocol_version: self.view.version_number(),
            forked_from,
        }
    }

    /// Writes the log of a new session, unless it is kept in memory.
    pub(super) fn create(
        &mut self,
        agent_session_id: Option<&str>,
        imported: &[Block],
        listed: Option<ListedTimes>,
    ) -> Result<(), Refusal> {
        let header = self
            .session
            .as_ref()
            .map(|session| self.header(&session.recorded, None));
        let is_import = self.known_as().is_some();
        let system_prompt = self.new_system_prompt();
        let (Some(store), Some(session), Some(header)) =
            (&self.deps.store, &mut self.session, header)
        else {
            return Ok(());
        };
        let first = || {
            let agent = agent_session_id.map(|payload| (Kind::AgentSessionId, None, payload));
            let system_prompt = system_prompt.iter();
            let system_prompt = system_prompt.map(|payload| (Kind::Info, None, payload.as_str()));
            agent.into_iter().chain(system_prompt)
        };
        let history = || {
            let entries = imported.iter().flat_map(Block::iter);
            entries.map(|entry| (entry.kind, entry.id, entry.payload))
        };
        let catalog = self.deps.catalog.as_ref();
        let before = catalog.map(|catalog| catalog.before_change());
        let now = self.deps.sys.clock.now();
        let listed = listed.filter(|listed| listed.updated_at < now);
        let created = blocking(|| match listed {
            Some(listed) => {
                let dated = |at| move |(kind, id, payload)| (at, kind, id, payload);
                let records = first().map(dated(listed.created_at));
                let records = records.chain(history().map(dated(listed.updated_at)));
                store.create_dated(&self.id, &header, listed.created_at, records)
            }
            None => store.create_with(&self.id, &header, first().chain(history())),
        });
        let log = created.map_err(|error| match error {
            StoreError::Exists { .. } => Refusal::Imported,
            error => error.into(),
        })?;
        if is_import {
            tracing::info!(session = %self.id, name = ?self.name, "imported");
        }
        // The same time that a reader of the log gets.
        let at = log.last_at().map(|at| at.to_string());
        let at = at.unwrap_or_else(|| session.summary.created_at.clone());
        let (created_at, updated_at) = match listed {
            Some(listed) => {
                session.summary.restored_at = Some(at);
                (listed.created_at.to_string(), listed.updated_at.to_string())
            }
            None => (at.clone(), at),
        };
        for (kind, id, payload) in first() {
            session.history.note(kind, payload);
            session.summary.apply(kind, id, &created_at, payload);
        }
        for (kind, id, payload) in history() {
            session.summary.apply(kind, id, &updated_at, payload);
        }
        session.has_new_alias = agent_session_id.is_some();
        session.summary.created_at = created_at;
        session.summary.scanned = log.end();
        session.shown = log.end();
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

    /// Remembers the agent's session id. The log gets it with the next prompt, the catalog at once.
    pub(super) fn keep_agent_session_id(&mut self, payload: String) {
        let Some(session) = &mut self.session else {
            return;
        };
        if let (Some(catalog), Some(known)) = (&self.deps.catalog, AgentSessionId::read(&payload)) {
            blocking(|| catalog.knows(&self.id, &known));
            session.has_new_alias |= !session.summary.agent_ids.contains(&known);
        }
        session.agent_session_id = Some(payload);
    }

    pub(super) async fn open(&mut self, config: SessionConfig) -> Result<(), Refusal> {
        if let Some(session) = &mut self.session {
            session.configure(config);
            self.link_again();
            self.retry_recovery().await;
            // What cannot be recovered can be read.
            self.try_lock().await?;
            return Ok(());
        }
        let Some(store) = self.deps.store.clone() else {
            return Err(Refusal::NotFound);
        };
        if self.deps.has_expired(&self.id) {
            return Err(Refusal::NotFound);
        }
        released(&store, &self.id).await;
        let by_force = takes_over(&config);
        let opened = blocking(|| lock_or_read(&store, &self.id, by_force, &mut |_| {}))?;
        self.install(opened, config);
        Ok(())
    }

    /// The engine has attached, or has failed to.
    pub(super) fn attached(
        &mut self,
        result: Result<Result<AttachOutcome, EngineError>, JoinError>,
    ) -> Batch<Reply> {
        self.attach = None;
        let playback = self.replay.as_mut();
        if let (Some(playback), Ok(Ok(attached))) = (
            playback.and_then(|replay| replay.playback.as_mut()),
            &result,
        ) && let Some(own) = &attached.answer
        {
            playback.read_settings(own);
        }
        let result = match result {
            Ok(Err(error)) if error.code == EngineError::cancelled().code => {
                Err(Refusal::Cancelled)
            }
            Ok(Ok(mut attached)) => {
                self.trace.way = attached.way;
                self.restore_title(&mut attached);
                Ok(attached)
            }
            Ok(Err(error)) => Err(Refusal::Engine(error)),
            Err(error) if error.is_cancelled() => Err(Refusal::Cancelled),
            Err(error) => {
                tracing::error!(session = %self.id, %error, "the engine panicked");
                let message = "the engine failed unexpectedly";
                Err(Refusal::Engine(EngineError::internal(message)))
            }
        };
        self.machine.attached(result)
    }

    /// Uses a log that was opened.
    pub(super) fn install(&mut self, (log, scan): (LogAccess, Scan), config: SessionConfig) {
        for damage in &scan.damage {
            tracing::warn!(session = %self.id, %damage, "the log is damaged");
        }
        let opened = (log, scan);
        let session =
            OpenSession::with_log(&self.id, &self.deps, &self.client, config, opened, None);
        self.session = Some(session);
        self.start_in_log();
    }

    /// Fails unless the session exists.
    pub(super) fn check(&self) -> Result<(), Refusal> {
        let exists = match &self.deps.store {
            Some(store) => blocking(|| store.exists(&self.id))? && !self.deps.has_expired(&self.id),
            // A closed session cannot be opened again, but the client knows it.
            None => self.deps.closed_in_memory(&self.id),
        };
        if exists {
            Ok(())
        } else {
            Err(Refusal::NotFound)
        }
    }

    /// The `info` record with the system prompt that the client gave, unless the log has it. Only
    /// wrapped agents have one.
    fn new_system_prompt(&self) -> Option<String> {
        let session = self.session.as_ref();
        let session = session.filter(|_| self.deps.engine.wraps_agent())?;
        let record = system_prompt_record(&session.config.params.0)?;
        (!session.history.has_system_prompt(&record)).then_some(record)
    }

    /// Records the workspace and the system prompt if they differ from the log's, and the agent's
    /// session id if it is new.
    pub(super) fn record_workspace_change(&mut self) -> Result<(), Refusal> {
        let system_prompt = self.new_system_prompt();
        let Some(session) = &mut self.session else {
            return Ok(());
        };
        let LogAccess::Own(log) = &mut session.log else {
            return Ok(());
        };
        let place = &session.config.place;
        let workspace = (*place != session.recorded)
            .then(|| serde_json::to_string(place))
            .transpose()
            .map_err(|error| Refusal::Storage(error.to_string()))?;
        if workspace.is_none() && system_prompt.is_none() && session.agent_session_id.is_none() {
            return Ok(());
        }
        if let Some(catalog) = &self.deps.catalog {
            blocking(|| catalog.opened(&self.id));
        }
        let workspace = workspace.iter();
        let workspace = workspace.map(|payload| (Kind::Reopen, None, payload.as_str()));
        let info = system_prompt.iter();
        let info = info.map(|payload| (Kind::Info, None, payload.as_str()));
        let agent = session.agent_session_id.iter();
        let agent = agent.map(|payload| (Kind::AgentSessionId, None, payload.as_str()));
        let appended = log
            .append_all(workspace.chain(info).chain(agent), Sync::Buffered)
            .map_err(|error| {
                session.failed_to_append(&error);
                Refusal::from(error)
            })?;
        if let Some(payload) = system_prompt {
            session.history.note(Kind::Info, &payload);
        }
        if let Some(payload) = session.agent_session_id.take() {
            let kind = Kind::AgentSessionId;
            session.history.note(kind, &payload);
            session.summary.apply(kind, None, &appended.at, &payload);
        }
        session.summary.scanned = appended.end;
        session.shown = appended.end;
        session.summary.set_workspace(&session.config.place);
        session.recorded = session.config.place.clone();
        Ok(())
    }
}
