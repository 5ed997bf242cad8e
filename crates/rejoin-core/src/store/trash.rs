//! Deleted sessions: moves them to the trash, restores them, and removes sessions permanently.

use std::sync::Arc;

use crate::record::Kind;
use crate::record::metadata::RESTORED;
use crate::sys::{SessionId, Timestamp};

use super::context::StoreContext;
use super::folder::Store;
use super::log::Log;
use super::medium::{StoreError, Sync, Trashed};
use super::recover::recover;

impl Store {
    /// Moves a session to the trash; false if it does not exist. Fails while it is open for writing;
    /// then [`Log::trash`] does it.
    pub fn trash(&self, id: &SessionId) -> Result<bool, StoreError> {
        self.trash_if(id, || true)
    }

    /// Moves a session to the trash if `wanted` returns true once the session is locked; false if
    /// it is not moved, or does not exist. Fails while it is open for writing.
    pub fn trash_if(
        &self,
        id: &SessionId,
        wanted: impl FnOnce() -> bool,
    ) -> Result<bool, StoreError> {
        match self.context.medium.claim(id, false) {
            Ok(log) => Ok(wanted() && log.bury()?),
            Err(StoreError::NotFound { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The sessions in the trash, by id and then by time.
    pub fn trashed(&self) -> Result<Vec<Trashed>, StoreError> {
        self.context.medium.trashed()
    }

    /// Restores a session from the trash; its newest log, if there are several.
    pub fn restore(&self, id: &SessionId) -> Result<(), StoreError> {
        let trashed = self.trashed()?;
        let newest = trashed.iter().rfind(|trashed| trashed.id == *id);
        self.restore_trashed(newest.ok_or_else(|| StoreError::NotFound { id: id.clone() })?)
    }

    /// Restores one log from the trash.
    pub fn restore_trashed(&self, trashed: &Trashed) -> Result<(), StoreError> {
        // Locked until it has its name, so that no other process expires it before.
        let _log = mark(&self.context, trashed)?;
        self.context.medium.restore(trashed)
    }

    /// Permanently removes what came into the trash before a time: deleted sessions and torn ends.
    /// Returns how many files were removed. Files that are not ours, or that another process is
    /// using, remain.
    pub fn empty_trash(&self, before: Timestamp) -> Result<u64, StoreError> {
        self.context.medium.empty_trash(before)
    }

    /// Whether this process may remove sessions permanently: a role of a database may have to leave that
    /// to others.
    pub fn may_remove(&self) -> Result<bool, StoreError> {
        self.context.medium.may_remove()
    }

    /// How many files [`empty_trash`](Self::empty_trash) would remove.
    pub fn count_trash_before(&self, before: Timestamp) -> Result<usize, StoreError> {
        self.context.medium.count_trash(before)
    }

    /// Makes logs in which nobody has prompted since `before` shorter to store and faster to read,
    /// without a change of their bytes, if that can be done; some at a time. False if none is left.
    pub fn join_blocks(&self, before: Timestamp) -> Result<bool, StoreError> {
        self.context.medium.join_blocks(before)
    }

    /// Whether anything in the store, the trash included, belongs to this session. The catalog does
    /// not count.
    pub fn has_traces_of(&self, id: &SessionId) -> Result<bool, StoreError> {
        self.context.medium.has_traces_of(id)
    }

    /// Permanently removes a session: its log, and its copies and torn ends in the trash; false if
    /// there are none. Fails while it is open for writing. Does not touch the catalog.
    pub fn erase(&self, id: &SessionId) -> Result<bool, StoreError> {
        self.erase_if(id, &mut || true)
    }

    /// Permanently removes a session as [`erase`](Self::erase) does, if `wanted` returns true once the
    /// session is locked; else nothing is removed.
    pub fn erase_if(
        &self,
        id: &SessionId,
        wanted: &mut dyn FnMut() -> bool,
    ) -> Result<bool, StoreError> {
        self.context.medium.erase(id, wanted)
    }
}

/// Records in a log in the trash that it is being restored. This counts as use, so that an expired
/// session does not expire again at once. A log that cannot be written is restored unchanged.
fn mark(context: &Arc<StoreContext>, trashed: &Trashed) -> Result<Option<Log>, StoreError> {
    let Some(owned) = context.medium.claim_trashed(trashed)? else {
        return Ok(None);
    };
    let marked = recover(context, &trashed.id, owned, &mut |_| {}).and_then(|opened| {
        let mut log = opened.log;
        log.append(Kind::Info, None, RESTORED, Sync::Turn)?;
        Ok(log)
    });
    match marked {
        Ok(log) => Ok(Some(log)),
        Err(error) => {
            tracing::warn!(session = %trashed.id, %error, "cannot mark a session as restored");
            Ok(None)
        }
    }
}
