//! Navigates JSON text without building a tree.
//!
//! Works on bytes and returns positions, so that values can be cut out verbatim: numbers, key
//! order, duplicate members and lone surrogate escapes are kept. Invalid JSON never causes a panic,
//! only an early `None`; valid JSON is always read correctly.

use std::ops::Range;

use memchr::memchr2;
use serde_json::{Map, Value};

/// The maximum depth of nested arrays and objects that [`tree`] follows.
const MAX_DEPTH: usize = 128;

/// The first position at or after `at` that is not white space.
pub fn skip_space(text: &[u8], at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    let space = rest.iter().position(|byte| !byte.is_ascii_whitespace());
    at + space.unwrap_or(rest.len())
}

/// The position of the quote that closes the string opened by the quote at `at`.
pub fn string_end(text: &[u8], at: usize) -> Option<usize> {
    let mut from = at + 1;
    loop {
        let found = from + memchr2(b'"', b'\\', text.get(from..)?)?;
        if text[found] == b'"' {
            return Some(found);
        }
        from = found + 2;
    }
}

/// Whether `text` is valid between two quotes: no unescaped quote, no incomplete escape.
pub fn is_string_body(text: &[u8]) -> bool {
    let mut from = 0;
    while let Some(found) = memchr2(b'"', b'\\', &text[from..]) {
        from += found + 2;
        if text[from - 2] == b'"' || from > text.len() {
            return false;
        }
    }
    true
}

/// The end of the value that begins at `at`.
pub fn value_end(text: &[u8], at: usize) -> Option<usize> {
    match text.get(at)? {
        b'"' => Some(string_end(text, at)? + 1),
        b'{' | b'[' => {
            let mut depth = 0_usize;
            let mut from = at;
            loop {
                match text.get(from)? {
                    b'"' => from = string_end(text, from)?,
                    b'{' | b'[' => depth += 1,
                    b'}' | b']' => depth -= 1,
                    _ => {}
                }
                from += 1;
                if depth == 0 {
                    return Some(from);
                }
            }
        }
        _ => {
            let rest = &text[at..];
            let ends = |byte: &u8| b",]}:\"[{".contains(byte) || byte.is_ascii_whitespace();
            let len = rest.iter().position(ends).unwrap_or(rest.len());
            (len > 0).then_some(at + len)
        }
    }
}

/// One member of an object.
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

impl Parts<'_> {
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
        if *self.text.get(at)? != b'"' {
            return None;
        }
        let close = string_end(self.text, at)?;
        let colon = skip_space(self.text, close + 1);
        if *self.text.get(colon)? != b':' {
            return None;
        }
        let value = skip_space(self.text, colon + 1);
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
    parts(text, at, b'{', b'}')
}

/// The elements of the array that begins at `at`. `None` if there is no array.
pub fn elements(text: &[u8], at: usize) -> Option<Parts<'_>> {
    parts(text, at, b'[', b']')
}

fn parts(text: &[u8], at: usize, open: u8, close: u8) -> Option<Parts<'_>> {
    let at = skip_space(text, at);
    (*text.get(at)? == open).then_some(Parts {
        text,
        at: at + 1,
        close,
        first: true,
        end: None,
    })
}

/// The elements of the member `key` of the object at `at`, if that is an array.
pub fn member_elements<'a>(text: &'a [u8], at: usize, key: &str) -> Option<Parts<'a>> {
    elements(text, member(text, at, key)?.start)
}

/// A member of an object, as text.
pub fn text_member<'a>(object: &'a str, key: &str) -> Option<&'a str> {
    let start = skip_space(object.as_bytes(), 0);
    object.get(member(object.as_bytes(), start, key)?)
}

/// A member of an object that is a string.
pub fn string_member(object: &str, key: &str) -> Option<String> {
    serde_json::from_str(text_member(object, key)?).ok()
}

/// The same text with the value at `range` replaced by a string.
pub fn with_string(text: &str, range: &Range<usize>, string: &str) -> String {
    let (before, behind) = (text.get(..range.start), text.get(range.end..));
    let string = Value::from(string).to_string();
    [
        before.unwrap_or_default(),
        &string,
        behind.unwrap_or_default(),
    ]
    .concat()
}

/// One object with the members of several, in order. `None` if there are no objects. The names must
/// differ.
pub fn joined<'a>(objects: impl Iterator<Item = &'a String>) -> Option<String> {
    let members: Vec<_> = objects.flat_map(|object| text_members(object)).collect();
    (!members.is_empty()).then(|| object(members))
}

/// An object from names and the JSON text of their values.
pub fn object<'a>(members: impl IntoIterator<Item = (String, &'a str)>) -> String {
    let mut text = "{".to_owned();
    for (name, value) in members {
        if text.len() > 1 {
            text.push(',');
        }
        text.extend([&Value::from(name).to_string(), ":", value]);
    }
    text.push('}');
    text
}

