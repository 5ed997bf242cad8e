//! Writes JSON objects from values that are text already.

use std::ops::Range;

use serde_json::Value;

use super::path::text_members;
use super::scan::{skip_space, string_end};
use super::splice::Splice;
use super::text::unescaped;

/// The length of most objects, in bytes.
const USUAL: usize = 128;

/// A JSON object that is being written. Its members keep their order, and their values their text.
#[derive(Debug, Default)]
pub struct Object {
    text: String,
    /// Offset of the object in `text`, in bytes.
    begin: usize,
}

impl Object {
    /// An object without members.
    pub fn new() -> Self {
        Self::behind(String::with_capacity(USUAL))
    }

    /// An object without members that is written behind this text.
    pub fn behind(text: String) -> Self {
        let begin = text.len();
        Self { text, begin }
    }

    /// Adds a member whose value is JSON text.
    #[must_use]
    pub fn raw(self, name: &str, value: &str) -> Self {
        self.written(name, |text| text.push_str(value))
    }

    /// Adds a member whose value, as JSON text, is appended to the text.
    #[must_use]
    pub fn written(mut self, name: &str, value: impl FnOnce(&mut String)) -> Self {
        let is_first = self.text.len() == self.begin;
        let before = if is_first { "{" } else { "," };
        self.text.push_str(before);
        quote(name, &mut self.text);
        self.text.push(':');
        value(&mut self.text);
        self
    }

    /// Adds a member whose value is JSON text, if there is one.
    #[must_use]
    pub fn optional(self, name: &str, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.raw(name, value),
            None => self,
        }
    }

    /// Adds a member whose value is a string.
    #[must_use]
    pub fn string(self, name: &str, value: &str) -> Self {
        self.written(name, |text| quote(value, text))
    }

    /// The JSON text, behind that before it.
    pub fn end(mut self) -> String {
        let is_empty = self.text.len() == self.begin;
        self.text.push_str(if is_empty { "{}" } else { "}" });
        self.text
    }
}

/// A string as JSON text.
pub fn quoted(text: &str) -> String {
    let mut json = String::with_capacity(text.len() + 2);
    quote(text, &mut json);
    json
}

/// Appends a string as JSON text. Most have nothing to be escaped.
fn quote(text: &str, json: &mut String) {
    let is_plain = |byte| byte >= b' ' && byte != b'"' && byte != b'\\';
    // Without an early end, so that many bytes are looked at together.
    if text
        .bytes()
        .fold(true, |plain, byte| plain & is_plain(byte))
    {
        json.push('"');
        json.push_str(text);
        json.push('"');
    } else {
        json.push_str(&Value::from(text).to_string());
    }
}

/// The text with the value at `range` replaced by a string.
pub fn with_string(text: &str, range: &Range<usize>, string: &str) -> String {
    let (before, behind) = (text.get(..range.start), text.get(range.end..));
    [
        before.unwrap_or_default(),
        &quoted(string),
        behind.unwrap_or_default(),
    ]
    .concat()
}

/// The text with other strings in place of those for which `change` returns one, at any depth. It gets the
/// name of the member that a string is the value of, which is empty for an element of an array, and the
/// string. `None` if nothing changes. The text is valid JSON.
pub fn with_strings(
    text: &str,
    change: &mut dyn FnMut(&str, &str) -> Option<String>,
) -> Option<String> {
    let bytes = text.as_bytes();
    let mut splice = Splice::new(bytes);
    let mut name = "";
    let mut at = 0;
    while let Some(start) = memchr::memchr(b'"', &bytes[at..]).map(|found| at + found) {
        let end = string_end(bytes, start)?;
        let body = text.get(start + 1..end - 1)?;
        let is_member = bytes[..start].trim_ascii_end().ends_with(b":");
        if bytes.get(skip_space(bytes, end)) == Some(&b':') {
            name = body;
        } else {
            let name = if is_member { name } else { "" };
            if let Some(new) = change(&unescaped(name), &unescaped(body)) {
                splice.replace(start..end, quoted(&new).into_bytes());
            }
        }
        at = end;
    }
    if splice.is_empty() {
        return None;
    }
    String::from_utf8(splice.into_bytes()).ok()
}

/// An object with the members of several objects, in order. `None` if there are no members. The
/// names must differ.
pub fn joined<'a>(objects: impl Iterator<Item = &'a String>) -> Option<String> {
    let members: Vec<_> = objects.flat_map(|object| text_members(object)).collect();
    (!members.is_empty()).then(|| object(members))
}

/// An object from names and the JSON text of their values.
pub fn object<'a>(members: impl IntoIterator<Item = (String, &'a str)>) -> String {
    let add = |object: Object, (name, value): (String, &str)| object.raw(&name, value);
    members.into_iter().fold(Object::new(), add).end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_is_quoted_as_serde_quotes_it() {
        for character in ('\0'..='\u{2ff}').chain(['\u{2028}', '\u{1f600}']) {
            let text = format!("a{character}b");
            assert_eq!(quoted(&text), Value::from(&*text).to_string());
        }
    }
}
