//! SQL statements about the words of logs: which are read, and which sessions they belong to.
//!
//! The words of a session are in rows of the full-text index, one for each piece of its log. The
//! number of such a row consists of the number of the session's own row and that of the piece, so
//! that a match shows its session without a lookup.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use rusqlite::types::Value;
use rusqlite::{OptionalExtension, Result, Transaction, params, params_from_iter};

use crate::conversation::{Field, Passage};
use crate::sys::SessionId;

use super::erase_words;
use super::session_rows::{self, CatalogRow, FoundRows};
use super::tool_files::KeptText;
use crate::index::backend::{PIECES_OF_SESSION, RANKED, TextLocation, WEIGHTS};
use crate::index::kept_text;
use crate::index::logs::Texts;
use crate::index::search::{Search, Term};
use crate::index::tokens::columns;

/// How many bits of a row's number are the piece's. A piece has about 32 KiB of text.
const PIECE_BITS: u32 = 20;

/// The progress of reading a log's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LogWords {
    /// The log's length when it was last read to its end; -1 if it never was.
    pub(super) len: i64,
    /// The byte from which to continue; what is before it is indexed for good.
    pub(super) from: i64,
    /// How many pieces come before `from`. The text after `from` is one more piece, which is
    /// replaced when the log grows.
    pub(super) pieces: i64,
}

impl LogWords {
    /// Whether nothing was read. The row may have been that of another tool's conversation.
    fn is_unread(&self) -> bool {
        self.len < 0 && self.from == 0 && self.pieces == 0
    }
}

/// Listed sessions whose words were not all read, newest first, at most `limit`.
pub(super) fn unread(tx: &Transaction<'_>, limit: usize) -> Result<Vec<(CatalogRow, LogWords)>> {
    let sql = format!(
        "SELECT {}, text_len, text_from, text_pieces FROM sessions
         WHERE updated_at IS NOT NULL AND text_len <> len
         ORDER BY updated_at DESC, id DESC LIMIT ?",
        session_rows::columns()
    );
    let mut statement = tx.prepare_cached(&sql)?;
    let found = statement.query_map([i64::try_from(limit).unwrap_or(i64::MAX)], |columns| {
        let state = LogWords {
            len: columns.get("text_len")?,
            from: columns.get("text_from")?,
            pieces: columns.get("text_pieces")?,
        };
        Ok((session_rows::row(columns)?, state))
    })?;
    found.collect()
}

/// The result of reading a log.
#[derive(Clone, Debug)]
pub(super) struct LogTexts {
    /// The log's length; -1 if its end was not reached.
    pub(super) len: i64,
    /// Whether the log was read from its beginning, since it is a different log than before.
    pub(super) anew: bool,
    /// Its text.
    pub(super) texts: Texts,
}

/// Adds the words of a log, if the log's state is still `old`.
pub(super) fn add(
    tx: &Transaction<'_>,
    id: &SessionId,
    old: &LogWords,
    read: &LogTexts,
) -> Result<()> {
    let mut row = tx.prepare_cached(
        "SELECT number FROM sessions
         WHERE id = ? AND text_len = ? AND text_from = ? AND text_pieces = ?",
    )?;
    let known = params![id.as_str(), old.len, old.from, old.pieces];
    let row: Option<i64> = row.query_row(known, |row| row.get(0)).optional()?;
    let Some(row) = row else { return Ok(()) };
    let (mut pieces, mut start) = (old.pieces, old.from);
    if read.anew || old.is_unread() {
        forget(tx, row)?;
        (pieces, start) = (0, 0);
    } else if old.len >= 0 {
        tx.prepare_cached("DELETE FROM words WHERE rowid = ?")?
            .execute([piece(row, pieces)])?;
    }
    for done in &read.texts.done {
        insert(tx, piece(row, pieces), start, &done.passages, None)?;
        start = session_rows::int(done.end);
        pieces += 1;
    }
    if let Some(text) = read.texts.open.as_ref().filter(|text| !text.is_empty()) {
        insert(tx, piece(row, pieces), start, text, None)?;
    }
    tx.prepare_cached(
        "UPDATE sessions SET text_len = ?, text_from = ?, text_pieces = ? WHERE number = ?",
    )?
    .execute(params![
        read.len,
        session_rows::int(read.texts.from),
        pieces,
        row
    ])?;
    Ok(())
}

