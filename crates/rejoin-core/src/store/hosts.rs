//! The hosts of a store: processes that have sessions without a client of their own.
//!
//! Each has a file in `run/`, by a name that says what it serves, and keeps it locked. So another
//! process finds it, or sees that what is there was left by one that has died.

use std::io;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::sys::{Disk, DiskFile, Sys};

use super::folder::Store;
use super::medium::StoreError;

/// The extension of the files.
const HOST: &str = "host";
/// The longest file that is read, in bytes.
const LONGEST: usize = 64 * 1024;
/// How often a file may be replaced between opening and locking it.
const ATTEMPTS: u32 = 8;

/// A host, as others see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Its process id.
    pub pid: u32,
    /// Its release.
    pub version: String,
    /// The name of its socket.
    pub socket: String,
    /// The command line that it serves.
    pub command: Vec<String>,
    /// When it began.
    pub since: String,
    /// When it began, in the system's terms; see [`start_of`](crate::sys::processes::start_of).
    #[serde(default)]
    pub started: Option<NonZeroU64>,
}

/// The file by which other processes find this host, with a lock on it. Dropping it ends both.
#[derive(Debug)]
pub struct Hosting {
    file: Box<dyn DiskFile>,
    path: PathBuf,
    /// The content of the file.
    text: String,
    sys: Sys,
}

impl Store {
    /// Makes this process the host by this name. `None` if there is one.
    pub fn become_host(&self, name: &str, host: &Host) -> Result<Option<Hosting>, StoreError> {
        let (folder, sys) = (self.run_folder(), self.sys());
        let path = file(&folder, name);
        let made = sys.disk.create_dir_all(&folder);
        made.map_err(StoreError::disk("create", &folder))?;
        let taken = take(&*sys.disk, &path).map_err(StoreError::disk("lock", &path))?;
        let Some(file) = taken else {
            return Ok(None);
        };
        let text = serde_json::to_string(host).map_err(io::Error::from);
        let mut hosting = Hosting {
            file,
            text: text.map_err(StoreError::disk("write", &path))?,
            path,
            sys: sys.clone(),
        };
        hosting.write()?;
        Ok(Some(hosting))
    }

    /// Whether a process is the host by this name and its file cannot be read. Then
    /// [`host`](Self::host) does not find it.
    pub fn has_unreadable_host(&self, name: &str) -> bool {
        let (folder, disk) = (self.run_folder(), &*self.sys().disk);
        let path = file(&folder, name);
        is_held(disk, &path) && parse(disk, &path).is_none()
    }

    /// Whether something that is not the file of a host has its name, so that no process can become the
    /// host by it: a folder, a pipe, a link to nothing.
    pub fn has_unusable_host(&self, name: &str) -> bool {
        let (folder, disk) = (self.run_folder(), &*self.sys().disk);
        let path = file(&folder, name);
        match disk.open_append(&path) {
            Ok(_) => false,
            Err(error) => match error.kind() {
                io::ErrorKind::ResourceBusy => false,
                io::ErrorKind::NotFound => {
                    let names = disk.list(&folder).unwrap_or_default();
                    path.file_name()
                        .is_some_and(|name| names.iter().any(|other| name == other.as_str()))
                        // A host may have made it in between.
                        && disk.open_append(&path).is_err()
                }
                _ => true,
            },
        }
    }

    /// The host by this name, if it runs.
    pub fn host(&self, name: &str) -> Option<Host> {
        read(&*self.sys().disk, &file(&self.run_folder(), name))
    }

    /// All hosts that run.
    pub fn hosts(&self) -> Vec<Host> {
        let folder = self.run_folder();
        let mut names = self.sys().disk.list(&folder).unwrap_or_default();
        names.sort_unstable();
        let paths = names.iter().map(|name| folder.join(name));
        let hosts = paths.filter(|path| path.extension().is_some_and(|of| of == HOST));
        hosts
            .filter_map(|path| read(&*self.sys().disk, &path))
            .collect()
    }
}

impl Hosting {
    /// Writes the file again if it was removed or changed. Fails if another process has become the host
    /// meanwhile.
    pub fn renew(&mut self) -> Result<(), StoreError> {
        let disk = &*self.sys.disk;
        let failed = |error| StoreError::disk("lock", &self.path)(error);
        if !self.file.is_at(&self.path).map_err(failed)? {
            if let Some(folder) = self.path.parent() {
                disk.create_dir_all(folder).map_err(failed)?;
            }
            let taken = take(disk, &self.path).map_err(failed)?;
            self.file = taken.ok_or_else(|| failed(io::ErrorKind::ResourceBusy.into()))?;
        } else if content(disk, &self.path).is_ok_and(|there| there == self.text.as_bytes()) {
            return Ok(());
        }
        self.write()
    }

    fn write(&mut self) -> Result<(), StoreError> {
        let emptied = self.file.set_len(0);
        let written = emptied.and_then(|()| self.file.append_all(self.text.as_bytes()));
        written.map_err(StoreError::disk("write", &self.path))
    }
}

