//! Opens, claims and lets go of a session's log.

use std::sync::Arc;

use crate::engine::{Block, Parting, Wanted};
use crate::index::Summary;
use crate::record::header::{ForkedFrom, Header, Place};
use crate::record::{FORMAT, Inner, Kind};
use crate::store::{Entry, Opened, Scan, Store, StoreError, Sync};
use crate::sys::{SessionId, blocking};

use super::actor::Actor;
use super::forget::{forget, known_as};
use super::history::SessionHistory;
use super::logs::{moved, note_payload, source, summary};
use super::outcome::Refusal;
use super::refusal::storage;
use super::seat::{Furniture, Hold, Seat};

impl Actor {
    /// Opens the conversation of a session that has no log yet.
    pub(super) fn prepare(&mut self, wanted: Wanted) {
        let place = wanted.place.clone();
        let summary = Summary {
            cwd: place.cwd.clone(),
            additional_directories: place.additional_directories.clone(),
            source: source(&self.deps.engine.identity()),
            known_as: self.known_as(),
            inners: Vec::new(),
            title: None,
            created_at: self.deps.sys.clock.now().to_string(),
            updated_at: None,
            archived: false,
            prompts: 0,
            scanned: 0,
        };
        let furniture = Furniture {
            hold: Hold::Memory,
            history: match &self.deps.store {
                Some(store) => SessionHistory::of_log(self.id.clone(), store.clone()),
                None => SessionHistory::in_memory(self.id.clone()),
            },
            wanted,
            recorded: place,
            summary,
            titled: None,
            damage: Arc::from([]),
            shown: 0,
            origin: None,
        };
        self.seat = Some(Seat::new(&self.id, &self.deps, furniture));
    }

    /// The id by which the client knows the session, if that is another one.
    fn known_as(&self) -> Option<String> {
        (self.name != self.id.as_str()).then(|| self.name.clone())
    }

