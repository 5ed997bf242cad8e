//! Looks up members of objects in JSON text.

use std::borrow::Cow;
use std::ops::Range;

use super::scan::{Parts, elements, members, skip_space};
use super::text::{unescaped, unescaped_bytes};

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

/// The elements of the member `key` of the object at `at`, if that is an array.
pub fn member_elements<'a>(text: &'a [u8], at: usize, key: &str) -> Option<Parts<'a>> {
    elements(text, member(text, at, key)?.start)
}

/// The text between the quotes of a string. `None` for another type of value.
pub fn string_body(text: &[u8], value: &Range<usize>) -> Option<Range<usize>> {
    let quoted = text.get(value.start)? == &b'"' && value.len() >= 2;
    quoted.then(|| value.start + 1..value.end - 1)
}

/// The string at `value`, unescaped. `None` for another type of value.
pub fn string<'a>(text: &'a [u8], value: &Range<usize>) -> Option<Cow<'a, [u8]>> {
    string_body(text, value).map(|body| unescaped_bytes(&text[body]))
}

/// A member of an object, as text.
pub fn text_member<'a>(object: &'a str, key: &str) -> Option<&'a str> {
    let start = skip_space(object.as_bytes(), 0);
    object.get(member(object.as_bytes(), start, key)?)
}

/// The elements of an array, as text. Empty for anything but an array.
pub fn text_elements(array: &str) -> impl Iterator<Item = &str> {
    let mut parts = elements(array.as_bytes(), 0);
    std::iter::from_fn(move || array.get(parts.as_mut()?.element()?))
}

/// The text between the quotes of a string, still escaped. `None` for another type of value.
pub fn text_body(value: &str) -> Option<&str> {
    value.strip_prefix('"')?.strip_suffix('"')
}

/// A member of an object that is a string.
pub fn string_member(object: &str, key: &str) -> Option<String> {
    serde_json::from_str(text_member(object, key)?).ok()
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

/// The range of a value in its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Its first byte.
    pub start: usize,
    /// The position after its last byte.
    pub end: usize,
}

impl Span {
    /// The value's own text.
    pub fn of(self, text: &str) -> &str {
        text.get(self.start..self.end).unwrap_or_default()
    }

    /// The range of the value as bytes of the text.
    pub fn range(self) -> Range<usize> {
        self.start..self.end
    }

    /// The range of the value in a part of the text that begins `by` bytes after the text's start.
    #[must_use]
    pub fn back(self, by: usize) -> Self {
        Self {
            start: self.start - by,
            end: self.end - by,
        }
    }

    /// The string here, unescaped. `None` for another type of value.
    pub fn string(self, text: &str) -> Option<Cow<'_, str>> {
        self.body(text).map(unescaped)
    }

    /// The text between the quotes of the string here. `None` for another type of value.
    pub fn body(self, text: &str) -> Option<&str> {
        text_body(self.of(text))
    }
}
