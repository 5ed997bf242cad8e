//! Reads the objects of a file of JSON lines as tools leave them: with half a last line, two objects
//! on one line, lines that are no JSON, and the other kinds of [`DamageKind`].

use std::borrow::Cow;

use serde_json::{Deserializer, Value};

use super::damage::{self, DamageKind, DamagedPlace};

/// The longest record that is read, in bytes. It takes several times that in memory.
pub(super) const LONGEST: usize = 64 << 20;

/// What is left of a longer line in a file that is read.
pub(super) const TOO_LONG: &[u8] = b"\x01too long\x01";

/// How many records before a damaged one say what records of the file are like.
const COMPARED: usize = 64;

/// The objects of a file, and where it is damaged.
#[derive(Debug, Default)]
pub(super) struct JsonLines {
    pub(super) objects: Vec<Value>,
    pub(super) damage: Vec<DamagedPlace>,
}

/// Reads a file of JSON lines. Lines end with a line feed and nothing else: strings may contain
/// other separators. A last line without its end that is no complete object is being written, so it
/// is not damaged.
pub(super) fn objects(bytes: &[u8]) -> JsonLines {
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    let mut reader = JsonLinesReader {
        bytes,
        lines: JsonLines::default(),
        number: 1,
        numbered: 0,
        joined: 0,
    };
    let mut start = 0;
    while start < bytes.len() {
        start = reader.line(start);
    }
    reader.lines
}

/// A file while its lines are read.
#[derive(Debug)]
struct JsonLinesReader<'a> {
    bytes: &'a [u8],
    lines: JsonLines,
    /// The number of the line at `numbered`.
    number: usize,
    numbered: usize,
    /// Up to here, lines were looked at as the rest of a record that has line feeds in its strings.
    joined: usize,
}

impl JsonLinesReader<'_> {
    /// Reads the line that begins at `start`. Returns where the next one begins.
    fn line(&mut self, start: usize) -> usize {
        let end = self.end_of_line(start);
        let line = self.bytes[start..end].trim_ascii();
        let record = without_zeros(line);
        let mut damage = (record.len() < line.len()).then_some(DamageKind::Zeros);
        if record.len() > LONGEST || record == TOO_LONG {
            self.damaged(start, Some(DamageKind::TooLong));
            return end;
        }
        let text = text(record, &mut damage);
        let before = self.lines.objects.len();
        let mut values = Deserializer::from_str(&text).into_iter::<Value>();
        let is_cut = loop {
            match values.next() {
                Some(Ok(value @ Value::Object(_))) => self.lines.objects.push(value),
                None => {
                    self.damaged(start, damage);
                    return end;
                }
                Some(Ok(_)) => break false,
                Some(Err(error)) => break error.is_eof(),
            }
        };
        let is_complete = self.bytes[..end].ends_with(b"\n");
        let has_whole = self.lines.objects.len() > before;
        if is_cut && is_complete && has_whole && matches!(text, Cow::Borrowed(_)) {
            // The rest may be a record with line feeds.
            self.damaged(start, damage);
            let first = self.bytes[start..end]
                .iter()
                .position(|byte| is_content(*byte));
            return start + first.unwrap_or(0) + values.byte_offset();
        }
        self.lines.objects.truncate(before);
        if is_cut
            && is_complete
            && start >= self.joined
            && let Some(next) = self.joined_lines(start, end)
        {
            return next;
        }
        let (found, kind) = self.repaired(&text);
        self.lines.objects.extend(found);
        if is_complete {
            self.damaged(start, damage.max(kind));
        }
        end
    }

    /// Reads the line from `start` to `end` with those behind it, if they are one record whose
    /// strings have line feeds. Returns where the next line begins.
    fn joined_lines(&mut self, start: usize, end: usize) -> Option<usize> {
        // No string has such a line: it would have escaped the quote.
        let begins = |line: &[u8]| line.trim_ascii_start().starts_with(b"{\"");
        let mut last = end;
        while last < self.bytes.len() && last - start < LONGEST && !begins(&self.bytes[last..]) {
            last = self.end_of_line(last);
        }
        self.joined = last;
        let start = start + self.bytes[start..].iter().position(|byte| *byte == b'{')?;
        let next = start + damage::end_of_object(&self.bytes[start..last])?;
        let mut damage = None;
        let text = text(&self.bytes[start..next], &mut damage);
        let (found, kind) = self.repaired(&text);
        if found.is_empty() || kind > Some(DamageKind::Zeros) {
            return None;
        }
        self.lines.objects.extend(found);
        self.damaged(start, damage.max(kind));
        let end = self.end_of_line(next);
        let is_blank = self.bytes[next..end].trim_ascii().is_empty();
        Some(if is_blank { end } else { next })
    }

    fn repaired(&self, text: &str) -> (Vec<Value>, Option<DamageKind>) {
        let mut found = Vec::new();
        let like = self.lines.objects.len().saturating_sub(COMPARED);
        let like = &self.lines.objects[like..];
        let kind = damage::objects(text, like, |value| found.push(value));
        (found, kind)
    }

    fn end_of_line(&self, start: usize) -> usize {
        let end = memchr::memchr(b'\n', &self.bytes[start..]);
        end.map_or(self.bytes.len(), |end| start + end + 1)
    }

    /// Notes damage of the line that begins at `start`.
    fn damaged(&mut self, start: usize, kind: Option<DamageKind>) {
        let Some(kind) = kind else { return };
        let passed = &self.bytes[self.numbered..start];
        self.number += memchr::memchr_iter(b'\n', passed).count();
        self.numbered = start;
        self.lines.damage.push(DamagedPlace::of(self.number, kind));
    }
}

