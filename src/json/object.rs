//! Writes JSON objects from values that are text already.

use std::ops::Range;

use serde_json::Value;

use super::path::text_members;

/// A JSON object that is being written. Its members keep their order, and their values their text.
#[derive(Debug, Default)]
pub struct Object(String);

impl Object {
    /// An object without members.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a member whose value is JSON text.
    #[must_use]
    pub fn raw(mut self, name: &str, value: &str) -> Self {
        let before = if self.0.is_empty() { "{" } else { "," };
        self.0.extend([before, &quoted(name), ":", value]);
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
        self.raw(name, &quoted(value))
    }

    /// The JSON text.
    pub fn end(mut self) -> String {
        self.0.push_str(if self.0.is_empty() { "{}" } else { "}" });
        self.0
    }
}

/// A string as JSON text.
pub fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// The same text with the value at `range` replaced by a string.
pub fn with_string(text: &str, range: &Range<usize>, string: &str) -> String {
    let (before, behind) = (text.get(..range.start), text.get(range.end..));
    [
        before.unwrap_or_default(),
        &quoted(string),
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
    let add = |object: Object, (name, value): (String, &str)| object.raw(&name, value);
    members.into_iter().fold(Object::new(), add).end()
}
