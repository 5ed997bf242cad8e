//! The hosts of a store: processes that have sessions without a client of their own.
//!
//! Each has a file in `run/`, by a name that says what it serves, and keeps it locked. So another
//! process finds it, or sees that what is there was left by one that has died.

use std::io;
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
}

/// That this process is a host. Dropping it ends that.
#[derive(Debug)]
pub struct Hosting {
    file: Box<dyn DiskFile>,
    path: PathBuf,
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
        let Some(mut file) = taken else {
            return Ok(None);
        };
        let text = serde_json::to_string(host).map_err(io::Error::from);
        let written = text.and_then(|text| {
            file.set_len(0)?;
            file.append_all(text.as_bytes())
        });
        written.map_err(StoreError::disk("write", &path))?;
        let sys = sys.clone();
        Ok(Some(Hosting { file, path, sys }))
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

impl Drop for Hosting {
    /// Removes the file before the lock is released, since afterwards it may be the next host's.
    fn drop(&mut self) {
        if let Err(error) = self.sys.disk.remove_if_exists(&self.path) {
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
            // It was removed in between.
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
    match disk.open_append(path) {
        Ok(file) if file.try_lock().ok()? => {
            // It was left by one that has died.
            file.unlock().ok();
            return None;
        }
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {}
        Err(_) => return None,
    }
    let file = disk.open_read(path).ok()?;
    let mut text = vec![0; LONGEST];
    let len = file.read_at(&mut text, 0).ok()?;
    serde_json::from_slice(text.get(..len)?).ok()
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
}
