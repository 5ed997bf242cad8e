//! Splits text into words and names into parts, as the full-text index does.
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
//!
//! The index stores no text, so what it found is looked for again in the text, as [`Tokens`].

use crate::conversation::{Field, Passage};

/// No name that anybody looks for has more parts than this; checksums and encoded data do.
const MOST_PARTS: usize = 12;

/// The first letter of the word for an emoji. It is Linear B, which nobody types; otherwise a
/// prefix that a user types could match emoji. By itself it separates texts: no phrase has it.
const SYMBOL: char = '\u{10000}';

/// The separator between texts of one row of the index.
const SEPARATOR: &str = "\n\u{10000}\n";

/// The kinds of bytes in names.
const OTHER: u8 = 0;
const LOWER: u8 = 1;
const UPPER: u8 = 2;
const DIGIT: u8 = 3;

/// The kind of each byte.
const KINDS: [u8; 256] = {
    let mut kinds = [OTHER; 256];
    let mut byte = 0;
    while byte < 128 {
        kinds[byte as usize] = match byte {
            b'a'..=b'z' => LOWER,
            b'A'..=b'Z' => UPPER,
            b'0'..=b'9' => DIGIT,
            _ => OTHER,
        };
        byte += 1;
    }
    kinds
};

/// The parts of all names in a text, as they are indexed.
fn parts(text: &str) -> String {
    let mut out = String::new();
    for line in text.split_inclusive('\n') {
        if !line.is_ascii() {
            let names = line.split(|c| !is_of_name(c));
            names.for_each(|name| add_parts(&mut out, name));
            continue;
        }
        let bytes = line.as_bytes();
        let is_apart = |byte: &u8| !is_of_name(char::from(*byte));
        // Where the last name with parts ends.
        let mut done = 0;
        let mut before = OTHER;
        for (at, byte) in bytes.iter().enumerate() {
            let (last, kind) = (before, KINDS[usize::from(*byte)]);
            before = kind;
            if begins_part(last, kind, bytes.get(at + 1)) && at > done {
                let start = bytes[done..at].iter().rposition(is_apart);
                let start = start.map_or(done, |apart| done + apart + 1);
                let end = bytes[at..].iter().position(is_apart);
                done = end.map_or(bytes.len(), |apart| at + apart);
                add_parts(&mut out, &line[start..done]);
            }
        }
    }
    words(&out)
}

fn add_parts(out: &mut String, name: &str) {
    let parts = parts_of(name).unwrap_or_default();
    for part in &parts {
        out.push_str(part);
        out.push(' ');
    }
    if !parts.is_empty() {
        // Parts of two names must not be adjacent.
        out.push(SYMBOL);
        out.push('\n');
    }
}

/// The parts of a name; none if it has only one, or if the tokenizer splits it in the same way.
pub(super) fn parts_of(name: &str) -> Option<Vec<&str>> {
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

/// Whether a part of a name, and not a name, begins with a byte of this kind, which comes between
/// one of the kind `before` and `next`. It is called for nearly every byte.
fn begins_part(before: u8, kind: u8, next: Option<&u8>) -> bool {
    match (before, kind) {
        (LOWER, UPPER | DIGIT) | (UPPER, DIGIT) | (DIGIT, LOWER | UPPER) => true,
        (UPPER, UPPER) => next.is_some_and(u8::is_ascii_lowercase),
        _ => false,
    }
}

/// Whether a part of a name begins with `c`.
fn is_boundary(before: char, c: char, next: Option<char>) -> bool {
    (before.is_lowercase() && c.is_uppercase())
        || (before.is_uppercase() && c.is_uppercase() && next.is_some_and(char::is_lowercase))
        || before.is_numeric() != c.is_numeric()
}

/// Whether a character belongs to a name. Any other character separates names.
pub(super) fn is_of_name(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    }
    c.is_alphanumeric() && !stands_alone(c)
}

/// Text as it is indexed.
pub(super) fn words(text: &str) -> String {
    let mut out = String::new();
    add_words(&mut out, text);
    out
}

