//! Translates what a user searches for into queries of the full-text index.

use memchr::memmem;

use super::tokens::{Tokens, is_of_name, is_symbol, parts_of, words};

/// Nobody types more words than this, and each costs a lookup in the index.
const MOST_WORDS: usize = 64;

/// A search for sessions that have all of these words, in any order, each whole or as the beginning
/// of a longer one, and all of these phrases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Search {
    /// In the order in which they were typed.
    terms: Vec<Term>,
}

/// A word or a phrase to look for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    /// The texts of which one must be there, as words that follow each other.
    phrases: Vec<String>,
    words: Vec<String>,
    /// The parts of the term, if it is a name.
    parts: Vec<String>,
    /// Whether the term may be the beginning of a longer word.
    prefix: bool,
}

impl Search {
    /// Parses what a user typed; none if that is blank. Text between double quotes is a phrase:
    /// words that follow each other. Everything else is a word; there are no operators. Words after
    /// the 64th are ignored.
    pub fn parse(text: &str) -> Option<Self> {
        if text.trim().is_empty() {
            return None;
        }
        let mut terms: Vec<Term> = Vec::new();
        let mut add = |term: Option<Term>| {
            if let Some(term) = term
                && terms.len() < MOST_WORDS
                && !terms.contains(&term)
            {
                terms.push(term);
            }
        };
        let pieces: Vec<&str> = text.split('"').collect();
        for (n, piece) in pieces.iter().enumerate() {
            // The last quote may not be closed.
            if n % 2 == 1 && n + 1 < pieces.len() {
                add(Term::phrase(piece));
            } else {
                let words = piece.split(|c: char| c.is_whitespace() || c.is_control());
                words.for_each(|word| add(Term::word(word)));
            }
        }
        Some(Self { terms })
    }

    /// Whether a short text has every word.
    pub fn matches(&self, text: &str) -> bool {
        let tokens = Tokens::of(text);
        let has = |term: &Term| term.find(&tokens).is_some();
        !self.terms.is_empty() && self.terms.iter().all(has)
    }

    /// The terms to look for; empty if nothing that was typed is a word, so that nothing is found.
    pub fn terms(&self) -> &[Term] {
        &self.terms
    }
}

impl Term {
    fn word(word: &str) -> Option<Self> {
        let whole = words(word);
        let whole = whole.trim();
        let has_words = |c: char| c.is_alphanumeric() || is_symbol(c);
        if !word.chars().any(has_words) {
            return None;
        }
        let parts = parts_of(word).filter(|_| word.chars().all(is_of_name));
        let named = parts.as_ref().map(|parts| words(&parts.join(" ")));
        let phrases: Vec<_> = std::iter::once(whole.to_owned()).chain(named).collect();
        let tokens = Tokens::of(word);
        Some(Self {
            phrases,
            words: tokens.words(),
            parts: parts.map(|_| tokens.parts()).unwrap_or_default(),
            prefix: true,
        })
    }

    fn phrase(phrase: &str) -> Option<Self> {
        let found = Tokens::of(phrase).words();
        // Control characters separate words; a NUL would end the expression.
        let phrase = phrase.replace(char::is_control, " ");
        let phrase = words(&phrase).trim().to_owned();
        (!found.is_empty()).then(|| Self {
            phrases: vec![phrase],
            words: found,
            parts: Vec::new(),
            prefix: false,
        })
    }

    /// An expression in the index's query language, in which all typed text is quoted.
    pub(super) fn expression(&self) -> String {
        let end = if self.prefix { "*" } else { "" };
        let phrases = self.phrases.iter();
        let phrases: Vec<_> = phrases.map(|text| format!("\"{text}\"{end}")).collect();
        phrases.join(" OR ")
    }

    /// Whether the term may be in a text that [`in_ascii`](super::tokens::in_ascii) has returned.
    pub(super) fn may_be_in(&self, plain: &[u8]) -> bool {
        // The parts of a name are all in the name, too.
        let all = if self.parts.is_empty() {
            &self.words
        } else {
            &self.parts
        };
        let longest = all
            .iter()
            .filter(|word| word.is_ascii())
            .max_by_key(|word| word.len());
        longest.is_none_or(|word| memmem::find(plain, word.as_bytes()).is_some())
    }

    /// The texts of which one must be there, as words that follow each other.
    #[cfg(feature = "store-postgres")]
    pub(super) fn phrases(&self) -> &[String] {
        &self.phrases
    }

    /// Whether the last word may be the beginning of a longer one.
    #[cfg(feature = "store-postgres")]
    pub(super) fn is_prefix(&self) -> bool {
        self.prefix
    }

    /// Where a text has it first.
    pub fn find(&self, tokens: &Tokens) -> Option<usize> {
        let whole = tokens.find_words(&self.words, self.prefix).next();
        let parts = tokens.find_parts(self.sought_parts()).next();
        [whole, parts].into_iter().flatten().min()
    }

    /// Where a text has it, in any order; some places may come twice.
    pub(super) fn places(&self, tokens: &Tokens) -> impl Iterator<Item = usize> {
        let whole = tokens.find_words(&self.words, self.prefix);
        whole.chain(tokens.find_parts(self.sought_parts()))
    }

    /// The parts of a name that are looked for. A part may be the beginning of a word, and its end may
    /// not be.
    fn sought_parts(&self) -> &[String] {
        match &self.words[..] {
            [_] if self.prefix && self.parts.is_empty() => &self.words,
            _ => &self.parts,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_is_words_and_nothing_else() {
        for (text, terms) in [
            ("Fix Redis", &["\"Fix\"*", "\"Redis\"*"][..]),
            ("  b\t a \n b", &["\"b\"*", "\"a\"*"]),
            ("\"a b\" OR c*", &["\"a b\"", "\"OR\"*", "\"c*\"*"]),
            ("\"a b", &["\"a\"*", "\"b\"*"]),
            ("a\"b\0c\"\"", &["\"a\"*", "\"b c\""]),
            ("\"\" \" \"", &[]),
            ("text:x", &["\"text:x\"*"]),
            ("a\0b", &["\"a\"*", "\"b\"*"]),
            (
                "redis.conf (not) ^{x} -- ?",
                &["\"redis.conf\"*", "\"(not)\"*", "\"^{x}\"*"],
            ),
            ("日本go", &["\"日  本 go\"*"]),
            ("RedisC", &["\"RedisC\"* OR \"Redis C\"*"]),
            ("a::RedisC", &["\"a::RedisC\"*"]),
            ("👍🏽", &["\"\u{10000}1f44d 🏽\"*"]),
            ("???", &[]),
            ("\"", &[]),
        ] {
            let search = Search::parse(text).unwrap();
            let found = search.terms().iter().map(Term::expression);
            assert_eq!(found.collect::<Vec<_>>(), terms, "{text}");
        }
        assert_eq!(Search::parse(""), None);
        assert_eq!(Search::parse(" \n\u{3000}"), None);
        let many: Vec<_> = (0..1000).map(|n| format!("w{n}")).collect();
        assert_eq!(
            Search::parse(&many.join(" ")).unwrap().terms().len(),
            MOST_WORDS
        );
    }
}
