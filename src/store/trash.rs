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
use super::layout::{InTrash, Layout};
use super::lock::Lock;
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

/// Moves a locked session to the trash; false if its log no longer has its name.
pub(super) fn move_to_trash(
    context: &StoreContext,
    id: &SessionId,
    lock: &Lock,
) -> Result<bool, StoreError> {
    let log = &lock.path;
    // If the file was replaced by hand, the new one is not the one to delete.
    if !lock.is_current()? {
        return Ok(false);
    }
    let mut at = context.sys.clock.now();
    loop {
        let moved = context
            .sys
            .disk
            .rename(log, &context.layout.trashed(id, at));
        match moved {
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

/// The sessions in the trash, by id and then by time.
pub(super) fn list(context: &StoreContext) -> Result<Vec<Trashed>, StoreError> {
    let mut found: Vec<_> = names(context)?
        .iter()
        .filter_map(|name| match Layout::in_trash(name) {
            Some(InTrash::Session(id, at)) => Some(Trashed { id, at }),
            _ => None,
        })
        .collect();
    found.sort();
    Ok(found)
}

/// Restores the newest log of a session.
pub(super) fn restore(context: &Arc<StoreContext>, id: &SessionId) -> Result<(), StoreError> {
    let newest = list(context)?
        .into_iter()
        .rfind(|trashed| trashed.id == *id);
    let newest = newest.ok_or_else(|| StoreError::NotFound { id: id.clone() })?;
    restore_one(context, &newest)
}

/// Restores one log from the trash.
pub(super) fn restore_one(
    context: &Arc<StoreContext>,
    trashed: &Trashed,
) -> Result<(), StoreError> {
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
    let marked = recover(context, id, lock, &mut |_| {}).and_then(|recovered| {
        let mut log = recovered.log;
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

/// The files of a session without the catalog's: its log, its files in the trash, and the hint of
/// a process that had it open.
pub(super) fn files(context: &StoreContext, id: &SessionId) -> Result<Vec<PathBuf>, StoreError> {
    let layout = &context.layout;
    let mut files = Vec::new();
    for path in [layout.log(id), layout.hint(id)] {
        match context.sys.disk.info(&path) {
            Ok(info) if !info.is_dir => files.push(path),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(StoreError::disk("look at", &path)(error)),
        }
    }
    files.extend(in_trash(context, id)?);
    Ok(files)
}

/// Removes the files of a session; false if there are none. Refused while it is open for writing.
///
/// The log is removed last: after a crash the session still exists and can be removed again, and no
/// process can restore a copy as long as the log exists.
pub(super) fn erase(context: &Arc<StoreContext>, id: &SessionId) -> Result<bool, StoreError> {
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

/// Removes what came into the trash before `before`; returns how many files were removed. Files
/// that are not ours, or that another process is using, remain.
pub(super) fn empty_trash(context: &StoreContext, before: Timestamp) -> Result<u64, StoreError> {
    let mut removed = 0;
    for path in trash_before(context, before)? {
        if !is_locked(context, &path) && remove(context, &path)? {
            removed += 1;
        }
    }
    Ok(removed)
}

/// The files of ours that came into the trash before `before`.
pub(super) fn trash_before(
    context: &StoreContext,
    before: Timestamp,
) -> Result<Vec<PathBuf>, StoreError> {
    let is_old = |name: &&String| match Layout::in_trash(name) {
        Some(InTrash::Session(_, at) | InTrash::Torn(_, at)) => at < before,
        None => false,
    };
    let names = names(context)?;
    let names = names.iter().filter(is_old);
    Ok(names.map(|name| context.layout.trash.join(name)).collect())
}

/// Whether a process has this file open for writing, to create a session from it.
fn is_locked(context: &StoreContext, path: &Path) -> bool {
    match context.sys.disk.open_append(path) {
        Ok(file) => file.try_lock().is_ok_and(|locked| !locked),
        Err(error) => error.kind() == io::ErrorKind::ResourceBusy,
    }
}

/// Removes a file; false if it no longer exists.
fn remove(context: &StoreContext, path: &Path) -> Result<bool, StoreError> {
    match context.sys.disk.remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(StoreError::disk("remove", path)(error)),
    }
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
pub(super) fn names(context: &StoreContext) -> Result<Vec<String>, StoreError> {
    let trash = &context.layout.trash;
    let names = context.sys.disk.list(trash);
    names.map_err(StoreError::disk("list", trash))
}
