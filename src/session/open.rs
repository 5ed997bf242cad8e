//! Opens, claims and lets go of a session's log.

use std::sync::Arc;

use crate::engine::{Block, CloseReason, SessionConfig};
use crate::index::Summary;
use crate::record::header::{ForkedFrom, Header, Implementation, Workspace};
use crate::record::{AgentSessionId, FORMAT, Kind};
use crate::store::{Scan, StoreError, Sync};
use crate::sys::blocking;

use super::access::{lock_or_read, released};
use super::actor::Actor;
use super::forget::{forget, known_as};
use super::history::SessionHistory;
use super::open_session::{Elsewhere, LogAccess, OpenSession, OpenSessionParts};
use super::outcome::Refusal;
use super::refusal::storage;

impl Actor {
    /// Opens the conversation of a session that has no log yet.
    pub(super) fn prepare(&mut self, config: SessionConfig) {
        let place = config.place.clone();
        let summary = Summary {
            cwd: place.cwd.clone(),
            additional_directories: place.additional_directories.clone(),
            source: Implementation::shown(&self.deps.engine.identity().name).to_owned(),
            known_as: self.known_as(),
            created_at: self.deps.sys.clock.now().to_string(),
            ..Summary::default()
        };
        let parts = OpenSessionParts {
            log: LogAccess::Memory,
            history: match &self.deps.store {
                Some(store) => SessionHistory::of_log(self.id.clone(), store.clone()),
                None => SessionHistory::in_memory(self.id.clone()),
            },
            config,
            recorded: place,
            summary,
            titled: None,
            damage: Arc::from([]),
            shown: 0,
            origin: None,
        };
        self.session = Some(OpenSession::new(&self.id, &self.deps, parts));
    }

    /// The id by which the client knows the session, if that is another one.
    fn known_as(&self) -> Option<String> {
        (self.name != self.id.as_str()).then(|| self.name.clone())
    }

    /// The header of a session that is made here and now.
    pub(super) fn header(&self, place: &Workspace, forked_from: Option<ForkedFrom>) -> Header {
        Header {
            format: FORMAT,
            session_id: self.id.to_string(),
            known_as: self.known_as(),
            place: place.clone(),
            client: self.deps.client.get().cloned(),
            engine: self.deps.engine.identity(),
            protocol_version: self.deps.version().version(),
            forked_from,
        }
    }

    /// Makes the log of a session that is to be kept in one.
    pub(super) fn create(
        &mut self,
        inner: Option<&str>,
        imported: &[Block],
    ) -> Result<(), Refusal> {
        let header = self
            .session
            .as_ref()
            .map(|session| self.header(&session.recorded, None));
        let known_as = self.known_as().is_some();
        let (Some(store), Some(session), Some(header)) =
            (&self.deps.store, &mut self.session, header)
        else {
            return Ok(());
        };
        let records = || {
            let inner = inner.map(|payload| (Kind::AgentSessionId, None, payload));
            let entries = imported.iter().flat_map(Block::iter);
            inner
                .into_iter()
                .chain(entries.map(|entry| (entry.kind, entry.id, entry.payload)))
        };
        let catalog = self.deps.catalog.as_ref();
        let before = catalog.map(|catalog| catalog.before_change());
        let made = blocking(|| store.create_with(&self.id, &header, records()));
        let log = made.map_err(|error| match error {
            StoreError::Exists { .. } => Refusal::InUse {
                message: "another process has just taken the session over: load it again".into(),
                holder: None,
            },
            error => storage(&error),
        })?;
        if known_as {
            tracing::info!(session = %self.id, name = ?self.name, "imported");
        }
        // As whoever reads the log has it.
        let at = log.last_at().map(|at| at.to_string());
        let at = at.unwrap_or_else(|| session.summary.created_at.clone());
        for (kind, _, payload) in records() {
            session.summary.apply(kind, &at, payload);
        }
        session.summary.created_at = at;
        session.summary.scanned = log.end();
        session.shown = log.end();
        session.log = LogAccess::Own(log);
        if let (Some(catalog), Some(before)) = (catalog, before) {
            blocking(|| catalog.created(&self.id, &session.summary, before));
        }
        if session.summary.prompts > 0 {
            let scan = blocking(|| store.read(&self.id)?.scan());
            let scan = scan.map_err(|error| storage(&error))?;
            session.history.reset(&scan);
        }
        Ok(())
    }

