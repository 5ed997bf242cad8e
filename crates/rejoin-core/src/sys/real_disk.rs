//! The real file system.
#![expect(
    clippy::disallowed_methods,
    reason = "this is where sys::Disk meets the real disk"
)]

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use super::disk::{Changed, Disk, DiskFile, FileInfo, Watch};
use super::file_system::{self, Special};
use super::{Timestamp, watch};

/// The file system of the machine.
#[derive(Debug)]
pub struct RealDisk;

#[derive(Debug)]
struct RealFile(File);

impl Disk for RealDisk {
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(path)
    }

    fn create_new(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let mut options = writing();
        options.create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        Ok(Box::new(RealFile(options.open(path)?)))
    }

    fn open_append(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        regular(path)?;
        let file = writing().open(path).map_err(busy)?;
        Ok(Box::new(RealFile(file)))
    }

    fn open_read(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        regular(path)?;
        let file = OpenOptions::new().read(true).open(path)?;
        Ok(Box::new(RealFile(file)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        rename_new(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        // Windows has no such call and does not need it.
        if cfg!(unix) {
            OpenOptions::new().read(true).open(path)?.sync_all()
        } else {
            Ok(())
        }
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(path)? {
            // Names that are not UTF-8 are not ours.
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn info(&self, path: &Path) -> io::Result<FileInfo> {
        let metadata = fs::metadata(path).map_err(|error| below_file(path, error))?;
        Ok(FileInfo {
            len: metadata.len(),
            modified: Timestamp::of_system(metadata.modified()?),
            is_dir: metadata.is_dir(),
        })
    }

    fn watch(&self, path: &Path, changed: Changed) -> io::Result<Watch> {
        watch::watch(path, changed)
    }

    fn special(&self, path: &Path) -> Option<Special> {
        let mut folders = path.ancestors();
        file_system::special(folders.find(|folder| folder.exists())?)
    }

    fn native_path(&self, path: &Path) -> Option<PathBuf> {
        Some(path.to_owned())
    }
}

/// Windows says of a path below a file only that it does not exist. Other systems say that the file
/// is no folder, which is another error than a store that does not exist yet.
fn below_file(path: &Path, error: io::Error) -> io::Error {
    if !cfg!(windows) || error.kind() != io::ErrorKind::NotFound {
        return error;
    }
    let mut above = path.ancestors().skip(1);
    match above.find_map(|above| fs::metadata(above).ok()) {
        Some(found) if !found.is_dir() => io::ErrorKind::NotADirectory.into(),
        _ => error,
    }
}

/// Renames a file to an unused name, atomically if the system supports it.
#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    use rustix::io::Errno;
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // The kernel or the file system is too old, or a sandbox forbids the call.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP | Errno::PERM) => link_new(from, to),
        renamed => Ok(renamed?),
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    link_new(from, to)
}

/// Renames a file to an unused name by a hard link, which never replaces a file. If the process
/// dies between the two steps, the file has both names.
fn link_new(from: &Path, to: &Path) -> io::Result<()> {
    match fs::hard_link(from, to) {
        Ok(()) => fs::remove_file(from),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
        // Some file systems have no hard links. There, checking first is the best option.
        Err(_) if fs::symlink_metadata(to).is_ok() => Err(io::ErrorKind::AlreadyExists.into()),
        Err(_) => fs::rename(from, to),
    }
}

/// Rejects anything but a regular file: opening a pipe, for example, would block forever.
fn regular(path: &Path) -> io::Result<()> {
    if fs::metadata(path)?.is_file() {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::InvalidInput,
        "it is not a regular file",
    ))
}

impl DiskFile for RealFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            #[cfg(not(windows))]
            let result = io::Write::write(&mut self.0, bytes);
            #[cfg(windows)]
            let result = {
                let end = self.0.metadata()?.len();
                std::os::windows::fs::FileExt::seek_write(&self.0, bytes, end)
            };
            match result {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }

    fn overwrite(&mut self, bytes: &[u8]) -> io::Result<()> {
        #[cfg(unix)]
        {
            // In a file that is open for appending, Linux writes at the end, whatever the offset.
            let flags = rustix::fs::fcntl_getfl(&self.0)?;
            rustix::fs::fcntl_setfl(&self.0, flags - rustix::fs::OFlags::APPEND)?;
            let written = std::os::unix::fs::FileExt::write_all_at(&self.0, bytes, 0);
            rustix::fs::fcntl_setfl(&self.0, flags)?;
            written
        }
        #[cfg(windows)]
        match std::os::windows::fs::FileExt::seek_write(&self.0, bytes, 0)? {
            written if written == bytes.len() => Ok(()),
            _ => Err(io::ErrorKind::WriteZero.into()),
        }
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        loop {
            #[cfg(unix)]
            let result = std::os::unix::fs::FileExt::read_at(&self.0, buffer, offset);
            #[cfg(windows)]
            let result = std::os::windows::fs::FileExt::seek_read(&self.0, buffer, offset);
            match result {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn try_lock(&self) -> io::Result<bool> {
        #[cfg(not(windows))]
        match self.0.try_lock() {
            Ok(()) => Ok(true),
            Err(fs::TryLockError::WouldBlock) => Ok(false),
            Err(fs::TryLockError::Error(error)) => Err(error),
        }
        // Opening the file has locked it: see `writing`.
        #[cfg(windows)]
        Ok(true)
    }

    fn unlock(&self) -> io::Result<()> {
        #[cfg(not(windows))]
        return self.0.unlock();
        #[cfg(windows)]
        Ok(())
    }

    fn is_at(&self, path: &Path) -> io::Result<bool> {
        let there = match fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            result => result?,
        };
        let own = self.0.metadata()?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt;
            Ok(there.dev() == own.dev() && there.ino() == own.ino())
        }
        // Elsewhere the standard library cannot identify files; this is the closest approximation.
        #[cfg(not(unix))]
        Ok(there.len() == own.len() && there.created().ok() == own.created().ok())
    }
}

/// The options for opening files for writing.
///
/// A lock on Windows keeps readers out too, so the file is opened such that no other process can
/// open it for writing. And a file opened for appending cannot be truncated there.
fn writing() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(not(windows))]
    options.read(true).append(true);
    #[cfg(windows)]
    {
        const FILE_SHARE_READ: u32 = 1;
        const FILE_SHARE_DELETE: u32 = 4;
        options.read(true).write(true);
        std::os::windows::fs::OpenOptionsExt::share_mode(
            &mut options,
            FILE_SHARE_READ | FILE_SHARE_DELETE,
        );
    }
    options
}

