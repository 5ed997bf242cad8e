//! A log in a file: as its lock holder writes it, and as others read it.

use std::io;
use std::path::{Path, PathBuf};

use crate::store::medium::{Durability, Image, StoreError, WritableLog};
use crate::sys::disk::copy;
use crate::sys::{DiskFile, Timestamp};

use super::lock::Lock;

/// A file that is only read.
#[derive(Debug)]
pub(super) struct LogFile {
    pub(super) file: Box<dyn DiskFile>,
    pub(super) path: PathBuf,
}

impl Image for LogFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

impl Image for Lock {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

impl WritableLog for Lock {
    fn append(&mut self, _end: u64, block: &[u8], _safe: bool) -> Result<(), StoreError> {
        let written = self.file.append_all(block);
        written.map_err(StoreError::disk("append to", &self.path))?;
        self.ensure_hint();
        Ok(())
    }

    /// The head is synced in every durability mode.
    fn append_with_head(
        &mut self,
        head: &[u8],
        end: u64,
        block: &[u8],
        safe: bool,
    ) -> Result<(), StoreError> {
        let changed = self.file.overwrite(head).and_then(|()| self.file.sync());
        changed.map_err(StoreError::disk("change the header of", &self.path))?;
        self.append(end, block, safe)
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        let synced = self.file.sync();
        synced.map_err(StoreError::disk("sync", &self.path))?;
        if !self.name_synced {
            self.folder.sync_dir(&self.folder.layout.sessions)?;
            self.name_synced = true;
        }
        Ok(())
    }

    fn cut(&mut self, end: u64) -> Result<(), StoreError> {
        let truncated = self.file.set_len(end);
        truncated.map_err(StoreError::disk("truncate", &self.path))
    }

    /// The copy is synced in every durability mode.
    fn keep_aside(&self, offset: u64) -> Result<PathBuf, StoreError> {
        let folder = &self.folder;
        let disk = &folder.sys.disk;
        let (path, mut kept) = folder.create_in_trash(&self.id, offset)?;
        let copied = copy(&*self.file, offset, &mut *kept).and_then(|()| kept.sync());
        drop(kept);
        if let Err(error) = copied {
            if let Err(error) = disk.remove_file(&path) {
                tracing::debug!(path = %path.display(), %error, "cannot remove an incomplete copy");
            }
            return Err(StoreError::disk("copy a torn end to", &path)(error));
        }
        let trash = &folder.layout.trash;
        disk.sync_dir(trash)
            .map_err(StoreError::disk("sync", trash))?;
        Ok(path)
    }

    /// Renames the file to its final name, once its content is safe.
    fn publish(&mut self) -> Result<(), StoreError> {
        let folder = &self.folder;
        let Some(from) = &self.draft else {
            return Ok(());
        };
        let synced = folder.durability != Durability::Os;
        if synced {
            let safe = self.file.sync();
            safe.map_err(StoreError::disk("sync", from))?;
        }
        let named = folder.sys.disk.rename(from, &self.path);
        named.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => StoreError::Exists {
                id: self.id.clone(),
            },
            _ => StoreError::disk("create", &self.path)(error),
        })?;
        if synced {
            if let Err(error) = folder.sync_dir(&folder.layout.sessions) {
                folder.discard(&self.path);
                return Err(error);
            }
            self.name_synced = true;
        }
        self.draft = None;
        self.write_hint();
        Ok(())
    }

    fn publish_in_trash(&mut self, at: Timestamp) -> Result<(), StoreError> {
        let folder = &self.folder;
        let Some(from) = &self.draft else {
            return Ok(());
        };
        let safe = self.file.sync();
        safe.map_err(StoreError::disk("sync", from))?;
        let to = folder.layout.trashed(&self.id, at);
        let named = folder.sys.disk.rename(from, &to);
        named.map_err(StoreError::disk("create", &to))?;
        self.draft = None;
        folder.sync_dir(&folder.layout.trash)
    }

    fn is_current(&self) -> Result<bool, StoreError> {
        self.has_name()
    }

    fn bury(&self) -> Result<bool, StoreError> {
        let (folder, log) = (&self.folder, &self.path);
        // If the file was replaced by hand, the new one is not the one to delete.
        if !self.has_name()? {
            return Ok(false);
        }
        let mut at = folder.sys.clock.now();
        loop {
            let trashed = folder.layout.trashed(&self.id, at);
            match folder.sys.disk.rename(log, &trashed) {
                Ok(()) => break,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    at = Timestamp::from_millis(at.as_millis() + 1);
                }
                Err(error) => return Err(StoreError::disk("move to the trash", log)(error)),
            }
        }
        // The new name first: with only the old one synced, a power failure could lose both.
        folder.sync_dir(&folder.layout.trash)?;
        folder.sync_dir(&folder.layout.sessions)?;
        Ok(true)
    }
}
