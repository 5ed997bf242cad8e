//! Walks JSON text strictly and without a tree: where values end, and which members they have.
//!
//! Every byte that is passed over is checked, so a value that has an end is valid JSON, except that
//! nobody has checked that it is UTF-8. Positions are those in the text, so values can be cut out
//! verbatim: numbers, key order, duplicate members and lone surrogate escapes are kept. Nesting uses
//! no stack, and up to 64 levels of it allocate nothing.

use std::ops::Range;

use super::text::unescaped_bytes;

/// The first position at or after `at` that is not white space.
pub fn skip_space(text: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\t' | b'\r' | b'\n') = text.get(at) {
        at += 1;
    }
    at
}

/// The end of the value that begins at `at`. `None` if there is no valid value.
pub fn value_end(text: &[u8], mut at: usize) -> Option<usize> {
    let mut open = Nesting::default();
    loop {
        // A value begins here.
        match *text.get(at)? {
            b'"' => at = string_end(text, at)?,
            b'{' => {
                at = skip_space(text, at + 1);
                if *text.get(at)? != b'}' {
                    at = key(text, at)?.1;
                    open.push(true);
                    continue;
                }
                at += 1;
            }
            b'[' => {
                at = skip_space(text, at + 1);
                if *text.get(at)? != b']' {
                    open.push(false);
                    continue;
                }
                at += 1;
            }
            b't' => at = word_end(text, at, b"true")?,
            b'f' => at = word_end(text, at, b"false")?,
            b'n' => at = word_end(text, at, b"null")?,
            _ => at = number_end(text, at)?,
        }
        // A value has ended here.
        loop {
            let Some(object) = open.top() else {
                return Some(at);
            };
            at = skip_space(text, at);
            match (*text.get(at)?, object) {
                (b',', true) => {
                    at = key(text, skip_space(text, at + 1))?.1;
                    break;
                }
                (b',', false) => {
                    at = skip_space(text, at + 1);
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

/// Whether a text is a single value. `end` finds the end of a value that begins at a position.
pub fn is_single(text: &[u8], end: impl FnOnce(usize) -> Option<usize>) -> bool {
    end(skip_space(text, 0)).is_some_and(|end| skip_space(text, end) == text.len())
}

/// Walks the object that begins at `at`. `member` is called with each name, unescaped, the position
/// of its quote and that of its value, and must return where the value ends. Returns where the
/// object ends.
pub fn walk(
    text: &[u8],
    at: usize,
    mut member: impl FnMut(&[u8], usize, usize) -> Option<usize>,
) -> Option<usize> {
    let mut parts = Parts::new(text, at, b'{', b'}')?;
    while let Some(at) = parts.step() {
        let (close, value) = key(text, at)?;
        parts.at = member(&unescaped_bytes(text.get(at + 1..close)?), at, value)?;
    }
    parts.end()
}

/// A member of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name, still escaped, without the quotes.
    pub key: Range<usize>,
    /// Its value.
    pub value: Range<usize>,
}

/// The members of an object, or the elements of an array, in order.
#[derive(Clone, Debug)]
pub struct Parts<'a> {
    text: &'a [u8],
    at: usize,
    close: u8,
    first: bool,
    end: Option<usize>,
}

impl<'a> Parts<'a> {
    /// The parts of the value that begins at `at`, or after white space there, between these
    /// brackets.
    fn new(text: &'a [u8], at: usize, open: u8, close: u8) -> Option<Self> {
        let at = skip_space(text, at);
        (*text.get(at)? == open).then_some(Self {
            text,
            at: at + 1,
            close,
            first: true,
            end: None,
        })
    }

    /// The position after the closing bracket. Known only after the last part was read, and `None`
    /// if the text is malformed.
    pub fn end(&self) -> Option<usize> {
        self.end
    }

    /// Advances to the next part. `None` after the last one.
    fn step(&mut self) -> Option<usize> {
        if self.end.is_some() {
            return None;
        }
        let mut at = skip_space(self.text, self.at);
        let next = *self.text.get(at)?;
        // A comma must be followed by a part.
        if next == self.close {
            self.end = Some(at + 1);
            return None;
        }
        if !self.first {
            at = skip_space(self.text, (next == b',').then_some(at + 1)?);
        }
        self.first = false;
        Some(at)
    }

    /// The next element of an array.
    pub fn element(&mut self) -> Option<Range<usize>> {
        let at = self.step()?;
        let end = value_end(self.text, at)?;
        self.at = end;
        Some(at..end)
    }

    /// The next member of an object.
    pub fn member(&mut self) -> Option<Member> {
        let at = self.step()?;
        let (close, value) = key(self.text, at)?;
        let end = value_end(self.text, value)?;
        self.at = end;
        Some(Member {
            key: at + 1..close,
            value: value..end,
        })
    }
}

/// The members of the object that begins at `at`. `None` if there is no object.
pub fn members(text: &[u8], at: usize) -> Option<Parts<'_>> {
    Parts::new(text, at, b'{', b'}')
}

/// The elements of the array that begins at `at`. `None` if there is no array.
pub fn elements(text: &[u8], at: usize) -> Option<Parts<'_>> {
    Parts::new(text, at, b'[', b']')
}

/// A member's name at `at`: the position of its closing quote and that of its value.
fn key(text: &[u8], at: usize) -> Option<(usize, usize)> {
    if *text.get(at)? != b'"' {
        return None;
    }
    let after = string_end(text, at)?;
    let colon = skip_space(text, after);
    (*text.get(colon)? == b':').then(|| (after - 1, skip_space(text, colon + 1)))
}

/// The position after the quote that closes the string opened by the quote at `at`.
pub fn string_end(text: &[u8], at: usize) -> Option<usize> {
    // Most strings are short and have no escapes.
    let at = skip_words(text, at + 1);
    match text.get(at) {
        Some(b'"') => Some(at + 1),
        _ => rest_end(text, at),
    }
}

/// The end of a string of which [`skip_words`] has returned the position `at`. Not inlined: short
/// strings would pay for the preparations.
#[inline(never)]
fn rest_end(text: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match *text.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => match *text.get(at + 1)? {
                b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => at += 2,
                b'u' => {
                    let digits = text.get(at + 2..at + 6)?;
                    if !digits.iter().all(u8::is_ascii_hexdigit) {
                        return None;
                    }
                    at += 6;
                }
                _ => return None,
            },
            // A control character, which must be escaped.
            ..b' ' => return None,
            // The two words before this byte are plain.
            _ => at = skip_blocks(text, at),
        }
        at = skip_words(text, at);
    }
}