/// The members of an object, in order, with unescaped names and values as text. Empty for anything
/// but an object. Names that cannot be unescaped are left out.
pub fn text_members(object: &str) -> Vec<(String, &str)> {
    let mut found = Vec::new();
    let start = skip_space(object.as_bytes(), 0);
    if let Some(mut members) = members(object.as_bytes(), start) {
        while let Some(member) = members.member() {
            let name = object.get(member.key.start - 1..=member.key.end);
            let name = name.and_then(|name| serde_json::from_str(name).ok());
            if let (Some(name), Some(value)) = (name, object.get(member.value.clone())) {
                found.push((name, value));
            }
        }
    }
    found
}

/// The value of a member of the object that begins at `at`. If several have this name, the last
/// one, as in most JSON parsers. `key` must need no escaping.
pub fn member(text: &[u8], at: usize, key: &str) -> Option<Range<usize>> {
    let mut parts = members(text, at)?;
    let mut found = None;
    while let Some(member) = parts.member() {
        if &text[member.key] == key.as_bytes() {
            found = Some(member.value);
        }
    }
    found
}

/// The text between the quotes of a string. `None` for another type of value.
pub fn string_body(text: &[u8], value: &Range<usize>) -> Option<Range<usize>> {
    let quoted = text.get(value.start)? == &b'"' && value.len() >= 2;
    quoted.then(|| value.start + 1..value.end - 1)
}

/// The tree of a JSON text, for display and comparison. Accepts everything that `serde_json` does,
/// and more: lone surrogate escapes become U+FFFD, and numbers out of its range and values nested
/// deeper than 128 levels become strings with their own text. `None` if it is not JSON.
pub fn tree(text: &str) -> Option<Value> {
    if let Ok(value) = serde_json::from_str(text) {
        return Some(value);
    }
    let start = skip_space(text.as_bytes(), 0);
    let end = value_end(text.as_bytes(), start)?;
    let alone = skip_space(text.as_bytes(), end) == text.len();
    alone.then(|| lenient(text, start..end, 0)).flatten()
}

fn lenient(text: &str, range: Range<usize>, depth: usize) -> Option<Value> {
    let bytes = text.as_bytes();
    let own = &text[range.clone()];
    match bytes[range.start] {
        b'{' | b'[' if depth == MAX_DEPTH => Some(Value::String(own.to_owned())),
        b'{' => {
            let mut map = Map::new();
            let mut parts = members(bytes, range.start)?;
            while let Some(member) = parts.member() {
                let value = lenient(text, member.value, depth + 1)?;
                map.insert(unescape(&text[member.key]), value);
            }
            parts.end().map(|_| Value::Object(map))
        }
        b'[' => {
            let mut list = Vec::new();
            let mut parts = elements(bytes, range.start)?;
            while let Some(element) = parts.element() {
                list.push(lenient(text, element, depth + 1)?);
            }
            parts.end().map(|_| Value::Array(list))
        }
        b'"' => Some(Value::String(unescape(
            &text[range.start + 1..range.end - 1],
        ))),
        b'-' | b'0'..=b'9' => {
            let number = serde_json::from_str(own);
            Some(number.unwrap_or_else(|_| Value::String(own.to_owned())))
        }
        _ => serde_json::from_str(own).ok(),
    }
}

/// Unescapes a string's body. A lone surrogate escape becomes U+FFFD; an invalid escape is kept.
pub fn unescape(body: &str) -> String {
    let mut text = String::with_capacity(body.len());
    let mut rest = body;
    while let Some(at) = rest.find('\\') {
        text.push_str(&rest[..at]);
        rest = &rest[at..];
        let (letter, len) = escape(rest);
        match letter {
            Some(letter) => text.push(letter),
            None => text.push_str(&rest[..len]),
        }
        rest = &rest[len..];
    }
    text.push_str(rest);
    text
}

/// The character of an escape at the start of `rest`, and the escape's length.
fn escape(rest: &str) -> (Option<char>, usize) {
    let simple = match rest.as_bytes().get(1) {
        Some(b'n') => '\n',
        Some(b't') => '\t',
        Some(b'r') => '\r',
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(byte @ (b'"' | b'\\' | b'/')) => char::from(*byte),
        Some(b'u') => {
            return match unit(rest) {
                None => (None, 2),
                Some(high @ 0xd800..=0xdbff) => match rest.get(6..).and_then(unit) {
                    Some(low @ 0xdc00..=0xdfff) => {
                        let code = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
                        (char::from_u32(code), 12)
                    }
                    _ => (Some(char::REPLACEMENT_CHARACTER), 6),
                },
                Some(code) => {
                    let letter = char::from_u32(code);
                    (Some(letter.unwrap_or(char::REPLACEMENT_CHARACTER)), 6)
                }
            };
        }
        _ => return (None, 1),
    };
    (Some(simple), 2)
}

/// The code unit of a `\uXXXX` at the start of `rest`.
fn unit(rest: &str) -> Option<u32> {
    let digits = rest.strip_prefix("\\u")?.get(..4)?;
    let plain = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    plain
        .then(|| u32::from_str_radix(digits, 16).ok())
        .flatten()
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
