//! Deleted sessions: moved aside, brought back, and in the end removed.

use std::io;
use std::sync::Arc;

use crate::sys::{SessionId, Timestamp};

use super::base::Base;
use super::error::StoreError;
use super::layout::{InTrash, Layout};
use super::lock::Lock;

/// A session in the trash.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Trashed {
    /// The session.
    pub id: SessionId,
    /// When it was deleted.
    pub at: Timestamp,
}

/// Moves a locked session to the trash; false if its name is not there any more.
pub(super) fn bury(base: &Base, id: &SessionId, lock: &Lock) -> Result<bool, StoreError> {
    let log = &lock.path;
    // Whoever removed or replaced the file by hand did not mean the one we hold.
    let current = lock.file.is_at(log);
    if !current.map_err(StoreError::disk("look at", log))? {
        return Ok(false);
    }
    let mut at = base.sys.clock.now();
    loop {
        let moved = base.sys.disk.rename(log, &base.layout.trashed(id, at));
        match moved {
            Ok(()) => break,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                at = Timestamp::from_millis(at.as_millis() + 1);
            }
            Err(error) => return Err(StoreError::disk("move to the trash", log)(error)),
        }
    }
    // The new name first: with only the old one synced, a power cut would take both.
    base.sync_dir(&base.layout.trash)?;
    base.sync_dir(&base.layout.sessions)?;
    Ok(true)
}

/// Brings back the newest of a session's logs in the trash.
pub(super) fn restore(base: &Base, id: &SessionId) -> Result<(), StoreError> {
    let newest = list(base)?.into_iter().rfind(|trashed| trashed.id == *id);
    let newest = newest.ok_or_else(|| StoreError::NotFound { id: id.clone() })?;
    let from = base.layout.trashed(id, newest.at);
    let moved = base.sys.disk.rename(&from, &base.layout.log(id));
    moved.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => StoreError::Exists { id: id.clone() },
        io::ErrorKind::NotFound => StoreError::NotFound { id: id.clone() },
        _ => StoreError::disk("restore", &from)(error),
    })?;
    base.sync_dir(&base.layout.sessions)?;
    base.sync_dir(&base.layout.trash)
}

/// The sessions in the trash, by id and then by time.
pub(super) fn list(base: &Base) -> Result<Vec<Trashed>, StoreError> {
    let mut found: Vec<_> = names(base)?
        .iter()
        .filter_map(|name| match Layout::in_trash(name) {
            Some(InTrash::Session(id, at)) => Some(Trashed { id, at }),
            _ => None,
        })
        .collect();
    found.sort();
    Ok(found)
}

/// Removes what came into the trash before `before`; returns how many files that were. Strays
/// stay.
pub(super) fn empty(base: &Arc<Base>, before: Timestamp) -> Result<u64, StoreError> {
    let mut removed = 0;
    for name in names(base)? {
        let Some(InTrash::Session(_, at) | InTrash::Torn(at)) = Layout::in_trash(&name) else {
            continue;
        };
        if at >= before {
            continue;
        }
        let path = base.layout.trash.join(&name);
        match base.sys.disk.remove_file(&path) {
            Ok(()) => removed += 1,
            // Another process empties it too.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(StoreError::disk("remove", &path)(error)),
        }
    }
    Ok(removed)
}

fn names(base: &Base) -> Result<Vec<String>, StoreError> {
    let trash = &base.layout.trash;
    let names = base.sys.disk.list(trash);
    names.map_err(StoreError::disk("list", trash))
}
