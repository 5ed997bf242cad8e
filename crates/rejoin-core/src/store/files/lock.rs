//! The lock of a session's log, and a hint for other processes that names the lock holder.
//!
//! The lock is the operating system's, on the log itself; the system releases it when the process
//! ends. The hint is a small file that names process, host and client, and whether the process is
//! ending. It may be missing or stale; it only decides how long other processes wait.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::store::medium::{Holder, StoreError};
use crate::sys::processes::own_start;
use crate::sys::{DiskFile, SessionId, lock};

use super::context::StoreFolder;

/// How often a file may be replaced between opening and locking it.
const ATTEMPTS: u32 = 8;
/// The longest hint that is read, in bytes.
const HINT: usize = 4096;

/// The locked log of a session. Dropping it releases the lock.
#[derive(Debug)]
pub(super) struct Lock {
    pub(super) folder: Arc<StoreFolder>,
    pub(super) id: SessionId,
    /// The name that the file has, or is to have.
    pub(super) path: PathBuf,
    pub(super) file: Box<dyn DiskFile>,
    /// The file's name until it is published.
    pub(super) draft: Option<PathBuf>,
    /// Whether the file's name in its folder is synced.
    pub(super) name_synced: bool,
    hint: HintState,
}

/// Whether a lock's hint is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HintState {
    /// The log does not have the name of a session's log, so it needs no hint.
    None,
    /// The hint could not be written.
    Missing,
    /// The hint is there.
    Written,
}

impl Lock {
    /// Opens and locks the log of a session.
    pub(super) fn take(folder: &Arc<StoreFolder>, id: &SessionId) -> Result<Self, StoreError> {
        let path = folder.layout.log(id);
        for _ in 0..ATTEMPTS {
            let file = match folder.sys.disk.open_append(&path) {
                Ok(file) => file,
                Err(error) => return Err(cannot_open(folder, id, error)),
            };
            let mut lock = Self::of_file(folder, id, file)?;
            lock.write_hint();
            // The log may have been moved to the trash before it was locked.
            if lock.has_name()? {
                return Ok(lock);
            }
        }
        Err(in_use(folder, id))
    }

    /// Locks a file that is already open.
    pub(super) fn of_file(
        folder: &Arc<StoreFolder>,
        id: &SessionId,
        file: Box<dyn DiskFile>,
    ) -> Result<Self, StoreError> {
        let path = folder.layout.log(id);
        let locked = file.try_lock();
        if !locked.map_err(StoreError::disk("lock", &path))? {
            return Err(in_use(folder, id));
        }
        Ok(Self {
            folder: folder.clone(),
            id: id.clone(),
            path,
            file,
            draft: None,
            name_synced: false,
            hint: HintState::None,
        })
    }

    /// Whether the file still has its name: another program may have replaced or removed it.
    pub(super) fn has_name(&self) -> Result<bool, StoreError> {
        let current = self.file.is_at(&self.path);
        current.map_err(StoreError::disk("inspect", &self.path))
    }

    /// Writes the hint if that failed before, as on a disk that was full.
    pub(super) fn ensure_hint(&mut self) {
        if self.hint == HintState::Missing {
            self.write_hint();
        }
    }

    /// Best effort: without the hint, other processes do not know the lock holder.
    pub(super) fn write_hint(&mut self) {
        self.hint = HintState::Missing;
        let mut locked = lock(&self.folder.locked);
        locked.ids.insert(self.id.clone());
        let holder = Holder {
            ending: locked.ending,
            socket: self.folder.socket.get().cloned(),
            started: own_start(),
            ..Holder::this_process(self.folder.client.get().map(String::as_str))
        };
        let path = self.folder.layout.hint(&self.id);
        let Some(text) = holder.hint() else {
            return;
        };
        // A killed process may have left one.
        self.remove_hint();
        let hint = self.folder.sys.disk.create_new(&path);
        let written = hint.and_then(|mut hint| hint.append_all(text.as_bytes()));
        match written {
            Ok(()) => self.hint = HintState::Written,
            Err(error) => {
                tracing::debug!(path = %path.display(), %error, "cannot write the lock holder's hint");
            }
        }
    }

