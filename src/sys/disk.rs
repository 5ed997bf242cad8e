//! The file operations the store needs, so that a simulated disk can stand in for the real one.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::Timestamp;

/// What is known of a file without opening it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileInfo {
    /// Length in bytes.
    pub len: u64,
    /// When its content last changed.
    pub modified: Timestamp,
    /// Whether it is a directory.
    pub is_dir: bool,
}

/// A disk with folders and files. Every call is one operation that can fail on its own.
pub trait Disk: Send + Sync + fmt::Debug {
    /// Makes a folder and those above it, open to its owner only (0700). An existing one is fine.
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;

    /// Makes a file that must not exist, open to its owner only (0600), for reading and appending.
    fn create_new(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;

    /// Opens an existing file for reading and appending. Where opening locks, fails with
    /// [`ResourceBusy`](io::ErrorKind::ResourceBusy) if somebody else has it.
    fn open_append(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;

    /// Opens an existing file for reading only. Writing to it fails.
    fn open_read(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;

    /// Moves a file; the target must not exist.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    fn remove_file(&self, path: &Path) -> io::Result<()>;

    /// Makes new, moved and removed names of a folder survive a power cut.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;

    /// The names in a folder, in no order.
    fn list(&self, path: &Path) -> io::Result<Vec<String>>;

    /// Length and times of a file or folder.
    fn info(&self, path: &Path) -> io::Result<FileInfo>;

    /// Where the file really lies, for programs that open it by themselves (SQLite). A simulated
    /// disk has no such place.
    fn native_path(&self, path: &Path) -> Option<PathBuf>;
}

/// An open file. Reading takes an offset; writing goes to the end.
pub trait DiskFile: Send + Sync + fmt::Debug {
    /// Writes at the end. Returns how many bytes were written, which may be fewer than given.
    fn append(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// Reads from `offset` into `buffer`; 0 at the end of the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Length in bytes.
    fn len(&self) -> io::Result<u64>;

    /// Whether the file has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Cuts the file to `len` bytes.
    fn set_len(&mut self, len: u64) -> io::Result<()>;

    /// Makes what was written survive a power cut.
    fn sync(&mut self) -> io::Result<()>;

    /// Takes the exclusive lock of the file for as long as it is open, without waiting; false if
    /// somebody else has it. The system releases it when the process dies.
    fn try_lock(&self) -> io::Result<bool>;

    /// Releases that lock now. Being closed does not suffice: a process that is just being started
    /// has a copy of every open file until it becomes another program.
    fn unlock(&self) -> io::Result<()>;

    /// Whether this file is the one that `path` names now; false if nothing is there. What was
    /// opened may have been moved since, and another file put in its place.
    fn is_at(&self, path: &Path) -> io::Result<bool>;
}
