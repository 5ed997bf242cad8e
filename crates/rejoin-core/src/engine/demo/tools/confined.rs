//! Opens and replaces a file in one of the session's folders so that no link leads out of them.
//!
//! Between resolving a path and using it, a folder in it can be replaced by a symbolic link. So the
//! path is not passed to the system as a whole: each component is opened relative to its parent
//! folder, and links are rejected, since a resolved path has none. Whatever is renamed meanwhile,
//! the file is reached from the session's folder or not at all.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// A file as one of the session's folders and the path from there. Both are resolved.
#[derive(Clone, Debug)]
pub(super) struct ConfinedFile {
    root: PathBuf,
    rest: PathBuf,
}

impl ConfinedFile {
    /// The file at `path` if that is in the folder `root`. Both must be free of links and `..`.
    pub(super) fn of(root: PathBuf, path: &Path) -> Option<Self> {
        let rest = path.strip_prefix(&root).ok()?.to_owned();
        Some(Self { root, rest })
    }

    /// The number of components in the path of its session folder.
    pub(super) fn depth(&self) -> usize {
        self.root.components().count()
    }

    /// Opens it for reading. It must be a regular file: reading anything else might block or never
    /// end.
    pub(super) fn open(&self) -> io::Result<File> {
        os::open(self)
    }

    /// Replaces it atomically, or creates it. An existing file keeps its permissions. `beside` is
    /// the name of a temporary file in the same folder.
    pub(super) fn replace(&self, text: &[u8], beside: &str) -> io::Result<()> {
        os::replace(self, text, beside)
    }
}

fn no_file() -> io::Error {
    io::Error::other("it is not a regular file")
}

fn write_protected() -> io::Error {
    io::Error::other("it is write-protected")
}

#[cfg(unix)]
mod os {
    use std::ffi::OsStr;
    use std::fs::File;
    use std::io::{self, Write};
    use std::os::fd::OwnedFd;
    use std::path::{Component, Path};

    use rustix::fs::{
        AtFlags, CWD, FileType, Mode, OFlags, fchmod, openat, renameat, statat, unlinkat,
    };
    use rustix::io::Errno;

    use super::{ConfinedFile, no_file, write_protected};

    /// A folder need not be readable for a file in it to be opened.
    #[cfg(target_os = "linux")]
    const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY);
    #[cfg(not(target_os = "linux"))]
    const FOLDER: OFlags = OFlags::DIRECTORY;

    /// For what may not be a regular file: opening it must not block.
    const READ: OFlags = OFlags::NONBLOCK.union(OFlags::NOCTTY);

    const CREATE: OFlags = OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::EXCL);

    pub(super) fn open(file: &ConfinedFile) -> io::Result<File> {
        let (folder, name) = folder(file)?;
        // Checked first, since opening a device may have side effects.
        regular(&folder, name)?;
        let file = File::from(open_at(&folder, name, READ)?);
        if file.metadata()?.is_file() {
            Ok(file)
        } else {
            Err(no_file())
        }
    }

    pub(super) fn replace(file: &ConfinedFile, text: &[u8], beside: &str) -> io::Result<()> {
        let (folder, name) = folder(file)?;
        let permissions = match regular(&folder, name) {
            Ok(mode) if !mode.intersects(Mode::WUSR | Mode::WGRP | Mode::WOTH) => {
                return Err(write_protected());
            }
            Ok(mode) => Some(mode),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let mut written = File::from(open_at(&folder, beside, CREATE)?);
        let replaced = written.write_all(text).and_then(|()| {
            if let Some(permissions) = permissions {
                fchmod(&written, permissions)?;
            }
            written.sync_all()?;
            Ok(renameat(&folder, beside, &folder, name)?)
        });
        if replaced.is_err() {
            // The first error is the one to report.
            unlinkat(&folder, beside, AtFlags::empty()).ok();
        }
        replaced
    }

    /// Opens the folder that contains the file.
    fn folder(file: &ConfinedFile) -> io::Result<(OwnedFd, &OsStr)> {
        let name = file.rest.file_name().ok_or_else(no_file)?;
        let mut folder = open_at(CWD, &file.root, FOLDER)?;
        let parts = file.rest.parent().into_iter().flat_map(Path::components);
        for part in parts {
            let Component::Normal(part) = part else {
                return Err(replaced());
            };
            folder = open_at(&folder, part, FOLDER)?;
        }
        Ok((folder, name))
    }

    fn open_at(
        folder: impl std::os::fd::AsFd,
        name: impl rustix::path::Arg,
        flags: OFlags,
    ) -> io::Result<OwnedFd> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o666);
        openat(folder, name, flags, mode).map_err(|error| match error {
            Errno::LOOP | Errno::NOTDIR => replaced(),
            error => error.into(),
        })
    }

    /// The permissions of a file, which must be a regular file.
    fn regular(folder: &OwnedFd, name: &OsStr) -> io::Result<Mode> {
        let known = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
        match FileType::from_raw_mode(known.st_mode) {
            FileType::RegularFile => Ok(Mode::from_raw_mode(known.st_mode)),
            FileType::Symlink => Err(replaced()),
            _ => Err(no_file()),
        }
    }

    fn replaced() -> io::Error {
        io::Error::other("the path was changed by another program meanwhile; try again")
    }
}

#[cfg(not(unix))]
#[expect(
    clippy::disallowed_methods,
    reason = "the file is the user's and no part of the store"
)]
mod os {
    use std::fs::{self, File};
    use std::io::{self, Write};

    use super::{ConfinedFile, no_file, write_protected};

    pub(super) fn open(file: &ConfinedFile) -> io::Result<File> {
        let path = file.root.join(&file.rest);
        if fs::metadata(&path)?.is_file() {
            File::open(path)
        } else {
            Err(no_file())
        }
    }

