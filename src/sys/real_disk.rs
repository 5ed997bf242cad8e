//! The machine's file system.
#![expect(
    clippy::disallowed_methods,
    reason = "this is where sys::Disk meets the real disk"
)]

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use super::Timestamp;
use super::disk::{Disk, DiskFile, FileInfo};

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
        if to.try_exists()? {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        fs::rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        // Windows has no such call and needs none.
        if cfg!(unix) {
            OpenOptions::new().read(true).open(path)?.sync_all()
        } else {
            Ok(())
        }
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(path)? {
            // A name that is not UTF-8 is none of ours.
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn info(&self, path: &Path) -> io::Result<FileInfo> {
        let metadata = fs::metadata(path)?;
        let modified = metadata
            .modified()?
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Ok(FileInfo {
            len: metadata.len(),
            modified: Timestamp::from_millis(i64::try_from(modified.as_millis()).unwrap_or(0)),
            is_dir: metadata.is_dir(),
        })
    }

    fn native_path(&self, path: &Path) -> Option<PathBuf> {
        Some(path.to_owned())
    }
}

/// Refuses what is no file: a pipe, for one, would have whoever opens it wait for ever.
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
        // It came with being opened: see `writing`.
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
        // Elsewhere the standard library does not tell files apart; this is as near as it gets.
        #[cfg(not(unix))]
        Ok(there.len() == own.len() && there.created().ok() == own.created().ok())
    }
}

/// How files are opened for writing.
///
/// A lock on Windows keeps readers out too, so the file is opened such that nobody else can open
/// it for writing meanwhile. And what is opened for appending cannot be cut there.
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

/// The error of a file that somebody else has open for writing, where that is how a lock shows.
fn busy(error: io::Error) -> io::Error {
    const ERROR_SHARING_VIOLATION: i32 = 32;
    if cfg!(windows) && error.raw_os_error() == Some(ERROR_SHARING_VIOLATION) {
        io::ErrorKind::ResourceBusy.into()
    } else {
        error
    }
}
