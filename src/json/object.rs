//! Writes JSON objects from values that are text already.

use std::ops::Range;

use serde_json::Value;

use super::path::text_members;

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
