//! JSON as tools leave it after a crash, a full disk or a cut in the middle of a character: what can
//! be read of it, and what was wrong.
//!
//! Damage costs the damaged bytes, not the record that has them. Only a text that cannot be read as
//! it is gets here.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::{Deserializer, Map, Value};

use crate::json::{self, skip_space, string_end, value_end};

/// How many records before a damaged one say what those of a list are like.
const LIKE: usize = 64;

/// At how many places the next record in a list is looked for.
const MOST_TRIED: usize = 100;

/// What was wrong with a part of a file, from the least to the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DamageKind {
    /// Half of a character, or bytes that are no text. U+FFFD is in its place.
    HalfCharacter,
    /// Line feeds or other control characters within a string. They were kept.
    ControlCharacters,
    /// Zeros, as a file system leaves them after a crash. They were left out.
    Zeros,
    /// A record that was cut off. It was left out; what follows it on its line was read.
    Torn,
    /// A line that is no record. It was left out.
    NoRecord,
    /// A record that is too long. It was left out.
    TooLong,
}

impl DamageKind {
    /// The damage in words.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::HalfCharacter => "half of a character",
            Self::ControlCharacters => "line feeds within a text",
            Self::Zeros => "zeros",
            Self::Torn => "a record that was cut off",
            Self::NoRecord => "no record",
            Self::TooLong => "a record that is too long",
        }
    }
}

/// A place that was damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedPlace {
    /// The subagent whose file it is; none if it is that of the conversation.
    pub subagent: Option<String>,
    /// The number of the line, from 1; in a database, of the row among those that were read.
    pub line: usize,
    /// What was wrong.
    pub kind: DamageKind,
}

impl DamagedPlace {
    /// Damage in the conversation's own file.
    pub(super) fn of(line: usize, kind: DamageKind) -> Self {
        let subagent = None;
        Self {
            subagent,
            line,
            kind,
        }
    }
}

impl fmt::Display for DamagedPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(subagent) = &self.subagent {
            write!(f, "subagent {subagent}, ")?;
        }
        write!(f, "line {}: {}", self.line, self.kind.as_str())
    }
}

/// Reads a text that is one value, and says what was wrong with it. If it has a list of records, those that
/// are whole are read.
pub(super) fn value(text: &str) -> Result<(Value, Option<DamageKind>), DamageKind> {
    if let Ok(value) = serde_json::from_str(text) {
        return Ok((value, None));
    }
    let (repaired, damage) = repaired(text);
    let error = match serde_json::from_str(&repaired) {
        Ok(value) => return Ok((value, damage)),
        Err(error) => error,
    };
    let kind = if error.is_eof() {
        DamageKind::Torn
    } else {
        DamageKind::NoRecord
    };
    // What looks like damage within a string may be outside of it.
    let raw = serde_json::from_str::<Value>(text).err();
    let whole = raw.and_then(|raw| whole_records(text, place(text, &raw)));
    let whole = whole.or_else(|| whole_records(&repaired, place(&repaired, &error)));
    match whole.or_else(|| whole_members(&repaired)) {
        Some(value) => Ok((value, damage.max(Some(kind)))),
        None => Err(kind),
    }
}

/// Where a text could not be read any further.
fn place(text: &str, error: &serde_json::Error) -> usize {
    let before = error.line().saturating_sub(1);
    let mut ends = memchr::memchr_iter(b'\n', text.as_bytes());
    let line = before.checked_sub(1).and_then(|last| ends.nth(last));
    let line = line.map_or(0, |end| end + 1);
    (line + error.column()).min(text.len())
}

