//! What Codex keeps of its threads beside their rollouts: the names that they were given, and which of them
//! are archived or pinned. It is in a database, each generation of which has a file of its own, `state_N.sqlite`;
//! earlier versions wrote the names to `session_index.jsonl`.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::SystemTime;

use rusqlite::Row;

use crate::sources::database::{self, column};
use crate::sources::{bytes, lines};
use crate::sys::lock;

/// A thread as Codex knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ThreadState {
    /// The name that the user or the program has given to it.
    pub(super) name: Option<String>,
    pub(super) is_archived: bool,
    pub(super) is_pinned: bool,
}

/// Threads by their ids.
type Threads = HashMap<String, ThreadState>;

/// The sizes and times of files.
type FileStates = Vec<(PathBuf, u64, SystemTime)>;

/// The threads that were read last, which all conversations of a list need.
#[derive(Debug, Default)]
struct LastThreads {
    /// The folders with databases, which change when there is one of another generation.
    folders: FileStates,
    database: Option<PathBuf>,
    /// The files that they were read from.
    files: FileStates,
    threads: Arc<Threads>,
}

static LAST: LazyLock<Mutex<LastThreads>> = LazyLock::new(Mutex::default);

/// The threads in the database and the file of this folder; empty if none can be read.
pub(super) fn of(root: &Path) -> Arc<Threads> {
    // Some versions have the database in a folder of its own.
    let folders = [root.to_owned(), root.join("sqlite")];
    let states_of_folders = states(folders.clone());
    let mut last = lock(&LAST);
    if last.folders != states_of_folders {
        last.database = newest(&folders);
        last.folders = states_of_folders;
    }
    let names = root.join("session_index.jsonl");
    let database = last.database.clone();
    let log = database
        .as_ref()
        .map(|path| path.with_extension("sqlite-wal"));
    let files = states(
        database
            .clone()
            .into_iter()
            .chain(log)
            .chain([names.clone()]),
    );
    if last.files != files {
        let mut threads = named(&names);
        if let Some(path) = &database
            && let Err(error) = read(path, &mut threads)
        {
            let path = path.display();
            tracing::debug!(%path, %error, "cannot read the names of threads");
        }
        last.files = files;
        last.threads = Arc::new(threads);
    }
    last.threads.clone()
}

/// The database of the newest generation in these folders; of several, the one in the last folder.
fn newest(folders: &[PathBuf]) -> Option<PathBuf> {
    let entries = folders.iter().enumerate().flat_map(|(number, folder)| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(move |entry| (number, entry))
    });
    let generation = |name: &str| -> Option<u32> {
        let number = name.strip_prefix("state_")?.strip_suffix(".sqlite")?;
        number.parse().ok()
    };
    let databases = entries.filter_map(|(number, entry)| {
        let generation = generation(entry.file_name().to_str()?)?;
        Some(((generation, number), entry.path()))
    });
    databases.max().map(|(_, path)| path)
}

fn states(paths: impl IntoIterator<Item = PathBuf>) -> FileStates {
    let known = paths.into_iter().filter_map(|path| {
        let file = fs::metadata(&path).ok()?;
        let len = if file.is_file() { file.len() } else { 0 };
        Some((path, len, file.modified().ok()?))
    });
    known.collect()
}

/// The threads in a file with names, of which later lines count.
fn named(path: &Path) -> Threads {
    let lines = lines::objects(&bytes(path).unwrap_or_default()).objects;
    let named = lines.iter().filter_map(|line| {
        let name = line["thread_name"]
            .as_str()
            .filter(|name| !name.trim().is_empty())?;
        let state = ThreadState {
            name: Some(name.to_owned()),
            ..ThreadState::default()
        };
        Some((line["id"].as_str()?.to_owned(), state))
    });
    named.collect()
}

/// Adds the threads in a database, whose names count.
fn read(path: &Path, threads: &mut Threads) -> std::io::Result<()> {
    let database = database::open(path)?;
    let mut read = || {
        let mut statement = database.prepare("SELECT * FROM threads")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let known = threads.entry(row.get("id")?).or_default();
            let state = state(row);
            known.is_archived = state.is_archived;
            known.is_pinned = state.is_pinned;
            known.name = state.name.or(known.name.take());
        }
        Ok(())
    };
    read().map_err(|error: rusqlite::Error| std::io::Error::other(error))
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
        is_pinned: row.get("is_pinned").unwrap_or_default(),
    }
}
