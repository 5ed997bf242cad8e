//! The log of the session while it is open: what is appended to it, who may append, and what the catalog
//! is notified of.

use std::ops::Range;

use crate::history::metadata::is_change;
use crate::index::first_title;
use crate::record::metadata::{MetadataChange, system_prompt_record};
use crate::record::{AgentSessionId, Kind, snapshot_of};
use crate::session::outcome::{Elsewhere, Refusal};
use crate::session::request::Updates;
use crate::store::{Appended, OpenedLog, Scan, StoreError, Sync};
use crate::sys::blocking;

use super::Owner;
use super::fronts::sent_by;
use super::lock::{lock_or_read, released, takes_over};
use super::open_session::{LogAccess, LogReread, OpenSession};

/// A record that is to be appended: its kind, its id if it has one, and its payload.
type RecordParts<'a> = (Kind, Option<&'a str>, &'a str);

impl Owner {
    /// Appends a block. Returns the title that the session got with the end of a turn.
    pub(in crate::session) fn append_block(
        &mut self,
        block: &Updates,
        sync: Sync,
    ) -> Result<Option<String>, Refusal> {
        let new = block.iter().filter(|entry| !entry.known);
        let records = new.map(|entry| (entry.kind, entry.id, entry.payload));
        if let Some((Kind::End, id, payload)) = records.clone().next() {
            return self.append_end(id, payload, sync);
        }
        if let Some((Kind::Prompt, Some(id), payload)) = records.clone().next()
            && let Some(client) = self.sender_of(id)
        {
            let payload = sent_by(payload, &client);
            self.append((Kind::Prompt, Some(id), &payload), sync)?;
        } else {
            self.append_all(records, sync)?;
        }
        Ok(None)
    }

    /// Appends the end of a turn, and before it a title, if the session has none by now.
    fn append_end(
        &mut self,
        id: Option<&str>,
        payload: &str,
        sync: Sync,
    ) -> Result<Option<String>, Refusal> {
        let session = self.session.as_ref();
        let title = session.and_then(OpenSession::title_of_prompt);
        let title_record = title.iter().map(|title| (Kind::Info, None, title.as_str()));
        let end = std::iter::once((Kind::End, id, payload));
        self.append_all(title_record.chain(end), sync)?;
        let now = self.deps.library.sys.clock.now();
        self.trace.end(&self.id, id, payload, now);
        if let (Some(title), Some(session)) = (&title, &mut self.session) {
            session.own_title = Some(title.clone());
        }
        Ok(title)
    }

    fn append(&mut self, record: RecordParts<'_>, sync: Sync) -> Result<(), Refusal> {
        self.append_all(std::iter::once(record), sync)
    }

