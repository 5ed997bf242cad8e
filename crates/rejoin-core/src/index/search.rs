//! Translates what a user searches for into queries of the full-text index.

use memchr::memmem;

use super::tokens::{Tokens, is_of_name, is_symbol, parts_of, words};

/// Nobody types more words than this, and each costs a lookup in the index.
const MOST_WORDS: usize = 64;

/// Words that are in questions of any kind, and say nothing of what is asked for.
const COMMON: &str = " a about an and any are as at be been but by can could did do does for from had has \
    have how i in is it its me my of on or our should so that the their them then there these they this \
    to us was we were what when where which who why will with would you your ";

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

    /// The search without the words that are in questions of any kind; none if there are no others, or no such
    /// words, or if there is a phrase.
    pub fn of_question(&self) -> Option<Self> {
        let is_meant = |term: &&Term| match &term.words[..] {
            [word] => !COMMON.contains(&format!(" {word} ")),
            _ => true,
        };
        let terms: Vec<_> = self.terms.iter().filter(is_meant).cloned().collect();
        let has_phrase = self.terms.iter().any(|term| !term.prefix);
        ((1..self.terms.len()).contains(&terms.len()) && !has_phrase).then_some(Self { terms })
    }

    /// The search with other words in the place of some, as a user would type it: for each single word,
    /// `other` returns what to look for in its place, if that is another word. None if no word changes.
    pub(super) fn corrected(
        &self,
        mut other: impl FnMut(&Term, &str) -> Option<String>,
    ) -> Option<String> {
        let mut is_changed = false;
        let terms = self
            .terms
            .iter()
            .map(|term| match (&term.words[..], term.prefix) {
                ([word], true) => other(term, word).map_or_else(
                    || term.phrases[0].clone(),
                    |other| {
                        is_changed = true;
                        other
                    },
                ),
                (_, true) => term.phrases[0].clone(),
                (_, false) => format!("\"{}\"", term.phrases[0]),
            });
        let text = terms.collect::<Vec<_>>().join(" ");
        is_changed.then_some(text)
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
    fn questions_have_words_that_say_nothing() {
        for (question, words) in [
            (
                "What did we decide about telemetry opt out?",
                Some("decide telemetry opt out"),
            ),
            ("where is the parser?", Some("parser")),
            ("telemetry opt out", None),
            ("what is it", None),
            ("\"to be\" or the parser fix", None),
        ] {
            let search = Search::parse(question).unwrap();
            let expected = words.and_then(Search::parse);
            let words = |search: Search| search.terms.into_iter().map(|term| term.words);
            let found = search
                .of_question()
                .map(|search| words(search).collect::<Vec<_>>());
            assert_eq!(
                found,
                expected.map(|search| words(search).collect()),
                "{question}"
            );
        }
    }

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
