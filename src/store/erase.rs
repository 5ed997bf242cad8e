//! Removing sessions for good.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::sys::{SessionId, Timestamp};

use super::base::StoreContext;
use super::error::StoreError;
use super::layout::{InTrash, Layout};
use super::lock::Lock;

/// The files of a session, but for the catalog's: its log, what is in the trash of it, and the
/// hint of a process that had it open.
pub(super) fn files(base: &StoreContext, id: &SessionId) -> Result<Vec<PathBuf>, StoreError> {
    let layout = &base.layout;
    let mut files = Vec::new();
    for path in [layout.log(id), layout.hint(id)] {
        match base.sys.disk.info(&path) {
            Ok(info) if !info.is_dir => files.push(path),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(StoreError::disk("look at", &path)(error)),
        }
    }
    files.extend(in_trash(base, id)?);
    Ok(files)
}

/// Removes the files of a session; false if there are none. Refused while it is open for writing.
///
/// The log goes last: whoever dies before finds the session where it was and can do it again, and
/// nobody can restore a copy while the log is there.
pub(super) fn erase(base: &Arc<StoreContext>, id: &SessionId) -> Result<bool, StoreError> {
    let layout = &base.layout;
    let lock = match Lock::take(base, id) {
        Ok(lock) => Some(lock),
        Err(StoreError::NotFound { .. }) => None,
        Err(error) => return Err(error),
    };
    let mut removed = false;
    for path in in_trash(base, id)? {
        removed |= remove(base, &path)?;
    }
    base.sync_dir(&layout.trash)?;
    if lock.is_some() {
        removed |= remove(base, &layout.log(id))?;
        base.sync_dir(&layout.sessions)?;
    } else {
        // With a lock, this is the lock's own.
        removed |= remove(base, &layout.hint(id))?;
    }
    Ok(removed)
}

/// Removes what came into the trash before `before`; returns how many files that were. Strays
/// stay, and what another process is working on.
pub(super) fn empty_trash(base: &StoreContext, before: Timestamp) -> Result<u64, StoreError> {
    let mut removed = 0;
    for path in trash_before(base, before)? {
        if !is_locked(base, &path) && remove(base, &path)? {
            removed += 1;
        }
    }
    Ok(removed)
}

/// The files of ours that came into the trash before `before`.
pub(super) fn trash_before(
    base: &StoreContext,
    before: Timestamp,
) -> Result<Vec<PathBuf>, StoreError> {
    let is_old = |name: &&String| match Layout::in_trash(name) {
        Some(InTrash::Session(_, at) | InTrash::Torn(_, at)) => at < before,
        None => false,
    };
    let names = names(base)?;
    let names = names.iter().filter(is_old);
    Ok(names.map(|name| base.layout.trash.join(name)).collect())
}

/// Whether a process has this file open for writing: it makes a session of it.
fn is_locked(base: &StoreContext, path: &Path) -> bool {
    match base.sys.disk.open_append(path) {
        Ok(file) => file.try_lock().is_ok_and(|locked| !locked),
        Err(error) => error.kind() == io::ErrorKind::ResourceBusy,
    }
}

/// Removes a file; false if another process was faster.
fn remove(base: &StoreContext, path: &Path) -> Result<bool, StoreError> {
    match base.sys.disk.remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(StoreError::disk("remove", path)(error)),
    }
}

/// The files in the trash that are of a session.
fn in_trash(base: &StoreContext, id: &SessionId) -> Result<Vec<PathBuf>, StoreError> {
    let is_of_it = |name: &&String| match Layout::in_trash(name) {
        Some(InTrash::Session(of, _) | InTrash::Torn(of, _)) => of == *id,
        None => false,
    };
    let names = names(base)?;
    let names = names.iter().filter(is_of_it);
    Ok(names.map(|name| base.layout.trash.join(name)).collect())
}

/// The names in the trash.
pub(super) fn names(base: &StoreContext) -> Result<Vec<String>, StoreError> {
    let trash = &base.layout.trash;
    let names = base.sys.disk.list(trash);
    names.map_err(StoreError::disk("list", trash))
}