/// Replaces the words of a conversation that another tool keeps by those in pieces from this one on. The
/// pieces that are the same stay: a file that has grown costs what was added to it.
pub(super) fn replace(
    tx: &Transaction<'_>,
    id: &SessionId,
    from: usize,
    text: &[Vec<Passage>],
) -> Result<()> {
    let Some(row) = number_of_tool(tx, id)? else {
        return Ok(());
    };
    let kept: Vec<Vec<u8>> = text
        .iter()
        .map(|passages| kept_text::pack(passages))
        .collect();
    let numbered = || (from..).zip(text.iter().zip(&kept));
    let mut is_kept = tx.prepare_cached("SELECT 1 FROM pieces WHERE piece = ? AND text = ?")?;
    let mut new = numbered();
    let first = loop {
        match new.next() {
            Some((number, (_, kept))) => {
                if !is_kept.exists(params![numbered_piece(row, number), kept])? {
                    break number;
                }
            }
            None => break from + text.len(),
        }
    };
    let old = kept_from(tx, row, first)?;
    if !old.is_empty() {
        remove_from(tx, row, first)?;
        if !are_in(&old, &text[first - from..]) {
            erase_words::want(tx)?;
        }
    }
    for (number, (passages, kept)) in numbered().skip(first - from) {
        let start = i64::try_from(number).unwrap_or(i64::MAX);
        insert(tx, numbered_piece(row, number), start, passages, Some(kept))?;
    }
    Ok(())
}

/// The last pieces of the text that is kept of a tool's conversation, so many; none if there are none.
pub(super) fn last_pieces(
    tx: &Transaction<'_>,
    id: &SessionId,
    count: usize,
) -> Result<Option<KeptText>> {
    let Some(row) = number_of_tool(tx, id)? else {
        return Ok(None);
    };
    let mut pieces = tx.prepare_cached(
        "SELECT piece, text FROM pieces WHERE piece BETWEEN ? AND ? ORDER BY piece DESC",
    )?;
    let pieces = pieces.query_map(pieces_from(row, 0), |columns| {
        let piece: i64 = columns.get(0)?;
        Ok((piece, columns.get::<_, Option<Vec<u8>>>(1)?))
    })?;
    let mut pieces = pieces.take(count).collect::<Result<Vec<_>>>()?;
    pieces.reverse();
    let Some((first, _)) = pieces.first() else {
        return Ok(None);
    };
    let from = usize::try_from(first - piece(row, 0)).unwrap_or(0);
    let pieces = pieces
        .iter()
        .map(|(_, text)| kept_text::unpack(text.as_deref().unwrap_or_default()));
    let pieces = pieces.collect::<Option<_>>();
    Ok(pieces.map(|pieces| KeptText { from, pieces }))
}

/// The texts that are kept of the session in this row, from a piece on.
fn kept_from(tx: &Transaction<'_>, row: i64, from: usize) -> Result<Vec<Option<Vec<u8>>>> {
    let mut kept = tx.prepare_cached("SELECT text FROM pieces WHERE piece BETWEEN ? AND ?")?;
    let kept = kept.query_map(pieces_from(row, from), |row| row.get(0))?;
    kept.collect()
}

/// Whether these texts have no word that the passages in their place lack.
fn are_in(old: &[Option<Vec<u8>>], new: &[Vec<Passage>]) -> bool {
    let new: Vec<String> = new.iter().flat_map(|passages| columns(passages)).collect();
    let words: HashSet<&str> = new
        .iter()
        .flat_map(|text| text.split_whitespace())
        .collect();
    let is_in = |passages: Vec<Passage>| {
        let old = columns(&passages);
        let mut all = old.iter().flat_map(|text| text.split_whitespace());
        all.all(|word| words.contains(word))
    };
    let mut old = old.iter();
    old.all(|kept| kept_text::unpack(kept.as_deref().unwrap_or_default()).is_some_and(is_in))
}

/// Removes the words of a conversation that another tool keeps, if this is one.
pub(super) fn forget_of_tool(tx: &Transaction<'_>, id: &SessionId) -> Result<()> {
    match number_of_tool(tx, id)? {
        Some(row) => {
            forget_reading(tx, id)?;
            forget(tx, row)
        }
        None => Ok(()),
    }
}

