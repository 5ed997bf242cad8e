//! Writes the notification around an update: as sent live, and as replayed with time and turn.

use std::ops::Range;

use crate::json;
use crate::protocol::v2::HEAD_V2;

const HEAD: &[u8] =
    b"{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"sessionId\":";
/// The end of [`HEAD`].
const SESSION: &[u8] = b"{\"sessionId\":";
/// The end of a line after the `update` object, with the newline.
pub(super) const TAIL: &[u8] = b"}}\n";
const META: &[u8] = b"\"_meta\":{";
const NOTE: &[u8] = b"\"rejoin\":{\"at\":\"";

/// Appends an update as it is sent live: one line with its newline. `update` is the JSON of the
/// `update` object, on one line.
pub fn live_line(session_id: &str, update: &str, out: &mut Vec<u8>) {
    open_params(session_id, out);
    out.extend_from_slice(b"\"update\":");
    out.extend_from_slice(update.as_bytes());
    out.extend_from_slice(TAIL);
}

/// Appends a notification whose parameters have more members than `sessionId` and `update`, as it
/// is sent live: one line with its newline. `params` is the JSON of an object with the members
/// after `sessionId`, as an `update_params` record has it. Writes nothing if `params` is not an
/// object with a member.
pub fn live_params_line(session_id: &str, params: &str, out: &mut Vec<u8>) {
    // The text is valid JSON, so its first and last bracket say what it is.
    let object = params.trim_ascii().strip_prefix('{');
    let inner = object.and_then(|object| object.strip_suffix('}'));
    let inner = inner.map(str::trim_ascii_start);
    if let Some(inner) = inner.filter(|inner| !inner.is_empty()) {
        open_params(session_id, out);
        out.extend_from_slice(inner.as_bytes());
        out.extend_from_slice(TAIL);
    }
}

/// Appends an update of a subagent as it is sent live: one line with its newline. `params` is the
/// payload of a `subagent` record, which has the session's id.
pub(super) fn live_subagent_line(params: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(HEAD.strip_suffix(SESSION).unwrap_or(HEAD));
    out.extend_from_slice(params.as_bytes());
    out.extend_from_slice(b"}\n");
}

/// Marks the line that begins at `start` as one whose update has the form of version 2.
pub(super) fn mark_v2(start: usize, out: &mut [u8]) {
    if let Some(head) = out.get_mut(start..start + HEAD_V2.len()) {
        head.copy_from_slice(HEAD_V2);
    }
}

fn open_params(session_id: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(HEAD);
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    // Without an early end, so that many bytes are looked at together.
    if session_id.bytes().fold(true, |all, byte| all & plain(byte)) {
        // Nearly every id needs no escaping.
        out.push(b'"');
        out.extend_from_slice(session_id.as_bytes());
        out.push(b'"');
    } else {
        out.extend_from_slice(json::quoted(session_id).as_bytes());
    }
    out.push(b',');
}

/// The range between the braces of a non-empty object.
fn inside(object: &[u8]) -> Option<Range<usize>> {
    let mut parts = json::members(object, 0)?;
    let first = parts.member()?.key.start - 1;
    while parts.member().is_some() {}
    Some(first..parts.end()? - 1)
}

/// Where the parts of a replayed line are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ReplayedLine {
    /// Where it begins.
    pub(super) start: usize,
    /// The brace that closes our own note. More members can be inserted before it.
    pub(super) note_end: usize,
    /// The `update` object.
    pub(super) update: Range<usize>,
}

impl ReplayedLine {
    /// Moves all positions on by this many bytes, for a line that is copied to a later place in a
    /// buffer.
    pub(super) fn move_by(&mut self, bytes: usize) {
        self.start += bytes;
        self.note_end += bytes;
        self.update = self.update.start + bytes..self.update.end + bytes;
    }

    /// Adds members, with a comma before each, to our own note.
    pub(super) fn add_note(&mut self, members: &str, out: &mut Vec<u8>) {
        out.splice(self.note_end..self.note_end, members.bytes());
        if self.note_end < self.update.start {
            self.update = self.update.start + members.len()..self.update.end + members.len();
        }
        self.note_end += members.len();
    }
}