    fn remove_hint(&self) {
        let path = self.folder.layout.hint(&self.id);
        if let Err(error) = self.folder.sys.disk.remove_if_exists(&path) {
            tracing::debug!(path = %path.display(), %error, "cannot remove the lock holder's hint");
        }
    }
}

impl Drop for Lock {
    /// Removes the hint before the lock is released, since afterwards it may be the next holder's.
    fn drop(&mut self) {
        if self.hint != HintState::None {
            lock(&self.folder.locked).ids.remove(&self.id);
            self.remove_hint();
        }
        if let Err(error) = self.file.unlock() {
            tracing::debug!(session = %self.id, %error, "cannot release a lock; closing its file releases it");
        }
        if let Some(draft) = &self.draft {
            self.folder.discard(draft);
        }
    }
}

fn cannot_open(folder: &Arc<StoreFolder>, id: &SessionId, error: io::Error) -> StoreError {
    match error.kind() {
        io::ErrorKind::NotFound => folder.absent(id),
        // Where opening locks, the file is locked by another process.
        io::ErrorKind::ResourceBusy => in_use(folder, id),
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
            StoreError::ReadOnly {
                id: id.clone(),
                operation: "open",
                path: folder.layout.log(id),
                cause: error,
            }
        }
        _ => StoreError::disk("open", &folder.layout.log(id))(error),
    }
}

fn in_use(folder: &Arc<StoreFolder>, id: &SessionId) -> StoreError {
    StoreError::InUse {
        id: id.clone(),
        holder: folder.read_hint(id),
    }
}

impl StoreFolder {
    fn read_hint(&self, id: &SessionId) -> Option<Holder> {
        let hint = self.sys.disk.open_read(&self.layout.hint(id)).ok()?;
        let mut text = vec![0; HINT];
        let len = hint.read_at(&mut text, 0).ok()?;
        Holder::read(&text[..len])
    }

    /// Lets other processes know that this one is about to release its sessions, so that they wait.
    pub(super) fn ending(&self) {
        let ids = {
            let mut locked = lock(&self.locked);
            if std::mem::replace(&mut locked.ending, true) {
                return;
            }
            locked.ids.clone()
        };
        for id in ids {
            // If it was released in the meantime, the hint is the next holder's.
            let locked = lock(&self.locked);
            if !locked.ids.contains(&id) {
                continue;
            }
            let path = self.layout.hint(&id);
            let hint = self.sys.disk.open_append(&path);
            if let Err(error) = hint.and_then(|mut hint| hint.append_all(Holder::ending())) {
                tracing::debug!(path = %path.display(), %error, "cannot mark the hint of an ending process");
            }
        }
    }

    /// Whether a process has this session open for writing.
    pub(super) fn is_open(&self, id: &SessionId) -> bool {
        let here = || lock(&self.locked).ids.contains(id);
        // A process that was killed leaves its hint behind.
        here() || self.read_hint(id).is_some() && self.is_locked(&self.layout.log(id))
    }

    /// The process that has this session open for writing, if it is known.
    pub(super) fn holder(&self, id: &SessionId) -> Option<Holder> {
        let holder = self.read_hint(id)?;
        self.is_open(id).then_some(holder)
    }

    /// Whether another process that has a session open is about to release it.
    pub(super) fn is_being_released(&self, id: &SessionId) -> bool {
        // A process that was killed leaves its hint behind.
        self.read_hint(id).is_some_and(|holder| holder.ending)
            && self.is_locked(&self.layout.log(id))
    }

    /// Whether a process has a file of the store open for writing.
    pub(super) fn is_locked(&self, path: &Path) -> bool {
        match self.sys.disk.open_append(path) {
            Ok(file) => match file.try_lock() {
                Ok(true) => {
                    file.unlock().ok();
                    false
                }
                locked => locked.is_ok(),
            },
            Err(error) => error.kind() == io::ErrorKind::ResourceBusy,
        }
    }
}
