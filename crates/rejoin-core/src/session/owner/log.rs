//! The log of the session while it is open: what is appended to it, who may append, and what the catalog
//! is notified of.

use crate::engine::outlet::BlockEntry;
use crate::history::metadata::is_change;
use crate::json;
use crate::protocol::meta::CLIENT;
use crate::record::header::Implementation;
use crate::record::metadata::{MetadataChange, system_prompt_record};
use crate::record::open_turns::is_interrupted;
use crate::record::prompt_keys::is_unsent;
use crate::record::{AgentSessionId, Kind, Record, snapshot_of};
use crate::session::cursors::Cursors;
use crate::session::notifier::NoticeSubject;
use crate::session::outcome::{Elsewhere, Refusal};
use crate::session::request::{RecordedPrompt, RecordedState, Updates};
use crate::store::{Appended, OpenedLog, Scan, StoreError, Sync};
use crate::sys::blocking;

use super::Owner;
use super::fronts::sent_by;
use super::lock::{lock_or_read, takes_over};
use super::open_session::{LogAccess, LogReread, OpenSession};

impl Owner {
    /// Appends a block. Returns the title that the session got with the end of a turn.
    pub(in crate::session) fn append_block(
        &mut self,
        block: &Updates,
        sync: Sync,
    ) -> Result<Option<String>, Refusal> {
        let records = block.iter().filter(|entry| !entry.known);
        let first = records.clone().next().map(BlockEntry::parts);
        let sender = match first {
            Some((Kind::Prompt, Some(id), _)) => self.fronts.sender_of(id),
            _ => None,
        };
        let Some(session) = &mut self.session else {
            return Err(Refusal::NotOpen);
        };
        match (first, sender) {
            (Some((Kind::End, id, payload)), _) => {
                let title = session.append_end(id, payload, sync)?;
                let now = self.deps.library.sys.clock.now();
                self.trace.end(&self.id, id, payload, now);
                Ok(title)
            }
            (Some((kind, id, payload)), Some(client)) => {
                let payload = sent_by(payload, &client);
                let record = std::iter::once(BlockEntry::new(kind, id, &payload));
                let appended = session.append_all(record.clone(), sync)?;
                note_places(&mut session.cursors, record, appended);
                Ok(None)
            }
            _ => {
                let appended = session.append_all(records.clone(), sync)?;
                let cursors = session.cursors.as_ref();
                if cursors.is_some_and(|cursors| !cursors.know(block)) {
                    note_places(&mut session.cursors, records, appended);
                }
                Ok(None)
            }
        }
    }

    /// The prompt that the log has under an idempotency key. `message_id` is that of the prompt that has
    /// come with the key.
    pub(in crate::session) fn find_key(
        &mut self,
        key: &str,
        message_id: &str,
    ) -> Result<Option<RecordedPrompt>, Refusal> {
        let Some(session) = &mut self.session else {
            return Err(Refusal::NotOpen);
        };
        let Some(found) = session.keys.find(key).cloned() else {
            return Ok(None);
        };
        let state = match found.end {
            None => RecordedState::Open,
            Some(end)
                if found.has_begun
                    || !(is_interrupted(&end) || is_unsent(&end))
                    || !session.history.has_prompt(found.offset) =>
            {
                RecordedState::Ended(end)
            }
            Some(_) => {
                let recorded = session.history.recorded(found.offset);
                let recorded = recorded.map_err(|error| Refusal::Storage(error.to_string()))?;
                session.prompt_at = found.offset;
                let params = json::with_members(&recorded.params, &[CLIENT], &[]);
                RecordedState::NotBegun(params)
            }
        };
        if let RecordedState::NotBegun(_) = state {
            self.fronts.renamed(message_id, &found.message_id);
        } else {
            self.fronts.forget(message_id);
        }
        Ok(Some(RecordedPrompt {
            message_id: found.message_id,
            state,
        }))
    }
}

/// The client of the owner's own task is due to be sent the places of these records.
fn note_places<'a>(
    cursors: &mut Option<Cursors>,
    records: impl Iterator<Item = BlockEntry<'a>>,
    appended: Option<Appended>,
) {
    if let (Some(cursors), Some(appended)) = (cursors, appended) {
        cursors.appended(records, &appended);
    }
}

impl OpenSession {
    /// Appends the end of a turn, and before it a title, if the session has none by now.
    fn append_end(
        &mut self,
        id: Option<&str>,
        payload: &str,
        sync: Sync,
    ) -> Result<Option<String>, Refusal> {
        let title = self.title_of_prompt();
        let title_record = title
            .iter()
            .map(|title| BlockEntry::new(Kind::Info, None, title));
        let end = std::iter::once(BlockEntry::new(Kind::End, id, payload));
        let records = title_record.chain(end);
        let appended = self.append_all(records.clone(), sync)?;
        note_places(&mut self.cursors, records, appended);
        if title.is_some() {
            self.own_title.clone_from(&title);
        }
        Ok(title)
    }