    /// Remembers how the engine knows the session now. The log learns it with the next prompt, the
    /// catalog at once.
    pub(super) fn keep_inner(&mut self, inner: String) {
        let Some(session) = &mut self.session else {
            return;
        };
        if let (Some(catalog), Some(known)) = (&self.deps.catalog, AgentSessionId::read(&inner)) {
            blocking(|| catalog.knows(&self.id, &known));
        }
        session.inner = Some(inner);
    }

    pub(super) async fn open(&mut self, config: SessionConfig) -> Result<(), Refusal> {
        if let Some(session) = &mut self.session {
            session.moved(config);
            return self.look_again().await;
        }
        let Some(store) = self.deps.store.clone() else {
            return Err(Refusal::NotFound);
        };
        if self.deps.has_expired(&self.id) {
            return Err(Refusal::NotFound);
        }
        released(&store, &self.id).await;
        let (log, scan) = blocking(|| lock_or_read(&store, &self.id, &mut |_| {}))?;
        self.install_log(log, scan, config);
        Ok(())
    }

    /// Takes what was opened.
    pub(super) fn install_log(&mut self, log: LogAccess, scan: Scan, config: SessionConfig) {
        let Some(store) = &self.deps.store else {
            return;
        };
        for damage in &scan.damage {
            tracing::warn!(session = %self.id, %damage, "the log is damaged");
        }
        let history = SessionHistory::of_log(self.id.clone(), store.clone());
        history.reset(&scan);
        let parts = OpenSessionParts {
            log,
            history,
            config,
            recorded: scan.place.clone(),
            summary: Summary::of(&scan),
            titled: scan.titles.set().map(str::to_owned),
            damage: scan.damage.into(),
            shown: scan.end,
            origin: None,
        };
        self.session = Some(OpenSession::new(&self.id, &self.deps, parts));
    }

    /// Makes sure that there is such a session.
    pub(super) fn check(&self) -> Result<(), Refusal> {
        let known = match &self.deps.store {
            Some(store) => {
                let exists = blocking(|| store.exists(&self.id));
                exists.map_err(|error| storage(&error))? && !self.deps.has_expired(&self.id)
            }
            // What was closed cannot be opened again, but it was known.
            None => self.deps.closed_in_memory(&self.id),
        };
        if known {
            Ok(())
        } else {
            Err(Refusal::NotFound)
        }
    }

    /// Recovers the log if something could not be written, as far as the disk lets us.
    pub(super) async fn retry_recovery(&mut self) {
        let broken = self.session.as_ref().is_some_and(|session| session.broken);
        // Turns that are being cancelled are not over.
        if broken
            && self.turns.is_empty()
            && let Err(error) = self.claim().await
        {
            tracing::warn!(session = %self.id, %error, "the log cannot be mended yet");
        }
    }

    /// Makes sure that this process may append to the log.
    pub(super) async fn claim(&mut self) -> Result<(), Refusal> {
        let Some(session) = &mut self.session else {
            return Ok(());
        };
        match &session.log {
            LogAccess::Memory => return Ok(()),
            LogAccess::Own(_) if !session.broken => return self.send_missed().await,
            LogAccess::Own(_) => {
                // The old lock must go before the log can be locked and recovered anew.
                session.log = LogAccess::Shared(Elsewhere::default());
                self.lock_again()?;
                if let Some(session) = &mut self.session {
                    // It is all our own.
                    session.behind = false;
                }
            }
            LogAccess::Shared(_) | LogAccess::ReadOnly(_) => self.take_over().await?,
        }
        // A replay that is on its way comes to it by itself.
        self.send_missed().await
    }

