//! Checks whether the file at the catalog's path is a catalog.
//!
//! The check comes before SQLite opens the file: SQLite would roll back a journal, follow a link,
//! or block on a pipe. A file that is not certainly ours is left unchanged.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::sys::Disk;
use crate::sys::disk::copy;

/// The mark of a database that is a catalog of this program: `rjin`.
pub(super) const APPLICATION_ID: i32 = 0x726a_696e;

/// The first bytes of an SQLite database.
const MAGIC: &[u8] = b"SQLite format 3\0";

/// How many bytes of a file are read: SQLite's header, and the type of the schema's page with the
/// number of its entries.
const HEAD: usize = 105;

/// The kind of file at the catalog's path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileOwnership {
    /// The file does not exist or is empty.
    New,
    /// A catalog.
    Ours,
    /// A database without a mark: one that was just created, or a catalog from before marks
    /// existed. Its tables show which.
    Unmarked,
}

/// Why the file at the catalog's path is not used.
#[derive(Debug, thiserror::Error)]
pub enum NotOurs {
    /// The file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The file was made by another program.
    #[error(
        "{} was not made by rejoin and is left as it is: move it to another folder, or delete it",
        .0.display()
    )]
    Foreign(PathBuf),
    /// Something that is not a file has its name, or the name of a file that belongs to it.
    #[error("{} is not a regular file and is left as it is: move or delete it", .0.display())]
    NotAFile(PathBuf),
}

/// Determines what is at `path`. Fails if the file is not ours, or if something other than a
/// regular file is there or under a name that SQLite would use beside it.
pub(super) fn claim(disk: &dyn Disk, path: &Path) -> Result<FileOwnership, NotOurs> {
    for suffix in ["-wal", "-shm", "-journal"] {
        is_regular(&beside(path, suffix))?;
    }
    if !is_regular(path)? {
        return Ok(FileOwnership::New);
    }
    let mut head = [0; HEAD];
    let len = read(disk, path, &mut head).map_err(|source| NotOurs::Read {
        path: path.to_owned(),
        source,
    })?;
    if len == 0 {
        return Ok(FileOwnership::New);
    }
    let foreign = || NotOurs::Foreign(path.to_owned());
    if len < HEAD || !head.starts_with(MAGIC) {
        return Err(foreign());
    }
    let number = |at: usize| {
        let bytes = [head[at], head[at + 1], head[at + 2], head[at + 3]];
        i32::from_be_bytes(bytes)
    };
    let (version, application) = (number(60), number(68));
    // An unmarked catalog got its version together with its tables.
    let has_tables = head[103..] != [0, 0];
    match application {
        APPLICATION_ID => Ok(FileOwnership::Ours),
        0 if version != 0 || !has_tables => Ok(FileOwnership::Unmarked),
        _ => Err(foreign()),
    }
}

/// The path of a file that belongs to the one at `path`.
pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(suffix);
    path.with_file_name(name)
}

/// Whether there is a regular file; an error if there is anything else, links included.
pub(super) fn is_regular(path: &Path) -> Result<bool, NotOurs> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_file() => Ok(true),
        Ok(_) => Err(NotOurs::NotAFile(path.to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(NotOurs::Read {
            path: path.to_owned(),
            source,
        }),
    }
}

fn read(disk: &dyn Disk, path: &Path, buffer: &mut [u8]) -> io::Result<usize> {
    let file = disk.open_read(path)?;
    let mut len = 0;
    while len < buffer.len() {
        match file.read_at(&mut buffer[len..], len as u64)? {
            0 => break,
            read => len += read,
        }
    }
    Ok(len)
}

/// Copies a file that is about to be replaced to the same name with `.damaged`, replacing an
/// earlier copy.
pub(super) fn set_aside(disk: &dyn Disk, path: &Path) -> io::Result<PathBuf> {
    let target = damaged(path);
    disk.remove_if_exists(&target)?;
    let from = disk.open_read(path)?;
    let mut to = match disk.create_new(&target) {
        Ok(to) => to,
        // Another process is making the copy.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(target),
        Err(error) => return Err(error),
    };
    copy(&*from, 0, &mut *to)?;
    Ok(target)
}

/// Removes the copy of a damaged file.
pub(super) fn remove_set_aside(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    disk.remove_if_exists(&damaged(path)).map(|_| ())
}

fn damaged(path: &Path) -> PathBuf {
    beside(path, ".damaged")
}
