//! The sessions of a process, open or not: where they are kept, and what is known of them.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::history::metadata::change_metadata;
use crate::history::{has_aged, long_before};
use crate::index::Catalog;
use crate::record::metadata::MetadataChange;
use crate::replay::FindMessage;
use crate::store::{Log, Store, StoreError};
use crate::sys::{SessionId, Sys, blocking, lock};

use super::front::growth::Growth;
use super::link::Owners;
use super::notifier::Notifier;
use super::outcome::Refusal;

/// How many closed sessions without a log are remembered.
const CLOSED: usize = 10_000;

/// The sessions of a process: where they are kept, and which of them are open here. All connections
/// share it.
#[derive(Debug)]
pub struct Library {
    /// Clock, ids, disk.
    pub sys: Sys,
    /// Where logs are kept; `None` keeps sessions in memory.
    pub store: Option<Store>,
    /// The catalog of the store.
    pub catalog: Option<Arc<Catalog>>,
    /// The tools whose conversations become sessions when they are opened.
    pub tools: Option<Arc<dyn ListedTools>>,
    /// After how long without a prompt sessions expire; `None` if they never do.
    pub expire_after: Option<Duration>,
    /// Notifies the user of what sessions do while no client is active, if that is wanted.
    pub notifier: Option<Arc<Notifier>>,
    /// Notifies of sessions that other processes write to.
    pub growth: Growth,
    /// The sessions that are open here, for clients elsewhere.
    pub owners: Arc<Owners>,
    /// Sessions without a log that were closed, so that closing them again is no error.
    pub closed: Mutex<BTreeSet<SessionId>>,
}

/// Other tools whose conversations are listed with the sessions of the store.
pub trait ListedTools: Debug + Send + Sync {
    /// Makes a conversation a session of the store if it is not one yet; if it is, adds what the tool
    /// has added since. Takes as long as reading it.
    fn follow(&self, id: &SessionId);
}

impl Library {
    /// Sessions that were last used before this time have expired. In the form of
    /// [`Timestamp`](crate::sys::Timestamp)'s `Display`; `None` if they never expire.
    pub fn expired_before(&self) -> Option<String> {
        let after = self.expire_after?;
        Some(long_before(self.sys.clock.now(), after).to_string())
    }

    /// Whether a session that is not open here has expired.
    pub fn has_expired(&self, id: &SessionId) -> bool {
        let (Some(before), Some(catalog)) = (self.expired_before(), &self.catalog) else {
            return false;
        };
        let known = blocking(|| catalog.find(id));
        known.is_some_and(|summary| has_aged(&summary, &before))
    }

    /// Fails unless a session that is not open here exists.
    pub(super) fn check(&self, id: &SessionId) -> Result<(), Refusal> {
        let exists = match &self.store {
            Some(store) => blocking(|| store.exists(id))? && !self.has_expired(id),
            // A closed session cannot be opened again, but the client knows it.
            None => lock(&self.closed).contains(id),
        };
        if exists {
            Ok(())
        } else {
            Err(Refusal::NotFound)
        }
    }

    /// Whether a session has not been deleted, as far as that can be found out.
    pub(super) fn exists(&self, id: &SessionId) -> bool {
        let store = self.store.as_ref();
        store.is_none_or(|store| blocking(|| store.exists(id)).unwrap_or(true))
    }

    /// Whether a process has the session open, as far as can be seen.
    pub(super) fn is_open(&self, id: &SessionId) -> bool {
        let store = self.store.as_ref();
        store.is_some_and(|store| blocking(|| store.is_open(id)))
    }

    /// Whether a message is in the log of a session, as far as that can be read.
    pub(super) fn may_have_logged(&self, id: &SessionId, message_id: &str) -> bool {
        let Some(store) = &self.store else {
            return true;
        };
        let mut search = FindMessage::new(message_id);
        let found = blocking(|| -> Result<bool, StoreError> {
            let mut reader = store.read_all(id)?;
            while let Some(entry) = reader.next()? {
                if search.record(&entry.record) {
                    return Ok(true);
                }
            }
            Ok(false)
        });
        found.unwrap_or(true) || search.finish()
    }

    /// Records a change of the metadata of a session that is not open here.
    pub(super) fn change_metadata(
        &self,
        id: &SessionId,
        change: &MetadataChange,
    ) -> Result<(), Refusal> {
        let Some(store) = &self.store else {
            return Err(Refusal::NotFound);
        };
        self.check(id)?;
        let catalog = self.catalog.as_deref();
        blocking(|| change_metadata(store, catalog, id, change))?;
        Ok(())
    }

    /// Moves a session to the trash, with the log that this process has locked, if it has.
    pub(super) fn trash(&self, id: &SessionId, log: Option<Log>) -> Result<(), Refusal> {
        let Some(store) = &self.store else {
            return Err(Refusal::NotFound);
        };
        let catalog = self.catalog.as_ref();
        let before = catalog.map(|catalog| catalog.before_change());
        blocking(|| match log {
            // A file that another program has put in its place is part of the session, too.
            Some(log) => Ok(log.trash()? || store.trash(id)?),
            None => store.trash(id),
        })?;
        if let (Some(catalog), Some(before)) = (catalog, before) {
            blocking(|| catalog.removed(id, before));
        }
        Ok(())
    }

    /// Remembers that a session without a log was closed.
    pub(super) fn close_in_memory(&self, id: &SessionId) {
        let mut closed = lock(&self.closed);
        closed.insert(id.clone());
        if closed.len() > CLOSED {
            // Ids begin with their time.
            closed.pop_first();
        }
    }
}
