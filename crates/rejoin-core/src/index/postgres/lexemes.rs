//! Words of texts and searches for a database that has a full-text index of its own.
//!
//! Texts are split by the tokenizer of the catalog, so that both find the same. The database's
//! parsers and dictionaries are not used.

use std::collections::BTreeMap;

use rusqlite::{Connection, Result};

use crate::index::search::{Search, Term};

/// How many positions of a word the database keeps in a vector.
const POSITIONS: usize = 256;
/// How many words a vector has at most: the database knows no position behind 16383.
const WORDS: usize = 16_000;
/// Overlap between consecutive vectors, in words, so that phrases across the cut match.
const SHARED: usize = 64;
/// The longest word in bytes that the database takes.
const LONGEST: usize = 2046;

/// Splits texts into words.
pub(super) struct Lexemes(Connection);

impl Lexemes {
    pub(super) fn new() -> Result<Self> {
        let connection = Connection::open_in_memory()?;
        connection.execute_batch(
            "CREATE VIRTUAL TABLE texts USING fts5(body, tokenize='unicode61 remove_diacritics 2');
             CREATE VIRTUAL TABLE found USING fts5vocab('texts', 'instance')",
        )?;
        Ok(Self(connection))
    }

    /// The words of a text, in their order.
    fn split(&self, text: &str) -> Result<Vec<String>> {
        let insert = "INSERT INTO texts (rowid, body) VALUES (1, ?)";
        self.0.prepare_cached(insert)?.execute([text])?;
        let mut found = self
            .0
            .prepare_cached("SELECT term FROM found ORDER BY offset")?;
        let words = found.query_map([], |row| row.get(0))?;
        let words = words.collect::<Result<_>>()?;
        self.0.prepare_cached("DELETE FROM texts")?.execute([])?;
        Ok(words)
    }

    /// The words of a text with their positions, as the text of several `tsvector`s.
    pub(super) fn vectors(&self, text: &str) -> Result<Vec<String>> {
        let words = self.split(text)?;
        let (mut vectors, mut start) = (Vec::new(), 0);
        while start < words.len() {
            let mut found = BTreeMap::new();
            let fits = words[start..].iter().take(WORDS).take_while(|word| {
                let count = found.entry(*word).or_insert(0);
                *count += 1;
                *count <= POSITIONS
            });
            let end = start + fits.count();
            vectors.push(vector(&words[start..end]));
            if end == words.len() {
                break;
            }
            start = end - SHARED;
        }
        Ok(vectors)
    }

    /// The text of a `tsquery` for each term of a search.
    pub(super) fn queries(&self, search: &Search) -> Result<Vec<String>> {
        search.terms().iter().map(|term| self.query(term)).collect()
    }

    /// The text of a `tsquery` for a term.
    pub(super) fn query(&self, term: &Term) -> Result<String> {
        let mut choices = Vec::new();
        for phrase in term.phrases() {
            let words = self.split(phrase)?;
            // No vector has it.
            let is_too_long = words.iter().any(|word| word.len() > LONGEST);
            let words: Vec<_> = words.iter().map(|word| quoted(word)).collect();
            let end = if term.is_prefix() { ":*" } else { "" };
            if !words.is_empty() && !is_too_long {
                choices.push(format!("({}{end})", words.join(" <-> ")));
            }
        }
        Ok(choices.join(" | "))
    }
}

fn vector(words: &[String]) -> String {
    let mut positions = BTreeMap::<&str, Vec<String>>::new();
    for (n, word) in words.iter().enumerate() {
        if word.len() <= LONGEST {
            let at = positions.entry(word).or_default();
            at.push((n + 1).to_string());
        }
    }
    let words = positions.iter();
    let words = words.map(|(word, at)| format!("{}:{}", quoted(word), at.join(",")));
    words.collect::<Vec<_>>().join(" ")
}

fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\\', "\\\\").replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_searches_have_the_same_words() {
        let lexemes = Lexemes::new().unwrap();
        let vectors = lexemes.vectors("Café it's a café").unwrap();
        assert_eq!(vectors, ["'a':4 'cafe':1,5 'it':2 's':3"]);
        for (search, expected) in [
            ("CAFÉ", &["('cafe':*)"][..]),
            ("\"it's a\" x", &["('it' <-> 's' <-> 'a')", "('x':*)"]),
            ("RedisC", &["('redisc':*) | ('redis' <-> 'c':*)"]),
            ("日本", &["('日' <-> '本':*)"]),
        ] {
            let search = Search::parse(search).unwrap();
            assert_eq!(lexemes.queries(&search).unwrap(), expected);
        }
        assert_eq!(lexemes.vectors("").unwrap(), [""; 0]);
        let long = Search::parse(&"x".repeat(LONGEST + 1)).unwrap();
        assert_eq!(lexemes.queries(&long).unwrap(), [""]);
    }

    #[test]
    fn long_texts_have_several_vectors() {
        let lexemes = Lexemes::new().unwrap();
        let text = |words| "w ".repeat(words);
        for (words, count) in [(POSITIONS, 1), (POSITIONS + 1, 2), (2 * POSITIONS, 3)] {
            assert_eq!(lexemes.vectors(&text(words)).unwrap().len(), count);
        }
    }
}