/// Bytes as text.
fn text<'a>(bytes: &'a [u8], damage: &mut Option<DamageKind>) -> Cow<'a, str> {
    if let Ok(text) = simdutf8::basic::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    *damage = (*damage).max(Some(DamageKind::HalfCharacter));
    String::from_utf8_lossy(bytes)
}

/// Whether a byte is part of a record, and not a zero or white space around it.
fn is_content(byte: u8) -> bool {
    byte != 0 && !byte.is_ascii_whitespace()
}

/// A line without zeros at its ends.
fn without_zeros(line: &[u8]) -> &[u8] {
    if !line.starts_with(b"\0") && !line.ends_with(b"\0") {
        return line;
    }
    let first = line
        .iter()
        .position(|byte| is_content(*byte))
        .unwrap_or(line.len());
    let last = line
        .iter()
        .rposition(|byte| is_content(*byte))
        .map_or(first, |last| last + 1);
    &line[first..last]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values of the member `a`, and the damaged lines.
    fn read(file: &[u8]) -> (Vec<String>, Vec<(usize, DamageKind)>) {
        let lines = objects(file);
        let damage = lines.damage.iter();
        (
            lines
                .objects
                .iter()
                .map(|value| value["a"].to_string())
                .collect(),
            damage.map(|damage| (damage.line, damage.kind)).collect(),
        )
    }

    #[test]
    fn objects_are_read_however_the_lines_are_damaged() {
        use DamageKind::{ControlCharacters, HalfCharacter, NoRecord, Torn, Zeros};
        let file = "\u{feff}{\"a\":1}\r\n\n{\"a\":2}{\"a\":3}\n7\n{\"a\": \"\u{2028}\"}\n{\"a\":\n\0\0\0\n{\"a\":5} x\n{\"a\":6";
        let (found, damage) = read(file.as_bytes());
        assert_eq!(found, ["1", "2", "3", "\"\u{2028}\"", "5"]);
        assert_eq!(
            damage,
            [(4, NoRecord), (6, Torn), (7, Zeros), (8, NoRecord)]
        );
        let (found, damage) = read(b"{\"a\":1}{\"a\":\"x\ny\"}\n{\"a\":3}{\"a\":\n{\"a\":4}\n");
        assert_eq!(found, ["1", r#""x\ny""#, "3", "4"]);
        assert_eq!(damage, [(1, ControlCharacters), (3, Torn)]);
        let (found, damage) = read(b"{\"a\":\"\xFF\"}\n\0{\"a\":1}\n{\"a\":\"\\ud83c\"}\n");
        assert_eq!(found, ["\"\u{fffd}\"", "1", "\"\u{fffd}\""]);
        assert_eq!(damage, [(1, HalfCharacter), (2, Zeros), (3, HalfCharacter)]);
        let file = b"{\"a\":\"x\n{\\\"b\\\":1}\ny\",\"c\":[1\n]}  {\"a\":2}\n{\"a\":\"torn\n{\"a\":3}\n{\"a\":\"z\nz\"}\n{\"a\":4}\n";
        let (found, damage) = read(file);
        assert_eq!(found, [r#""x\n{\"b\":1}\ny""#, "2", "3", "\"z\\nz\"", "4"]);
        assert_eq!(
            damage,
            [(1, ControlCharacters), (5, Torn), (7, ControlCharacters)]
        );
    }

    #[test]
    fn a_line_that_is_being_written_is_not_damaged() {
        for file in [
            "{\"a\":1}\n{\"a\":",
            "{\"a\":1}\n{\"a\":\"x",
            "{\"a\":1}\n{",
        ] {
            let (found, damage) = read(file.as_bytes());
            assert_eq!((found.len(), damage.len()), (1, 0), "{file:?}");
        }
    }

    #[test]
    fn much_damage_takes_no_time() {
        for line in [
            "{\"a\":\"\n",
            "{\n",
            "{\"a\":[\n",
            "\0\n",
            "{\"b\":{\"a\":\"\\ud83c\n",
        ] {
            let file = line.repeat((4 << 20) / line.len());
            objects(file.as_bytes());
        }
    }
}
