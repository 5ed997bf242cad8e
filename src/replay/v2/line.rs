//! Finds the update in a line of the connection.

use std::ops::Range;

use crate::record::json;

/// How a line of ours begins, up to the members of its parameters.
const HEAD: &[u8] = b"{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{";

/// Where the parameters of a `session/update` notification stand, and the update in them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Spot {
    pub(super) params: usize,
    pub(super) update: Range<usize>,
}

/// `None` for a line that is no such notification.
pub(super) fn update(line: &[u8]) -> Option<Spot> {
    let params = if line.starts_with(HEAD) {
        HEAD.len() - 1
    } else {
        let method = json::member(line, 0, "method")?;
        (&line[method] == b"\"session/update\"").then_some(())?;
        json::member(line, 0, "params")?.start
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
    let turn = json::member(line, note.start, "turn")?;
    let turn = &line[turn];
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
}