    /// Appends records, all of them or none, and updates the catalog's entry. Returns the last of them, if
    /// one was written.
    fn append_all<'a>(
        &mut self,
        records: impl Iterator<Item = BlockEntry<'a>> + Clone,
        sync: Sync,
    ) -> Result<Option<Appended>, Refusal> {
        if let LogAccess::Memory = self.log {
            let at = self.deps.library.sys.clock.now();
            for (kind, id, payload) in records.map(BlockEntry::parts) {
                self.history.note(kind, payload);
                self.keys.note(kind, id, payload, 0);
                self.summary.apply(kind, id, &at, payload);
            }
            return Ok(None);
        }
        let Some(first) = records.clone().next() else {
            return Ok(None);
        };
        if let (Kind::Prompt, Some(catalog)) = (first.kind, &self.deps.library.catalog) {
            // If this process dies before it updates the entry, the next list reads the log.
            blocking(|| catalog.opened(&self.id));
        }
        let appended = self.append(records.clone(), sync).inspect_err(|error| {
            tracing::error!(session = %self.id, %error, "cannot append to the log");
        })?;
        self.list(records, &appended);
        Ok(Some(appended))
    }

    /// Updates the summary by what was appended, and the catalog's entry if that has changed.
    fn list<'a>(&mut self, records: impl Iterator<Item = BlockEntry<'a>>, appended: &Appended) {
        if self.summarize(records, appended)
            && let Some(catalog) = &self.deps.library.catalog
        {
            blocking(|| catalog.put(&self.id, &self.summary));
        }
    }

    /// Checks that the log is still the one that this process may append to.
    pub(in crate::session) fn check_claim(&mut self) {
        if let LogAccess::Own(log) = &self.log
            && let Err(error) = blocking(|| log.check_name())
        {
            tracing::warn!(session = %self.id, %error, "no longer open for writing");
            self.failed_to_append(&error);
        }
    }

    /// Makes sure that this process may append to the log. Returns whether another process had it, in
    /// which a turn was running.
    pub(in crate::session) fn claim(&mut self) -> Result<bool, Refusal> {
        let was_running = self.elsewhere().is_some_and(|elsewhere| elsewhere.running);
        match &self.log {
            LogAccess::Memory | LogAccess::Own(_) => return Ok(false),
            // The old lock must be released before the log can be locked and recovered.
            LogAccess::Failed(_) => self.log = LogAccess::Failed(None),
            LogAccess::Shared(_) | LogAccess::ReadOnly(_) => {}
        }
        self.lock().map(|()| was_running)
    }

    /// Tries to lock the log of an open session that another process had, or that another program
    /// has replaced. If another process still has it, the session stays as it is.
    pub(in crate::session) fn try_lock(&mut self) -> Result<(), Refusal> {
        let (true, Some(store)) = (self.is_unlocked(), &self.deps.library.store) else {
            return Ok(());
        };
        let by_force = takes_over(&self.config);
        let (log, scan) = blocking(|| lock_or_read(store, &self.id, by_force, &mut |_| {}))?;
        self.read_again(log, scan);
        Ok(())
    }

    /// Locks and recovers the log of an open session.
    fn lock(&mut self) -> Result<(), Refusal> {
        let Some(store) = &self.deps.library.store else {
            return Ok(());
        };
        match blocking(|| store.open_log(&self.id)) {
            Ok(OpenedLog { log, scan, .. }) => {
                self.read_again(LogAccess::Own(log), scan);
                Ok(())
            }
            Err(error) => {
                self.not_locked(&error);
                Err(error.into())
            }
        }
    }

    /// Uses the log of an open session as it was just read.
    fn read_again(&mut self, log: LogAccess, scan: Scan) {
        // After a failed write of this process, the records that were not sent are its own.
        let by_another = matches!(self.log, LogAccess::Shared(_) | LogAccess::ReadOnly(_));
        self.log = log;
        let reading = if std::mem::take(&mut self.is_replaced) {
            LogReread::Replaced
        } else if by_another {
            LogReread::TakenOver
        } else {
            LogReread::Recovered
        };
        self.changes.read_again = Some(reading);
        if by_another && !self.is_unlocked() {
            tracing::info!(session = %self.id, "taken over");
        }
        self.read(scan);
    }

    /// Records a change of the metadata of an open session, unless it changes nothing.
    pub(in crate::session) fn change_metadata(
        &mut self,
        change: &MetadataChange,
    ) -> Result<(), Refusal> {
        if is_change(self.summary.archived, change) {
            let payload = change.payload();
            let record = BlockEntry::new(Kind::Info, None, &payload);
            self.append_all(std::iter::once(record), Sync::Turn)?;
        }
        if let MetadataChange::Title(title) = change {
            self.client_title = Some(title.clone());
            self.conversation.title_changed(title);
        }
        Ok(())
    }

    /// The `info` record with the system prompt that the client gave, unless the log has it. Only
    /// wrapped agents have one.
    pub(super) fn new_system_prompt(&self) -> Option<String> {
        if !self.deps.engine.wraps_agent() {
            return None;
        }
        let record = system_prompt_record(&self.config.params.0)?;
        (!self.history.has_system_prompt(&record)).then_some(record)
    }

    /// Records the workspace and the system prompt if they differ from the log's, and the agent's
    /// session id if it is new.
    pub(in crate::session) fn record_workspace_change(&mut self) -> Result<(), Refusal> {
        if !matches!(self.log, LogAccess::Own(_)) {
            return Ok(());
        }
        let system_prompt = self.new_system_prompt();
        let workspace = &self.config.workspace;
        let workspace = (*workspace != self.recorded)
            .then(|| serde_json::to_string(workspace))
            .transpose()
            .map_err(|error| Refusal::Storage(error.to_string()))?;
        if workspace.is_none() && system_prompt.is_none() && self.agent_session_id.is_none() {
            return Ok(());
        }
        if let Some(catalog) = &self.deps.library.catalog {
            blocking(|| catalog.opened(&self.id));
        }
        self.record_workspace(workspace.as_deref(), system_prompt.as_deref())
    }

    /// Remembers the agent's session id. The log gets it with the next prompt, the catalog at once.
    pub(in crate::session) fn keep_agent_session_id(&mut self, payload: String) {
        let catalog = self.deps.library.catalog.as_ref();
        if let (Some(catalog), Some(known)) = (catalog, AgentSessionId::read(&payload)) {
            blocking(|| catalog.knows(&self.id, &known));
            self.has_new_alias |= !self.summary.agent_ids.contains(&known);
        }
        self.agent_session_id = Some(payload);
    }

    /// The update with the ids that the agent has for the session, which the client knows by
    /// `client_id`, if clients do not know the latest.
    pub(in crate::session) fn take_new_aliases(&mut self, client_id: &str) -> Option<String> {
        if !std::mem::take(&mut self.has_new_alias) || !self.deps.offers_aliases() {
            return None;
        }
        self.aliases(&self.deps.engine.agent_names(), client_id)
    }

    /// Clients are sent all ids again if the agent has just reported its own, which replace what they knew.
    pub(in crate::session) fn note_reported_aliases(&mut self) {
        self.has_new_alias |= std::mem::take(&mut self.has_reported_aliases);
    }

    /// Appends records to the log that this process has locked.
    fn append<'a>(
        &mut self,
        records: impl Iterator<Item = BlockEntry<'a>> + Clone,
        sync: Sync,
    ) -> Result<Appended, Refusal> {
        let log = match &mut self.log {
            LogAccess::Own(log) => log,
            LogAccess::ReadOnly(reason) => return Err(Refusal::Storage(reason.clone())),
            _ => return Err(Refusal::Storage("the log is not locked".to_owned())),
        };
        let before = log.end();
        let parts = records.clone().map(BlockEntry::parts);
        let result = if log.waits(sync) {
            blocking(|| log.append_all(parts, sync))
        } else {
            log.append_all(parts, sync)
        };
        // A request is answered when such a record is in the log.
        let is_prompt = |record: BlockEntry<'a>| record.kind == Kind::Prompt;
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
        if records.clone().next().is_some_and(is_prompt) {
            self.prompt_at = before;
        }
        let is_activity = |BlockEntry { kind, payload, .. }: BlockEntry<'a>| {
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
        records: impl Iterator<Item = BlockEntry<'a>>,
        appended: &Appended,
    ) -> bool {
        let mut is_summarized = false;
        for BlockEntry {
            kind, id, payload, ..
        } in records
        {
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
            self.keys.note(kind, id, payload, self.last_appended.start);
            let changed = self.summary.apply(kind, id, &appended.at, payload);
            if let Some(notifier) = &self.deps.library.notifier {
                let subject = || NoticeSubject {
                    id: self.id.clone(),
                    title: self.summary.title.clone(),
                    cwd: self.summary.cwd.clone(),
                    agent: Implementation::shown(&self.deps.engine.identity().name).to_owned(),
                };
                let record = Record {
                    seq: 0,
                    at: &appended.at.to_string(),
                    kind,
                    id,
                    payload,
                    parts: None,
                };
                notifier.record(&record, subject, &self.id);
            }
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
        self.summary.set_workspace(&self.config.workspace);
        self.recorded = self.config.workspace.clone();
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
