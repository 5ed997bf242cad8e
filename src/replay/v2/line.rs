//! Finds the update in a line of the connection, and in that what most updates are: a chunk.

use std::ops::Range;

use crate::record::json;
use crate::record::transcript::Role;

/// How a line of ours begins, up to the members of its parameters.
const HEAD: &[u8] = b"{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{";
/// How most lines end, behind the update.
const TAIL: &[u8] = b"}}\n";

/// Where the parameters of a `session/update` notification stand, and the update in them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Spot {
    pub(super) params: usize,
    pub(super) update: Range<usize>,
}

/// A part of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Chunk {
    pub(super) role: Role,
    /// Its id, unless it has none.
    pub(super) id: Option<Range<usize>>,
    has_content: bool,
    end: usize,
}

impl Chunk {
    /// The chunk that the update at `at` is, in the line.
    pub(super) fn at(line: &[u8], at: usize) -> Option<Self> {
        let (mut role, mut id, mut has_content) = (None, None, false);
        let mut members = json::members(line, at)?;
        while let Some(member) = members.member() {
            match &line[member.key] {
                b"sessionUpdate" => {
                    let name = json::string_body(line, &member.value)?;
                    let name = std::str::from_utf8(&line[name]).ok()?;
                    role = Some(Role::of_chunk(name)?);
                }
                b"messageId" => id = Some(member.value),
                b"content" => has_content = true,
                _ => {}
            }
        }
        Some(Self {
            role: role?,
            id,
            has_content,
            end: members.end()?,
        })
    }

    /// What stands between the quotes of its id, if it has one; `None` for a chunk that is of
    /// neither version.
    pub(super) fn id_body(&self, line: &[u8]) -> Option<Option<Range<usize>>> {
        if !self.has_content {
            return None;
        }
        match &self.id {
            Some(id) if &line[id.clone()] != b"null" => Some(Some(json::string_body(line, id)?)),
            _ => Some(None),
        }
    }
}

/// The chunk that a line tells, if the line is one of ours with nothing behind the update. Reads
/// the line once.
pub(super) fn plain_chunk(line: &[u8]) -> Option<(Spot, Chunk)> {
    let params = HEAD.len() - 1;
    let mut at = line.starts_with(HEAD).then_some(HEAD.len())?;
    while line.get(at)? == &b'"' {
        let close = json::string_end(line, at)?;
        let value = (line.get(close + 1)? == &b':').then_some(close + 2)?;
        if &line[at + 1..close] == b"update" {
            let chunk = Chunk::at(line, value)?;
            let update = value..chunk.end;
            let whole = line[value] == b'{' && &line[chunk.end..] == TAIL;
            return whole.then_some((Spot { params, update }, chunk));
        }
        let end = json::value_end(line, value)?;
        at = (line.get(end)? == &b',').then_some(end + 1)?;
    }
    None
}

/// The update in a line; `None` for a line that is no such notification.
pub(super) fn update(line: &[u8]) -> Option<Spot> {
    let params = if line.starts_with(HEAD) {
        HEAD.len() - 1
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
    (line[update.start] == b'{').then_some(Spot { params, update })
}

/// The turn that our note in the parameters tells, as it stands there.
pub(super) fn turn<'a>(line: &'a [u8], spot: &Spot) -> Option<&'a [u8]> {
    let meta = json::member(line, spot.params, "_meta")?;
    let note = json::member(line, meta.start, "rejoin")?;
    let turn = &line[json::member(line, note.start, "turn")?];
    turn.iter().all(u8::is_ascii_digit).then_some(turn)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_updates_are_found() {
        let found = |line: &str| {
            let spot = update(line.as_bytes())?;
            let turn = turn(line.as_bytes(), &spot).map(<[u8]>::to_vec);
            Some((line[spot.update].to_owned(), turn))
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
        let chunk = r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"}\"{"},"messageId":"m"}"#;
        for (params, plain) in [
            (format!(r#""sessionId":"s","update":{chunk}"#), true),
            (format!(r#""_meta":{{"a":[{{}}]}},"update":{chunk}"#), true),
            (format!(r#""update":{chunk},"sessionId":"s""#), false),
            (format!(r#""update":{chunk},"update":{chunk}"#), false),
            (format!(r#""update": {chunk}"#), false),
            (r#""update":{"sessionUpdate":"plan"}"#.to_owned(), false),
            (r#""update":7"#.to_owned(), false),
            (String::new(), false),
        ] {
            let line = format!("{head}{params}}}}}\n");
            let found = plain_chunk(line.as_bytes());
            assert_eq!(found.is_some(), plain, "{line}");
            if let Some((spot, found)) = found {
                assert_eq!(Some(&spot), update(line.as_bytes()).as_ref());
                let long = Chunk::at(line.as_bytes(), spot.update.start);
                assert_eq!(Some(found), long);
            }
        }
        let cut = format!("{head}\"update\":{chunk}}}}}");
        for len in 0..cut.len() {
            assert_eq!(plain_chunk(&cut.as_bytes()[..len]), None);
        }
    }
}