/// Skips plain bytes, two words of them at most: keys and the text between two escapes are short, so
/// this comes before the search for long texts. Returns the first position at or after `at` of a
/// quote, a backslash, a control character or the end of the text, or that after two plain words.
#[inline]
fn skip_words(text: &[u8], mut at: usize) -> usize {
    const ONES: u64 = u64::from_le_bytes([0x01; 8]);
    const HIGHS: u64 = u64::from_le_bytes([0x80; 8]);
    const QUOTES: u64 = u64::from_le_bytes([b'"'; 8]);
    const SLASHES: u64 = u64::from_le_bytes([b'\\'; 8]);
    const SPACES: u64 = u64::from_le_bytes([b' '; 8]);
    // Sets the high bit of every zero byte, and maybe of bytes after one: only the first is
    // reliable.
    let zero = |word: u64| word.wrapping_sub(ONES) & !word;
    for _ in 0..2 {
        let Some(Ok(eight)) = text.get(at..at + 8).map(<[u8; 8]>::try_from) else {
            let rest = text.get(at..).unwrap_or_default();
            let found = rest
                .iter()
                .position(|byte| matches!(byte, b'"' | b'\\' | ..b' '));
            return at + found.unwrap_or(rest.len());
        };
        let word = u64::from_le_bytes(eight);
        let control = word.wrapping_sub(SPACES) & !word;
        let found = (zero(word ^ QUOTES) | zero(word ^ SLASHES) | control) & HIGHS;
        if found != 0 {
            return at + found.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    at
}

/// Skips blocks in which the only escapes are quotes, newlines and tabs. The byte before `at` must
/// be plain. The position that is returned is not inside an escape.
fn skip_blocks(text: &[u8], mut at: usize) -> usize {
    const BLOCK: usize = 32;
    // Each byte is examined with the one before it, without branches, so that the compiler can
    // compare many bytes at once. A second backslash stops the search: hence each backslash begins
    // an escape.
    let mask = |is: bool| if is { u8::MAX } else { 0 };
    while let Some(block) = text.get(at - 1..at + BLOCK) {
        let mut stop = 0;
        for (before, byte) in block[..BLOCK].iter().zip(&block[1..]) {
            let escaped = mask(*before == b'\\');
            let quote = mask(*byte == b'"');
            let letter = mask(*byte == b'n') | mask(*byte == b't');
            let control = b' '.saturating_sub(*byte);
            stop |= control | (quote ^ (escaped & !letter));
        }
        if stop != 0 {
            break;
        }
        at += BLOCK;
    }
    // An escape may have begun with the last byte.
    at - usize::from(text[at - 1] == b'\\')
}

fn word_end(text: &[u8], at: usize, word: &[u8]) -> Option<usize> {
    let end = at + word.len();
    (text.get(at..end)? == word).then_some(end)
}

/// The end of a number, of any size.
fn number_end(text: &[u8], at: usize) -> Option<usize> {
    let digits = |from: usize| {
        let rest = text.get(from..).unwrap_or_default();
        let len = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        (len > 0).then_some(from + len)
    };
    let first = at + usize::from(text.get(at) == Some(&b'-'));
    let mut at = digits(first)?;
    if text[first] == b'0' && at > first + 1 {
        return None;
    }
    if text.get(at) == Some(&b'.') {
        at = digits(at + 1)?;
    }
    if let Some(b'e' | b'E') = text.get(at) {
        let sign = usize::from(matches!(text.get(at + 1), Some(b'+' | b'-')));
        at = digits(at + 1 + sign)?;
    }
    Some(at)
}

/// Which of the arrays and objects around a position are objects, one bit each.
#[derive(Default)]
struct Nesting {
    depth: usize,
    bits: u64,
    /// The outer levels, 64 to each word.
    outer: Vec<u64>,
}

impl Nesting {
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
