//! Finds the update in a line of the connection, and parses both once.

use std::ops::Range;

use crate::json::{self, Member};
use crate::protocol::UpdateKind;

/// How our lines begin, up to the members of the parameters.
const HEAD: &[u8] = b"{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{";
/// The beginning of a line whose update has the form of version 2, which the view does not change.
/// The other order of the members means the same to a client, and is as long as `HEAD`.
pub const HEAD_V2: &[u8] = b"{\"method\":\"session/update\",\"jsonrpc\":\"2.0\",\"params\":{";
/// The end of nearly all lines, after the update.
const TAIL: &[u8] = b"}}\n";

/// The text after `HEAD`: the session's id, then our note if the line is replayed, then the update.
const SESSION: &[u8] = b"\"sessionId\":\"";
const NOTE: &[u8] = b",\"_meta\":{\"rejoin\":{\"at\":\"";
const TURN: &[u8] = b"\",\"turn\":";
const UPDATE: &[u8] = b",\"update\":";
/// The length of the time in our note.
const TIME_LEN: usize = "2026-11-21T08:30:00.123Z".len();

/// Where the parameters of a `session/update` notification are, and the update in them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UpdatePosition {
    pub(super) params: usize,
    /// The time in our note, without its quotes, if it was found.
    pub(super) time: Option<Range<usize>>,
    pub(super) update: Range<usize>,
}

/// A parsed notification line.
#[derive(Debug)]
pub(super) struct UpdateLine<'a, 'm> {
    pub(super) line: &'a [u8],
    pub(super) spot: UpdatePosition,
    /// The members of the update.
    pub(super) members: &'m [Member],
    pub(super) kind: UpdateKind,
}

impl<'a, 'm> UpdateLine<'a, 'm> {
    /// Parses a line. `None` for one that is not such a notification. `members` is a buffer.
    pub(super) fn read(line: &'a [u8], members: &'m mut Vec<Member>) -> Option<Self> {
        let spot = read(line, members)?;
        let mut update = Self {
            line,
            spot,
            members,
            kind: UpdateKind::Other,
        };
        let name = update.get("sessionUpdate");
        if let Some(name) = name.and_then(|name| json::string_body(line, &name)) {
            update.kind = UpdateKind::of_name(&json::unescaped_bytes(&line[name]));
        }
        Some(update)
    }

    /// The value of a member. If several have this name, the last one.
    pub(super) fn get(&self, key: &str) -> Option<Range<usize>> {
        let found = self
            .members
            .iter()
            .rfind(|member| &self.line[member.key.clone()] == key.as_bytes());
        found.map(|member| member.value.clone())
    }

    /// The turn in our note in the parameters, as JSON text.
    pub(super) fn turn(&self) -> Option<&'a [u8]> {
        let meta = json::member(self.line, self.spot.params, "_meta")?;
        let note = json::member(self.line, meta.start, "rejoin")?;
        let turn = &self.line[json::member(self.line, note.start, "turn")?];
        turn.iter().all(u8::is_ascii_digit).then_some(turn)
    }
}

/// Finds the update in a line and collects its members. `None` for a line that is not such a
/// notification.
fn read(line: &[u8], members: &mut Vec<Member>) -> Option<UpdatePosition> {
    if let Some((at, time)) = ours(line).or_else(|| Some((begins(line)?, None)))
        && let Some(end) = collect(line, at, members)
        && &line[end..] == TAIL
    {
        let params = HEAD.len() - 1;
        return Some(UpdatePosition {
            params,
            time,
            update: at..end,
        });
    }
    let spot = update(line)?;
    collect(line, spot.update.start, members)?;
    Some(spot)
}

/// The text after the head of one of our lines.
fn behind_head(line: &[u8]) -> Option<&[u8]> {
    line.strip_prefix(HEAD)
        .or_else(|| line.strip_prefix(HEAD_V2))
}

/// The position of the update in one of our lines, and of the time, if everything before the update
/// is as usual. This is only a faster way to the result of [`begins`].
fn ours(line: &[u8]) -> Option<(usize, Option<Range<usize>>)> {
    let rest = behind_head(line)?.strip_prefix(SESSION)?;
    let mut rest = &rest[memchr::memchr2(b'"', b'\\', rest)?..];
    let mut time = None;
    rest = rest.strip_prefix(b"\"")?;
    if let Some(note) = rest.strip_prefix(NOTE) {
        let at = line.len() - note.len();
        let (time_text, behind) = note.split_at_checked(TIME_LEN)?;
        let behind = behind.strip_prefix(TURN)?;
        let digits = behind.iter().take_while(|byte| byte.is_ascii_digit());
        let digits = digits.count();
        let is_plain = memchr::memchr2(b'"', b'\\', time_text).is_none();
        rest = (digits > 0 && is_plain).then(|| &behind[digits..])?;
        rest = rest.strip_prefix(b"}}")?;
        time = Some(at..at + TIME_LEN);
    }
    let update = rest.strip_prefix(UPDATE)?;
    (update.first()? == &b'{').then(|| (line.len() - update.len(), time))
}

/// The position of the update in one of our lines, if only the line's end follows it.
fn begins(line: &[u8]) -> Option<usize> {
    let mut at = line.len() - behind_head(line)?.len();
    while line.get(at)? == &b'"' {
        let close = json::string_end(line, at)? - 1;
        let value = (line.get(close + 1)? == &b':').then_some(close + 2)?;
        if &line[at + 1..close] == b"update" {
            return (line.get(value)? == &b'{').then_some(value);
        }
        let end = json::value_end(line, value)?;
        at = (line.get(end)? == &b',').then_some(end + 1)?;
    }
    None
}

