//! Parses JSON strictly and without a tree: where a value ends, and whether it is valid.
//!
//! `json` assumes that its text is valid JSON. Output of a child process and files from elsewhere
//! may be anything, so every byte is checked here. Nesting uses no stack, and up to 64 levels of it
//! allocate nothing.

use std::borrow::Cow;
use std::ops::Range;

use crate::json;

/// The range of a value in its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Its first byte.
    pub start: usize,
    /// The position after its last byte.
    pub end: usize,
}

impl Span {
    /// The empty range before the byte at `at`.
    pub fn empty(at: usize) -> Self {
        Self { start: at, end: at }
    }

    /// The value's own text.
    pub fn of(self, text: &str) -> &str {
        text.get(self.start..self.end).unwrap_or_default()
    }

    /// The same as a range.
    pub fn range(self) -> Range<usize> {
        self.start..self.end
    }

    /// The same range in a text that begins `by` bytes later.
    #[must_use]
    pub fn back(self, by: usize) -> Self {
        Self {
            start: self.start - by,
            end: self.end - by,
        }
    }
}

/// The first position at or after `at` that is not white space.
pub fn space(text: &str, mut at: usize) -> usize {
    let bytes = text.as_bytes();
    while let Some(b' ' | b'\t' | b'\r' | b'\n') = bytes.get(at) {
        at += 1;
    }
    at
}

/// The end of the value that begins at `at`.
pub fn value(text: &str, mut at: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut open = Open::default();
    loop {
        // A value begins here.
        match *bytes.get(at)? {
            b'"' => at = string(text, at)?,
            b'{' => {
                at = space(text, at + 1);
                if *bytes.get(at)? != b'}' {
                    at = key(text, at)?.1;
                    open.push(true);
                    continue;
                }
                at += 1;
            }
            b'[' => {
                at = space(text, at + 1);
                if *bytes.get(at)? != b']' {
                    open.push(false);
                    continue;
                }
                at += 1;
            }
            b't' => at = word(bytes, at, b"true")?,
            b'f' => at = word(bytes, at, b"false")?,
            b'n' => at = word(bytes, at, b"null")?,
            _ => at = number(bytes, at)?,
        }
        // A value has ended here.
        loop {
            let Some(object) = open.top() else {
                return Some(at);
            };
            at = space(text, at);
            match (*bytes.get(at)?, object) {
                (b',', true) => {
                    at = key(text, space(text, at + 1))?.1;
                    break;
                }
                (b',', false) => {
                    at = space(text, at + 1);
                    break;
                }
                (b'}', true) | (b']', false) => {
                    open.pop();
                    at += 1;
                }
                _ => return None,
            }
        }
    }
}

/// Walks the object that begins at `at`. `member` is called with each name, unescaped, the position
/// of its quote and that of its value, and must return where the value ends. Returns where the
/// object ends.
pub fn object(
    text: &str,
    at: usize,
    mut member: impl FnMut(&str, usize, usize) -> Option<usize>,
) -> Option<usize> {
    let bytes = text.as_bytes();
    if *bytes.get(at)? != b'{' {
        return None;
    }
    let mut at = space(text, at + 1);
    if *bytes.get(at)? == b'}' {
        return Some(at + 1);
    }
    loop {
        let (close, value) = key(text, at)?;
        let name = text.get(at + 1..close)?;
        // The names that matter are short, and escaped ones are rare enough to be scanned twice.
        let end = if plain(bytes, at + 1) == close {
            member(name, at, value)?
        } else {
            member(&unescaped(name), at, value)?
        };
        let behind = space(text, end);
        match *bytes.get(behind)? {
            b',' => at = space(text, behind + 1),
            b'}' => return Some(behind + 1),
            _ => return None,
        }
    }
}

/// Unescapes a string's body. Borrowed if it has no escapes, as in nearly all cases.
pub fn unescaped(body: &str) -> Cow<'_, str> {
    // Most are short, so a plain loop is faster than a search made for long texts.
    if body.bytes().any(|byte| byte == b'\\') {
        Cow::Owned(json::unescape(body))
    } else {
        Cow::Borrowed(body)
    }
}

/// The unescaped string at `span`. `None` for another type of value.
pub fn said(text: &str, span: Span) -> Option<Cow<'_, str>> {
    body(text, span).map(unescaped)
}

/// The text between the quotes of the string at `span`. `None` for another type of value.
pub fn body(text: &str, span: Span) -> Option<&str> {
    span.of(text).strip_prefix('"')?.strip_suffix('"')
}

