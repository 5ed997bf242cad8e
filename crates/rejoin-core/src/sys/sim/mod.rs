//! A disk in memory with injected faults and power failures: a test double, and a place for logs that
//! are only read.
//!
//! Like a real disk, it has two states: what programs see, and what would survive a power failure.
//! Bytes move from the first state to the second when their file is synced, names when their
//! directory is. Every call of [`Disk`] and [`DiskFile`] counts as one operation, in order, so a
//! test can count the operations of a scenario and then let each one fail in turn.

pub mod fault;
mod state;
#[cfg(test)]
mod tests;
pub mod time;
mod watchers;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::sys::{Sockets, lock};

use super::disk::{Changed, Disk, DiskFile, FileInfo, Watch};
use super::file_system::Special;
use super::ids::RandomIds;
use super::{Sys, Timestamp};
pub use fault::{Fault, Tail};
use state::DiskState;
pub use time::SimClock;
use watchers::Watchers;

/// A disk in memory. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct SimDisk {
    state: Arc<Mutex<DiskState>>,
    watchers: Watchers,
}

#[derive(Debug)]
struct SimFile {
    disk: SimDisk,
    file: usize,
    handle: u64,
    writable: bool,
}

impl SimDisk {
    /// An empty disk.
    pub fn new() -> Self {
        Self::default()
    }

    /// A machine with this disk, a [`SimClock`] and random ids.
    pub fn sys(&self) -> Sys {
        Sys {
            clock: Arc::new(SimClock::default()),
            ids: Arc::new(RandomIds),
            disk: Arc::new(self.clone()),
            sockets: Sockets::None,
        }
    }

    /// From now on, everything is on a file system of this kind.
    pub fn is_on(&self, special: Special) {
        self.state().special = Some(special);
    }

    /// The number of operations so far.
    pub fn operations(&self) -> u64 {
        self.state().operations
    }

    /// Injects a fault at operation `n`, counted from 0 at the creation of the disk.
    pub fn fail_at(&self, n: u64, fault: Fault) {
        self.state().faults.insert(n, fault);
    }

    /// Removes all injected faults.
    pub fn heal(&self) {
        self.state().faults.clear();
    }

    /// Makes the disk read-only, as systems do after a disk error, or writable again.
    pub fn set_read_only(&self, read_only: bool) {
        self.state().read_only = read_only;
    }

    /// Fills the disk, so that no file grows, or makes space on it.
    pub fn set_full(&self, full: bool) {
        self.state().full = full;
    }

    /// Hides all names, as when a disk is unmounted, or restores them. Open files stay open.
    pub fn hide(&self, hidden: bool) {
        self.state().hide(hidden);
    }

    /// The disk as the death of the process leaves it: all writes are kept, all locks and faults
    /// are gone. The old disk is unchanged.
    #[must_use]
    pub fn crash(&self) -> Self {
        Self::from_state(self.state().crash())
    }

    /// The disk as a power failure leaves it: synced data, and `tail` of the rest.
    #[must_use]
    pub fn power_cut(&self, tail: Tail) -> Self {
        Self::from_state(self.state().power_cut(tail))
    }

    /// The content of a file. Does not count as an operation.
    pub fn bytes(&self, path: &Path) -> Option<Vec<u8>> {
        let state = self.state();
        let file = *state.names.get(path)?;
        Some(state.files[file].data.clone())
    }

    /// Creates or replaces a file, with its parent directories, as if it had always existed:
    /// synced. Does not count as an operation.
    pub fn put(&self, path: &Path, bytes: &[u8]) {
        self.state().put(path, bytes);
    }

    /// The paths of all files, sorted. Does not count as an operation.
    pub fn files(&self) -> Vec<PathBuf> {
        self.state().names.keys().cloned().collect()
    }

