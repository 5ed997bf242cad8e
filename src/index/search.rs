//! Translates what a user searches for into queries of the full-text index.
//!
//! SQLite's `unicode61` tokenizer splits text into words: runs of letters and digits, in lower case
//! and without accents. Two steps come before it, for the text of the logs and for searches alike.
//! First, each character of a script without spaces between words becomes a word of its own, so
//! that any run of such characters is found as a phrase, even a single one. An index of trigrams
//! would find no run shorter than three, and most Chinese words are shorter; it would also be
//! several times as large. Second, emoji become words, since the tokenizer ignores them.
//!
//! Names in code are also found by their parts: `config` finds `MyRedisConfig`, and `1.2` finds
//! `v1.2.3`. The parts have a column of their own, so that the words of the text stay adjacent.

/// Nobody types more words than this, and each costs a lookup in the index.
const MOST_WORDS: usize = 64;

/// No name that anybody looks for has more parts than this; checksums and encoded data do.
const MOST_PARTS: usize = 12;

/// The first letter of the word for an emoji. It is Linear B, which nobody types; otherwise a
/// prefix that a user types could match emoji.
const SYMBOL: char = '\u{10000}';

/// A search for sessions that have all of these words, in any order, each whole or as the beginning
/// of a longer one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Search {
    /// For each word an expression in the index's query language, in which all typed text is
    /// quoted.
    terms: Vec<String>,
    /// The words as they were typed.
    typed: Vec<String>,
}

impl Search {
    /// Parses what a user typed; none if that is blank. Everything is a word: there are no
    /// operators, and quotes mean nothing. Words after the 64th are ignored.
    pub fn parse(text: &str) -> Option<Self> {
        if text.trim().is_empty() {
            return None;
        }
        let typed: Vec<String> = text
            .split(is_between_words)
            .filter(|word| word.chars().any(|c| c.is_alphanumeric() || is_symbol(c)))
            .map(str::to_owned)
            .take(MOST_WORDS)
            .collect();
        let mut terms: Vec<String> = typed.iter().map(|word| term(word)).collect();
        terms.sort();
        terms.dedup();
        Some(Self { terms, typed })
    }

    /// Whether a short text has every word, at the beginning of a word or of a part.
    pub fn matches(&self, text: &str) -> bool {
        let begins = |at: usize| {
            let mut before = text[..at].chars();
            let mut after = text[at..].chars();
            match (before.next_back(), after.next()) {
                (Some(before), Some(c)) => {
                    !before.is_alphanumeric()
                        || stands_alone(c)
                        || is_boundary(before, c, after.next())
                }
                _ => true,
            }
        };
        let has = |word: &String| find(text, word).is_some_and(begins);
        !self.typed.is_empty() && self.typed.iter().all(has)
    }

    /// The first word as it was typed, and the expression for it.
    pub(super) fn first(&self) -> Option<(&str, String)> {
        let word = self.typed.first()?;
        Some((word, term(word)))
    }

    /// An expression for each word; empty if nothing that was typed is a word, so that nothing is
    /// found.
    pub(super) fn terms(&self) -> &[String] {
        &self.terms
    }
}

/// The expression for one word: whole, as a prefix, or by its parts.
fn term(word: &str) -> String {
    let whole = words(word);
    let parts = parts_of(word).map(|parts| parts.join(" "));
    match parts.filter(|_| word.chars().all(is_of_name)) {
        Some(parts) => format!("\"{}\"* OR \"{}\"*", whole.trim(), words(&parts)),
        None => format!("\"{}\"*", whole.trim()),
    }
}

/// The parts of all names in a text, as they are indexed.
pub(super) fn parts(text: &str) -> String {
    let mut out = String::new();
    for name in text.split(|c| !is_of_name(c)) {
        for part in parts_of(name).into_iter().flatten() {
            out.push_str(part);
            out.push(' ');
        }
        if out.ends_with(' ') {
            // Parts of two names must not be adjacent.
            out.push(SYMBOL);
            out.push('\n');
        }
    }
    words(&out)
}

