//! A value inside a payload, read without parsing the payload into a tree.

use crate::json;

use super::clip::{Clip, floor, one_line};

/// A JSON value in a text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node<'a> {
    text: &'a str,
}

impl<'a> Node<'a> {
    /// The value that a text begins with.
    pub(super) fn root(text: &'a str) -> Self {
        Self { text: text.trim() }
    }

    /// The member of this name, if this is an object that has it.
    pub(super) fn get(self, key: &str) -> Option<Self> {
        let range = json::member(self.text.as_bytes(), 0, key)?;
        let text = self.text.get(range)?;
        Some(Self { text })
    }

    /// The members of these names, if this is an object. They are found in one pass, since a
    /// payload may be long.
    pub(super) fn pick<const N: usize>(self, keys: [&str; N]) -> [Option<Self>; N] {
        let mut found = [None; N];
        let text = self.text.as_bytes();
        let Some(mut members) = json::members(text, 0) else {
            return found;
        };
        while let Some(member) = members.member() {
            let key = &text[member.key];
            if let Some(place) = keys.iter().position(|config| config.as_bytes() == key) {
                found[place] = self.text.get(member.value).map(|text| Self { text });
            }
        }
        found
    }

    /// The elements, if this is an array.
    pub(super) fn elements(self) -> impl Iterator<Item = Self> {
        let mut parts = json::elements(self.text.as_bytes(), 0);
        std::iter::from_fn(move || {
            let range = parts.as_mut()?.element()?;
            let text = self.text.get(range)?;
            Some(Self { text })
        })
    }

    /// The value's JSON text.
    pub(super) fn raw(self) -> &'a str {
        self.text
    }

    /// The text between the quotes, still escaped, if this is a string.
    pub(super) fn body(self) -> Option<&'a str> {
        let whole = 0..self.text.len();
        let body = json::string_body(self.text.as_bytes(), &whole)?;
        self.text.get(body)
    }

    /// Whether this is the string `text`.
    pub(super) fn is(self, text: &str) -> bool {
        self.body() == Some(text)
    }

    /// The string on one line, of at most `chars` characters; `None` if that is empty.
    pub(super) fn short(self, chars: usize) -> Option<String> {
        self.body()?;
        Some(self.line(chars)).filter(|line| !line.is_empty())
    }

    /// The string, or the JSON of another value, on one line of at most `chars` characters.
    pub(super) fn line(self, chars: usize) -> String {
        let text = self.body().unwrap_or(self.text);
        // A character takes at most two escapes of six bytes.
        let start = &text[..floor(text, chars.saturating_mul(12).saturating_add(64))];
        match self.body() {
            Some(_) => one_line(&json::unescape(start), chars),
            None => one_line(start, chars),
        }
    }

    /// Appends the string to a text.
    pub(super) fn add_to(self, clip: &mut Clip) {
        if let Some(body) = self.body() {
            clip.push_escaped(body);
        }
    }
}
