//! The context that all parts of a store of files share: system, folders, durability, and the locks
//! held.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};

use crate::store::medium::{Durability, StoreError};
use crate::sys::{DiskFile, SessionId, Sys};

use super::layout::StoreLayout;

/// How many names are tried for a file in the trash.
const NAMES: u32 = 1000;

/// The shared state of one store.
#[derive(Debug)]
pub(super) struct StoreFolder {
    pub(super) layout: StoreLayout,
    pub(super) sys: Sys,
    pub(super) durability: Durability,
    /// The name of the connected client, once it is known.
    pub(super) client: OnceLock<String>,
    /// The name of this process's socket, if it will make one.
    pub(super) socket: OnceLock<String>,
    /// The sessions that this process has locked.
    pub(super) locked: Mutex<Locked>,
}

/// The sessions that this process has locked.
#[derive(Debug, Default)]
pub(super) struct Locked {
    pub(super) ids: BTreeSet<SessionId>,
    /// Whether the process is about to release them all.
    pub(super) ending: bool,
}

impl StoreFolder {
    pub(super) fn new(layout: StoreLayout, sys: Sys, durability: Durability) -> Self {
        Self {
            layout,
            sys,
            durability,
            client: OnceLock::new(),
            socket: OnceLock::new(),
            locked: Mutex::default(),
        }
    }

    /// Makes the names in a folder survive a power failure, unless the durability is
    /// [`Durability::Os`].
    pub(super) fn sync_dir(&self, dir: &Path) -> Result<(), StoreError> {
        if self.durability == Durability::Os {
            return Ok(());
        }
        let synced = self.sys.disk.sync_dir(dir);
        synced.map_err(StoreError::disk("sync", dir))
    }

    /// The error for a session that has no file. It is `NotFound` only if the folder exists: if its
    /// disk is not mounted, the session may still exist.
    pub(super) fn absent(&self, id: &SessionId) -> StoreError {
        let sessions = &self.layout.sessions;
        match self.sys.disk.info(sessions) {
            Ok(info) if info.is_dir => StoreError::NotFound { id: id.clone() },
            Ok(_) => StoreError::disk("read", sessions)(io::ErrorKind::NotADirectory.into()),
            Err(error) => StoreError::disk("read", sessions)(error),
        }
    }

    /// Creates the file of a torn end, or of a log that has no content yet.
    pub(super) fn create_in_trash(
        &self,
        id: &SessionId,
        offset: u64,
    ) -> Result<(PathBuf, Box<dyn DiskFile>), StoreError> {
        let at = self.sys.clock.now();
        let mut n = 1;
        loop {
            let path = self.layout.torn(id, offset, at, n);
            match self.sys.disk.create_new(&path) {
                Ok(file) => return Ok((path, file)),
                // Another one of the same millisecond, perhaps of another process, has this name.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && n < NAMES => n += 1,
                Err(error) => return Err(StoreError::disk("create", &path)(error)),
            }
        }
    }

    /// Removes a file that was never announced, if it exists.
    pub(super) fn discard(&self, path: &Path) {
        if let Err(error) = self.sys.disk.remove_if_exists(path) {
            tracing::warn!(path = %path.display(), %error, "cannot remove a partially created session");
        }
    }
}