/// Writes the envelopes of one session's replay.
#[derive(Clone, Debug)]
pub(super) struct EnvelopeWriter {
    /// Everything up to and including the comma after the session's id.
    head: Vec<u8>,
    /// Everything up to the time, for an update without other parameters.
    before_time: Vec<u8>,
    /// Everything from the quote after the time to the brace that closes our note.
    after_time: Vec<u8>,
}

impl EnvelopeWriter {
    pub(super) fn new(session_id: &str) -> Self {
        let mut head = Vec::new();
        open_params(session_id, &mut head);
        let before_time = [head.as_slice(), META, NOTE].concat();
        let mut envelope = Self {
            head,
            before_time,
            after_time: Vec::new(),
        };
        envelope.set_turn(0);
        envelope
    }

    /// The envelope for updates that have the form of version 2.
    pub(super) fn in_version_2(&self) -> Self {
        let mut envelope = self.clone();
        mark_v2(0, &mut envelope.head);
        mark_v2(0, &mut envelope.before_time);
        envelope
    }

    /// Whether it is the envelope for updates that have the form of version 2.
    pub(super) fn is_version_2(&self) -> bool {
        self.head.starts_with(HEAD_V2)
    }

    /// From now on, lines belong to this turn.
    pub(super) fn set_turn(&mut self, turn: u64) {
        self.after_time = format!("\",\"turn\":{turn}").into_bytes();
    }

    /// Writes everything before the `update` object. The object and [`TAIL`] must follow. Returns
    /// the position of the brace that closes our note.
    pub(super) fn open(&self, at: &str, extra: &[u8], out: &mut Vec<u8>) -> usize {
        out.extend_from_slice(&self.before_time);
        out.extend_from_slice(at.as_bytes());
        out.extend_from_slice(&self.after_time);
        out.extend_from_slice(extra);
        let note_end = out.len();
        out.extend_from_slice(b"}},\"update\":");
        note_end
    }

    /// Writes the line of an `update` object.
    pub(super) fn update(&self, at: &str, update: &[u8], out: &mut Vec<u8>) -> ReplayedLine {
        let start = out.len();
        let note_end = self.open(at, b"", out);
        let from = out.len();
        out.extend_from_slice(update);
        let update = from..out.len();
        out.extend_from_slice(TAIL);
        ReplayedLine {
            start,
            note_end,
            update,
        }
    }

    /// Writes the line of an update, with the parameters around it if they have more members.
    pub(super) fn line(
        &self,
        at: &str,
        update: &[u8],
        params: Option<&[u8]>,
        out: &mut Vec<u8>,
    ) -> Option<ReplayedLine> {
        match params {
            None => Some(self.update(at, update, out)),
            Some(params) => self.params(at, params, out),
        }
    }

    /// Writes a line for parameters with more members than usual. The members are kept as they are.
    /// Our note is added to their `_meta` and replaces one that is already there. A `_meta` that is
    /// not an object is replaced, since it could not hold the note. Returns `None`, with nothing
    /// written, if `params` is not an object with an `update`.
    pub(super) fn params(
        &self,
        at: &str,
        params: &[u8],
        out: &mut Vec<u8>,
    ) -> Option<ReplayedLine> {
        let inner = inside(params)?;
        let update = json::member(params, 0, "update")?;
        let start = out.len();
        out.extend_from_slice(&self.head);
        let Some(meta) = json::member(params, 0, "_meta") else {
            out.extend_from_slice(META);
            let note_end = self.note(at, out);
            out.extend_from_slice(b"},");
            let from = out.len() + update.start - inner.start;
            out.extend_from_slice(&params[inner]);
            out.extend_from_slice(TAIL);
            let update = from..from + update.len();
            return Some(ReplayedLine {
                start,
                note_end,
                update,
            });
        };
        let base = out.len();
        out.extend_from_slice(&params[inner.start..meta.start]);
        let note_end = self.meta(at, &params[meta.clone()], out);
        let behind = out.len();
        out.extend_from_slice(&params[meta.end..inner.end]);
        out.extend_from_slice(TAIL);
        let from = if update.start < meta.start {
            base + update.start - inner.start
        } else {
            behind + update.start - meta.end
        };
        let update = from..from + update.len();
        Some(ReplayedLine {
            start,
            note_end,
            update,
        })
    }

