//! The lock of a session's file, and a hint for others who holds it.
//!
//! The lock is the operating system's, on the log itself, and ends with the process. The hint is
//! a small file that names process and host. It may be missing or stale and decides nothing.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::sys::{DiskFile, SessionId};

use super::base::Base;
use super::error::StoreError;
use super::holder::Holder;

/// How often a file may be replaced between being opened and being locked before we give up.
const ATTEMPTS: u32 = 8;
/// A longer hint is none of ours, in bytes.
const HINT: usize = 4096;

/// A session's file, locked for as long as this lives.
#[derive(Debug)]
pub(super) struct Lock {
    base: Arc<Base>,
    id: SessionId,
    pub(super) path: PathBuf,
    pub(super) file: Box<dyn DiskFile>,
}

impl Lock {
    /// Opens and locks the file of a session.
    pub(super) fn take(base: &Arc<Base>, id: &SessionId) -> Result<Self, StoreError> {
        let path = base.layout.log(id);
        for _ in 0..ATTEMPTS {
            let file = match base.sys.disk.open_append(&path) {
                Ok(file) => file,
                Err(error) => return Err(cannot_open(base, id, error)),
            };
            let lock = Self::of_file(base, id, file)?;
            // What was opened may have gone to the trash before it was locked.
            let current = lock.file.is_at(&path);
            if current.map_err(StoreError::disk("look at", &path))? {
                return Ok(lock);
            }
        }
        Err(in_use(base, id))
    }

    /// Locks a file that is open already.
    pub(super) fn of_file(
        base: &Arc<Base>,
        id: &SessionId,
        file: Box<dyn DiskFile>,
    ) -> Result<Self, StoreError> {
        let path = base.layout.log(id);
        let locked = file.try_lock();
        if !locked.map_err(StoreError::disk("lock", &path))? {
            return Err(in_use(base, id));
        }
        let lock = Self {
            base: base.clone(),
            id: id.clone(),
            path,
            file,
        };
        lock.leave_hint();
        Ok(lock)
    }

    /// Best effort: without it, others cannot tell who has the lock.
    fn leave_hint(&self) {
        let disk = &self.base.sys.disk;
        let path = self.base.layout.hint(&self.id);
        let Ok(text) = serde_json::to_string(&Holder::this_process()) else {
            return;
        };
        // One that a killed process left is in the way.
        self.remove_hint();
        if let Ok(mut hint) = disk.create_new(&path)
            && hint.append(text.as_bytes()).is_err()
        {
            tracing::debug!(path = %path.display(), "cannot say who holds the session");
        }
    }

    fn remove_hint(&self) {
        let path = self.base.layout.hint(&self.id);
        if let Err(error) = self.base.sys.disk.remove_file(&path)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::debug!(path = %path.display(), %error, "cannot remove a holder's hint");
        }
    }
}

impl Drop for Lock {
    /// The hint goes while the lock is still held, so that it cannot be the next holder's.
    fn drop(&mut self) {
        self.remove_hint();
        if let Err(error) = self.file.unlock() {
            tracing::debug!(session = %self.id, %error, "a lock ends when its file is closed");
        }
    }
}

fn cannot_open(base: &Arc<Base>, id: &SessionId, error: io::Error) -> StoreError {
    match error.kind() {
        io::ErrorKind::NotFound => StoreError::NotFound { id: id.clone() },
        // Where a file is locked by opening it, this is how the second one notices.
        io::ErrorKind::ResourceBusy => in_use(base, id),
        _ => StoreError::disk("open", &base.layout.log(id))(error),
    }
}

fn in_use(base: &Arc<Base>, id: &SessionId) -> StoreError {
    StoreError::InUse {
        id: id.clone(),
        holder: read_hint(base, id),
    }
}

fn read_hint(base: &Arc<Base>, id: &SessionId) -> Option<Holder> {
    let hint = base.sys.disk.open_read(&base.layout.hint(id)).ok()?;
    let mut text = vec![0; HINT];
    let len = hint.read_at(&mut text, 0).ok()?;
    serde_json::from_slice(&text[..len]).ok()
}