    /// Appends records, all of them or none, and updates the catalog's entry.
    fn append_all<'a>(
        &mut self,
        records: impl Iterator<Item = RecordParts<'a>> + Clone,
        sync: Sync,
    ) -> Result<(), Refusal> {
        let Some(session) = &mut self.session else {
            return Err(Refusal::NotOpen);
        };
        if let LogAccess::Memory = session.log {
            let at = self.deps.library.sys.clock.now();
            for (kind, id, payload) in records {
                session.history.note(kind, payload);
                session.summary.apply(kind, id, &at, payload);
            }
            return Ok(());
        }
        let Some((first, ..)) = records.clone().next() else {
            return Ok(());
        };
        if let (Kind::Prompt, Some(catalog)) = (first, &self.deps.library.catalog) {
            // If this process dies before it updates the entry, the next list reads the log.
            blocking(|| catalog.opened(&self.id));
        }
        let appended = session.append(records.clone(), sync).inspect_err(|error| {
            tracing::error!(session = %self.id, %error, "cannot append to the log");
        })?;
        self.summarize(records, &appended);
        Ok(())
    }

    /// Updates the summary by what was appended, and the catalog's entry if that has changed.
    fn summarize<'a>(
        &mut self,
        records: impl Iterator<Item = RecordParts<'a>>,
        appended: &Appended,
    ) {
        let Some(session) = &mut self.session else {
            return;
        };
        let had_title = session.summary.title.is_some();
        let is_summarized = session.summarize(records, appended);
        if had_title
            && session.summary.title.is_none()
            && session.summary.prompts > 0
            && let Some(store) = &self.deps.library.store
        {
            // The agent has removed the title that it gave.
            match blocking(|| first_title(&mut store.read(&self.id)?)) {
                Ok(title) => session.summary.title = title,
                Err(error) => tracing::debug!(session = %self.id, %error, "cannot read a title"),
            }
        }
        if is_summarized && let Some(catalog) = &self.deps.library.catalog {
            blocking(|| catalog.put(&self.id, &session.summary));
        }
    }

    /// The part of the log that was appended last, in bytes; empty without a log.
    pub(in crate::session) fn last_appended(&self) -> Range<u64> {
        let session = self.session.as_ref();
        session.map_or(0..0, |session| session.last_appended.clone())
    }

    /// Checks that the log is still the one that this process may append to. A running turn finds out on
    /// its own.
    pub(in crate::session) fn check_claim(&mut self) {
        if self.turns.is_empty()
            && let Some(session) = &mut self.session
            && let LogAccess::Own(log) = &session.log
            && let Err(error) = blocking(|| log.check_name())
        {
            tracing::warn!(session = %self.id, %error, "no longer open for writing");
            session.failed_to_append(&error);
        }
    }

    /// Makes sure that this process may append to the log. Returns whether another process had it, in
    /// which a turn was running.
    pub(in crate::session) async fn claim(&mut self) -> Result<bool, Refusal> {
        let Some(session) = &mut self.session else {
            return Ok(false);
        };
        match &session.log {
            LogAccess::Memory | LogAccess::Own(_) => Ok(false),
            LogAccess::Failed(_) => {
                // The old lock must be released before the log can be locked and recovered.
                session.log = LogAccess::Failed(None);
                self.lock()?;
                Ok(false)
            }
            LogAccess::Shared(_) | LogAccess::ReadOnly(_) => {
                let was_running = session
                    .elsewhere()
                    .is_some_and(|elsewhere| elsewhere.running);
                if let Some(store) = self.deps.library.store.clone() {
                    released(&store, &self.id).await;
                }
                self.lock()?;
                Ok(was_running)
            }
        }
    }

    /// Whether a write has failed, and nothing keeps the log from being recovered now.
    pub(in crate::session) fn may_recover(&self) -> bool {
        let session = self.session.as_ref();
        let failed = session.is_some_and(|session| matches!(session.log, LogAccess::Failed(_)));
        // Turns that are being cancelled have not ended.
        failed && self.turns.is_empty()
    }

    /// Tries to lock the log of an open session that another process had, or that another program
    /// has replaced. If another process still has it, the session stays as it is.
    pub(in crate::session) async fn try_lock(&mut self) -> Result<(), Refusal> {
        self.check_claim();
        let unlocked = self
            .session
            .as_ref()
            .filter(|session| session.is_unlocked());
        let (Some(session), Some(store)) = (unlocked, self.deps.library.store.clone()) else {
            return Ok(());
        };
        let by_force = takes_over(&session.config);
        released(&store, &self.id).await;
        let (log, scan) = blocking(|| lock_or_read(&store, &self.id, by_force, &mut |_| {}))?;
        self.read_again(log, scan);
        Ok(())
    }

    /// Locks and recovers the log of an open session.
    fn lock(&mut self) -> Result<(), Refusal> {
        let (Some(session), Some(store)) = (&mut self.session, &self.deps.library.store) else {
            return Ok(());
        };
        match blocking(|| store.open_log(&self.id)) {
            Ok(OpenedLog { log, scan, .. }) => {
                self.read_again(LogAccess::Own(log), scan);
                Ok(())
            }
            Err(error) => {
                session.not_locked(&error);
                Err(error.into())
            }
        }
    }

    /// Uses the log of an open session as it was just read.
    fn read_again(&mut self, log: LogAccess, scan: Scan) {
        let Some(session) = &mut self.session else {
            return;
        };
        // After a failed write of this process, the records that were not sent are its own.
        let by_another = matches!(session.log, LogAccess::Shared(_) | LogAccess::ReadOnly(_));
        session.log = log;
        let reading = if std::mem::take(&mut session.is_replaced) {
            LogReread::Replaced
        } else if by_another {
            LogReread::TakenOver
        } else {
            LogReread::Recovered
        };
        session.changes.read_again = Some(reading);
        if by_another && !session.is_unlocked() {
            tracing::info!(session = %self.id, "taken over");
        }
        session.read(scan);
    }

    /// Records a change of the metadata of an open session, unless it changes nothing.
    pub(in crate::session) fn change_metadata(
        &mut self,
        change: &MetadataChange,
    ) -> Result<(), Refusal> {
        let Some(session) = &self.session else {
            return Ok(());
        };
        if is_change(session.summary.archived, change) {
            self.append((Kind::Info, None, &change.payload()), Sync::Turn)?;
        }
        if let (MetadataChange::Title(title), Some(session)) = (change, &mut self.session) {
            session.client_title = Some(title.clone());
            session.conversation.title_changed(title);
        }
        Ok(())
    }

    /// The `info` record with the system prompt that the client gave, unless the log has it. Only
    /// wrapped agents have one.
    pub(super) fn new_system_prompt(&self) -> Option<String> {
        let session = self.session.as_ref();
        let session = session.filter(|_| self.deps.engine.wraps_agent())?;
        let record = system_prompt_record(&session.config.params.0)?;
        (!session.history.has_system_prompt(&record)).then_some(record)
    }

    /// Records the workspace and the system prompt if they differ from the log's, and the agent's
    /// session id if it is new.
    pub(in crate::session) fn record_workspace_change(&mut self) -> Result<(), Refusal> {
        let system_prompt = self.new_system_prompt();
        let Some(session) = &mut self.session else {
            return Ok(());
        };
        if !matches!(session.log, LogAccess::Own(_)) {
            return Ok(());
        }
        let place = &session.config.place;
        let workspace = (*place != session.recorded)
            .then(|| serde_json::to_string(place))
            .transpose()
            .map_err(|error| Refusal::Storage(error.to_string()))?;
        if workspace.is_none() && system_prompt.is_none() && session.agent_session_id.is_none() {
            return Ok(());
        }
        if let Some(catalog) = &self.deps.library.catalog {
            blocking(|| catalog.opened(&self.id));
        }
        session.record_workspace(workspace.as_deref(), system_prompt.as_deref())
    }

    /// Remembers the agent's session id. The log gets it with the next prompt, the catalog at once.
    pub(in crate::session) fn keep_agent_session_id(&mut self, payload: String) {
        let Some(session) = &mut self.session else {
            return;
        };
        if let (Some(catalog), Some(known)) =
            (&self.deps.library.catalog, AgentSessionId::read(&payload))
        {
            blocking(|| catalog.knows(&self.id, &known));
            session.has_new_alias |= !session.summary.agent_ids.contains(&known);
        }
        session.agent_session_id = Some(payload);
    }

    /// The update with the ids that the agent has for the session, if the clients do not know the latest.
    pub(in crate::session) fn take_new_aliases(&mut self) -> Option<String> {
        let session = self.session.as_mut()?;
        if !std::mem::take(&mut session.has_new_alias) || !self.deps.offers_aliases() {
            return None;
        }
        let agents = self.deps.engine.agent_names();
        session.aliases(&agents, &self.client_id)
    }

    /// Whether the agent has just reported ids of its own, which replace what the clients knew.
    pub(in crate::session) fn take_reported_aliases(&mut self) -> Option<String> {
        let session = self.session.as_mut()?;
        if std::mem::take(&mut session.has_reported_aliases) {
            session.has_new_alias = true;
        }
        self.take_new_aliases()
    }
}