/// Removes how far files with a session were read, which has words of it, too.
fn forget_reading(tx: &Transaction<'_>, id: &SessionId) -> Result<()> {
    tx.prepare_cached("UPDATE files SET so_far = NULL WHERE session = ?")?
        .execute([id.as_str()])?;
    Ok(())
}

fn number_of_tool(tx: &Transaction<'_>, id: &SessionId) -> Result<Option<i64>> {
    let number = "SELECT number FROM sessions WHERE id = ? AND tool IS NOT NULL";
    let mut number = tx.prepare_cached(number)?;
    number.query_row([id.as_str()], |row| row.get(0)).optional()
}

fn insert(
    tx: &Transaction<'_>,
    piece: i64,
    start: i64,
    passages: &[Passage],
    kept: Option<&[u8]>,
) -> Result<()> {
    let columns = columns(passages);
    tx.prepare_cached(
        "INSERT INTO words (prompt, answer, thought, title, tool, tool_input, tool_output, parts, rowid)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )?
    .execute(params_from_iter(columns.into_iter().map(Value::Text).chain([Value::Integer(piece)])))?;
    tx.prepare_cached("INSERT OR REPLACE INTO pieces VALUES (?, ?, ?)")?
        .execute(params![piece, start, kept])?;
    Ok(())
}

/// Where in these sessions the first piece with a term is.
pub(super) fn places(
    tx: &Transaction<'_>,
    ids: &[&SessionId],
    term: &Term,
) -> Result<Vec<Option<TextLocation>>> {
    let numbers = ids.iter().map(|id| number(tx, id));
    let numbers: Vec<_> = numbers.collect::<Result<_>>()?;
    let mut wanted: BTreeSet<i64> = numbers.iter().flatten().copied().collect();
    let mut places = BTreeMap::new();
    let mut matching = tx.prepare_cached("SELECT rowid FROM words WHERE words MATCH ?")?;
    let mut found = matching.query([term.expression()])?;
    while let Some(row) = found.next()?.filter(|_| !wanted.is_empty()) {
        let piece: i64 = row.get(0)?;
        let number = piece >> PIECE_BITS;
        if wanted.remove(&number) {
            places.insert(number, place(tx, piece)?);
        }
    }
    let place = |number: Option<i64>| places.remove(&number?).flatten();
    Ok(numbers.into_iter().map(place).collect())
}

/// The sessions that have all words of a search.
pub(super) fn found(tx: &Transaction<'_>, search: &Search) -> Result<FoundRows> {
    let terms = search.terms().iter().map(Term::expression);
    let rows = with_all(tx, terms)?;
    Ok(FoundRows {
        count: rows.len(),
        rows: as_json(&rows),
    })
}

/// Numbers as a JSON array.
fn as_json<'a>(numbers: impl IntoIterator<Item = &'a i64>) -> String {
    let numbers: Vec<_> = numbers.into_iter().map(i64::to_string).collect();
    format!("[{}]", numbers.join(","))
}

/// The numbers of the sessions that match each expression, in ascending order. Each is looked up
/// once, and the rest are not looked up if no session is left.
fn with_all(
    tx: &Transaction<'_>,
    expressions: impl IntoIterator<Item = impl rusqlite::ToSql>,
) -> Result<Vec<i64>> {
    let sql = "SELECT rowid FROM words WHERE words MATCH ? ORDER BY rowid";
    let mut statement = tx.prepare_cached(sql)?;
    let mut found: Option<Vec<i64>> = None;
    for expression in expressions {
        let number = |row: &rusqlite::Row<'_>| Ok(row.get::<_, i64>(0)? >> PIECE_BITS);
        let rows = statement.query_map([expression], number)?;
        let mut rows = rows.collect::<Result<Vec<i64>>>()?;
        rows.dedup();
        if let Some(found) = &found {
            rows.retain(|row| found.binary_search(row).is_ok());
        }
        let none = rows.is_empty();
        found = Some(rows);
        if none {
            break;
        }
    }
    Ok(found.unwrap_or_default())
}

