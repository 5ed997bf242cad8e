//! The lock of a session's file, and a hint for others who holds it.
//!
//! The lock is the operating system's, on the log itself, and ends with the process. The hint is
//! a small file that names process, host and client, and says if the process is ending. It may be
//! missing or stale and decides nothing, but for how long others wait.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::sys::{DiskFile, SessionId, lock};

use super::base::StoreContext;
use super::error::StoreError;
use super::holder::Holder;

/// How often a file may be replaced between being opened and being locked before we give up.
const ATTEMPTS: u32 = 8;
/// The longest hint that is read, in bytes.
const HINT: usize = 4096;

/// A session's file, locked for as long as this lives.
#[derive(Debug)]
pub(super) struct Lock {
    base: Arc<StoreContext>,
    id: SessionId,
    pub(super) path: PathBuf,
    pub(super) file: Box<dyn DiskFile>,
}

impl Lock {
    /// Opens and locks the file of a session.
    pub(super) fn take(base: &Arc<StoreContext>, id: &SessionId) -> Result<Self, StoreError> {
        let path = base.layout.log(id);
        for _ in 0..ATTEMPTS {
            let file = match base.sys.disk.open_append(&path) {
                Ok(file) => file,
                Err(error) => return Err(cannot_open(base, id, error)),
            };
            let lock = Self::of_file(base, id, file)?;
            // What was opened may have gone to the trash before it was locked.
            if lock.is_current()? {
                return Ok(lock);
            }
        }
        Err(in_use(base, id))
    }

    /// Locks a file that is open already.
    pub(super) fn of_file(
        base: &Arc<StoreContext>,
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

    /// Whether the file still has its name: another program may have replaced or removed it.
    pub(super) fn is_current(&self) -> Result<bool, StoreError> {
        let current = self.file.is_at(&self.path);
        current.map_err(StoreError::disk("look at", &self.path))
    }

    /// Best effort: without it, others cannot tell who has the lock.
    fn leave_hint(&self) {
        let mut locked = lock(&self.base.locked);
        locked.ids.insert(self.id.clone());
        let holder = Holder {
            ending: locked.ending,
            ..Holder::this_process(self.base.client.get().map(String::as_str))
        };
        let path = self.base.layout.hint(&self.id);
        let Some(text) = holder.hint() else {
            return;
        };
        // One that a killed process left is in the way.
        self.remove_hint();
        if let Ok(mut hint) = self.base.sys.disk.create_new(&path)
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
        lock(&self.base.locked).ids.remove(&self.id);
        self.remove_hint();
        if let Err(error) = self.file.unlock() {
            tracing::debug!(session = %self.id, %error, "a lock ends when its file is closed");
        }
    }
}

fn cannot_open(base: &Arc<StoreContext>, id: &SessionId, error: io::Error) -> StoreError {
    match error.kind() {
        io::ErrorKind::NotFound => base.absent(id),
        // Where a file is locked by opening it, this is how the second one notices.
        io::ErrorKind::ResourceBusy => in_use(base, id),
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
            StoreError::ReadOnly {
                id: id.clone(),
                path: base.layout.log(id),
                cause: error,
            }
        }
        _ => StoreError::disk("open", &base.layout.log(id))(error),
    }
}

fn in_use(base: &Arc<StoreContext>, id: &SessionId) -> StoreError {
    StoreError::InUse {
        id: id.clone(),
        holder: read_hint(base, id),
    }
}

fn read_hint(base: &Arc<StoreContext>, id: &SessionId) -> Option<Holder> {
    let hint = base.sys.disk.open_read(&base.layout.hint(id)).ok()?;
    let mut text = vec![0; HINT];
    let len = hint.read_at(&mut text, 0).ok()?;
    Holder::read(&text[..len])
}

/// Says in the hints of all sessions that are locked here that this process is ending.
pub(super) fn ending(base: &StoreContext) {
    let ids = {
        let mut locked = lock(&base.locked);
        if std::mem::replace(&mut locked.ending, true) {
            return;
        }
        locked.ids.clone()
    };
    for id in ids {
        // Not released meanwhile: the hint of the next holder is not ours to write to.
        let locked = lock(&base.locked);
        if !locked.ids.contains(&id) {
            continue;
        }
        let path = base.layout.hint(&id);
        let hint = base.sys.disk.open_append(&path);
        if let Err(error) = hint.and_then(|mut hint| hint.append(Holder::ending())) {
            tracing::debug!(path = %path.display(), %error, "cannot say that the process ends");
        }
    }
}

/// Whether a session is locked by a process that says that it is ending.
pub(super) fn is_being_released(base: &Arc<StoreContext>, id: &SessionId) -> bool {
    if !read_hint(base, id).is_some_and(|holder| holder.ending) {
        return false;
    }
    // The process may have been killed before it could remove its hint.
    match base.sys.disk.open_append(&base.layout.log(id)) {
        Ok(file) => match file.try_lock() {
            Ok(true) => {
                file.unlock().ok();
                false
            }
            Ok(false) => true,
            Err(_) => false,
        },
        Err(error) => error.kind() == io::ErrorKind::ResourceBusy,
    }
}