    /// Writes a `_meta` object with our note in it.
    fn meta(&self, at: &str, meta: &[u8], out: &mut Vec<u8>) -> usize {
        out.push(b'{');
        let note_end = self.note(at, out);
        if json::member(meta, 0, "rejoin").is_none() {
            if let Some(others) = inside(meta) {
                out.push(b',');
                out.extend_from_slice(&meta[others]);
            }
        } else if let Some(mut parts) = json::members(meta, 0) {
            while let Some(member) = parts.member() {
                if &meta[member.key.clone()] != b"rejoin" {
                    out.push(b',');
                    out.extend_from_slice(&meta[member.key.start - 1..member.value.end]);
                }
            }
        }
        out.push(b'}');
        note_end
    }

    /// Writes our note as a member and returns the position of its closing brace.
    fn note(&self, at: &str, out: &mut Vec<u8>) -> usize {
        out.extend_from_slice(NOTE);
        out.extend_from_slice(at.as_bytes());
        out.extend_from_slice(&self.after_time);
        out.push(b'}');
        out.len() - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: &str = "2026-11-21T08:30:00.123Z";

    #[test]
    fn live_lines_are_the_bytes_in_an_envelope() {
        let mut out = Vec::new();
        live_line("s\"1", r#"{"n":1e400}"#, &mut out);
        live_params_line("s", r#" { "update":{} ,"_meta":null } "#, &mut out);
        live_params_line("s", "{}", &mut out);
        live_params_line("s", "[1]", &mut out);
        let expected = concat!(
            r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s\"1","update":{"n":1e400}}}"#,
            "\n",
            r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{} ,"_meta":null }}"#,
            "\n",
        );
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn our_note_joins_the_meta_that_is_there() {
        let mut envelope = EnvelopeWriter::new("s");
        envelope.set_turn(7);
        let note = format!(r#""rejoin":{{"at":"{AT}","turn":7}}"#);
        for (params, expected) in [
            (
                r#"{"update":{"u":1}}"#,
                r#""_meta":{NOTE},"update":{"u":1}"#,
            ),
            (
                r#"{"update":{"u":1},"_meta":{"a":1.0, "b":{}}}"#,
                r#""update":{"u":1},"_meta":{NOTE,"a":1.0, "b":{}}"#,
            ),
            (
                r#"{"_meta":{},"update":{"u":1},"x":"\ud800"}"#,
                r#""_meta":{NOTE},"update":{"u":1},"x":"\ud800""#,
            ),
            (
                r#"{"_meta":null,"update":{"u":1}}"#,
                r#""_meta":{NOTE},"update":{"u":1}"#,
            ),
            (
                r#"{"_meta":{"a":1,"rejoin":{"at":"x"},"b" : 2},"update":{"u":1}}"#,
                r#""_meta":{NOTE,"a":1,"b" : 2},"update":{"u":1}"#,
            ),
            (
                r#"{"_meta":{"rejoin":1},"update":{"u":1}}"#,
                r#""_meta":{NOTE},"update":{"u":1}"#,
            ),
        ] {
            let mut out = b"before".to_vec();
            let line = envelope.params(AT, params.as_bytes(), &mut out).unwrap();
            let text = std::str::from_utf8(&out).unwrap();
            let head = r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","#;
            let expected = expected.replace("NOTE", &note);
            assert_eq!(text, format!("before{head}{expected}}}}}\n"), "{params}");
            assert_eq!(line.start, 6);
            assert_eq!(&text[line.update], r#"{"u":1}"#);
            assert!(text[..line.note_end].ends_with(r#""turn":7"#));
            assert!(text[line.note_end..].starts_with('}'));
        }
    }

    #[test]
    fn parameters_without_an_update_give_no_line() {
        let envelope = EnvelopeWriter::new("s");
        for params in ["", "{}", "[]", "null", r#"{"_meta":{}}"#, r#"{"update":{}"#] {
            let mut out = Vec::new();
            assert_eq!(
                envelope.params(AT, params.as_bytes(), &mut out),
                None,
                "{params}"
            );
            assert!(out.is_empty());
        }
    }
}