impl Drop for Hosting {
    /// Removes the file before the lock is released, since afterwards it may be the next host's.
    fn drop(&mut self) {
        let removed = match self.file.is_at(&self.path) {
            Ok(true) => self.sys.disk.remove_if_exists(&self.path),
            // The file is another host's.
            other => other,
        };
        if let Err(error) = removed {
            tracing::debug!(path = %self.path.display(), %error, "cannot remove the file of a host");
        }
        if let Err(error) = self.file.unlock() {
            tracing::debug!(path = %self.path.display(), %error, "cannot release the lock of a host");
        }
    }
}

fn file(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.{HOST}"))
}

/// Locks a file, which is created if it is missing. `None` if another process has locked it.
fn take(disk: &dyn Disk, path: &Path) -> io::Result<Option<Box<dyn DiskFile>>> {
    for _ in 0..ATTEMPTS {
        let file = match disk.create_new(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => disk.open_append(path),
            created => created,
        };
        let file = match file {
            // The file was removed in between.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => return Ok(None),
            file => file?,
        };
        if !file.try_lock()? {
            return Ok(None);
        }
        if file.is_at(path)? {
            return Ok(Some(file));
        }
    }
    Ok(None)
}

/// The host with this file, if it runs.
fn read(disk: &dyn Disk, path: &Path) -> Option<Host> {
    is_held(disk, path).then(|| parse(disk, path)).flatten()
}

/// Whether a process holds the lock of this file. One that was left by a process that has died is held by
/// none.
fn is_held(disk: &dyn Disk, path: &Path) -> bool {
    match disk.open_append(path) {
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

fn parse(disk: &dyn Disk, path: &Path) -> Option<Host> {
    serde_json::from_slice(&content(disk, path).ok()?).ok()
}

fn content(disk: &dyn Disk, path: &Path) -> io::Result<Vec<u8>> {
    let file = disk.open_read(path)?;
    let mut text = vec![0; LONGEST];
    let len = file.read_at(&mut text, 0)?;
    text.truncate(len);
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Durability;
    use crate::sys::sim::SimDisk;

    #[test]
    fn there_is_one_host_by_each_name_for_as_long_as_it_runs() {
        let disk = SimDisk::new();
        let store = Store::at(Path::new("/store"), disk.sys(), Durability::Os);
        let host = |pid| Host {
            pid,
            version: "1".to_owned(),
            socket: format!("{pid}.sock"),
            command: vec!["wrap".to_owned()],
            since: String::new(),
            started: None,
        };
        assert_eq!(store.host("a"), None);
        let first = store.become_host("a", &host(1)).unwrap().unwrap();
        assert!(store.become_host("a", &host(2)).unwrap().is_none());
        let other = store.become_host("b", &host(3)).unwrap();
        assert_eq!(store.host("a"), Some(host(1)));
        assert_eq!(store.hosts(), [host(1), host(3)]);
        drop(first);
        assert_eq!(store.host("a"), None);
        let second = store.become_host("a", &host(2)).unwrap();
        assert_eq!(store.host("a"), Some(host(2)));
        drop((second, other));
        assert_eq!(store.hosts(), []);
    }

    #[test]
    fn something_else_by_the_name_of_a_host_is_seen() {
        let disk = SimDisk::new();
        let sys = disk.sys();
        let store = Store::at(Path::new("/store"), sys.clone(), Durability::Os);
        assert!(!store.has_unusable_host("a"), "there is none");
        let path = file(&store.run_folder(), "a");
        sys.disk.create_dir_all(&path).unwrap();
        assert!(store.has_unusable_host("a"));
        assert!(!store.has_unusable_host("b"));
    }

    #[test]
    fn a_file_that_was_removed_or_changed_is_written_again() {
        let disk = SimDisk::new();
        let sys = disk.sys();
        let store = Store::at(Path::new("/store"), sys.clone(), Durability::Os);
        let host = Host {
            pid: 1,
            version: "1".to_owned(),
            socket: "1.sock".to_owned(),
            command: vec!["wrap".to_owned()],
            since: String::new(),
            started: None,
        };
        let mut hosting = store.become_host("a", &host).unwrap().unwrap();
        let path = file(&store.run_folder(), "a");
        sys.disk.remove_if_exists(&path).unwrap();
        assert_eq!(store.host("a"), None);
        hosting.renew().unwrap();
        assert_eq!(store.host("a"), Some(host.clone()));
        let mut rubbish = sys.disk.open_append(&path).unwrap();
        rubbish.append_all(b"rubbish").unwrap();
        drop(rubbish);
        assert_eq!(store.host("a"), None);
        assert!(store.has_unreadable_host("a"));
        hosting.renew().unwrap();
        assert_eq!(store.host("a"), Some(host.clone()));
        assert!(!store.has_unreadable_host("a"));
        // Another process was faster.
        sys.disk.remove_if_exists(&path).unwrap();
        let other = store.become_host("a", &host).unwrap().unwrap();
        assert!(hosting.renew().is_err());
        drop(other);
        hosting.renew().unwrap();
        assert_eq!(store.host("a"), Some(host));
    }
}
