//! The meaning of JSON text: unescaped strings, and trees for display and comparison.

use std::borrow::Cow;
use std::ops::Range;

use serde_json::{Map, Value};

use super::scan::{elements, members, skip_space, value_end};

/// The maximum depth of nested arrays and objects that [`tree`] follows.
const MAX_DEPTH: usize = 128;

/// The tree of a JSON text, for display and comparison. Accepts everything that `serde_json` does,
/// and more: lone surrogate escapes become U+FFFD, and numbers out of its range and values nested
/// deeper than 128 levels become strings with their own text. `None` if it is not JSON.
pub fn tree(text: &str) -> Option<Value> {
    if let Ok(value) = serde_json::from_str(text) {
        return Some(value);
    }
    let start = skip_space(text.as_bytes(), 0);
    let end = value_end(text.as_bytes(), start)?;
    let is_single = skip_space(text.as_bytes(), end) == text.len();
    is_single.then(|| lenient(text, start..end, 0)).flatten()
}

pub(super) fn lenient(text: &str, range: Range<usize>, depth: usize) -> Option<Value> {
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

/// Where in a string's body these positions in its unescaped text are, which must be in order.
pub fn escaped_positions<const N: usize>(body: &str, positions: [usize; N]) -> [usize; N] {
    let (mut at, mut unescaped_at) = (0, 0);
    positions.map(|position| {
        while unescaped_at < position && at < body.len() {
            let rest = &body[at..];
            let plain = rest.find('\\').unwrap_or(rest.len());
            if plain > 0 {
                let len = plain.min(position - unescaped_at);
                at += len;
                unescaped_at += len;
            } else {
                let (letter, len) = escape(rest);
                at += len;
                unescaped_at += letter.map_or(len, char::len_utf8);
            }
        }
        at
    })
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
pub fn unit(rest: &str) -> Option<u32> {
    let digits = rest.strip_prefix("\\u")?.get(..4)?;
    let plain = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    plain
        .then(|| u32::from_str_radix(digits, 16).ok())
        .flatten()
}

/// Unescapes a string's body. Borrowed if it has no escapes, as in nearly all cases.
pub fn unescaped(body: &str) -> Cow<'_, str> {
    // Most are short, so a plain loop is faster than a search made for long texts.
    if body.bytes().any(|byte| byte == b'\\') {
        Cow::Owned(unescape(body))
    } else {
        Cow::Borrowed(body)
    }
}

/// Unescapes a string's body that may not be UTF-8; such a body is returned unchanged.
pub fn unescaped_bytes(body: &[u8]) -> Cow<'_, [u8]> {
    if !body.contains(&b'\\') {
        return Cow::Borrowed(body);
    }
    match std::str::from_utf8(body) {
        Ok(text) => Cow::Owned(unescape(text).into_bytes()),
        Err(_) => Cow::Borrowed(body),
    }
}
