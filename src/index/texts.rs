//! The statements about the words of logs: which are read, which sessions they are of.
//!
//! The words of a session are in rows of the full-text index, a piece of its log in each. The
//! number of such a row is made of that of the session's own row and of the piece's, so that
//! nothing has to be looked up to tell what was found where.

use std::collections::BTreeSet;

use rusqlite::{OptionalExtension, Result, Transaction, params};

use crate::sys::SessionId;

use super::Texts;
use super::rows::{self, Found, Row};
use super::search::{Search, words};

/// How many bits of a row's number are the piece's. A piece has some 32 KiB of text.
const PIECE_BITS: u32 = 20;

/// How far the words of a log were read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct State {
    /// The log's length when it was read to its end; -1 if that never was.
    pub(super) len: i64,
    /// The byte from which on to read; what is before it is indexed for good.
    pub(super) from: i64,
    /// In how many pieces that is. What follows `from` so far is one more, which is replaced when
    /// there is more.
    pub(super) pieces: i64,
}

/// Listed sessions whose words were not all read, the newest first, at most `limit`.
pub(super) fn unread(tx: &Transaction<'_>, limit: usize) -> Result<Vec<(Row, State)>> {
    let sql = format!(
        "SELECT {}, text_len, text_from, text_pieces FROM sessions
         WHERE updated_at IS NOT NULL AND text_len <> len
         ORDER BY updated_at DESC, id DESC LIMIT ?",
        rows::COLUMNS
    );
    let mut statement = tx.prepare_cached(&sql)?;
    let found = statement.query_map([i64::try_from(limit).unwrap_or(i64::MAX)], |columns| {
        let state = State {
            len: columns.get("text_len")?,
            from: columns.get("text_from")?,
            pieces: columns.get("text_pieces")?,
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
    let mut row = tx.prepare_cached(
        "SELECT rowid FROM sessions
         WHERE id = ? AND text_len = ? AND text_from = ? AND text_pieces = ?",
    )?;
    let known = params![id.as_str(), old.len, old.from, old.pieces];
    let row: Option<i64> = row.query_row(known, |row| row.get(0)).optional()?;
    let Some(row) = row else { return Ok(()) };
    let mut pieces = old.pieces;
    if read.anew {
        forget(tx, row)?;
        pieces = 0;
    } else if old.len >= 0 {
        tx.prepare_cached("DELETE FROM words WHERE rowid = ?")?
            .execute([piece(row, pieces)])?;
    }
    let mut insert = tx.prepare_cached("INSERT INTO words (rowid, text) VALUES (?, ?)")?;
    for text in &read.texts.done {
        insert.execute(params![piece(row, pieces), words(text)])?;
        pieces += 1;
    }
    if let Some(text) = read.texts.open.as_ref().filter(|text| !text.is_empty()) {
        insert.execute(params![piece(row, pieces), words(text)])?;
    }
    tx.prepare_cached(
        "UPDATE sessions SET text_len = ?, text_from = ?, text_pieces = ? WHERE rowid = ?",
    )?
    .execute(params![read.len, rows::int(read.texts.from), pieces, row])?;
    Ok(())
}

/// The sessions in which all that is searched for was said. Each word is looked up once, and none
/// behind one that excludes all.
pub(super) fn found(tx: &Transaction<'_>, search: &Search) -> Result<Found> {
    let mut statement = tx.prepare_cached(&format!(
        "SELECT DISTINCT rowid >> {PIECE_BITS} FROM words WHERE words MATCH ?"
    ))?;
    let mut found: Option<BTreeSet<i64>> = None;
    for term in search.terms() {
        let rows = statement.query_map([term], |row| row.get(0))?;
        let mut rows = rows.collect::<Result<BTreeSet<i64>>>()?;
        if let Some(found) = &found {
            rows.retain(|row| found.contains(row));
        }
        let none = rows.is_empty();
        found = Some(rows);
        if none {
            break;
        }
    }
    let rows = found.unwrap_or_default();
    let rows: Vec<_> = rows.iter().map(i64::to_string).collect();
    Ok(Found {
        count: rows.len(),
        rows: format!("[{}]", rows.join(",")),
    })
}

/// Leaves the words of a log that cannot be read alone until its length changes.
pub(super) fn pass_over(tx: &Transaction<'_>, id: &SessionId) -> Result<()> {
    tx.prepare_cached("UPDATE sessions SET text_len = len WHERE id = ?")?
        .execute([id.as_str()])?;
    Ok(())
}

/// Removes a session with its words.
pub(super) fn delete(tx: &Transaction<'_>, id: &SessionId) -> Result<()> {
    let mut row = tx.prepare_cached("SELECT rowid FROM sessions WHERE id = ?")?;
    let row = row.query_row([id.as_str()], |row| row.get(0)).optional()?;
    if let Some(row) = row {
        forget(tx, row)?;
    }
    rows::delete(tx, id)
}

/// Removes the words of the session in this row.
fn forget(tx: &Transaction<'_>, row: i64) -> Result<()> {
    tx.prepare_cached("DELETE FROM words WHERE rowid BETWEEN ? AND ?")?
        .execute([piece(row, 0), piece(row.wrapping_add(1), -1)])?;
    Ok(())
}

fn piece(row: i64, piece: i64) -> i64 {
    (row << PIECE_BITS).wrapping_add(piece)
}