    /// The header of a session that is made here and now.
    pub(super) fn header(&self, place: &Place, forked_from: Option<ForkedFrom>) -> Header {
        Header {
            format: FORMAT,
            session_id: self.id.to_string(),
            known_as: self.known_as(),
            place: place.clone(),
            client: self.deps.client.get().cloned(),
            engine: self.deps.engine.identity(),
            protocol_version: self.deps.dialect().version(),
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
            .seat
            .as_ref()
            .map(|seat| self.header(&seat.recorded, None));
        let (Some(store), Some(seat), Some(header)) = (&self.deps.store, &mut self.seat, header)
        else {
            return Ok(());
        };
        let records = || {
            let inner = inner.map(|payload| (Kind::Inner, None, payload));
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
        // As whoever reads the log has it.
        let at = log.last_at().map(|at| at.to_string());
        let at = at.unwrap_or_else(|| seat.summary.created_at.clone());
        for (kind, _, payload) in records() {
            note_payload(&mut seat.summary, kind, &at, payload);
        }
        seat.summary.created_at = at;
        seat.summary.scanned = log.end();
        seat.shown = log.end();
        seat.hold = Hold::Own(log);
        if let (Some(catalog), Some(before)) = (catalog, before) {
            blocking(|| catalog.created(&self.id, &seat.summary, before));
        }
        if seat.summary.prompts > 0 {
            let scan = blocking(|| store.read(&self.id)?.scan());
            let scan = scan.map_err(|error| storage(&error))?;
            seat.history.reset(&scan);
        }
        Ok(())
    }

    /// Remembers how the engine knows the session now. The log learns it with the next prompt, the
    /// catalog at once.
    pub(super) fn keep_inner(&mut self, inner: String) {
        let Some(seat) = &mut self.seat else {
            return;
        };
        if let (Some(catalog), Some(known)) = (&self.deps.catalog, Inner::read(&inner)) {
            blocking(|| catalog.knows(&self.id, &known));
        }
        seat.inner = Some(inner);
    }

    pub(super) fn open(&mut self, wanted: Wanted) -> Result<(), Refusal> {
        if let Some(seat) = &mut self.seat {
            seat.moved(wanted);
            return Ok(());
        }
        let Some(store) = &self.deps.store else {
            return Err(Refusal::NotFound);
        };
        if self.deps.has_expired(&self.id) {
            return Err(Refusal::NotFound);
        }
        let (hold, scan) = blocking(|| lock_or_read(store, &self.id, &mut |_| {}))?;
        self.sit_down(hold, scan, wanted);
        Ok(())
    }

    /// Takes what was opened.
    pub(super) fn sit_down(&mut self, hold: Hold, scan: Scan, wanted: Wanted) {
        let Some(store) = &self.deps.store else {
            return;
        };
        for damage in &scan.damage {
            tracing::warn!(session = %self.id, %damage, "the log is damaged");
        }
        let history = SessionHistory::of_log(self.id.clone(), store.clone());
        history.reset(&scan);
        let furniture = Furniture {
            hold,
            history,
            wanted,
            recorded: scan.place.clone(),
            summary: summary(&scan),
            titled: scan.titles.set().map(str::to_owned),
            damage: scan.damage.into(),
            shown: scan.end,
            origin: None,
        };
        self.seat = Some(Seat::new(&self.id, &self.deps, furniture));
    }

    /// Makes sure that there is such a session.
    pub(super) fn check(&self) -> Result<(), Refusal> {
        let known = match &self.deps.store {
            Some(store) => blocking(|| store.exists(&self.id)) && !self.deps.has_expired(&self.id),
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
    pub(super) async fn mend(&mut self) {
        let broken = self.seat.as_ref().is_some_and(|seat| seat.broken);
        // A turn that is being cancelled is not over.
        if broken
            && self.turn.is_none()
            && let Err(error) = self.claim().await
        {
            tracing::warn!(session = %self.id, %error, "the log cannot be mended yet");
        }
    }

    pub(super) async fn claim(&mut self) -> Result<(), Refusal> {
        let (Some(seat), Some(store)) = (&mut self.seat, &self.deps.store) else {
            return Ok(());
        };
        match &seat.hold {
            Hold::Memory => return Ok(()),
            Hold::Own(_) if !seat.broken => return self.send_missed().await,
            Hold::Own(_) | Hold::Shared => {}
        }
        // The old lock must go before the log can be locked and recovered anew.
        seat.hold = Hold::Shared;
        let Opened { log, scan, .. } =
            blocking(|| store.open_log(&self.id)).map_err(|error| storage(&error))?;
        if !seat.broken {
            // What somebody else has written is for the next load.
            seat.shown = log.end();
        }
        seat.hold = Hold::Own(log);
        seat.broken = false;
        seat.history.reset(&scan);
        seat.summary = summary(&scan);
        seat.titled = scan.titles.set().map(str::to_owned);
        seat.recorded = scan.place;
        seat.damage = scan.damage.into();
        // A replay that is on its way comes to it by itself.
        self.send_missed().await
    }

    /// Writes down where the session works now, if the log says otherwise, and how the engine knows
    /// it, if the log does not.
    pub(super) fn reopened(&mut self) -> Result<(), Refusal> {
        let Some(seat) = &mut self.seat else {
            return Ok(());
        };
        let Hold::Own(log) = &mut seat.hold else {
            return Ok(());
        };
        let place = &seat.wanted.place;
        let moved = (*place != seat.recorded)
            .then(|| serde_json::to_string(place))
            .transpose()
            .map_err(|error| Refusal::Storage(error.to_string()))?;
        if moved.is_none() && seat.inner.is_none() {
            return Ok(());
        }
        if let Some(catalog) = &self.deps.catalog {
            blocking(|| catalog.opened(&self.id));
        }
        let moved = moved
            .as_deref()
            .map(|payload| (Kind::Reopen, None, payload));
        let inner = seat.inner.as_deref();
        let inner = inner.map(|payload| (Kind::Inner, None, payload));
        let appended = log
            .append_all(moved.into_iter().chain(inner), Sync::Buffered)
            .map_err(|error| {
                seat.broken = true;
                storage(&error)
            })?;
        if let Some(inner) = seat.inner.take() {
            note_payload(&mut seat.summary, Kind::Inner, &appended.at, &inner);
        }
        seat.summary.scanned = appended.end;
        seat.shown = appended.end;
        self::moved(&mut seat.summary, &seat.wanted.place);
        seat.recorded = seat.wanted.place.clone();
        Ok(())
    }

    pub(super) fn release(&mut self, how: Parting) {
        // A replay that has run and was not caught up with is given up.
        self.replay = None;
        self.attaching = None;
        let known_as = self.known_as();
        let Some(mut seat) = self.seat.take() else {
            return;
        };
        self.withdraw();
        // Nobody listens any more, so the engine is not kept waiting.
        seat.said.close();
        seat.conversation.part(how);
        match seat.hold {
            // It was made, but not whole, and nobody was told of it.
            // What was taken over is there whole, and may be asked for again.
            Hold::Own(log) if how == Parting::Refused && known_as.is_none() => {
                if let Err(error) = self.bury(Hold::Own(log)) {
                    tracing::warn!(session = %self.id, %error, "half a session stays");
                }
            }
            Hold::Own(log) => {
                // Told while the lock is held, so that it cannot overwrite what the next holder
                // tells.
                if let Some(catalog) = &self.deps.catalog {
                    blocking(|| catalog.closed(&self.id, &seat.summary));
                }
                drop(log);
            }
            Hold::Shared => {}
            Hold::Memory if how == Parting::Refused => {}
            Hold::Memory => self.deps.close_in_memory(&self.id),
        }
    }

    pub(super) fn trash(&mut self) -> Result<(), Refusal> {
        // Of an open session its conversation knows that.
        let names = match (&self.seat, &self.deps.store) {
            (None, Some(store)) => match known_as(&self.deps, store, &self.id) {
                // What was to be taken over and was not is the agent's alone.
                names if names.is_empty() => self.known_as().into_iter().collect(),
                names => names,
            },
            _ => Vec::new(),
        };
        let hold = match &mut self.seat {
            Some(seat) => std::mem::replace(&mut seat.hold, Hold::Shared),
            None => Hold::Shared,
        };
        self.bury(hold)?;
        if let Some(mut seat) = self.seat.take() {
            seat.said.close();
            seat.conversation.part(Parting::Deleted);
        }
        forget(&self.deps, names);
        Ok(())
    }

    /// Moves the log to the trash.
    fn bury(&self, hold: Hold) -> Result<(), Refusal> {
        let Some(store) = &self.deps.store else {
            return Err(Refusal::NotFound);
        };
        let catalog = self.deps.catalog.as_ref();
        let before = catalog.map(|catalog| catalog.before_change());
        blocking(|| match hold {
            Hold::Own(log) => log.trash(),
            Hold::Shared | Hold::Memory => store.trash(&self.id).map(drop),
        })
        .map_err(|error| storage(&error))?;
        if let (Some(catalog), Some(before)) = (catalog, before) {
            blocking(|| catalog.removed(&self.id, before));
        }
        Ok(())
    }
}

/// Locks the log for this process or, while somebody else has it, reads it as it stands. Shows
/// `visit` each record.
pub(super) fn lock_or_read(
    store: &Store,
    id: &SessionId,
    visit: &mut dyn FnMut(&Entry<'_>),
) -> Result<(Hold, Scan), Refusal> {
    match store.open_log_with(id, visit) {
        Ok(Opened {
            log,
            scan,
            kept_aside,
        }) => {
            if let Some(path) = kept_aside {
                tracing::warn!(session = %id, path = %path.display(), "cut a torn end, kept aside");
            }
            Ok((Hold::Own(log), scan))
        }
        Err(error @ StoreError::InUse { .. }) => {
            tracing::info!(session = %id, %error, "opened for reading only");
            let scan = store.read(id).and_then(|mut log| log.scan_with(visit));
            Ok((Hold::Shared, scan.map_err(|error| storage(&error))?))
        }
        Err(error) => Err(storage(&error)),
    }
}
