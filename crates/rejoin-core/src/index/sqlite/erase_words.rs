//! Erases words of deleted sessions from the full-text index.
//!
//! The index only marks a deleted document. Its words remain until the part of the index that holds
//! them is merged with another, which may never happen. So the whole index is merged after a
//! deletion, in small steps, since other processes wait for each write.

use rusqlite::{Result, Transaction};

use super::database::{CatalogDatabase, DatabaseError};

/// How many pages of the index one step writes; a page has 4 kB.
const PAGES: i64 = 256;

/// The value of `names.erasing` if there is nothing to erase.
const NOTHING: i64 = 0;
/// The value of `names.erasing` if something was deleted since the index was last merged as a whole.
const WANTED: i64 = 1;
/// The value of `names.erasing` while the index is being merged as a whole, step by step.
const BEGUN: i64 = 2;

/// Records that words were deleted.
pub(super) fn want(tx: &Transaction<'_>) -> Result<()> {
    tx.prepare_cached("UPDATE names SET erasing = ?")?
        .execute([WANTED])?;
    Ok(())
}

/// Does one step of erasing; returns whether everything is erased.
pub(in crate::index) fn erase_some(
    database: &CatalogDatabase,
) -> std::result::Result<bool, DatabaseError> {
    if database.read(state)? == NOTHING {
        return Ok(true);
    }
    let erased = database.write(merge)?;
    if erased {
        // The write-ahead log still has old pages.
        database.empty_wal()?;
    }
    Ok(erased)
}

fn state(tx: &Transaction<'_>) -> Result<i64> {
    tx.prepare_cached("SELECT erasing FROM names")?
        .query_row([], |row| row.get(0))
}

/// Merges more of the index; returns whether that was the last of it.
fn merge(tx: &Transaction<'_>) -> Result<bool> {
    let pages = match state(tx)? {
        NOTHING => return Ok(true),
        BEGUN => PAGES,
        // A negative number begins a merge of the whole index.
        _ => -PAGES,
    };
    let before = tx.total_changes();
    tx.prepare_cached("INSERT INTO words (words, rank) VALUES ('merge', ?)")?
        .execute([pages])?;
    // The command counts as one change, whatever it does.
    let more = tx.total_changes() - before > 1;
    tx.prepare_cached("UPDATE names SET erasing = ?")?
        .execute([if more { BEGUN } else { NOTHING }])?;
    Ok(!more)
}
