//! Opens the databases of other tools.

use std::io;
use std::path::Path;
use std::time::Duration;

use crate::sys::Timestamp;

use super::{FoundConversation, FoundConversations};

use rusqlite::{Connection, OpenFlags, Row};

/// How long the tool may keep the database locked.
const BUSY: Duration = Duration::from_secs(5);

/// Opens a database that belongs to another program, which may be writing to it.
pub(super) fn open(path: &Path) -> io::Result<Connection> {
    // SQLite has no error of its own for a file that does not exist.
    if !std::fs::metadata(path)?.is_file() {
        return Err(super::no_file());
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let opened = Connection::open_with_flags(path, flags).and_then(|database| {
        database.busy_timeout(BUSY)?;
        database.pragma_update(None, "query_only", true)?;
        Ok(database)
    });
    opened.map_err(io::Error::other)
}

/// A text in a row. Columns have been added over time.
pub(super) fn column(row: &Row<'_>, name: &str) -> Option<String> {
    let text: Option<String> = row.get(name).ok()?;
    text.filter(|text| !text.is_empty())
}

/// Adds the conversations in a database, of which `list` has the keys and when each was changed.
/// There may be no database.
pub(super) fn find(
    root: &Path,
    path: &Path,
    search: &mut FoundConversations,
    list: impl FnOnce(&Connection) -> rusqlite::Result<Vec<(String, Timestamp)>>,
) {
    let listed = match open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return,
        opened => opened.and_then(|database| list(&database).map_err(io::Error::other)),
    };
    match listed {
        Ok(listed) => search
            .found
            .extend(listed.into_iter().map(|(key, modified)| FoundConversation {
                root: root.to_owned(),
                path: path.to_owned(),
                key: Some(key),
                modified,
                size: 0,
            })),
        Err(error) => search.errors.push((path.to_owned(), error)),
    }
}