    /// Writes down where the session works now, if the log says otherwise, and how the engine knows
    /// it, if the log does not.
    pub(super) fn record_workspace_change(&mut self) -> Result<(), Refusal> {
        let Some(session) = &mut self.session else {
            return Ok(());
        };
        let LogAccess::Own(log) = &mut session.log else {
            return Ok(());
        };
        let place = &session.config.place;
        let moved = (*place != session.recorded)
            .then(|| serde_json::to_string(place))
            .transpose()
            .map_err(|error| Refusal::Storage(error.to_string()))?;
        if moved.is_none() && session.inner.is_none() {
            return Ok(());
        }
        if let Some(catalog) = &self.deps.catalog {
            blocking(|| catalog.opened(&self.id));
        }
        let moved = moved
            .as_deref()
            .map(|payload| (Kind::Reopen, None, payload));
        let inner = session.inner.as_deref();
        let inner = inner.map(|payload| (Kind::AgentSessionId, None, payload));
        let appended = log
            .append_all(moved.into_iter().chain(inner), Sync::Buffered)
            .map_err(|error| {
                session.failed_to_append(&error);
                storage(&error)
            })?;
        if let Some(inner) = session.inner.take() {
            let kind = Kind::AgentSessionId;
            session.summary.apply(kind, &appended.at, &inner);
        }
        session.summary.scanned = appended.end;
        session.shown = appended.end;
        session.summary.set_workspace(&session.config.place);
        session.recorded = session.config.place.clone();
        Ok(())
    }

    pub(super) fn release(&mut self, how: CloseReason) {
        // A replay that has run and was not caught up with is given up.
        self.replay = None;
        self.pending_attach = None;
        let known_as = self.known_as();
        let Some(mut session) = self.session.take() else {
            return;
        };
        self.withdraw();
        // Nobody listens any more, so the engine is not kept waiting.
        session.said.close();
        session.conversation.part(how);
        match session.log {
            // It was made, but not whole, and nobody was told of it.
            // What was taken over is there whole, and may be asked for again.
            LogAccess::Own(log) if how == CloseReason::Refused && known_as.is_none() => {
                if let Err(error) = self.move_to_trash(LogAccess::Own(log)) {
                    tracing::warn!(session = %self.id, %error, "half a session stays");
                }
            }
            LogAccess::Own(log) => {
                // Told while the lock is held, so that it cannot overwrite what the next holder
                // tells.
                if let Some(catalog) = &self.deps.catalog {
                    // What an agent has said between two turns counts, too.
                    if let Some(at) = session.active_at.filter(|_| session.summary.prompts > 0) {
                        session.summary.set_active(&at.to_string());
                    }
                    blocking(|| catalog.closed(&self.id, &session.summary));
                }
                drop(log);
            }
            LogAccess::Shared(_) | LogAccess::ReadOnly(_) => {}
            LogAccess::Memory if how == CloseReason::Refused => {}
            LogAccess::Memory => self.deps.close_in_memory(&self.id),
        }
    }

    pub(super) async fn trash(&mut self) -> Result<(), Refusal> {
        if let Some(store) = self.deps.store.clone() {
            released(&store, &self.id).await;
        }
        // Of an open session its conversation knows that.
        let names = match (&self.session, &self.deps.store) {
            (None, Some(store)) => match known_as(&self.deps, store, &self.id) {
                // What was to be taken over and was not is the agent's alone.
                names if names.is_empty() => self.known_as().into_iter().collect(),
                names => names,
            },
            _ => Vec::new(),
        };
        let log = match &mut self.session {
            Some(session) => {
                std::mem::replace(&mut session.log, LogAccess::Shared(Elsewhere::default()))
            }
            None => LogAccess::Shared(Elsewhere::default()),
        };
        self.move_to_trash(log)?;
        if let Some(mut session) = self.session.take() {
            session.said.close();
            session.conversation.part(CloseReason::Deleted);
        }
        forget(&self.deps, names);
        Ok(())
    }

    /// Moves the log to the trash.
    fn move_to_trash(&self, log: LogAccess) -> Result<(), Refusal> {
        let Some(store) = &self.deps.store else {
            return Err(Refusal::NotFound);
        };
        let catalog = self.deps.catalog.as_ref();
        let before = catalog.map(|catalog| catalog.before_change());
        blocking(|| match log {
            // A file that another program has put in its place is the session, too.
            LogAccess::Own(log) => Ok(log.trash()? || store.trash(&self.id)?),
            LogAccess::Shared(_) | LogAccess::ReadOnly(_) | LogAccess::Memory => {
                store.trash(&self.id)
            }
        })
        .map_err(|error| storage(&error))?;
        if let (Some(catalog), Some(before)) = (catalog, before) {
            blocking(|| catalog.removed(&self.id, before));
        }
        Ok(())
    }
}
