//! The state of a simulated disk: what programs see and what survives a power failure.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::fault::{Fault, Tail};
use crate::sys::file_system::Special;

/// A file's content and lock. Its names are stored separately.
#[derive(Clone, Debug, Default)]
pub(super) struct File {
    pub(super) data: Vec<u8>,
    pub(super) locked_by: Option<u64>,
    /// The number of operations at its last change.
    pub(super) modified: u64,
    synced: Vec<u8>,
    /// The ranges that a failed sync has lost for good.
    lost: Vec<Range<usize>>,
}

/// The state of a disk.
#[derive(Clone, Debug, Default)]
pub(super) struct DiskState {
    pub(super) files: Vec<File>,
    pub(super) names: BTreeMap<PathBuf, usize>,
    pub(super) dirs: BTreeSet<PathBuf>,
    pub(super) operations: u64,
    /// The special kind of the file system, if it is one.
    pub(super) special: Option<Special>,
    pub(super) handles: u64,
    pub(super) faults: BTreeMap<u64, Fault>,
    pub(super) read_only: bool,
    /// Whether there is no space for a further byte.
    pub(super) full: bool,
    /// The names and directories before they were hidden.
    hidden: Option<(BTreeMap<PathBuf, usize>, BTreeSet<PathBuf>)>,
    synced_names: BTreeMap<PathBuf, usize>,
    synced_dirs: BTreeSet<PathBuf>,
}

impl DiskState {
    /// Counts an operation. Fails if an error is injected, and returns any other injected fault.
    pub(super) fn begin(&mut self) -> io::Result<Option<Fault>> {
        let fault = self.faults.remove(&self.operations);
        self.operations += 1;
        match fault {
            Some(Fault::Error(kind)) => Err(kind.into()),
            fault => Ok(fault),
        }
    }

    pub(super) fn hide(&mut self, hide: bool) {
        match self.hidden.take() {
            None if hide => {
                let names = std::mem::take(&mut self.names);
                self.hidden = Some((names, std::mem::take(&mut self.dirs)));
            }
            Some((names, dirs)) if !hide => (self.names, self.dirs) = (names, dirs),
            hidden => self.hidden = hidden,
        }
    }

    /// Counts an operation that writes. Fails if an error is injected or the disk is read-only, and
    /// returns any other injected fault.
    pub(super) fn begin_write(&mut self) -> io::Result<Option<Fault>> {
        let fault = self.begin()?;
        if self.read_only {
            return Err(io::ErrorKind::ReadOnlyFilesystem.into());
        }
        Ok(fault)
    }