/// A session with all words of a search.
#[derive(Clone, Debug)]
pub(super) struct RankedRow {
    /// The number of its row.
    pub(super) number: i64,
    /// The best of its pieces that have some of the words, as many as are shown, best first; empty if they
    /// were not looked up.
    pub(super) pieces: Vec<i64>,
}

/// The sessions that have all words of a search in these fields, or in any if there are none, best
/// first, at most `most`.
pub(super) fn ranked(
    tx: &Transaction<'_>,
    search: &Search,
    fields: &[Field],
    most: usize,
) -> Result<Vec<RankedRow>> {
    let expressions = expressions(search, fields);
    let found = with_all(tx, &expressions)?;
    if found.is_empty() {
        return Ok(Vec::new());
    }
    let mut newest: Vec<i64> = if found.len() > RANKED {
        newest(tx, &found, most)?
    } else {
        found
    };
    let others = newest.split_off(newest.len().min(RANKED));
    let mut matching = tx.prepare_cached(&format!(
        "SELECT rowid FROM words
         WHERE words MATCH ? AND rowid >> {PIECE_BITS} IN (SELECT value FROM json_each(?))
         ORDER BY bm25(words, {WEIGHTS}), rowid DESC"
    ))?;
    let mut pieces = matching.query((any(&expressions), as_json(&newest)))?;
    let mut places: BTreeMap<i64, usize> = BTreeMap::new();
    let mut sessions: Vec<RankedRow> = Vec::new();
    while let Some(row) = pieces.next()? {
        let piece: i64 = row.get(0)?;
        let number = piece >> PIECE_BITS;
        let place = *places.entry(number).or_insert(sessions.len());
        match sessions.get_mut(place) {
            Some(session) if session.pieces.len() < PIECES_OF_SESSION => session.pieces.push(piece),
            Some(_) => {}
            None => sessions.push(RankedRow {
                number,
                pieces: vec![piece],
            }),
        }
    }
    sessions.extend(others.into_iter().map(|number| RankedRow {
        number,
        pieces: Vec::new(),
    }));
    sessions.truncate(most);
    Ok(sessions)
}

/// Of these sessions, which are in ascending order, those that were last active, newest first, at
/// most `most`.
fn newest(tx: &Transaction<'_>, found: &[i64], most: usize) -> Result<Vec<i64>> {
    let mut numbers = tx.prepare_cached(
        "SELECT number FROM sessions WHERE updated_at IS NOT NULL
         ORDER BY updated_at DESC, id DESC",
    )?;
    let numbers = numbers.query_map([], |row| row.get(0))?;
    let numbers = numbers.filter(|number| {
        let number = number.as_ref();
        number.map_or(true, |number| found.binary_search(number).is_ok())
    });
    numbers.take(most).collect()
}

/// The first pieces of a session that have all words of a search in prompts or titles.
pub(super) fn said(tx: &Transaction<'_>, number: i64, search: &Search) -> Result<Vec<i64>> {
    let fields = [Field::Prompt, Field::Title];
    let all = expressions(search, &fields).join(" AND ");
    let mut matching = tx.prepare_cached(
        "SELECT rowid FROM words WHERE words MATCH ? AND rowid BETWEEN ? AND ?
         ORDER BY rowid LIMIT 2",
    )?;
    let (first, last) = (piece(number, 0), piece(number.wrapping_add(1), -1));
    let pieces = matching.query_map(params![all, first, last], |row| row.get(0))?;
    pieces.collect()
}

/// The pieces of a session that have some words of a search, as many as are shown.
pub(super) fn pieces(
    tx: &Transaction<'_>,
    number: i64,
    search: &Search,
    fields: &[Field],
) -> Result<Vec<i64>> {
    let mut matching =
        tx.prepare_cached("SELECT rowid FROM words WHERE words MATCH ? AND rowid BETWEEN ? AND ?")?;
    let (first, last) = (piece(number, 0), piece(number.wrapping_add(1), -1));
    let any = any(&expressions(search, fields));
    let pieces = matching.query_map(params![any, first, last], |row| row.get(0))?;
    pieces.take(PIECES_OF_SESSION).collect()
}