/// Collects the members of the object at `at` and returns its end.
fn collect(line: &[u8], at: usize, into: &mut Vec<Member>) -> Option<usize> {
    into.clear();
    let mut members = json::members(line, at)?;
    into.extend(std::iter::from_fn(|| members.member()));
    members.end()
}

/// The update in a line. `None` for a line that is not such a notification.
fn update(line: &[u8]) -> Option<UpdatePosition> {
    let params = if let Some(behind) = behind_head(line) {
        line.len() - behind.len() - 1
    } else {
        let start = json::skip_space(line, 0);
        let method = json::member(line, start, "method")?;
        (&line[method] == b"\"session/update\"").then_some(())?;
        json::member(line, start, "params")?.start
    };
    let mut members = json::members(line, params)?;
    let mut update = None;
    while let Some(member) = members.member() {
        if &line[member.key] == b"update" {
            update = Some(member.value);
        }
    }
    members.end()?;
    let update = update?;
    (line[update.start] == b'{').then_some(UpdatePosition {
        params,
        time: None,
        update,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_updates_are_found() {
        let found = |line: &str| {
            let mut members = Vec::new();
            let update = UpdateLine::read(line.as_bytes(), &mut members)?;
            assert_eq!(update.kind, UpdateKind::Plan);
            let turn = update.turn().map(<[u8]>::to_vec);
            Some((line[update.spot.update].to_owned(), turn))
        };
        let update = r#"{"sessionUpdate":"plan"}"#.to_owned();
        for (line, turn) in [
            (
                r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":UPDATE}}"#,
                None,
            ),
            (
                r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","_meta":{"rejoin":{"at":"","turn":12}},"update":UPDATE}}"#,
                Some(b"12".to_vec()),
            ),
            (
                r#" { "params" : {"update":7,"update": UPDATE ,"_meta":{"rejoin":{"turn":-1}}},"method":"session/update"}"#,
                None,
            ),
        ] {
            let line = line.replace("UPDATE", &update);
            assert_eq!(found(&line), Some((update.clone(), turn)), "{line}");
        }
        for line in [
            "",
            "{}",
            r#"{"method":"session/cancel","params":{"update":{}}}"#,
            r#"{"method":"session/update","params":{"update":7}}"#,
            r#"{"method":"session/update","params":{"update":{}"#,
            r#"{"id":1,"result":{"update":{}}}"#,
        ] {
            assert_eq!(found(line), None, "{line}");
        }
    }

    #[test]
    fn the_short_way_finds_what_the_long_one_finds() {
        let head = std::str::from_utf8(HEAD).unwrap();
        let chunk =
            r#"{"sessionUpdate":"plan","content":{"type":"text","text":"}\"{"},"messageId":"m"}"#;
        let note = r#""_meta":{"rejoin":{"at":"2026-11-21T08:30:00.123Z","turn":12}}"#;
        for params in [
            format!(r#""sessionId":"s","update":{chunk}"#),
            format!(r#""sessionId":"s","update": {chunk}"#),
            format!(r#""sessionId":"s\"1","update":{chunk}"#),
            format!(r#""sessionId":"s",{note},"update":{chunk}"#),
            format!(r#""sessionId":"s",{note},"update":{chunk},"update":{chunk}"#),
            format!(r#""sessionId":"s",{note},"update":[{chunk}]"#),
            format!(
                r#""sessionId":"s",{},"update":{chunk}"#,
                note.replace('Z', "\"")
            ),
            format!(
                r#""sessionId":"s",{},"update":{chunk}"#,
                note.replace("12", "")
            ),
            format!(
                r#""sessionId":"s",{},"update":{chunk}"#,
                note.replace("12", "-1")
            ),
            format!(
                r#""sessionId":"s",{},"update":{chunk}"#,
                note.replace("}}", "},\"a\":{}}")
            ),
            format!(r#""_meta":{{"a":[{{}}]}},"update":{chunk}"#),
            format!(r#""update":{chunk},"sessionId":"s""#),
            format!(r#""update":{{}},"update":{chunk}"#),
            format!(r#""update": {chunk} "#),
            r#""update":{"sessionUpdate":"plan"}"#.to_owned(),
            r#""update":7"#.to_owned(),
            String::new(),
        ] {
            let line = format!("{head}{params}}}}}\n");
            let mut members = Vec::new();
            let found = read(line.as_bytes(), &mut members);
            let spot = |spot: &UpdatePosition| (spot.params, spot.update.clone());
            let long = update(line.as_bytes());
            assert_eq!(found.as_ref().map(spot), long.as_ref().map(spot), "{line}");
            if let Some(spot) = found {
                if let Some(time) = spot.time {
                    assert_eq!(&line[time], "2026-11-21T08:30:00.123Z");
                }
                let mut expected = Vec::new();
                collect(line.as_bytes(), spot.update.start, &mut expected);
                assert_eq!(members, expected);
                assert!(!members.is_empty());
            }
        }
        let cut = format!("{head}\"update\":{chunk}}}");
        for len in 0..cut.len() {
            assert_eq!(read(&cut.as_bytes()[..len], &mut Vec::new()), None);
        }
        let malformed = format!("{head}\"update\":{{\"a\" 7}}}}}}\n");
        assert_eq!(read(malformed.as_bytes(), &mut Vec::new()), None);
    }
}
