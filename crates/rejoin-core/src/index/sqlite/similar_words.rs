//! Finds words of the index that are like one that no text has, which may be a typing error.

use rusqlite::{Result, Transaction};
use strsim::osa_distance;

use crate::index::search::Term;

/// Shorter words, in characters, are like too many others.
const SHORTEST: usize = 4;
/// In words so long, two characters may be wrong.
const LONG: usize = 8;
/// How many of the words that are most like another one are looked up.
const CANDIDATES: usize = 8;

/// The word with the same first letter that is most like `word` and in most texts, unless a text has the term.
pub(super) fn find(tx: &Transaction<'_>, term: &Term, word: &str) -> Result<Option<String>> {
    let mut any = tx.prepare_cached("SELECT 1 FROM words WHERE words MATCH ? LIMIT 1")?;
    let length = word.chars().count();
    let Some(first) = word.chars().next().filter(|_| length >= SHORTEST) else {
        return Ok(None);
    };
    if any.exists([term.expression()])? {
        return Ok(None);
    }
    let most = if length >= LONG { 2 } else { 1 };
    let mut found: Vec<(usize, i64, String)> = Vec::new();
    tx.execute_batch(
        "CREATE VIRTUAL TABLE IF NOT EXISTS temp.vocabulary USING fts5vocab(main, words, row)",
    )?;
    let sql = "SELECT term, doc FROM temp.vocabulary WHERE term >= ? AND term < ?";
    let mut terms = tx.prepare_cached(sql)?;
    let range = [first.to_string(), format!("{first}\u{10ffff}")];
    let mut rows = terms.query(range)?;
    while let Some(row) = rows.next()? {
        let other: String = row.get(0)?;
        let is_near = length.abs_diff(other.chars().count()) <= most;
        if is_near
            && let distance @ 1.. = osa_distance(word, &other)
            && distance <= most
        {
            found.push((distance, -row.get::<_, i64>(1)?, other));
        }
    }
    found.sort();
    // The index still has words of texts that were deleted.
    for (.., other) in found.into_iter().take(CANDIDATES) {
        if any.exists([format!("\"{other}\"")])? {
            return Ok(Some(other));
        }
    }
    Ok(None)
}