/// The parts of a name; none if it has only one, or if the tokenizer splits it in the same way.
fn parts_of(name: &str) -> Option<Vec<&str>> {
    let mut parts = Vec::new();
    let mut splits = false;
    for word in name.split(|c: char| !c.is_alphanumeric()) {
        let mut begin = 0;
        let mut chars = word.char_indices().peekable();
        let mut before: Option<char> = None;
        while let Some((at, c)) = chars.next() {
            let next = chars.peek().map(|(_, next)| *next);
            if before.is_some_and(|before| is_boundary(before, c, next)) {
                parts.push(&word[begin..at]);
                begin = at;
                splits = true;
                if parts.len() > MOST_PARTS {
                    return None;
                }
            }
            before = Some(c);
        }
        if begin < word.len() {
            parts.push(&word[begin..]);
        }
    }
    (splits && parts.len() <= MOST_PARTS).then_some(parts)
}

/// Whether a part of a name begins with `c`.
fn is_boundary(before: char, c: char, next: Option<char>) -> bool {
    (before.is_lowercase() && c.is_uppercase())
        || (before.is_uppercase() && c.is_uppercase() && next.is_some_and(char::is_lowercase))
        || before.is_numeric() != c.is_numeric()
}

/// Whether a character belongs to a name. Any other character separates names.
fn is_of_name(c: char) -> bool {
    matches!(c, '.' | '_' | '-') || (c.is_alphanumeric() && !stands_alone(c))
}

/// Where a text has a word, ignoring case: preferably at the beginning of a word or of a part.
pub(super) fn find(text: &str, word: &str) -> Option<usize> {
    let fold = |c: char| {
        let lower = c.is_ascii() || c.to_uppercase().len() == 1;
        let one = lower.then(|| c.to_lowercase());
        let more = (!lower).then(|| c.to_uppercase().flat_map(char::to_lowercase));
        one.into_iter().flatten().chain(more.into_iter().flatten())
    };
    let folded: Vec<(usize, char)> = text
        .char_indices()
        .flat_map(|(at, c)| fold(c).map(move |c| (at, c)))
        .collect();
    let sought: Vec<char> = word.chars().flat_map(fold).collect();
    let first = sought.first()?;
    let begins = |at: usize| {
        let mut before = text[..at].chars().rev();
        let mut from = text[at..].chars();
        match (before.next(), from.next()) {
            (Some(before), Some(c)) => {
                !before.is_alphanumeric() || is_boundary(before, c, from.next())
            }
            _ => true,
        }
    };
    let mut within = None;
    for (n, window) in folded.windows(sought.len()).enumerate() {
        if window[0].1 != *first || !window.iter().map(|(_, c)| c).eq(&sought) {
            continue;
        }
        let at = folded[n].0;
        if begins(at) {
            return Some(at);
        }
        within = within.or(Some(at));
    }
    within
}

/// A quote would end the quoted text of an expression, and a NUL the expression.
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
        } else if c.to_uppercase().len() > 1 {
            // For example `ß`, which is `SS` in capitals: it is found as `ss`.
            out.extend(c.to_uppercase().flat_map(char::to_lowercase));
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

/// Whether a character is an emoji, an arrow or a similar symbol. Lines and boxes, of which tables
/// are drawn, are not, and skin tones belong to the character before them.
fn is_symbol(c: char) -> bool {
    let symbol = matches!(c, '\u{2190}'..='\u{24ff}' | '\u{25a0}'..='\u{2bff}'
        | '\u{1f000}'..='\u{1f3fa}' | '\u{1f400}'..='\u{1fbff}');
    symbol && !c.is_alphanumeric()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_parts() {
        for (text, expected) in [
            ("nothing here: a.b_c-d", ""),
            ("MyRedisConfig", "My Redis Config |"),
            (
                "see `HTTPServer2.start()` in MyÖlTank",
                "HTTP Server 2 start |My Öl Tank |",
            ),
            ("v1.2.3 and 2.0", "v 1 2 3 |"),
            ("myIDs 日本A1", "my I Ds |A 1 |"),
            ("3f786850e387550fdab836ed7e6dc881de23001b", ""),
        ] {
            let found = parts(text).replace([SYMBOL], "|").replace('\n', "");
            assert_eq!(found, expected, "{text}");
        }
        assert_eq!(words("Straße ﬁx"), "Strasse fix");
    }

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
            ("RedisC", &["\"RedisC\"* OR \"Redis C\"*"]),
            ("a::RedisC", &["\"a::RedisC\"*"]),
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