    pub(super) fn replace(file: &ConfinedFile, text: &[u8], beside: &str) -> io::Result<()> {
        let path = file.root.join(&file.rest);
        let permissions = match fs::metadata(&path) {
            Ok(known) if known.is_file() => Some(known.permissions()),
            Ok(_) => return Err(no_file()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        if permissions.as_ref().is_some_and(fs::Permissions::readonly) {
            return Err(write_protected());
        }
        let beside = path.with_file_name(beside);
        let mut written = File::create_new(&beside)?;
        let replaced = written
            .write_all(text)
            .and_then(|()| match permissions {
                Some(permissions) => written.set_permissions(permissions),
                None => Ok(()),
            })
            .and_then(|()| written.sync_all())
            .and_then(|()| fs::rename(&beside, &path));
        if replaced.is_err() {
            // The first error is the one to report.
            fs::remove_file(&beside).ok();
        }
        replaced
    }
}

#[cfg(test)]
#[cfg(unix)]
#[expect(clippy::disallowed_methods, reason = "the files are the tests' own")]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Read;
    use std::os::unix::fs::symlink;
    use std::sync::atomic::{AtomicBool, Ordering};

    const SECRET: &str = "not in the session";

    /// A session's folder with `sub/file`, and another folder with a file of the same name.
    fn folders() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap();
        let (root, elsewhere) = (real.join("root"), real.join("elsewhere"));
        for (path, text) in [
            (root.join("sub"), "in the session"),
            (elsewhere.clone(), SECRET),
        ] {
            fs::create_dir_all(&path).unwrap();
            fs::write(path.join("file"), text).unwrap();
        }
        (folder, root, elsewhere)
    }

    fn file(root: &Path) -> ConfinedFile {
        ConfinedFile::of(root.to_owned(), &root.join("sub/file")).unwrap()
    }

    fn read(file: &ConfinedFile) -> io::Result<String> {
        let mut text = String::new();
        file.open()?.read_to_string(&mut text)?;
        Ok(text)
    }

    #[test]
    fn a_folder_replaced_by_a_link_leads_nowhere() {
        let (_folder, root, elsewhere) = folders();
        let file = file(&root);
        assert_eq!(read(&file).unwrap(), "in the session");
        fs::rename(root.join("sub"), root.join("old")).unwrap();
        symlink(&elsewhere, root.join("sub")).unwrap();
        for error in [
            read(&file).unwrap_err(),
            file.replace(b"x", "b").unwrap_err(),
        ] {
            let error = error.to_string();
            assert!(error.contains("changed by another program"), "{error}");
        }
        assert_eq!(fs::read_to_string(elsewhere.join("file")).unwrap(), SECRET);
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 1);
    }

    #[test]
    fn a_file_replaced_by_a_link_is_not_followed() {
        let (_folder, root, elsewhere) = folders();
        let file = file(&root);
        fs::remove_file(root.join("sub/file")).unwrap();
        symlink(elsewhere.join("file"), root.join("sub/file")).unwrap();
        assert!(read(&file).is_err());
        assert!(file.replace(b"x", "b").is_err());
        assert_eq!(fs::read_to_string(elsewhere.join("file")).unwrap(), SECRET);
    }

    #[test]
    fn the_session_folder_replaced_by_a_link_leads_nowhere() {
        let (_folder, root, elsewhere) = folders();
        let file = file(&root);
        fs::rename(&root, root.with_file_name("old")).unwrap();
        fs::create_dir(elsewhere.join("sub")).unwrap();
        fs::write(elsewhere.join("sub/file"), SECRET).unwrap();
        symlink(&elsewhere, &root).unwrap();
        assert!(read(&file).is_err());
        assert!(file.replace(b"x", "b").is_err());
        let untouched = fs::read_to_string(elsewhere.join("sub/file")).unwrap();
        assert_eq!(untouched, SECRET);
    }

    #[test]
    fn no_race_leads_outside() {
        let (_folder, root, elsewhere) = folders();
        let file = file(&root);
        let (sub, old, link) = (root.join("sub"), root.join("old"), root.join("link"));
        symlink(&elsewhere, &link).unwrap();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    fs::rename(&sub, &old).unwrap();
                    fs::rename(&link, &sub).unwrap();
                    fs::rename(&sub, &link).unwrap();
                    fs::rename(&old, &sub).unwrap();
                }
            });
            for _ in 0..2000 {
                if let Ok(text) = read(&file) {
                    assert_ne!(text, SECRET);
                }
                // Whether it succeeds depends on timing.
                file.replace(b"written", "b").ok();
            }
            over.store(true, Ordering::Relaxed);
        });
        assert_eq!(fs::read_to_string(elsewhere.join("file")).unwrap(), SECRET);
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 1);
    }

    #[test]
    fn what_is_not_a_regular_file_is_not_opened() {
        let (_folder, root, _) = folders();
        for path in [root.clone(), root.join("sub")] {
            let folder = ConfinedFile::of(root.clone(), &path).unwrap();
            assert_eq!(
                read(&folder).unwrap_err().to_string(),
                no_file().to_string()
            );
            assert!(folder.replace(b"x", "b").is_err());
        }
    }

    // `rustix` makes no pipes on macOS.
    #[cfg(not(target_vendor = "apple"))]
    #[test]
    fn a_pipe_is_not_opened() {
        let (_folder, root, _) = folders();
        // Opening one that has no writer would block.
        rustix::fs::mkfifoat(rustix::fs::CWD, root.join("pipe"), rustix::fs::Mode::RUSR).unwrap();
        let pipe = ConfinedFile::of(root.clone(), &root.join("pipe")).unwrap();
        assert_eq!(read(&pipe).unwrap_err().to_string(), no_file().to_string());
    }
}