/// A member's name at `at`: the position of its closing quote and that of its value.
fn key(text: &str, at: usize) -> Option<(usize, usize)> {
    let bytes = text.as_bytes();
    if *bytes.get(at)? != b'"' {
        return None;
    }
    let behind = string(text, at)?;
    let colon = space(text, behind);
    (*bytes.get(colon)? == b':').then(|| (behind - 1, space(text, colon + 1)))
}

/// The end of the string whose quote is at `at`.
pub fn string(text: &str, at: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = at + 1;
    loop {
        at = plain(bytes, at);
        match *bytes.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => match *bytes.get(at + 1)? {
                b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => at += 2,
                b'u' => {
                    let digits = bytes.get(at + 2..at + 6)?;
                    if !digits.iter().all(u8::is_ascii_hexdigit) {
                        return None;
                    }
                    at += 6;
                }
                _ => return None,
            },
            // Only control characters remain.
            _ => return None,
        }
    }
}

/// The first position at or after `at` of a quote, a backslash, a control character or the end of
/// the text. Passes over blocks that have none of them, which the compiler compares as vectors, and
/// then examines eight bytes at a time.
fn plain(bytes: &[u8], mut at: usize) -> usize {
    const BLOCK: usize = 32;
    const ONES: u64 = u64::from_le_bytes([0x01; 8]);
    const HIGHS: u64 = u64::from_le_bytes([0x80; 8]);
    const QUOTES: u64 = u64::from_le_bytes([b'"'; 8]);
    const SLASHES: u64 = u64::from_le_bytes([b'\\'; 8]);
    const SPACES: u64 = u64::from_le_bytes([b' '; 8]);
    // Sets the high bit of every zero byte, and maybe of bytes after one: only the first is
    // reliable.
    let zero = |word: u64| word.wrapping_sub(ONES) & !word;
    let special =
        |byte: u8| u8::from(byte == b'"') | u8::from(byte == b'\\') | u8::from(byte < b' ');
    while let Some(block) = bytes.get(at..at + BLOCK)
        && (block.iter()).fold(0, |found, byte| found | special(*byte)) == 0
    {
        at += BLOCK;
    }
    while let Some(Ok(eight)) = bytes.get(at..at + 8).map(<[u8; 8]>::try_from) {
        let word = u64::from_le_bytes(eight);
        let control = word.wrapping_sub(SPACES) & !word;
        let found = (zero(word ^ QUOTES) | zero(word ^ SLASHES) | control) & HIGHS;
        if found != 0 {
            return at + found.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    while let Some(byte) = bytes.get(at)
        && !matches!(byte, b'"' | b'\\' | 0..b' ')
    {
        at += 1;
    }
    at
}

fn word(bytes: &[u8], at: usize, word: &[u8]) -> Option<usize> {
    let end = at + word.len();
    (bytes.get(at..end)? == word).then_some(end)
}

/// The end of a number, of any size.
fn number(bytes: &[u8], at: usize) -> Option<usize> {
    let digits = |from: usize| {
        let rest = bytes.get(from..).unwrap_or_default();
        let len = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        (len > 0).then_some(from + len)
    };
    let first = at + usize::from(bytes.get(at) == Some(&b'-'));
    let mut at = digits(first)?;
    if bytes[first] == b'0' && at > first + 1 {
        return None;
    }
    if bytes.get(at) == Some(&b'.') {
        at = digits(at + 1)?;
    }
    if let Some(b'e' | b'E') = bytes.get(at) {
        let sign = usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
        at = digits(at + 1 + sign)?;
    }
    Some(at)
}

/// Which of the arrays and objects around a position are objects, one bit each.
#[derive(Default)]
struct Open {
    depth: usize,
    bits: u64,
    /// The outer levels, 64 to each word.
    outer: Vec<u64>,
}

impl Open {
    fn push(&mut self, object: bool) {
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.outer.push(self.bits);
        }
        self.bits = self.bits << 1 | u64::from(object);
        self.depth += 1;
    }

    fn top(&self) -> Option<bool> {
        (self.depth > 0).then_some(self.bits & 1 == 1)
    }

    fn pop(&mut self) {
        self.depth -= 1;
        self.bits >>= 1;
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.bits = self.outer.pop().unwrap_or_default();
        }
    }
}

#[cfg(test)]
#[path = "scan_tests.rs"]
mod tests;
