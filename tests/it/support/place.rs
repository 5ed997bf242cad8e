//! Where the sessions of a fixture lie, seen from outside of the program: in a folder, or in a
//! database.

use std::fs;
use std::path::{Path, PathBuf};

#[cfg(all(unix, feature = "store-postgres"))]
use rejoin::store::place::is_address;

use super::wrapped::until;

/// A store as another program would look at it and change it.
pub(crate) trait Place {
    /// The bytes of a session's log.
    fn read(&self, session: &str) -> Result<Vec<u8>, String>;

    /// Makes these the bytes of a session's log, which need not exist.
    fn write(&self, session: &str, bytes: &[u8]) -> Result<(), String>;

    /// Gives a log another name.
    fn rename(&self, session: &str, name: &str) -> Result<(), String>;

    /// Puts a log with these bytes in the place of another one.
    fn swap(&self, session: &str, bytes: &[u8]) -> Result<(), String>;

    /// Removes a log.
    fn remove(&self, session: &str) -> Result<(), String>;

    /// Removes all that was made of the logs.
    fn unindex(&self) -> Result<(), String>;

    /// Keeps processes from reaching each other.
    fn prevent_sockets(&self) -> Result<(), String>;

    /// Waits until the process that has a session open is ending, or has released it.
    fn await_ending(&self, session: &str) -> Result<(), String>;

    /// Waits until nothing is under way for a process that was killed: a database may still perform what
    /// the process had sent.
    fn await_idle(&self) -> Result<(), String>;

    /// How many things there are of this kind: `sessions` or `trash`.
    fn count(&self, kind: &str) -> usize;

    /// Whether nobody else may read what there is.
    fn is_private(&self) -> Result<(), String>;

    /// Whether this text is in nothing that there is.
    fn is_nowhere(&self, text: &str) -> Result<(), String>;
}

/// The place of a store: a folder, or the address of a database.
pub(crate) fn at(store: &Path) -> Box<dyn Place> {
    #[cfg(all(unix, feature = "store-postgres"))]
    if is_address(store) {
        return Box::new(super::rows::Rows::at(store));
    }
    Box::new(Folder(store.to_owned()))
}

/// A folder.
struct Folder(PathBuf);

impl Folder {
    fn path(&self, session: &str) -> PathBuf {
        self.0.join("sessions").join(format!("{session}.jsonl"))
    }
}

#[expect(clippy::disallowed_methods, reason = "another program would do so")]
impl Place for Folder {
    fn read(&self, session: &str) -> Result<Vec<u8>, String> {
        fs::read(self.path(session)).map_err(|error| format!("{session}: {error}"))
    }

    fn write(&self, session: &str, bytes: &[u8]) -> Result<(), String> {
        fs::write(self.path(session), bytes).map_err(|error| error.to_string())
    }

    fn rename(&self, session: &str, name: &str) -> Result<(), String> {
        fs::rename(self.path(session), self.path(name)).map_err(|error| error.to_string())
    }

    fn swap(&self, session: &str, bytes: &[u8]) -> Result<(), String> {
        let copy = self.path(session).with_extension("copy");
        let swapped = fs::write(&copy, bytes);
        let swapped = swapped.and_then(|()| fs::rename(&copy, self.path(session)));
        swapped.map_err(|error| error.to_string())
    }

    fn remove(&self, session: &str) -> Result<(), String> {
        fs::remove_file(self.path(session)).map_err(|error| error.to_string())
    }

    fn unindex(&self) -> Result<(), String> {
        let entries = fs::read_dir(&self.0).map_err(|error| error.to_string())?;
        let mut removed = 0;
        for entry in entries {
            let entry = entry.map_err(|error| error.to_string())?;
            if entry
                .file_name()
                .to_string_lossy()
                .starts_with("index.sqlite")
            {
                fs::remove_file(entry.path()).map_err(|error| error.to_string())?;
                removed += 1;
            }
        }
        if removed > 0 {
            Ok(())
        } else {
            Err("there is no index".to_owned())
        }
    }

    /// Puts a file where the folder of the sockets would be.
    fn prevent_sockets(&self) -> Result<(), String> {
        let made = fs::create_dir_all(&self.0);
        let written = made.and_then(|()| fs::write(self.0.join("run"), ""));
        written.map_err(|error| error.to_string())
    }

    fn await_ending(&self, session: &str) -> Result<(), String> {
        let hint = self.0.join("open").join(session);
        until(|| match fs::read_to_string(&hint) {
            Ok(text) if !text.contains("\"ending\":true") => {
                Err(format!("it is not ending: {text}"))
            }
            _ => Ok(()),
        })
    }

    fn await_idle(&self) -> Result<(), String> {
        Ok(())
    }

    fn count(&self, kind: &str) -> usize {
        fs::read_dir(self.0.join(kind)).map_or(0, Iterator::count)
    }

    fn is_private(&self) -> Result<(), String> {
        private(&self.0)
    }

    fn is_nowhere(&self, text: &str) -> Result<(), String> {
        nowhere(&self.0, text.as_bytes())
    }
}

#[cfg(unix)]
fn private(folder: &Path) -> Result<(), String> {
    use std::os::unix::fs::PermissionsExt;
    let check = |path: &Path| -> Result<bool, String> {
        let metadata = fs::metadata(path).map_err(|error| error.to_string())?;
        let expected = if metadata.is_dir() { 0o700 } else { 0o600 };
        let mode = metadata.permissions().mode() & 0o777;
        if mode == expected {
            Ok(metadata.is_dir())
        } else {
            Err(format!("{} has mode {mode:o}", path.display()))
        }
    };
    check(folder)?;
    for entry in fs::read_dir(folder).map_err(|error| error.to_string())? {
        let path = entry.map_err(|error| error.to_string())?.path();
        if check(&path)? {
            private(&path)?;
        }
    }
    Ok(())
}

#[cfg(not(unix))]
fn private(_: &Path) -> Result<(), String> {
    Ok(())
}

fn nowhere(folder: &Path, text: &[u8]) -> Result<(), String> {
    for entry in fs::read_dir(folder).map_err(|error| error.to_string())? {
        let path = entry.map_err(|error| error.to_string())?.path();
        if path.is_dir() {
            nowhere(&path, text)?;
        } else if memchr::memmem::find(&fs::read(&path).unwrap_or_default(), text).is_some() {
            return Err(format!("it is in {}", path.display()));
        }
    }
    Ok(())
}
