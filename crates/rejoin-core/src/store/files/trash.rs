//! The trash as a folder of files.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::store::medium::{StoreError, Trashed};
use crate::sys::{SessionId, Timestamp};

use super::context::StoreFolder;
use super::layout::{InTrash, StoreLayout};
use super::lock::Lock;

impl StoreFolder {
    /// The sessions in the trash, by id and then by time.
    pub(super) fn trashed(&self) -> Result<Vec<Trashed>, StoreError> {
        let names = self.names_in_trash()?;
        let found = names
            .iter()
            .filter_map(|name| match StoreLayout::in_trash(name) {
                Some(InTrash::Session(id, at)) => Some(Trashed { id, at }),
                _ => None,
            });
        let mut found: Vec<_> = found.collect();
        found.sort();
        Ok(found)
    }

    /// Locks a log in the trash; none if it cannot be written to.
    pub(super) fn claim_trashed(
        self: &Arc<Self>,
        trashed: &Trashed,
    ) -> Result<Option<Lock>, StoreError> {
        let id = &trashed.id;
        // A session that is there keeps its log.
        if self.sys.disk.info(&self.layout.log(id)).is_ok() {
            return Err(StoreError::Exists { id: id.clone() });
        }
        let from = self.layout.trashed(id, trashed.at);
        match self.sys.disk.open_append(&from) {
            Ok(file) => Lock::of_file(self, id, file).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(StoreError::NotFound { id: id.clone() })
            }
            Err(_) => Ok(None),
        }
    }

    /// Gives a log in the trash its name.
    pub(super) fn restore(&self, trashed: &Trashed) -> Result<(), StoreError> {
        let Trashed { id, at } = trashed;
        let from = self.layout.trashed(id, *at);
        let moved = self.sys.disk.rename(&from, &self.layout.log(id));
        moved.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => StoreError::Exists { id: id.clone() },
            io::ErrorKind::NotFound => StoreError::NotFound { id: id.clone() },
            _ => StoreError::disk("restore", &from)(error),
        })?;
        self.sync_dir(&self.layout.sessions)?;
        self.sync_dir(&self.layout.trash)
    }

    /// Removes the files of ours that came into the trash before a time, deleted sessions and torn
    /// ends, unless another process is using them.
    pub(super) fn empty_trash(&self, before: Timestamp) -> Result<u64, StoreError> {
        let mut removed = 0;
        for path in self.trash_before(before)? {
            // A process that creates a session has the session's log open here.
            if !self.is_locked(&path) && self.remove(&path)? {
                removed += 1;
            }
        }
        Ok(removed)
    }

    /// Whether any file belongs to this session.
    pub(super) fn has_traces_of(&self, id: &SessionId) -> Result<bool, StoreError> {
        let layout = &self.layout;
        // The hint of a process that had the session open names it, too.
        for path in [layout.log(id), layout.hint(id)] {
            let found = self.sys.disk.info_if_exists(&path);
            let found = found.map_err(StoreError::disk("look at", &path))?;
            if found.is_some_and(|info| !info.is_dir) {
                return Ok(true);
            }
        }
        Ok(!self.in_trash(id)?.is_empty())
    }

    /// Removes all files of a session; false if there are none.
    ///
    /// The log is removed last: after a crash the session still exists and can be removed again, and
    /// no process can restore a copy as long as the log exists.
    pub(super) fn erase(
        self: &Arc<Self>,
        id: &SessionId,
        wanted: &mut dyn FnMut() -> bool,
    ) -> Result<bool, StoreError> {
        let layout = &self.layout;
        let lock = match Lock::take(self, id) {
            Ok(lock) => Some(lock),
            Err(StoreError::NotFound { .. }) => None,
            Err(error) => return Err(error),
        };
        if !wanted() {
            return Ok(false);
        }
        let mut removed = false;
        for path in self.in_trash(id)? {
            removed |= self.remove(&path)?;
        }
        self.sync_dir(&layout.trash)?;
        if lock.is_some() {
            removed |= self.remove(&layout.log(id))?;
            self.sync_dir(&layout.sessions)?;
        } else {
            // If we hold the lock, the hint is ours and goes with it.
            removed |= self.remove(&layout.hint(id))?;
        }
        Ok(removed)
    }

    /// The files of ours that came into the trash before `before`.
    pub(super) fn trash_before(&self, before: Timestamp) -> Result<Vec<PathBuf>, StoreError> {
        self.paths_in_trash(|found| match found {
            InTrash::Session(_, at) | InTrash::Torn(_, at) => at < before,
        })
    }

    /// The files of a session in the trash.
    fn in_trash(&self, id: &SessionId) -> Result<Vec<PathBuf>, StoreError> {
        self.paths_in_trash(|found| match found {
            InTrash::Session(of, _) | InTrash::Torn(of, _) => of == *id,
        })
    }

    fn paths_in_trash(&self, wanted: impl Fn(InTrash) -> bool) -> Result<Vec<PathBuf>, StoreError> {
        let names = self.names_in_trash()?;
        let wanted = |name: &&String| StoreLayout::in_trash(name).is_some_and(&wanted);
        let names = names.iter().filter(wanted);
        Ok(names.map(|name| self.layout.trash.join(name)).collect())
    }

    fn names_in_trash(&self) -> Result<Vec<String>, StoreError> {
        let trash = &self.layout.trash;
        match self.sys.disk.list(trash) {
            // A copy of a store may lack it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            names => names.map_err(StoreError::disk("list", trash)),
        }
    }

    /// Removes a file; false if it no longer exists.
    fn remove(&self, path: &Path) -> Result<bool, StoreError> {
        let removed = self.sys.disk.remove_if_exists(path);
        removed.map_err(StoreError::disk("remove", path))
    }
}
