//! Deleted sessions: moved aside, and listed.

use std::io;

use crate::sys::{SessionId, Timestamp};

use super::base::StoreContext;
use super::erase::names;
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
pub(super) fn bury(base: &StoreContext, id: &SessionId, lock: &Lock) -> Result<bool, StoreError> {
    let log = &lock.path;
    // Whoever removed or replaced the file by hand did not mean the one we hold.
    if !lock.is_current()? {
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

/// The sessions in the trash, by id and then by time.
pub(super) fn list(base: &StoreContext) -> Result<Vec<Trashed>, StoreError> {
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