/// The value in a text with the records that are whole in the outermost list that is damaged at this place;
/// none if it is in no list of records.
fn whole_records(text: &str, place: usize) -> Option<Value> {
    let bytes = text.as_bytes();
    let (open, _) = open_brackets(&bytes[..place]);
    let is_list = |at: usize| {
        bytes[at] == b'['
            && bytes
                .get(skip_space(bytes, at + 1))
                .is_some_and(|byte| *byte == b'{')
    };
    let list = open.iter().position(|at| is_list(*at))?;
    let start = open[list] + 1;
    let record = |at: usize| -> Option<(Map<String, Value>, usize)> {
        let end = at + end_of_object(&bytes[at..])?;
        let record = text.get(at..end)?;
        let read = serde_json::from_str(record);
        let read = read.or_else(|_| serde_json::from_str(&repaired(record).0));
        Some((read.ok()?, end))
    };
    let mut records: Vec<Map<String, Value>> = Vec::new();
    let (mut at, mut tried) = (start, 0);
    let rest = loop {
        let next = skip_space(bytes, at);
        match bytes.get(next) {
            Some(b',') => at = next + 1,
            Some(b']') => break Some(&text[next..]),
            Some(b'{') if let Some((read, end)) = record(next) => {
                records.push(read);
                at = end;
            }
            Some(_) => {
                let torn = names(&bytes[next..]);
                // Somewhere behind a comma, the next record begins.
                let mut commas = memchr::memchr_iter(b',', &bytes[next..]).map(|at| next + at + 1);
                let found = commas.find_map(|comma| {
                    let start = skip_space(bytes, comma);
                    let is_start = bytes.get(start) == Some(&b'{');
                    tried += usize::from(is_start);
                    let start = Some(start).filter(|_| is_start && tried <= MOST_TRIED)?;
                    let (read, end) = record(start)?;
                    let mut others = records.iter().rev().take(LIKE);
                    let is_record = is_like(&read, torn.len(), |name| torn.contains(name))
                        || others
                            .any(|like| is_like(&read, like.len(), |name| like.contains_key(name)));
                    is_record.then_some((read, end))
                });
                match found {
                    Some((read, end)) => {
                        records.push(read);
                        at = end;
                    }
                    None => break None,
                }
            }
            None => break None,
        }
    };
    let records = serde_json::to_string(&records).ok()?;
    let before = format!("{}{}", &text[..start], &records[1..records.len() - 1]);
    let whole = rest.and_then(|rest| serde_json::from_str(&format!("{before}{rest}")).ok());
    whole.or_else(|| {
        let closed = open[..=list].iter().rev().map(|at| match bytes[*at] {
            b'[' => ']',
            _ => '}',
        });
        serde_json::from_str(&before.chars().chain(closed).collect::<String>()).ok()
    })
}

/// The members of the object that a text begins, without the one that was cut off; none if there is no other
/// one.
fn whole_members(text: &str) -> Option<Value> {
    let bytes = text.as_bytes();
    let object = skip_space(bytes, 0);
    let mut at = (bytes.get(object) == Some(&b'{')).then_some(object + 1)?;
    let mut end = None;
    // A name, its value and a comma.
    while let Some(name) = string_end(bytes, skip_space(bytes, at)) {
        let value = skip_space(bytes, name);
        let Some(behind) = value_end(bytes, skip_space(bytes, value + 1)) else {
            break;
        };
        end = Some(behind);
        at = skip_space(bytes, behind) + 1;
    }
    serde_json::from_str(&format!("{}}}", text.get(..end?)?)).ok()
}

/// Where the brackets are that are open at the end of a text, the outermost first, and whether it ends within a
/// string.
fn open_brackets(text: &[u8]) -> (Vec<usize>, bool) {
    let (mut open, mut at) = (Vec::new(), 0);
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => match string_end(text, at) {
                Some(end) => at = end - 1,
                None => return (open, true),
            },
            b'{' | b'[' => open.push(at),
            b'}' | b']' => _ = open.pop(),
            _ => {}
        }
        at += 1;
    }
    (open, false)
}

/// Reads a text that is one value; null if it cannot be read. Says what was wrong with it.
pub(super) fn value_or_null(text: &str) -> (Value, Option<DamageKind>) {
    value(text).unwrap_or_else(|kind| (Value::Null, Some(kind)))
}