impl OpenSession {
    /// Appends records to the log that this process has locked.
    fn append<'a>(
        &mut self,
        records: impl Iterator<Item = RecordParts<'a>> + Clone,
        sync: Sync,
    ) -> Result<Appended, Refusal> {
        let log = match &mut self.log {
            LogAccess::Own(log) => log,
            LogAccess::ReadOnly(reason) => return Err(Refusal::Storage(reason.clone())),
            _ => return Err(Refusal::Storage("the log is not locked".to_owned())),
        };
        let before = log.end();
        let result = if log.waits(sync) {
            blocking(|| log.append_all(records.clone(), sync))
        } else {
            log.append_all(records.clone(), sync)
        };
        // A request is answered when such a record is in the log.
        let is_prompt = |(kind, ..): RecordParts<'a>| kind == Kind::Prompt;
        let result = if records.clone().next().is_some_and(is_prompt) || sync == Sync::Turn {
            result.and_then(|appended| blocking(|| log.check_name()).map(|()| appended))
        } else {
            result
        };
        let appended = result.map_err(|error| {
            self.failed_to_append(&error);
            Refusal::from(error)
        })?;
        self.note_appended(before, &appended);
        let is_activity = |(kind, _, payload): RecordParts<'a>| {
            kind.is_activity() && snapshot_of(kind, payload).is_none()
        };
        let mut records = records;
        if records.any(is_activity) {
            self.active_at = Some(appended.at);
        }
        Ok(appended)
    }

    fn note_appended(&mut self, before: u64, appended: &Appended) {
        self.last_appended = before..appended.end;
        self.summary.scanned = appended.end;
        let start = self
            .changes
            .appended
            .take()
            .map_or(before, |part| part.start);
        self.changes.appended = Some(start..appended.end);
    }

    /// Updates the summary. Returns whether it has changed.
    fn summarize<'a>(
        &mut self,
        records: impl Iterator<Item = RecordParts<'a>>,
        appended: &Appended,
    ) -> bool {
        let mut is_summarized = false;
        for (kind, id, payload) in records {
            let info = snapshot_of(kind, payload);
            let (kind, payload) = match &info {
                Some(info) => (Kind::Info, info.as_str()),
                None => (kind, payload),
            };
            if matches!(kind, Kind::Update | Kind::UpdateV2) {
                // Nearly all records are: they are only part of the history.
                continue;
            }
            self.history.note(kind, payload);
            let changed = self.summary.apply(kind, id, &appended.at, payload);
            self.has_new_alias |= changed && kind == Kind::AgentSessionId;
            self.has_reported_aliases |=
                kind == Kind::Info && !AgentSessionId::reported(payload).is_empty();
            is_summarized |= changed;
        }
        is_summarized
    }

    /// Appends what has changed of the workspace.
    fn record_workspace(
        &mut self,
        workspace: Option<&str>,
        system_prompt: Option<&str>,
    ) -> Result<(), Refusal> {
        let LogAccess::Own(log) = &mut self.log else {
            return Ok(());
        };
        let before = log.end();
        let agent = self.agent_session_id.clone();
        let workspace = workspace.map(|payload| (Kind::Reopen, None, payload));
        let info = system_prompt.map(|payload| (Kind::Info, None, payload));
        let id = agent
            .as_deref()
            .map(|payload| (Kind::AgentSessionId, None, payload));
        let records = workspace.into_iter().chain(info).chain(id);
        let appended = log.append_all(records, Sync::Buffered).map_err(|error| {
            self.failed_to_append(&error);
            Refusal::from(error)
        })?;
        if let Some(payload) = system_prompt {
            self.history.note(Kind::Info, payload);
        }
        if let Some(payload) = self.agent_session_id.take() {
            let kind = Kind::AgentSessionId;
            self.history.note(kind, &payload);
            self.summary.apply(kind, None, &appended.at, &payload);
        }
        self.note_appended(before, &appended);
        self.summary.set_workspace(&self.config.place);
        self.recorded = self.config.place.clone();
        Ok(())
    }

    /// The log could not be locked.
    fn not_locked(&mut self, error: &StoreError) {
        match (error, &mut self.log) {
            (StoreError::InUse { holder, .. }, LogAccess::Shared(elsewhere)) => {
                elsewhere.holder.clone_from(holder);
            }
            (StoreError::InUse { holder, .. }, log @ LogAccess::Failed(_)) if holder.is_some() => {
                *log = LogAccess::Shared(Elsewhere {
                    holder: holder.clone(),
                    ..Elsewhere::default()
                });
            }
            (StoreError::ReadOnly { .. }, LogAccess::Failed(_)) => {}
            (StoreError::ReadOnly { .. }, log) => {
                *log = LogAccess::ReadOnly(error.to_string());
            }
            _ => {}
        }
    }

    /// The update with the ids that agents with these names have for the session, which the client knows
    /// by `client_id`.
    fn aliases(&self, agents: &[String], client_id: &str) -> Option<String> {
        let pending = self.agent_session_id.as_deref();
        let pending = pending.and_then(AgentSessionId::read);
        let known = self.summary.agent_ids.iter().chain(&pending);
        let aliases = AgentSessionId::aliases(known, agents, client_id);
        (!aliases.is_empty()).then(|| {
            let kind = crate::protocol::UpdateKind::SessionInfo.name();
            serde_json::json!({ "sessionUpdate": kind, "aliases": aliases }).to_string()
        })
    }
}