    fn from_state(state: DiskState) -> Self {
        Self {
            state: Arc::new(Mutex::new(state)),
            watchers: Watchers::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, DiskState> {
        lock(&self.state)
    }

    fn file(&self, state: &mut DiskState, file: usize, writable: bool) -> Box<dyn DiskFile> {
        state.handles += 1;
        Box::new(SimFile {
            disk: self.clone(),
            file,
            handle: state.handles,
            writable,
        })
    }

    fn open(&self, path: &Path, writable: bool) -> io::Result<Box<dyn DiskFile>> {
        let mut state = self.state();
        if writable {
            state.begin_write()?;
        } else {
            state.begin()?;
        }
        let file = state.find(path)?;
        Ok(self.file(&mut state, file, writable))
    }
}

impl Disk for SimDisk {
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.begin_write()?;
        state.make_dirs(path)
    }

    fn create_new(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let mut state = self.state();
        state.begin_write()?;
        let file = state.create(path)?;
        let file = self.file(&mut state, file, true);
        drop(state);
        self.watchers.report([path]);
        Ok(file)
    }

    fn open_append(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.open(path, true)
    }

    fn open_read(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.open(path, false)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.begin_write()?;
        let file = state.find(from)?;
        state.name(to, file)?;
        state.names.remove(from);
        drop(state);
        self.watchers.report([from, to]);
        Ok(())
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.begin_write()?;
        state.find(path)?;
        state.names.remove(path);
        drop(state);
        self.watchers.report([path]);
        Ok(())
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        if let Some(Fault::Sync(kind)) = state.begin()? {
            return Err(kind.into());
        }
        state.sync_dir(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        let mut state = self.state();
        state.begin()?;
        state.list(path)
    }

    fn info(&self, path: &Path) -> io::Result<FileInfo> {
        let mut state = self.state();
        state.begin()?;
        if state.dirs.contains(path) {
            return Ok(FileInfo {
                len: 0,
                modified: Timestamp::from_millis(0),
                is_dir: true,
            });
        }
        let file = state.find(path)?;
        let file = &state.files[file];
        Ok(FileInfo {
            len: file.data.len() as u64,
            modified: Timestamp::from_millis(i64::try_from(file.modified).unwrap_or(i64::MAX)),
            is_dir: false,
        })
    }

    fn watch(&self, path: &Path, changed: Changed) -> io::Result<Watch> {
        if !self.state().dirs.contains(path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(self.watchers.add(path, changed))
    }

    fn special(&self, _path: &Path) -> Option<Special> {
        self.state().special
    }

    fn native_path(&self, _path: &Path) -> Option<PathBuf> {
        None
    }
}

impl SimFile {
    /// Notifies of a change.
    fn changed(&self) {
        if self.disk.watchers.is_empty() {
            return;
        }
        let state = self.disk.state();
        let of_file = state.names.iter().filter(|(_, file)| **file == self.file);
        let paths: Vec<_> = of_file.map(|(path, _)| path.clone()).collect();
        drop(state);
        self.disk
            .watchers
            .report(paths.iter().map(PathBuf::as_path));
    }
}

impl DiskFile for SimFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.disk.state();
        let fault = state.begin_write()?;
        if !self.writable {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        if state.full {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let taken = match fault {
            Some(Fault::ShortWrite) => bytes.len().div_ceil(2),
            Some(Fault::TornWrite(_)) => bytes.len() / 2,
            _ => bytes.len(),
        };
        state.append(self.file, &bytes[..taken]);
        drop(state);
        self.changed();
        match fault {
            Some(Fault::TornWrite(kind)) => Err(kind.into()),
            _ => Ok(taken),
        }
    }

    fn overwrite(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.disk.state();
        let fault = state.begin_write()?;
        if !self.writable {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let taken = match fault {
            Some(Fault::ShortWrite | Fault::TornWrite(_)) => bytes.len() / 2,
            _ => bytes.len(),
        };
        state.overwrite(self.file, &bytes[..taken]);
        drop(state);
        self.changed();
        match fault {
            Some(Fault::TornWrite(kind)) => Err(kind.into()),
            Some(Fault::ShortWrite) => Err(io::ErrorKind::WriteZero.into()),
            _ => Ok(()),
        }
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut state = self.disk.state();
        state.begin()?;
        let data = &state.files[self.file].data;
        let start = usize::try_from(offset).map_or(data.len(), |offset| offset.min(data.len()));
        let taken = buffer.len().min(data.len() - start);
        buffer[..taken].copy_from_slice(&data[start..start + taken]);
        Ok(taken)
    }

    fn len(&self) -> io::Result<u64> {
        let mut state = self.disk.state();
        state.begin()?;
        Ok(state.files[self.file].data.len() as u64)
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        let mut state = self.disk.state();
        state.begin_write()?;
        if !self.writable {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let len = usize::try_from(len).map_err(|_| io::ErrorKind::FileTooLarge)?;
        state.set_len(self.file, len);
        drop(state);
        self.changed();
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut state = self.disk.state();
        if let Some(Fault::Sync(kind)) = state.begin()? {
            state.lose(self.file);
            return Err(kind.into());
        }
        state.sync(self.file);
        Ok(())
    }

    fn try_lock(&self) -> io::Result<bool> {
        let mut state = self.disk.state();
        state.begin()?;
        let holder = &mut state.files[self.file].locked_by;
        Ok(*holder.get_or_insert(self.handle) == self.handle)
    }

    fn unlock(&self) -> io::Result<()> {
        let mut state = self.disk.state();
        let holder = &mut state.files[self.file].locked_by;
        if *holder == Some(self.handle) {
            *holder = None;
        }
        Ok(())
    }

    fn is_at(&self, path: &Path) -> io::Result<bool> {
        let mut state = self.disk.state();
        state.begin()?;
        Ok(state.names.get(path) == Some(&self.file))
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        self.unlock().ok();
    }
}