    pub(super) fn find(&self, path: &Path) -> io::Result<usize> {
        if self.is_dir(path) {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let file = self.names.get(path).copied();
        file.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub(super) fn create(&mut self, path: &Path) -> io::Result<usize> {
        let file = self.files.len();
        self.name(path, file)?;
        self.files.push(File {
            modified: self.operations,
            ..File::default()
        });
        Ok(file)
    }

    /// Gives a file an unused name.
    pub(super) fn name(&mut self, path: &Path, file: usize) -> io::Result<()> {
        if self.names.contains_key(path) || self.is_dir(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if !path.parent().is_some_and(|parent| self.is_dir(parent)) {
            return Err(io::ErrorKind::NotFound.into());
        }
        self.names.insert(path.to_owned(), file);
        Ok(())
    }

    pub(super) fn make_dirs(&mut self, path: &Path) -> io::Result<()> {
        if path.ancestors().any(|path| self.names.contains_key(path)) {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        self.dirs.extend(path.ancestors().map(Path::to_owned));
        Ok(())
    }

    pub(super) fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        if !self.is_dir(path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let paths = self.names.keys().chain(&self.dirs);
        let names = paths
            .filter(|other| other.parent() == Some(path))
            .filter_map(|other| other.file_name()?.to_str());
        Ok(names.map(str::to_owned).collect())
    }

    pub(super) fn append(&mut self, file: usize, bytes: &[u8]) {
        let file = &mut self.files[file];
        file.data.extend_from_slice(bytes);
        file.modified = self.operations;
    }

    pub(super) fn overwrite(&mut self, file: usize, bytes: &[u8]) {
        let file = &mut self.files[file];
        file.data[..bytes.len()].copy_from_slice(bytes);
        file.modified = self.operations;
    }

    pub(super) fn set_len(&mut self, file: usize, len: usize) {
        let file = &mut self.files[file];
        file.data.resize(len, 0);
        file.lost.retain_mut(|lost| {
            lost.end = lost.end.min(len);
            lost.start < lost.end
        });
        file.modified = self.operations;
    }

    pub(super) fn sync(&mut self, file: usize) {
        let file = &mut self.files[file];
        file.synced.clone_from(&file.data);
        for lost in &file.lost {
            file.synced[lost.clone()].fill(0);
        }
    }

    /// A sync that fails: data since the last one will never be written.
    pub(super) fn lose(&mut self, file: usize) {
        let file = &mut self.files[file];
        let new = file.common()..file.data.len();
        file.lost.push(new);
    }

    pub(super) fn sync_dir(&mut self, path: &Path) -> io::Result<()> {
        if !self.is_dir(path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let inside = |other: &Path| other.parent() == Some(path);
        self.synced_names.retain(|other, _| !inside(other));
        let names = self.names.iter().filter(|(other, _)| inside(other));
        self.synced_names
            .extend(names.map(|(other, file)| (other.clone(), *file)));
        let dirs = self.dirs.iter().filter(|other| inside(other));
        self.synced_dirs.extend(dirs.cloned());
        Ok(())
    }

    pub(super) fn put(&mut self, path: &Path, bytes: &[u8]) {
        let file = File {
            data: bytes.to_owned(),
            synced: bytes.to_owned(),
            ..File::default()
        };
        self.names.insert(path.to_owned(), self.files.len());
        self.synced_names.insert(path.to_owned(), self.files.len());
        self.files.push(file);
        for dir in path.ancestors().skip(1) {
            self.dirs.insert(dir.to_owned());
            self.synced_dirs.insert(dir.to_owned());
        }
    }

    pub(super) fn crash(&self) -> Self {
        let mut after = self.clone();
        after.restart();
        after
    }

    pub(super) fn power_cut(&self, tail: Tail) -> Self {
        let mut after = self.clone();
        after.dirs.clone_from(&after.synced_dirs);
        let Self { names, dirs, .. } = &mut after;
        names.clone_from(&self.synced_names);
        names.retain(|path, _| {
            let mut above = path.ancestors().skip(1);
            above.all(|dir| dir.parent().is_none() || dirs.contains(dir))
        });
        after.synced_names.clone_from(&after.names);
        for file in &mut after.files {
            file.data = file.after_power_cut(tail);
            file.synced.clone_from(&file.data);
            file.lost.clear();
        }
        after.restart();
        after
    }

    fn restart(&mut self) {
        self.operations = 0;
        self.faults.clear();
        for file in &mut self.files {
            file.locked_by = None;
        }
    }

    /// The root always exists.
    fn is_dir(&self, path: &Path) -> bool {
        path.parent().is_none() || self.dirs.contains(path)
    }
}

impl File {
    fn after_power_cut(&self, tail: Tail) -> Vec<u8> {
        let mut left = self.synced.clone();
        // Data that was truncated without a sync reappears. Only growth leaves an unsynced tail.
        if self.common() == self.synced.len() {
            let new = &self.data[self.synced.len()..];
            match tail {
                Tail::Lost => {}
                Tail::Torn => left.extend_from_slice(&new[..new.len() / 2]),
                Tail::Zeroed => left.resize(self.data.len(), 0),
            }
        }
        left
    }

    /// The length of the common prefix of visible and synced data.
    fn common(&self) -> usize {
        let pairs = self.data.iter().zip(&self.synced);
        pairs.take_while(|(data, synced)| data == synced).count()
    }
}
