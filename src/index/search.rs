//! What a user searches for, as the full-text index is asked for it.
//!
//! The index keeps words, as SQLite's `unicode61` tokenizer parts them: runs of letters and
//! digits, in lower case and without accents. Two things are done before, with the text of the
//! logs and with what is searched for alike. Characters of scripts that put no spaces between
//! words stand alone, so that any run of them is found as a phrase, be it of one character; an
//! index of trigrams would find no run shorter than three, which is most Chinese words, and is
//! several times as large. And emoji become words, since to the tokenizer they are none.

/// More words than this are more than anybody types, and each costs a look into the index.
const MOST_WORDS: usize = 64;

/// What the word for an emoji begins with: a letter that nobody types, or the beginnings of words
/// that are typed would meet it. It is Linear B.
const SYMBOL: char = '\u{10000}';

/// What is searched for: sessions in which all of these words occur, in any order, each whole or
/// as the beginning of a longer one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Search {
    /// For each word an expression in the index's language that holds nothing but text.
    terms: Vec<String>,
}

impl Search {
    /// Reads what a user typed; nothing if that is blank. All of it is words: there are no
    /// operators, and quotes mean nothing. Words after the 64th are not looked at.
    pub fn parse(text: &str) -> Option<Self> {
        if text.trim().is_empty() {
            return None;
        }
        let mut terms: Vec<String> = text
            .split(is_between_words)
            .filter(|word| word.chars().any(|c| c.is_alphanumeric() || is_symbol(c)))
            .map(|word| format!("\"{}\"*", words(word).trim()))
            .take(MOST_WORDS)
            .collect();
        terms.sort();
        terms.dedup();
        Some(Self { terms })
    }

    /// An expression for each word; none if nothing that was typed is a word, so that nothing is
    /// found.
    pub(super) fn terms(&self) -> &[String] {
        &self.terms
    }
}

/// A quote would end the text of an expression, a NUL the expression.
fn is_between_words(c: char) -> bool {
    c.is_whitespace() || c.is_control() || c == '"'
}

/// Text as it is indexed.
pub(super) fn words(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    for c in text.chars() {
        if c.is_ascii() {
            out.push(if c == '\0' { ' ' } else { c });
        } else if is_symbol(c) {
            let word = format!(" {SYMBOL}{:x} ", u32::from(c));
            out.push_str(&word);
        } else if stands_alone(c) {
            out.push(' ');
            out.push(c);
            out.push(' ');
        } else {
            out.push(c);
        }
    }
    out
}

/// Whether a character is of a script that is written without spaces.
fn stands_alone(c: char) -> bool {
    matches!(c,
        // Thai, Lao, Tibetan, Burmese, Khmer.
        '\u{e00}'..='\u{fff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'
        // Kana, bopomofo, ideographs.
        | '\u{3005}'..='\u{3007}' | '\u{3040}'..='\u{312f}' | '\u{31a0}'..='\u{31bf}'
        | '\u{31f0}'..='\u{31ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}'
        | '\u{f900}'..='\u{faff}' | '\u{ff66}'..='\u{ff9f}' | '\u{1b000}'..='\u{1b16f}'
        | '\u{20000}'..='\u{3ffff}')
}

/// Whether a character is an emoji, an arrow or the like. Lines and boxes, of which tables are
/// drawn, are none, and the tones of skin belong to what stands before them.
fn is_symbol(c: char) -> bool {
    let symbol = matches!(c, '\u{2190}'..='\u{24ff}' | '\u{25a0}'..='\u{2bff}'
        | '\u{1f000}'..='\u{1f3fa}' | '\u{1f400}'..='\u{1fbff}');
    symbol && !c.is_alphanumeric()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_is_words_and_nothing_else() {
        for (text, terms) in [
            ("Fix Redis", &["\"Fix\"*", "\"Redis\"*"][..]),
            ("  b\t a \n b", &["\"a\"*", "\"b\"*"]),
            ("\"a b\" OR c*", &["\"OR\"*", "\"a\"*", "\"b\"*", "\"c*\"*"]),
            ("text:x", &["\"text:x\"*"]),
            ("a\0b", &["\"a\"*", "\"b\"*"]),
            (
                "redis.conf (not) ^{x} -- ?",
                &["\"(not)\"*", "\"^{x}\"*", "\"redis.conf\"*"],
            ),
            ("日本go", &["\"日  本 go\"*"]),
            ("👍🏽", &["\"\u{10000}1f44d 🏽\"*"]),
            ("???", &[]),
            ("\"", &[]),
        ] {
            let search = Search::parse(text).unwrap();
            assert_eq!(search.terms(), terms, "{text}");
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
