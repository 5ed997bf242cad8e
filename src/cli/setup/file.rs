//! A file with settings: read, kept under another name, and replaced as a whole.
#![expect(
    clippy::disallowed_methods,
    reason = "writes files of the user's, which are no part of the store"
)]

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::cli::exit::Failure;

/// The end of the names of kept files.
const KEPT: &str = ".before-rejoin";
/// How many files are kept at most.
const MOST: usize = 99;

/// A file with settings, and what it contains.
#[derive(Debug)]
pub(in crate::cli) struct SettingsFile {
    path: PathBuf,
    text: Option<String>,
}

impl SettingsFile {
    /// Reads a file, which need not exist.
    pub(in crate::cli) fn read(path: PathBuf) -> Result<Self, Failure> {
        let text = read(&path)?;
        Ok(Self { path, text })
    }

    /// Its text; none if it does not exist.
    pub(in crate::cli) fn text(&self) -> Option<&str> {
        self.text.as_deref()
    }

    /// The files that were kept of it, the newest first.
    pub(super) fn kept(&self) -> Result<Vec<Self>, Failure> {
        let paths = (1..=MOST).rev().map(|number| self.kept_path(number));
        let files = paths.filter(|path| path.exists()).map(Self::read);
        files.collect()
    }

    /// Writes another text, and keeps the present one under a name beside it, which is returned.
    pub(super) fn replace_and_keep(&self, text: &str) -> Result<Option<PathBuf>, Failure> {
        self.check()?;
        let kept = match &self.text {
            None => None,
            Some(before) => {
                let mut paths = (1..=MOST).map(|number| self.kept_path(number));
                let free = paths.find(|path| !path.exists()).ok_or_else(|| {
                    let path = self.path.display();
                    Failure::new(format!("too many files are kept of {path}"))
                })?;
                let target =
                    real(&self.path).map_err(|error| cannot("read", &self.path, &error))?;
                write_whole(&free, before, Some(&target))
                    .map_err(|error| cannot("write", &free, &error))?;
                Some(free)
            }
        };
        self.replace(text)?;
        Ok(kept)
    }

    /// Writes another text. A reader sees the one or the other, also after a crash.
    pub(super) fn replace(&self, text: &str) -> Result<(), Failure> {
        self.check()?;
        self.try_replace(text)
            .map_err(|error| cannot("write", &self.path, &error))
    }

    fn try_replace(&self, text: &str) -> io::Result<()> {
        let target = match self.text {
            Some(_) => real(&self.path)?,
            None => self.path.clone(),
        };
        let folder = target.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder)?;
        write_whole(&target, text, self.text.is_some().then_some(&*target))?;
        if cfg!(unix) {
            File::open(folder)?.sync_all()?;
        }
        Ok(())
    }

    /// Removes the file.
    pub(super) fn remove(&self) -> Result<(), Failure> {
        self.check()?;
        fs::remove_file(&self.path).map_err(|error| cannot("remove", &self.path, &error))
    }

    /// Checks that nobody has changed it since it was read.
    fn check(&self) -> Result<(), Failure> {
        if read(&self.path)? == self.text {
            return Ok(());
        }
        let path = self.path.display();
        Err(Failure::new(format!(
            "{path} was changed in the meantime: nothing was written"
        ))
        .hint("run the command again"))
    }

    fn kept_path(&self, number: usize) -> PathBuf {
        let mut name = self.path.file_name().unwrap_or_default().to_owned();
        name.push(KEPT);
        if number > 1 {
            name.push(format!("-{number}"));
        }
        self.path.with_file_name(name)
    }

    /// The path of the file.
    pub(in crate::cli) fn path(&self) -> &Path {
        &self.path
    }
}

fn read(path: &Path) -> Result<Option<String>, Failure> {
    // A folder cannot be read, and a pipe may have no end.
    if let Some(kind) = fs::metadata(path).ok().filter(|there| !there.is_file()) {
        let what = if kind.is_dir() {
            "a folder"
        } else {
            "no regular file"
        };
        let path = path.display();
        let failure = Failure::new(format!("cannot read {path}: it is {what}"));
        return Err(
            failure.hint("the settings have to be in a file of this name; nothing was changed")
        );
    }
    match fs::read(path) {
        Ok(bytes) => {
            let text = String::from_utf8(bytes).map_err(|error| {
                let at = error.utf8_error().valid_up_to();
                let line = error.as_bytes()[..at].split(|byte| *byte == b'\n').count();
                Failure::new(format!(
                    "cannot read {}: line {line} is not UTF-8",
                    path.display()
                ))
            });
            text.map(Some)
        }
        // A link to nowhere is no missing file.
        Err(error) if error.kind() == io::ErrorKind::NotFound && !path.is_symlink() => Ok(None),
        Err(error) => Err(cannot("read", path, &error)),
    }
}

/// The file itself, if the path is a link.
fn real(path: &Path) -> io::Result<PathBuf> {
    if path.is_symlink() {
        path.canonicalize()
    } else {
        Ok(path.to_owned())
    }
}

/// Writes a file under another name first, with the permissions and the owner of `like`: a reader sees
/// all of it or what was there before.
fn write_whole(path: &Path, text: &str, like: Option<&Path>) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    let part = path.with_file_name(name);
    // Of a process with this number that was killed.
    fs::remove_file(&part).ok();
    let written = write_new(&part, text, like).and_then(|()| fs::rename(&part, path));
    if written.is_err() {
        fs::remove_file(&part).ok();
    }
    written
}

/// Writes a new file with the permissions and the owner of another one.
fn write_new(path: &Path, text: &str, like: Option<&Path>) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    // Settings may contain keys.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    if let Some(like) = like {
        let metadata = like.metadata()?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::{MetadataExt, fchown};
            // Only root may do that, and only root has to.
            fchown(&file, Some(metadata.uid()), Some(metadata.gid())).ok();
        }
        file.set_permissions(metadata.permissions())?;
    }
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

fn cannot(verb: &str, path: &Path, error: &io::Error) -> Failure {
    let failure = Failure::new(format!("cannot {verb} {}: {error}", path.display()));
    match path.canonicalize() {
        Ok(target) if path.is_symlink() => failure.hint(format!(
            "it is a link to {}: change it where that is made",
            target.display()
        )),
        _ => failure,
    }
}