/// Reads the objects of a line that cannot be read as it is, and says what was wrong with it. `like`
/// has other records of the file.
pub(super) fn objects(
    line: &str,
    like: &[Value],
    mut add: impl FnMut(Value),
) -> Option<DamageKind> {
    let (mut text, mut damage) = repaired(line);
    loop {
        let mut values = Deserializer::from_str(&text).into_iter::<Value>();
        loop {
            match values.next() {
                Some(Ok(value @ Value::Object(_))) => add(value),
                Some(Ok(_)) => damage = damage.max(Some(DamageKind::NoRecord)),
                None => return damage,
                Some(Err(_)) => break,
            }
        }
        let rest = text[values.byte_offset()..].trim_start();
        let is_record = rest.starts_with('{');
        let kind = if is_record {
            DamageKind::Torn
        } else {
            DamageKind::NoRecord
        };
        damage = damage.max(Some(kind));
        let Some(next) = next_record(rest, like) else {
            return damage;
        };
        text = repaired(&rest[next..]).0;
    }
}

/// Where the next record begins in a text that begins with a torn one: from there on, the text is
/// nothing but records.
fn next_record(text: &str, like: &[Value]) -> Option<usize> {
    let bytes = text.as_bytes();
    let are_records = |mut at: usize| {
        while at < bytes.len() {
            match value_end(bytes, at).filter(|_| bytes[at] == b'{') {
                Some(end) => at = skip_space(bytes, end),
                None => return false,
            }
        }
        true
    };
    let starts = memchr::memmem::find_iter(bytes, b"{\"").filter(|at| *at > 0);
    let mut starts = starts.filter(|at| are_records(*at));
    starts.find(|at| {
        let (before, record) = text.split_at(*at);
        let record = Deserializer::from_str(record).into_iter::<Map<String, Value>>();
        let record = record.flatten().next().unwrap_or_default();
        if !is_within(before, &record) {
            return true;
        }
        let torn = names(before.as_bytes());
        let mut others = like.iter().filter_map(Value::as_object);
        is_like(&record, torn.len(), |name| torn.contains(name))
            || others.any(|like| is_like(&record, like.len(), |name| like.contains_key(name)))
    })
}

/// Whether a record behind this text is rather a part of the one that it begins.
fn is_within(before: &str, record: &Map<String, Value>) -> bool {
    let before = before.trim_end();
    match before.chars().next_back() {
        // A member that is something else in this record is no object in the other one, either.
        Some(':') => {
            let name = before.rsplit('"').nth(1).unwrap_or_default();
            record.get(name).is_none_or(Value::is_object)
        }
        // In an object, a name has to follow.
        Some(',') => innermost(before.as_bytes()) == Some(b'['),
        Some('[') => true,
        _ => false,
    }
}

/// The last bracket that is open at the end of a text.
fn innermost(text: &[u8]) -> Option<u8> {
    let (mut open, is_in_string) = open_brackets(text);
    open.pop().filter(|_| !is_in_string).map(|at| text[at])
}