/// An expression of the index's query language for each word of a search.
fn expressions(search: &Search, fields: &[Field]) -> Vec<String> {
    let columns = match fields {
        [] => String::new(),
        fields => {
            // The parts of names are those of all fields.
            let names = fields.iter().map(|field| column(*field));
            let names: Vec<_> = names.chain(["parts"]).collect();
            format!("{{{}}} : ", names.join(" "))
        }
    };
    let expressions = search
        .terms()
        .iter()
        .map(|term| format!("{columns}({})", term.expression()));
    expressions.collect()
}

/// An expression for any of these.
fn any(expressions: &[String]) -> String {
    let any = expressions
        .iter()
        .map(|expression| format!("({expression})"));
    any.collect::<Vec<_>>().join(" OR ")
}

/// Where the text of a piece is.
pub(super) fn place(tx: &Transaction<'_>, piece: i64) -> Result<Option<TextLocation>> {
    Ok(match start_and_text(tx, piece)? {
        Some((_, Some(kept))) => Some(TextLocation::Kept(kept)),
        Some((start, None)) => {
            let next = start_and_text(tx, piece.wrapping_add(1))?;
            let end = next.map(|(end, _)| end).filter(|end| *end > start);
            let log = |start| TextLocation::Log(start, end.and_then(|end| u64::try_from(end).ok()));
            u64::try_from(start).ok().map(log)
        }
        None => None,
    })
}

/// Where a piece begins in its log, or the text that is kept of it.
fn start_and_text(tx: &Transaction<'_>, piece: i64) -> Result<Option<(i64, Option<Vec<u8>>)>> {
    let mut start = tx.prepare_cached("SELECT start, text FROM pieces WHERE piece = ?")?;
    let row = start.query_row([piece], |row| Ok((row.get(0)?, row.get(1)?)));
    row.optional()
}

/// The column of `words` with the text of a field.
fn column(field: Field) -> &'static str {
    match field {
        Field::ToolInput => "tool_input",
        Field::ToolOutput => "tool_output",
        field => field.name(),
    }
}

/// Skips the words of a log that cannot be read until its length changes.
pub(super) fn pass_over(tx: &Transaction<'_>, id: &SessionId) -> Result<()> {
    tx.prepare_cached("UPDATE sessions SET text_len = len WHERE id = ?")?
        .execute([id.as_str()])?;
    Ok(())
}

/// Removes a session with its words.
pub(super) fn delete(tx: &Transaction<'_>, id: &SessionId) -> Result<()> {
    if let Some(row) = number(tx, id)? {
        forget(tx, row)?;
    }
    forget_reading(tx, id)?;
    session_rows::delete(tx, id)
}

/// The number of a session's row.
fn number(tx: &Transaction<'_>, id: &SessionId) -> Result<Option<i64>> {
    let mut number = tx.prepare_cached("SELECT number FROM sessions WHERE id = ?")?;
    number.query_row([id.as_str()], |row| row.get(0)).optional()
}

/// Removes the words of the session in this row.
fn forget(tx: &Transaction<'_>, row: i64) -> Result<()> {
    if remove_from(tx, row, 0)? {
        erase_words::want(tx)?;
    }
    Ok(())
}

/// Removes the pieces of the session in this row from one on. Returns whether there were any.
fn remove_from(tx: &Transaction<'_>, row: i64, from: usize) -> Result<bool> {
    let pieces = pieces_from(row, from);
    let deleted = tx
        .prepare_cached("DELETE FROM pieces WHERE piece BETWEEN ? AND ?")?
        .execute(pieces)?;
    // The index writes all new words before it deletes any, so it is asked only if there are some.
    if deleted > 0 {
        tx.prepare_cached("DELETE FROM words WHERE rowid BETWEEN ? AND ?")?
            .execute(pieces)?;
    }
    Ok(deleted > 0)
}

/// The first and the last number of the pieces of the session in this row, from one on.
fn pieces_from(row: i64, from: usize) -> [i64; 2] {
    [numbered_piece(row, from), piece(row.wrapping_add(1), -1)]
}

fn numbered_piece(row: i64, number: usize) -> i64 {
    piece(row, i64::try_from(number).unwrap_or(i64::MAX))
}

fn piece(row: i64, piece: i64) -> i64 {
    (row << PIECE_BITS).wrapping_add(piece)
}
