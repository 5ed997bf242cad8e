//! Shows the text around the words that a search found.
//!
//! The index does not store the text of logs, so it is read from them, for the first sessions of a
//! page. It does store that of other tools' conversations.

use std::collections::BTreeMap;

use crate::conversation::Passage;
use crate::record::title::line_of;
use crate::sys::SessionId;

use super::backend::{CatalogBackend, Listed, TextLocation};
use super::kept_text;
use super::logs::{Logs, read_all};
use super::search::Term;
use super::tokens::Tokens;

/// For how many sessions of a page text is shown.
const SESSIONS: usize = 50;

/// How many bytes of a log are read for one snippet.
const OF_A_LOG: usize = 128 * 1024;

/// How many characters before the word are shown.
const BEFORE: usize = 30;

/// The text around a term in these sessions, by their indices. With each comes the first
/// piece that has it.
fn around<'a>(
    logs: &Logs,
    term: &Term,
    places: impl Iterator<Item = (&'a SessionId, Option<TextLocation>)>,
) -> BTreeMap<usize, String> {
    let jobs: Vec<_> = places.collect();
    let read = read_all(&jobs, |(id, place)| {
        let around = |passage: &Passage| {
            let at = term.find(&Tokens::of(&passage.text))?;
            snippet(&passage.text, at)
        };
        match place.as_ref()? {
            TextLocation::Log(start, _) => {
                let texts = logs.texts(id, *start, i64::MAX, OF_A_LOG).ok()?;
                texts.passages().find_map(around)
            }
            TextLocation::Kept(text) => kept_text::unpack(text)?.iter().find_map(around),
        }
    });
    let read = read.into_iter().enumerate();
    read.filter_map(|(at, snippet)| Some((at, snippet?)))
        .collect()
}

/// Adds the text around a term that was found. A search succeeds without it.
pub(super) fn add_snippets(
    backend: &dyn CatalogBackend,
    logs: &Logs,
    sessions: &mut [Listed],
    term: &Term,
) {
    let shown = sessions.iter().take(SESSIONS);
    let ids: Vec<_> = shown.map(|listed| &listed.id).collect();
    let found = match backend.places(&ids, term) {
        Ok(places) => around(logs, term, ids.into_iter().zip(places)),
        Err(error) => {
            tracing::debug!(%error, "cannot show where words were found");
            return;
        }
    };
    for (at, snippet) in found {
        if let Some(listed) = sessions.get_mut(at) {
            listed.snippet = Some(snippet);
        }
    }
}

/// The line around the byte `at` of a text, as much as fits.
pub(super) fn snippet(text: &str, at: usize) -> Option<String> {
    // Only this line, since the next one may be another message.
    let start = text[..at].rfind('\n').map_or(0, |end| end + 1);
    let text = text[start..].lines().next()?;
    let at = at - start;
    let mut before = text[..at].char_indices().rev().take(BEFORE);
    let mut begin = before.by_ref().last().map_or(at, |(begin, _)| begin);
    if begin > 0
        && let Some(space) = text[begin..at].find(char::is_whitespace)
    {
        // Do not begin with half a word.
        begin += space;
    }
    let line = line_of(&text[begin..])?;
    Some(if begin > 0 {
        format!("…{line}")
    } else {
        line
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snippet_is_one_line_with_the_word() {
        for (text, word, expected) in [
            (
                "Redis\nkeeps timing out\nand",
                "timing",
                Some("keeps timing out"),
            ),
            ("Redis", "Redis", Some("Redis")),
            ("\u{1b}[2Ja\u{202e}b", "b", Some("[2Jab")),
            ("\u{1b}", "", None),
        ] {
            let at = text.find(word).unwrap();
            assert_eq!(snippet(text, at).as_deref(), expected, "{text}");
        }
        let long = "word ".repeat(100);
        let text = format!("{long}needle {long}");
        let found = snippet(&text, long.len()).unwrap();
        assert!(found.starts_with("…word word"), "{found}");
        assert!(found.contains(" needle word"), "{found}");
        assert!(found.ends_with("word…"), "{found}");
        assert!(found.chars().count() <= 81, "{found}");
    }
}
