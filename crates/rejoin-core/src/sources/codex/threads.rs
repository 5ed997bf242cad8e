//! The database in which Codex keeps what it knows of its threads: the names that they were given, and
//! which of them are archived. Each generation of it has a file of its own, `state_N.sqlite`.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::SystemTime;

use rusqlite::Row;

use crate::sources::database::{self, column};
use crate::sys::lock;

/// A thread in the database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ThreadState {
    /// The name that the user or the program has given to it.
    pub(super) name: Option<String>,
    pub(super) is_archived: bool,
}

/// The threads of a database, by their ids.
type Threads = HashMap<String, ThreadState>;

/// The sizes and times of the files of a database.
type DatabaseFiles = Vec<(PathBuf, u64, SystemTime)>;

/// The threads that were read last: all conversations of a list need them.
static LAST: LazyLock<Mutex<(DatabaseFiles, Arc<Threads>)>> = LazyLock::new(Mutex::default);

/// The threads in the database of this folder; empty if no database can be read.
pub(super) fn of(root: &Path) -> Arc<Threads> {
    let Some(path) = newest(root) else {
        return Arc::default();
    };
    let files = files(&path);
    let mut last = lock(&LAST);
    if last.0 != files {
        let threads = read(&path).unwrap_or_else(|error| {
            let path = path.display();
            tracing::debug!(%path, %error, "cannot read the names of threads");
            Threads::new()
        });
        *last = (files, Arc::new(threads));
    }
    last.1.clone()
}

/// The database of the newest generation.
fn newest(root: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(root).ok()?.filter_map(Result::ok);
    let generation = |name: &str| -> Option<u32> {
        let number = name.strip_prefix("state_")?.strip_suffix(".sqlite")?;
        number.parse().ok()
    };
    let databases = entries.filter_map(|entry| {
        let generation = generation(entry.file_name().to_str()?)?;
        Some((generation, entry.path()))
    });
    databases.max().map(|(_, path)| path)
}

fn files(path: &Path) -> DatabaseFiles {
    let log = path.with_extension("sqlite-wal");
    let files = [path.to_owned(), log].into_iter();
    let known = files.filter_map(|path| {
        let file = fs::metadata(&path).ok()?;
        Some((path, file.len(), file.modified().ok()?))
    });
    known.collect()
}

fn read(path: &Path) -> std::io::Result<Threads> {
    let database = database::open(path)?;
    let threads = || {
        let mut statement = database.prepare("SELECT * FROM threads")?;
        let threads = statement.query_map([], |row| Ok((row.get("id")?, state(row))))?;
        threads.collect::<rusqlite::Result<Threads>>()
    };
    threads().map_err(std::io::Error::other)
}

fn state(row: &Row<'_>) -> ThreadState {
    // Before threads had names, their titles were these; the title of one without is its first message.
    let title = || {
        let first = column(row, "first_user_message")?;
        column(row, "title").filter(|title| title.trim() != first.trim())
    };
    let name = column(row, "name").or_else(|| match row.get_ref("name") {
        Ok(_) => None,
        Err(_) => title(),
    });
    ThreadState {
        name: name.filter(|name| !name.trim().is_empty()),
        is_archived: row.get("archived").unwrap_or_default(),
    }
}