/// Appends what [`words`] makes of a text.
fn add_words(out: &mut String, text: &str) {
    out.reserve(text.len() + text.len() / 8);
    let mut rest = text;
    loop {
        let (plain, other) = rest.split_at(plain_len(rest.as_bytes()));
        out.push_str(plain);
        let mut chars = other.chars();
        let Some(c) = chars.next() else {
            return;
        };
        rest = chars.as_str();
        if c == '\0' {
            out.push(' ');
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
}

/// How much of a text is indexed as it is.
fn plain_len(text: &[u8]) -> usize {
    let is_plain = |byte: &u8| byte.is_ascii() && *byte != 0;
    // Without a way out of the loop, the compiler compares many bytes at once.
    let is_plain_block = |block: &&[u8]| {
        let bytes = block.iter();
        bytes.fold(true, |plain, byte| plain & is_plain(byte))
    };
    let blocks = text.chunks(64).take_while(is_plain_block);
    let plain = blocks.map(<[u8]>::len).sum();
    let rest = text[plain..].iter();
    plain + rest.take_while(|byte| is_plain(byte)).count()
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
pub(super) fn is_symbol(c: char) -> bool {
    let symbol = matches!(c, '\u{2190}'..='\u{24ff}' | '\u{25a0}'..='\u{2bff}'
        | '\u{1f000}'..='\u{1f3fa}' | '\u{1f400}'..='\u{1fbff}');
    symbol && !c.is_alphanumeric()
}

/// The words of a text and their parts, and where they are.
#[derive(Debug, Default)]
pub struct Tokens {
    /// All words in lower case and without accents, one directly behind the other.
    folded: String,
    list: Vec<Token>,
}

/// A part of a word, or a word that has no parts.
#[derive(Clone, Copy, Debug)]
struct Token {
    /// Offset of the token in the text, in bytes.
    at: usize,
    /// Offset of the token in `folded`, in bytes.
    start: usize,
    /// Whether the token is the beginning of a word.
    begins_word: bool,
    /// Whether the token follows the one before it within a name.
    in_name: bool,
}

impl Tokens {
    /// The tokens of a text.
    pub fn of(text: &str) -> Self {
        let mut tokens = Self::default();
        let mut before: Option<char> = None;
        let mut in_name = false;
        let mut chars = text.char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            if matches!(c, '\u{300}'..='\u{36f}') {
                // An accent of the character before it.
                continue;
            }
            let alone = !c.is_ascii() && (stands_alone(c) || is_symbol(c));
            if !alone && !c.is_alphanumeric() {
                in_name = is_of_name(c) && before.is_some();
                before = None;
                continue;
            }
            let next = chars.peek().map(|(_, next)| *next);
            let begins_word = alone || before.is_none();
            let begins = begins_word || before.is_some_and(|before| is_boundary(before, c, next));
            if begins {
                tokens.list.push(Token {
                    at,
                    start: tokens.folded.len(),
                    begins_word,
                    in_name: in_name || before.is_some(),
                });
                in_name = false;
            }
            if c.is_ascii() {
                tokens.folded.push(c.to_ascii_lowercase());
            } else {
                tokens.folded.extend(folded(c));
            }
            before = (!alone).then_some(c);
        }
        tokens
    }

    /// The whole words.
    pub(super) fn words(&self) -> Vec<String> {
        let begin = |(_, token): &(usize, &Token)| token.begins_word;
        let words = self.list.iter().enumerate().filter(begin);
        words.map(|(n, _)| self.word(n).0.to_owned()).collect()
    }

    /// The parts of all words.
    pub(super) fn parts(&self) -> Vec<String> {
        let parts = (0..self.list.len()).map(|n| self.part(n).to_owned());
        parts.collect()
    }

    /// Where in the text these words follow each other. The last one may be the beginning of a word if
    /// `prefix`.
    pub(super) fn find_words(&self, words: &[String], prefix: bool) -> impl Iterator<Item = usize> {
        let matches = move |mut n: usize| {
            words.iter().enumerate().all(|(at, sought)| {
                if self.list.get(n).is_none_or(|token| !token.begins_word) {
                    return false;
                }
                let (word, next) = self.word(n);
                n = next;
                word == sought || prefix && at + 1 == words.len() && word.starts_with(&**sought)
            })
        };
        self.all(words, matches)
    }

    /// Where in the text these parts of one name follow each other. The last one may be the beginning
    /// of a part.
    pub(super) fn find_parts(&self, parts: &[String]) -> impl Iterator<Item = usize> {
        let matches = move |n: usize| {
            parts.iter().enumerate().all(|(at, sought)| {
                let Some(token) = self.list.get(n + at) else {
                    return false;
                };
                let part = self.part(n + at);
                let is_last = at + 1 == parts.len();
                (at == 0 || token.in_name)
                    && (part == sought || is_last && part.starts_with(&**sought))
            })
        };
        self.all(parts, matches)
    }

    fn all(
        &self,
        sought: &[String],
        matches: impl Fn(usize) -> bool,
    ) -> impl Iterator<Item = usize> {
        let tokens = if sought.is_empty() {
            0
        } else {
            self.list.len()
        };
        (0..tokens)
            .filter(move |n| matches(*n))
            .map(|n| self.list[n].at)
    }

    /// The word that begins with a token, and the next token behind it.
    fn word(&self, n: usize) -> (&str, usize) {
        let behind = self.list[n + 1..].iter();
        let more = behind.take_while(|token| !token.begins_word).count();
        let next = n + 1 + more;
        (&self.folded[self.list[n].start..self.start(next)], next)
    }

    fn part(&self, n: usize) -> &str {
        &self.folded[self.list[n].start..self.start(n + 1)]
    }

    fn start(&self, n: usize) -> usize {
        self.list
            .get(n)
            .map_or(self.folded.len(), |token| token.start)
    }
}

/// A text in lower case, in which words of ASCII are as they are; none if it has characters that are
/// found as ASCII, such as `é` and `ß`.
pub(super) fn in_ascii(text: &str) -> Option<Vec<u8>> {
    let is_plain = text.is_ascii() || !text.chars().any(is_like_ascii);
    is_plain.then(|| text.as_bytes().to_ascii_lowercase())
}

/// Whether a character that is not ASCII may be found as ASCII: letters with accents, accents,
/// ligatures, and the signs for Kelvin and Angstrom.
fn is_like_ascii(c: char) -> bool {
    matches!(c, '\u{c0}'..='\u{24f}' | '\u{300}'..='\u{36f}' | '\u{1e00}'..='\u{1eff}'
        | '\u{212a}' | '\u{212b}' | '\u{fb00}'..='\u{fb06}')
}

/// A character in lower case and without an accent, as far as accents are common.
fn folded(c: char) -> impl Iterator<Item = char> {
    let expands = !c.is_ascii() && c.to_uppercase().len() > 1;
    let one = (!expands).then(|| c.to_lowercase());
    let more = expands.then(|| c.to_uppercase().flat_map(char::to_lowercase));
    let all = one.into_iter().flatten().chain(more.into_iter().flatten());
    all.map(without_accent)
}

fn without_accent(c: char) -> char {
    match c {
        'à'..='å' | 'ā' | 'ă' | 'ą' | 'ǎ' | 'ạ'..='ặ' => 'a',
        'ç' | 'ć' | 'ĉ' | 'ċ' | 'č' => 'c',
        'ď' => 'd',
        'è'..='ë' | 'ē' | 'ĕ' | 'ė' | 'ę' | 'ě' | 'ẹ'..='ệ' => 'e',
        'ĝ' | 'ğ' | 'ġ' | 'ģ' => 'g',
        'ĥ' => 'h',
        'ì'..='ï' | 'ĩ' | 'ī' | 'ĭ' | 'į' | 'ǐ' | 'ỉ' | 'ị' => 'i',
        'ĵ' => 'j',
        'ķ' => 'k',
        'ĺ' | 'ļ' | 'ľ' => 'l',
        'ñ' | 'ń' | 'ņ' | 'ň' => 'n',
        'ò'..='ö' | 'ō' | 'ŏ' | 'ő' | 'ơ' | 'ǒ' | 'ọ'..='ợ' => 'o',
        'ŕ' | 'ŗ' | 'ř' => 'r',
        'ś' | 'ŝ' | 'ş' | 'š' | 'ș' => 's',
        'ţ' | 'ť' | 'ț' => 't',
        'ù'..='ü' | 'ũ' | 'ū' | 'ŭ' | 'ů' | 'ű' | 'ų' | 'ư' | 'ǔ' | 'ụ'..='ự' => 'u',
        'ŵ' => 'w',
        'ý' | 'ÿ' | 'ŷ' | 'ỳ'..='ỹ' => 'y',
        'ź' | 'ż' | 'ž' => 'z',
        'ά' => 'α',
        'έ' => 'ε',
        'ή' => 'η',
        'ί' | 'ϊ' => 'ι',
        'ό' => 'ο',
        'ύ' | 'ϋ' => 'υ',
        'ώ' => 'ω',
        'й' => 'и',
        'ё' => 'е',
        _ => c,
    }
}

/// The words of passages: a text for each field, and one for the parts of names.
pub(super) fn columns(passages: &[Passage]) -> [String; Field::ALL.len() + 1] {
    let mut columns: [String; Field::ALL.len() + 1] = Default::default();
    for passage in passages {
        let text = &passage.text;
        add_words(&mut columns[passage.field as usize], text);
        columns[Field::ALL.len()].push_str(&parts(text));
        for column in [passage.field as usize, Field::ALL.len()] {
            columns[column].push_str(SEPARATOR);
        }
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::Search;

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
    fn what_is_found_as_ascii_is_known() {
        for c in ('\u{80}'..=char::MAX).filter(|c| !is_like_ascii(*c)) {
            assert!(!folded(c).any(|c| c.is_ascii_alphanumeric()), "{c:?}");
        }
        assert_eq!(
            in_ascii("The “Redis” 1").unwrap(),
            "the “redis” 1".as_bytes()
        );
        assert_eq!(in_ascii("rédis"), None);
    }

    #[test]
    fn what_is_sought_is_found_again_in_the_text() {
        for (text, sought, expected) in [
            ("the reconfig of a config", "config", Some("config")),
            ("the reconfig", "config", None),
            ("see MyRedisConfig", "config", Some("Config")),
            ("see MyRedisConfig", "redisc", None),
            ("see MyRedisConfig", "RedisC", Some("RedisConfig")),
            ("see my_redis_config", "RedisConfig", Some("redis_config")),
            ("in der Straße", "STRASSE", Some("Straße")),
            ("a rédis", "redis", Some("rédis")),
            ("a re\u{301}dis", "redis", Some("re\u{301}dis")),
            ("the redis, conf", "redis.conf", Some("redis, conf")),
            ("v1.2.3", "2.3", Some("2.3")),
            ("v1.2.3", "1.3", None),
            ("看日本語", "本語", Some("本語")),
            ("go 🚀", "🚀", Some("🚀")),
            ("it timed\nout", "\"timed out\"", Some("timed\nout")),
            ("it timed outside", "\"timed out\"", None),
            ("it timed outside", "timed.out", Some("timed outside")),
            ("", "a", None),
        ] {
            let search = Search::parse(sought).unwrap();
            let term = &search.terms()[0];
            let at = term.find(&Tokens::of(text));
            assert_eq!(at.map(|at| &text[at..]), expected, "{text:?} {sought:?}");
            let may = in_ascii(text).is_none_or(|plain| term.may_be_in(&plain));
            assert!(may || at.is_none(), "{text:?} {sought:?}");
        }
    }
}
