//! Deleted sessions: moves them to the trash, restores them, and removes sessions permanently.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::record::Kind;
use crate::record::metadata::RESTORED;
use crate::sys::{SessionId, Timestamp};

use super::context::StoreContext;
use super::durability::Sync;
use super::error::StoreError;
use super::folder::Store;
use super::layout::{InTrash, Layout};
use super::lock::{Lock, is_locked};
use super::log::Log;
use super::recover::recover;

/// A session in the trash.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Trashed {
    /// The session.
    pub id: SessionId,
    /// When it was deleted.
    pub at: Timestamp,
}

impl Store {
    /// Moves a session to the trash; false if it does not exist. Fails while it is open for writing;
    /// then [`Log::trash`] does it.
    pub fn trash(&self, id: &SessionId) -> Result<bool, StoreError> {
        self.trash_if(id, || true)
    }

    /// The same, if `wanted` returns true once the session is locked.
    pub fn trash_if(
        &self,
        id: &SessionId,
        wanted: impl FnOnce() -> bool,
    ) -> Result<bool, StoreError> {
        match Lock::take(&self.context, id) {
            Ok(lock) => Ok(wanted() && move_to_trash(&lock)?),
            Err(StoreError::NotFound { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The sessions in the trash, by id and then by time.
    pub fn trashed(&self) -> Result<Vec<Trashed>, StoreError> {
        let names = names(&self.context)?;
        let found = names
            .iter()
            .filter_map(|name| match Layout::in_trash(name) {
                Some(InTrash::Session(id, at)) => Some(Trashed { id, at }),
                _ => None,
            });
        let mut found: Vec<_> = found.collect();
        found.sort();
        Ok(found)
    }

    /// Restores a session from the trash; its newest log, if there are several.
    pub fn restore(&self, id: &SessionId) -> Result<(), StoreError> {
        let trashed = self.trashed()?;
        let newest = trashed.iter().rfind(|trashed| trashed.id == *id);
        self.restore_trashed(newest.ok_or_else(|| StoreError::NotFound { id: id.clone() })?)
    }

    /// Restores one log from the trash.
    pub fn restore_trashed(&self, trashed: &Trashed) -> Result<(), StoreError> {
        let context = &self.context;
        let Trashed { id, at } = trashed;
        let exists = || StoreError::Exists { id: id.clone() };
        let from = context.layout.trashed(id, *at);
        let to = context.layout.log(id);
        // Otherwise locking would replace the hint of the process that has it open.
        if context.sys.disk.info(&to).is_ok() {
            return Err(exists());
        }
        // Locked until it has its name, so that no other process expires it before.
        let _log = mark(context, id, &from)?;
        let moved = context.sys.disk.rename(&from, &to);
        moved.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => exists(),
            io::ErrorKind::NotFound => StoreError::NotFound { id: id.clone() },
            _ => StoreError::disk("restore", &from)(error),
        })?;
        context.sync_dir(&context.layout.sessions)?;
        context.sync_dir(&context.layout.trash)
    }

    /// Permanently removes what came into the trash before a time: deleted sessions and torn ends.
    /// Returns how many files were removed. Files that are not ours, or that another process is
    /// using, remain.
    pub fn empty_trash(&self, before: Timestamp) -> Result<u64, StoreError> {
        let mut removed = 0;
        for path in trash_before(&self.context, before)? {
            // A process that creates a session has the session's log open here.
            if !is_locked(&self.context, &path) && remove(&self.context, &path)? {
                removed += 1;
            }
        }
        Ok(removed)
    }

    /// How many files [`empty_trash`](Self::empty_trash) would remove.
    pub fn count_trash_before(&self, before: Timestamp) -> Result<usize, StoreError> {
        trash_before(&self.context, before).map(|files| files.len())
    }

    /// Whether any file in the store, the trash included, belongs to this session. The catalog does
    /// not count.
    pub fn has_traces_of(&self, id: &SessionId) -> Result<bool, StoreError> {
        let layout = &self.context.layout;
        // The hint of a process that had the session open names it, too.
        for path in [layout.log(id), layout.hint(id)] {
            let found = self.sys().disk.info_if_exists(&path);
            let found = found.map_err(StoreError::disk("look at", &path))?;
            if found.is_some_and(|info| !info.is_dir) {
                return Ok(true);
            }
        }
        Ok(!in_trash(&self.context, id)?.is_empty())
    }

    /// Permanently removes a session: its log, and its copies and torn ends in the trash; false if
    /// there are none. Fails while it is open for writing. Does not touch the catalog.
    ///
    /// The log is removed last: after a crash the session still exists and can be removed again, and
    /// no process can restore a copy as long as the log exists.
    pub fn erase(&self, id: &SessionId) -> Result<bool, StoreError> {
        let context = &self.context;
        let layout = &context.layout;
        let lock = match Lock::take(context, id) {
            Ok(lock) => Some(lock),
            Err(StoreError::NotFound { .. }) => None,
            Err(error) => return Err(error),
        };
        let mut removed = false;
        for path in in_trash(context, id)? {
            removed |= remove(context, &path)?;
        }
        context.sync_dir(&layout.trash)?;
        if lock.is_some() {
            removed |= remove(context, &layout.log(id))?;
            context.sync_dir(&layout.sessions)?;
        } else {
            // If we hold the lock, the hint is ours and goes with it.
            removed |= remove(context, &layout.hint(id))?;
        }
        Ok(removed)
    }
}

/// Moves a locked session to the trash; false if its log no longer has its name.
pub(super) fn move_to_trash(lock: &Lock) -> Result<bool, StoreError> {
    let (context, log) = (&lock.context, &lock.path);
    // If the file was replaced by hand, the new one is not the one to delete.
    if !lock.is_current()? {
        return Ok(false);
    }
    let mut at = context.sys.clock.now();
    loop {
        let trashed = context.layout.trashed(&lock.id, at);
        match context.sys.disk.rename(log, &trashed) {
            Ok(()) => break,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                at = Timestamp::from_millis(at.as_millis() + 1);
            }
            Err(error) => return Err(StoreError::disk("move to the trash", log)(error)),
        }
    }
    // The new name first: with only the old one synced, a power failure could lose both.
    context.sync_dir(&context.layout.trash)?;
    context.sync_dir(&context.layout.sessions)?;
    Ok(true)
}

/// Records in a log in the trash that it is being restored. This counts as use, so that an expired
/// session does not expire again at once. A log that cannot be written is restored unchanged.
fn mark(context: &Arc<StoreContext>, id: &SessionId, at: &Path) -> Result<Option<Log>, StoreError> {
    let file = match context.sys.disk.open_append(at) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(StoreError::NotFound { id: id.clone() });
        }
        Err(_) => return Ok(None),
    };
    let lock = Lock::of_file(context, id, file)?;
    let marked = recover(lock, &mut |_| {}).and_then(|opened| {
        let mut log = opened.log;
        log.append(Kind::Info, None, RESTORED, Sync::Turn)?;
        Ok(log)
    });
    match marked {
        Ok(log) => Ok(Some(log)),
        Err(error) => {
            tracing::warn!(session = %id, %error, "cannot mark a session as restored");
            Ok(None)
        }
    }
}