/// The error if another process has the file open for writing, on systems where that is the lock.
fn busy(error: io::Error) -> io::Error {
    const ERROR_SHARING_VIOLATION: i32 = 32;
    if cfg!(windows) && error.raw_os_error() == Some(ERROR_SHARING_VIOLATION) {
        io::ErrorKind::ResourceBusy.into()
    } else {
        error
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use super::*;

    type Rename = fn(&Path, &Path) -> io::Result<()>;

    /// Both ways to rename.
    const WAYS: [Rename; 2] = [rename_new, link_new];

    fn is_taken(result: &io::Result<()>) -> bool {
        let error = result.as_ref().err().map(io::Error::kind);
        error == Some(io::ErrorKind::AlreadyExists)
    }

    #[test]
    fn a_name_that_is_taken_is_never_replaced() {
        for rename in WAYS {
            let folder = tempfile::tempdir().unwrap();
            let at = |name: &str| folder.path().join(name);
            for name in ["from", "taken"] {
                fs::write(at(name), name).unwrap();
            }
            assert!(is_taken(&rename(&at("from"), &at("taken"))));
            #[cfg(unix)]
            {
                // A dangling link still exists.
                std::os::unix::fs::symlink(at("nowhere"), at("link")).unwrap();
                assert!(is_taken(&rename(&at("from"), &at("link"))));
                assert!(fs::symlink_metadata(at("link")).unwrap().is_symlink());
            }
            rename(&at("from"), &at("free")).unwrap();
            assert_eq!(fs::read(at("free")).unwrap(), b"from");
            assert_eq!(fs::read(at("taken")).unwrap(), b"taken");
            let gone = rename(&at("from"), &at("other")).unwrap_err();
            assert_eq!(gone.kind(), io::ErrorKind::NotFound);
        }
    }

    #[test]
    fn a_path_below_a_file_is_an_error_and_no_missing_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "x").unwrap();
        for path in [file.join("a"), file.join("a").join("b")] {
            let error = RealDisk.info_if_exists(&path).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::NotADirectory);
        }
        let missing = folder.path().join("none").join("a");
        assert!(RealDisk.info_if_exists(&missing).unwrap().is_none());
    }

    #[test]
    fn of_those_who_take_one_name_at_once_one_has_it() {
        const RACERS: usize = 4;
        for rename in WAYS {
            let folder = tempfile::tempdir().unwrap();
            for round in 0..100 {
                let to = folder.path().join(format!("to-{round}"));
                let start = Barrier::new(RACERS);
                let race = |racer: usize| {
                    let from = folder.path().join(format!("from-{round}-{racer}"));
                    fs::write(&from, racer.to_string()).unwrap();
                    start.wait();
                    rename(&from, &to).is_ok()
                };
                let won: Vec<bool> = thread::scope(|scope| {
                    let racers = [0, 1, 2, 3].map(|racer| scope.spawn(move || race(racer)));
                    racers.map(|racer| racer.join().unwrap()).to_vec()
                });
                let winner = won.iter().position(|won| *won).unwrap();
                assert_eq!(won.iter().filter(|won| **won).count(), 1);
                assert_eq!(fs::read_to_string(&to).unwrap(), winner.to_string());
            }
        }
    }
}
