//! The statements about the words of logs: which are read, which sessions they are of.

use rusqlite::{OptionalExtension, Result, Transaction, params};

use crate::sys::SessionId;

use super::Texts;
use super::rows::{self, Row};
use super::search::words;

/// How far the words of a log were read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct State {
    /// The log's length when it was read to its end; -1 if that never was.
    pub(super) len: i64,
    /// The byte from which on to read; what is before it is indexed for good.
    pub(super) from: i64,
    /// The row with what follows `from` so far, to be replaced when there is more.
    pub(super) open: Option<i64>,
}

/// Listed sessions whose words were not all read, the newest first, at most `limit`.
pub(super) fn unread(tx: &Transaction<'_>, limit: usize) -> Result<Vec<(Row, State)>> {
    let sql = format!(
        "SELECT {}, text_len, text_from, text_open FROM sessions
         WHERE updated_at IS NOT NULL AND text_len <> len
         ORDER BY updated_at DESC, id DESC LIMIT ?",
        rows::COLUMNS
    );
    let mut statement = tx.prepare_cached(&sql)?;
    let found = statement.query_map([i64::try_from(limit).unwrap_or(i64::MAX)], |columns| {
        let state = State {
            len: columns.get("text_len")?,
            from: columns.get("text_from")?,
            open: columns.get("text_open")?,
        };
        Ok((rows::row(columns)?, state))
    })?;
    found.collect()
}

/// What was read of a log.
#[derive(Clone, Debug)]
pub(super) struct Read {
    /// The log's length; -1 if its end was not reached.
    pub(super) len: i64,
    /// Whether it was read from its beginning, since it is another one than before.
    pub(super) anew: bool,
    /// What it says.
    pub(super) texts: Texts,
}

/// Adds the words of a log, if it is still read just as far as `old` says.
pub(super) fn add(tx: &Transaction<'_>, id: &SessionId, old: &State, read: &Read) -> Result<()> {
    let mut now = tx.prepare_cached(
        "SELECT 1 FROM sessions
         WHERE id = ? AND text_len = ? AND text_from = ? AND text_open IS ?",
    )?;
    if !now.exists(params![id.as_str(), old.len, old.from, old.open])? {
        return Ok(());
    }
    if read.anew {
        forget(tx, id)?;
    } else if let Some(open) = old.open {
        tx.prepare_cached("DELETE FROM words WHERE rowid = ?")?
            .execute([open])?;
        tx.prepare_cached("DELETE FROM pieces WHERE id = ?")?
            .execute([open])?;
    }
    for text in read.texts.done.iter().filter(|text| !text.is_empty()) {
        insert(tx, id, text)?;
    }
    let open = read.texts.open.as_ref().filter(|text| !text.is_empty());
    let open = open.map(|text| insert(tx, id, text)).transpose()?;
    tx.prepare_cached(
        "UPDATE sessions SET text_len = ?, text_from = ?, text_open = ? WHERE id = ?",
    )?
    .execute(params![
        read.len,
        rows::int(read.texts.from),
        open,
        id.as_str()
    ])?;
    Ok(())
}

/// Leaves the words of a log that cannot be read alone until its length changes.
pub(super) fn pass_over(tx: &Transaction<'_>, id: &SessionId) -> Result<()> {
    tx.prepare_cached("UPDATE sessions SET text_len = len WHERE id = ?")?
        .execute([id.as_str()])?;
    Ok(())
}

/// Removes a session with its words.
pub(super) fn delete(tx: &Transaction<'_>, id: &SessionId) -> Result<()> {
    forget(tx, id)?;
    rows::delete(tx, id)
}

/// Removes the words of a session.
fn forget(tx: &Transaction<'_>, id: &SessionId) -> Result<()> {
    let mut any = tx.prepare_cached("SELECT 1 FROM pieces WHERE session = ? LIMIT 1")?;
    let any: Option<i64> = any.query_row([id.as_str()], |row| row.get(0)).optional()?;
    if any.is_none() {
        return Ok(());
    }
    tx.prepare_cached(
        "DELETE FROM words WHERE rowid IN (SELECT id FROM pieces WHERE session = ?)",
    )?
    .execute([id.as_str()])?;
    tx.prepare_cached("DELETE FROM pieces WHERE session = ?")?
        .execute([id.as_str()])?;
    Ok(())
}

fn insert(tx: &Transaction<'_>, id: &SessionId, text: &str) -> Result<i64> {
    tx.prepare_cached("INSERT INTO pieces (session) VALUES (?)")?
        .execute([id.as_str()])?;
    let piece = tx.last_insert_rowid();
    tx.prepare_cached("INSERT INTO words (rowid, text) VALUES (?, ?)")?
        .execute(params![piece, words(text)])?;
    Ok(piece)
}