/// The files of ours that came into the trash before `before`.
fn trash_before(context: &StoreContext, before: Timestamp) -> Result<Vec<PathBuf>, StoreError> {
    let is_old = |name: &&String| match Layout::in_trash(name) {
        Some(InTrash::Session(_, at) | InTrash::Torn(_, at)) => at < before,
        None => false,
    };
    let names = names(context)?;
    let names = names.iter().filter(is_old);
    Ok(names.map(|name| context.layout.trash.join(name)).collect())
}

/// Removes a file; false if it no longer exists.
fn remove(context: &StoreContext, path: &Path) -> Result<bool, StoreError> {
    let removed = context.sys.disk.remove_if_exists(path);
    removed.map_err(StoreError::disk("remove", path))
}

/// The files of a session in the trash.
fn in_trash(context: &StoreContext, id: &SessionId) -> Result<Vec<PathBuf>, StoreError> {
    let is_of_it = |name: &&String| match Layout::in_trash(name) {
        Some(InTrash::Session(of, _) | InTrash::Torn(of, _)) => of == *id,
        None => false,
    };
    let names = names(context)?;
    let names = names.iter().filter(is_of_it);
    Ok(names.map(|name| context.layout.trash.join(name)).collect())
}

/// The names in the trash.
fn names(context: &StoreContext) -> Result<Vec<String>, StoreError> {
    let trash = &context.layout.trash;
    let names = context.sys.disk.list(trash);
    names.map_err(StoreError::disk("list", trash))
}
