//! The file operations of the store, as a trait so that tests can use a simulated disk.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::Timestamp;
use super::file_system::Special;

/// The metadata of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileInfo {
    /// Length in bytes.
    pub len: u64,
    /// When its content last changed.
    pub modified: Timestamp,
    /// Whether it is a directory.
    pub is_dir: bool,
}

/// Called with the name of a file that has changed, or with none if changes may have been missed.
pub type Changed = Box<dyn Fn(Option<&str>) + Send>;

/// Watches a directory until it is dropped.
pub type Watch = Box<dyn Send + Sync>;

/// A disk with directories and files. Every call is one operation that can fail on its own.
pub trait Disk: Send + Sync + fmt::Debug {
    /// Creates a directory and its parents, accessible only to the owner (0700). It may exist.
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;

    /// Creates a file that must not exist, accessible only to the owner (0600), for reading and
    /// appending.
    fn create_new(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;

    /// Opens an existing file for reading and appending. On systems where opening locks, fails with
    /// [`ResourceBusy`](io::ErrorKind::ResourceBusy) if another process has the lock.
    fn open_append(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;

    /// Opens an existing file for reading only. Writing to it fails.
    fn open_read(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;

    /// Moves a file. Fails with [`AlreadyExists`](io::ErrorKind::AlreadyExists) if the target
    /// exists. If several files are moved to one name at the same time, exactly one move succeeds.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    fn remove_file(&self, path: &Path) -> io::Result<()>;

    /// Removes a file; false if it does not exist.
    fn remove_if_exists(&self, path: &Path) -> io::Result<bool> {
        match self.remove_file(path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Syncs a directory: created, moved and removed names survive a power failure.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;

    /// The names in a directory, in no particular order.
    fn list(&self, path: &Path) -> io::Result<Vec<String>>;

    /// The metadata of a file or directory.
    fn info(&self, path: &Path) -> io::Result<FileInfo>;

    /// The metadata of a file or directory; none if it does not exist.
    fn info_if_exists(&self, path: &Path) -> io::Result<Option<FileInfo>> {
        match self.info(path) {
            Ok(info) => Ok(Some(info)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Calls `changed` with the name of each file in a directory that is created, changed, moved or
    /// removed, until the result is dropped; with none if some changes may have been missed. The
    /// calls come from another thread.
    fn watch(&self, path: &Path, changed: Changed) -> io::Result<Watch> {
        drop(changed);
        tracing::trace!(path = %path.display(), "no changes are reported");
        Err(io::ErrorKind::Unsupported.into())
    }

    /// The special kind of the file system that a path is on, or will be.
    fn special(&self, path: &Path) -> Option<Special> {
        tracing::trace!(path = %path.display(), "nothing is known of its file system");
        None
    }

    /// The file's real path, for libraries that open files themselves (SQLite). A simulated disk
    /// has none.
    fn native_path(&self, path: &Path) -> Option<PathBuf>;
}

/// An open file. Reads take an offset; writes append.
pub trait DiskFile: Send + Sync + fmt::Debug {
    /// Appends. Returns how many bytes were written, which may be fewer than given.
    fn append(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// Appends all of `bytes`. If it fails, some of them may have been written.
    fn append_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.append(bytes)? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                written => bytes = bytes.get(written..).unwrap_or_default(),
            }
        }
        Ok(())
    }

    /// Puts `bytes` in the place of as many at the beginning of the file, with one write. If it fails, some of
    /// them may have been written.
    fn overwrite(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Reads from `offset` into `buffer`; 0 at the end of the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Length in bytes.
    fn len(&self) -> io::Result<u64>;

    /// Whether the file is empty.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Truncates the file to `len` bytes.
    fn set_len(&mut self, len: u64) -> io::Result<()>;

    /// Syncs the file: what was written survives a power failure.
    fn sync(&mut self) -> io::Result<()>;

    /// Acquires the file's exclusive lock without waiting. Returns false if another process has it.
    /// It is held until the file is closed. The system releases it when the process dies.
    fn try_lock(&self) -> io::Result<bool>;

    /// Releases the lock now. Closing the file does not suffice: between fork and exec, a child
    /// process has a copy of every open file.
    fn unlock(&self) -> io::Result<()>;

    /// Whether `path` currently refers to this file. False if nothing exists there. The file may
    /// have been moved since it was opened, and another one put in its place.
    fn is_at(&self, path: &Path) -> io::Result<bool>;
}

/// How much is copied at once, in bytes.
const BLOCK: usize = 256 * 1024;

/// Appends what `from` has after `offset` to another file.
pub fn copy(from: &dyn DiskFile, mut offset: u64, to: &mut dyn DiskFile) -> io::Result<()> {
    let mut block = vec![0; BLOCK];
    loop {
        let len = from.read_at(&mut block, offset)?;
        if len == 0 {
            return Ok(());
        }
        to.append_all(&block[..len])?;
        offset += len as u64;
    }
}
