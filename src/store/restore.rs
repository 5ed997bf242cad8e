//! Bringing deleted sessions back.

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::record::Kind;
use crate::record::metadata::RESTORED;
use crate::sys::SessionId;

use super::base::StoreContext;
use super::durability::Sync;
use super::error::StoreError;
use super::lock::Lock;
use super::log::Log;
use super::recover::recover;
use super::trash::{Trashed, list};

/// Brings back the newest of a session's logs in the trash.
pub(super) fn restore(base: &Arc<StoreContext>, id: &SessionId) -> Result<(), StoreError> {
    let newest = list(base)?.into_iter().rfind(|trashed| trashed.id == *id);
    let newest = newest.ok_or_else(|| StoreError::NotFound { id: id.clone() })?;
    restore_one(base, &newest)
}

/// Brings back one log in the trash.
pub(super) fn restore_one(base: &Arc<StoreContext>, trashed: &Trashed) -> Result<(), StoreError> {
    let Trashed { id, at } = trashed;
    let exists = || StoreError::Exists { id: id.clone() };
    let from = base.layout.trashed(id, *at);
    let to = base.layout.log(id);
    // Who has that open has a hint that is not to be touched.
    if base.sys.disk.info(&to).is_ok() {
        return Err(exists());
    }
    // Held until it has its name: nobody can take it for unused before.
    let _log = mark(base, id, &from)?;
    let moved = base.sys.disk.rename(&from, &to);
    moved.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => exists(),
        io::ErrorKind::NotFound => StoreError::NotFound { id: id.clone() },
        _ => StoreError::disk("restore", &from)(error),
    })?;
    base.sync_dir(&base.layout.sessions)?;
    base.sync_dir(&base.layout.trash)
}

/// Writes into a log in the trash that it is restored now, which counts as use: otherwise what has
/// expired would expire again at once. A log that cannot be written to is restored as it is.
fn mark(base: &Arc<StoreContext>, id: &SessionId, at: &Path) -> Result<Option<Log>, StoreError> {
    let file = match base.sys.disk.open_append(at) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(StoreError::NotFound { id: id.clone() });
        }
        Err(_) => return Ok(None),
    };
    let lock = Lock::of_file(base, id, file)?;
    let marked = recover(base, id, lock, &mut |_| {}).and_then(|recovered| {
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
