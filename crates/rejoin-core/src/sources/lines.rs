//! Reads the objects of a file of JSON lines as tools leave them: with half a last line, two objects
//! on one line, or lines that are no JSON.

use std::borrow::Cow;

use serde_json::{Deserializer, Value};

/// The objects of a file, and how many lines have something else.
#[derive(Debug, Default)]
pub(super) struct JsonLines {
    pub(super) objects: Vec<Value>,
    pub(super) damaged: usize,
}

/// Reads a file of JSON lines. Lines end with a line feed and nothing else: strings may contain
/// other separators. A last line without its end that is no complete object is being written; it is
/// not counted as damaged.
pub(super) fn objects(bytes: &[u8]) -> JsonLines {
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    let mut lines = JsonLines::default();
    let ends = memchr::memchr_iter(b'\n', bytes).map(|end| end + 1);
    let mut start = 0;
    for end in ends.chain([bytes.len()]) {
        let line = &bytes[start..end];
        start = end;
        let complete = line.ends_with(b"\n");
        let text = simdutf8::basic::from_utf8(line);
        let text = text.map_or_else(|_| String::from_utf8_lossy(line), Cow::Borrowed);
        let text = text.trim_matches(|c: char| c == '\0' || c.is_ascii_whitespace());
        let mut is_damaged = false;
        for value in Deserializer::from_str(text).into_iter::<Value>() {
            match value {
                Ok(value @ Value::Object(_)) => lines.objects.push(value),
                Ok(_) | Err(_) => is_damaged = true,
            }
        }
        lines.damaged += usize::from(is_damaged && complete);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_read_however_the_lines_are_damaged() {
        let file = "\u{feff}{\"a\":1}\r\n\n{\"a\":2}{\"a\":3}\n7\n{\"a\": \"\u{2028}\"}\n{\"a\":\n\0\0\0\n{\"a\":5} x\n{\"a\":6";
        let lines = objects(file.as_bytes());
        let read: Vec<_> = lines
            .objects
            .iter()
            .map(|value| value["a"].to_string())
            .collect();
        assert_eq!(read, ["1", "2", "3", "\"\u{2028}\"", "5"]);
        assert_eq!(lines.damaged, 3);
        let lines = objects(b"{\"a\":\"\xFF\"}\n{\"b\":1}");
        assert_eq!(lines.objects.len(), 2);
        assert_eq!(lines.damaged, 0);
    }
}