/// The names of the members of the object that a text begins, as far as it goes.
fn names(text: &[u8]) -> BTreeSet<String> {
    let (mut names, mut depth, mut at) = (BTreeSet::new(), 0_usize, 0);
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => {
                let Some(end) = string_end(text, at) else {
                    break;
                };
                if depth == 1 && text.get(skip_space(text, end)) == Some(&b':') {
                    let name = String::from_utf8_lossy(&text[at + 1..end - 1]);
                    names.insert(name.into_owned());
                }
                at = end;
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    names
}

/// Whether a record has most of its members in common with another one that has so many.
fn is_like(record: &Map<String, Value>, len: usize, has: impl Fn(&str) -> bool) -> bool {
    let common = record.keys().filter(|name| has(name)).count();
    common > 1 && 2 * common > record.len().min(len)
}

/// Where the object at the beginning of a text ends, whatever characters its strings have.
pub(super) fn end_of_object(text: &[u8]) -> Option<usize> {
    let (mut depth, mut in_string, mut at) = (0_usize, false, 0);
    loop {
        let rest = text.get(at..)?;
        at += if in_string {
            memchr::memchr2(b'"', b'\\', rest)?
        } else {
            rest.iter().position(|byte| b"\"{}[]".contains(byte))?
        };
        match text[at] {
            b'"' => in_string = !in_string,
            // The next byte is no end of the string.
            b'\\' => at += 1,
            b'{' | b'[' => depth += 1,
            _ => depth = depth.checked_sub(1)?,
        }
        at += 1;
        if depth == 0 && !in_string {
            return Some(at);
        }
    }
}

/// A text without halves of characters and without zeros, and with the control characters in its
/// strings escaped; and the worst of what was wrong.
fn repaired(text: &str) -> (String, Option<DamageKind>) {
    let bytes = text.as_bytes();
    let unit = |at: usize| text.get(at..).and_then(json::unit);
    let mut repaired = String::with_capacity(text.len());
    let mut damage = None;
    let (mut in_string, mut copied, mut at) = (false, 0, 0);
    while let Some(&byte) = bytes.get(at) {
        let (kind, len, instead) = match byte {
            b'\\' if in_string => match (unit(at), unit(at + 6)) {
                (Some(0xD800..0xDC00), Some(0xDC00..0xE000)) => {
                    at += 12;
                    continue;
                }
                (Some(0xD800..0xE000), _) => (DamageKind::HalfCharacter, 6, "\\ufffd".to_owned()),
                _ => {
                    at += 2;
                    continue;
                }
            },
            0 => (DamageKind::Zeros, 1, String::new()),
            1..0x20 if in_string => {
                let escaped = format!("\\u{byte:04x}");
                (DamageKind::ControlCharacters, 1, escaped)
            }
            _ => {
                in_string ^= byte == b'"';
                at += 1;
                continue;
            }
        };
        repaired.push_str(&text[copied..at]);
        repaired.push_str(&instead);
        at += len;
        copied = at;
        damage = damage.max(Some(kind));
    }
    repaired.push_str(&text[copied..]);
    (repaired, damage)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The objects of a line, and what was wrong with it.
    fn read(line: &str) -> (Vec<Value>, Option<DamageKind>) {
        let like = json!({"type": "x", "at": 1, "text": ""});
        let mut found = Vec::new();
        let damage = objects(line, &[like], |value| found.push(value));
        (found, damage)
    }

    #[test]
    fn damage_costs_the_damaged_bytes() {
        let text = |text: &str| vec![json!({ "a": text })];
        for (line, expected, damage) in [
            (
                r#"{"a":"x\ud83c y"}"#,
                text("x\u{fffd} y"),
                DamageKind::HalfCharacter,
            ),
            (
                r#"{"a":"\uDF4F\ud83c\udf4f"}"#,
                text("\u{fffd}🍏"),
                DamageKind::HalfCharacter,
            ),
            (
                r#"{"a":"\ud83c\u0041"}"#,
                text("\u{fffd}A"),
                DamageKind::HalfCharacter,
            ),
            // A backslash, and a text that looks like an escape.
            (
                r#"{"a":"\\ud83c \ud83c\\"}"#,
                text("\\ud83c \u{fffd}\\"),
                DamageKind::HalfCharacter,
            ),
            (
                "{\"a\":\"one\ntwo\t\"}",
                text("one\ntwo\t"),
                DamageKind::ControlCharacters,
            ),
            ("\0\0{\"a\":\0\"o\0ne\"}\0", text("one"), DamageKind::Zeros),
            (r#"{"b":"to{"a":"rn"}"#, text("rn"), DamageKind::Torn),
            (
                r#"{"b":12{"a":"\ud83c"}"#,
                text("\u{fffd}"),
                DamageKind::Torn,
            ),
            (
                r#"{"b":1}{"c":{"d":[{"a":"x"}"#,
                vec![json!({"b": 1})],
                DamageKind::Torn,
            ),
            (
                r#"{"c":{"type":"y","at":2}"#,
                vec![json!({"type": "y", "at": 2})],
                DamageKind::Torn,
            ),
            (r#"{"c":{"type":"y","of":2}"#, vec![], DamageKind::Torn),
            (
                r#"{"a":"x"} 7 {"a":"y"}"#,
                [text("x"), text("y")].concat(),
                DamageKind::NoRecord,
            ),
            (r#"x {"a":"x"}"#, text("x"), DamageKind::NoRecord),
            ("{broken", vec![], DamageKind::Torn),
        ] {
            assert_eq!(read(line), (expected, Some(damage)), "{line:?}");
        }
    }

    #[test]
    fn an_object_ends_where_its_strings_say() {
        for (text, end) in [
            ("{} ", Some(2)),
            ("{\"a\":\"}\\\"\n}\",\"b\":[{}]}x", Some(22)),
            ("{\"a", None),
            ("[]]", Some(2)),
            ("}", None),
            ("", None),
        ] {
            assert_eq!(end_of_object(text.as_bytes()), end, "{text:?}");
        }
    }

    #[test]
    fn records_of_a_list_that_are_whole_are_read() {
        let list = value;
        let whole = |text: &str, kind| {
            let read: Value = serde_json::from_str(text).unwrap();
            Ok((read, Some(kind)))
        };
        for (text, read) in [
            (
                r#"{"id":1,"m":[{"a":1,"b":2},{"a":3,"b":[{"x":1},{"#,
                whole(r#"{"id":1,"m":[{"a":1,"b":2}]}"#, DamageKind::Torn),
            ),
            (
                r#"{"id":1,"m":[{"a":1},{"a":"to"#,
                whole(r#"{"id":1,"m":[{"a":1}]}"#, DamageKind::Torn),
            ),
            (
                r#"[{"a":1,"b":1}, {"a":2,"b":{"a":3,{"c":4}, {"a":5,"b":5}]"#,
                whole(r#"[{"a":1,"b":1},{"a":5,"b":5}]"#, DamageKind::NoRecord),
            ),
            (
                r#"{"m":[{"a":1,"b":1},{"a":"x" "b":2},{"a":3,"b":3}],"id":7}"#,
                whole(
                    r#"{"id":7,"m":[{"a":1,"b":1},{"a":3,"b":3}]}"#,
                    DamageKind::NoRecord,
                ),
            ),
            (
                r#"{"m":[{"a":1}],"i"#,
                whole(r#"{"m":[{"a":1}]}"#, DamageKind::Torn),
            ),
            (
                r#"{"m":[{"a":1}]"#,
                whole(r#"{"m":[{"a":1}]}"#, DamageKind::Torn),
            ),
            (
                r#"{"m":"x","i":{"a":1"#,
                whole(r#"{"m":"x"}"#, DamageKind::Torn),
            ),
            (r#"{"m":[1,2"#, Err(DamageKind::Torn)),
            ("", Err(DamageKind::Torn)),
        ] {
            assert_eq!(list(text), read, "{text}");
        }
        let long = format!("[{}", r#"{"a":{"b":"#.repeat(100_000));
        assert_eq!(list(&long), whole("[]", DamageKind::NoRecord));
        let long = format!("[{} x", r#"{"a":"x"},"#.repeat(100_000));
        assert!(list(&long).is_ok());
    }

    proptest::proptest! {
        #[test]
        fn any_value_is_read(text in r#"[{}\[\]":,\\a1 ]{0,60}"#) {
            value(&text).ok();
        }

        #[test]
        fn any_line_is_read(line in r#"[{}\[\]":,\\ud8c0-9a\x00\n ]{0,60}"#) {
            read(&line);
        }
    }
}
