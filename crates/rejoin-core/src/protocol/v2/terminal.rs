//! Converts terminals: those of version 1 belong to the client, those of version 2 to the agent.
//!
//! A client of version 2 has no terminals of its own, so a note takes the place of a client's
//! terminal. The specification of version 2 forbids treating one as the other because they look
//! alike. But agents of version 1 that run commands themselves report terminals for display only,
//! in `_meta` of their tool calls: `terminal_info`, `terminal_output` and `terminal_exit`. Those
//! match the terminals of version 2 and are converted.

use std::ops::Range;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::json;
use crate::protocol::{Id, IdSet};

use super::line::UpdateLine;

/// The display terminals of a session.
#[derive(Debug, Default)]
pub(super) struct V2Terminals(IdSet);

impl V2Terminals {
    /// Whether a terminal in the content of a tool call is a known display terminal.
    pub(super) fn shows(&self, text: &[u8], item: usize) -> bool {
        json::member(text, item, "terminalId")
            .and_then(|id| json::string_body(text, &id))
            .is_some_and(|id| self.0.has(Id::of(&json::unescaped_bytes(&text[id]))))
    }

    /// The lines with the terminal updates that an update of a tool call has in its `_meta`.
    pub(super) fn lines(&mut self, update: &UpdateLine<'_, '_>) -> Vec<u8> {
        let (line, spot) = (update.line, &update.spot);
        let mut out = Vec::new();
        let Some(meta) = update.get("_meta") else {
            return out;
        };
        let terminal = |key: &str| {
            let value = json::member(line, meta.start, key)?;
            let id = json::member(line, value.start, "terminal_id")?;
            let body = json::string_body(line, &id)?;
            Some((value.start, &line[id], &line[body]))
        };
        let mut write = |update: &[u8]| {
            out.extend_from_slice(&line[..spot.update.start]);
            out.extend_from_slice(update);
            out.extend_from_slice(&line[spot.update.end..]);
        };
        if let Some((at, id, body)) = terminal("terminal_info") {
            self.0.add(Id::of(&json::unescaped_bytes(body)));
            let cwd = string(line, at, "cwd").filter(|cwd| is_absolute(&line[cwd.clone()]));
            let cwd = cwd.map_or(Vec::new(), |cwd| [b",\"cwd\":", &line[cwd]].concat());
            let head = b"{\"sessionUpdate\":\"terminal_update\",\"terminalId\":";
            write(&[&head[..], id, &cwd, b"}"].concat());
        }
        if let Some((at, id, _)) = terminal("terminal_output")
            && let Some(data) = string(line, at, "data")
        {
            let data = json::unescaped_bytes(&line[data.start + 1..data.end - 1]);
            let head = b"{\"sessionUpdate\":\"terminal_output_chunk\",\"terminalId\":";
            write(
                &[
                    &head[..],
                    id,
                    b",\"data\":\"",
                    STANDARD.encode(data).as_bytes(),
                    b"\"}",
                ]
                .concat(),
            );
        }
        if let Some((at, id, _)) = terminal("terminal_exit") {
            let code =
                json::member(line, at, "exit_code").filter(|code| is_code(&line[code.clone()]));
            let code = code.map_or(&b"null"[..], |code| &line[code]);
            let signal = string(line, at, "signal").map_or(&b"null"[..], |signal| &line[signal]);
            let head = b"{\"sessionUpdate\":\"terminal_update\",\"terminalId\":";
            let status = [
                b",\"exitStatus\":{\"exitCode\":",
                code,
                b",\"signal\":",
                signal,
            ];
            write(&[&head[..], id, &status.concat(), b"}}"].concat());
        }
        out
    }
}

/// The replacement for a client's terminal, as the content of a tool call.
pub(super) fn note(item: &[u8]) -> Vec<u8> {
    let note = br#"{"type":"content","content":{"type":"text","text":"[a terminal was shown here]"},"_meta":{"rejoin":{"terminal":"#;
    [note, item, b"}}}"].concat()
}

/// A member that is a string, with its quotes.
fn string(text: &[u8], at: usize, key: &str) -> Option<Range<usize>> {
    let value = json::member(text, at, key)?;
    json::string_body(text, &value).map(|_| value)
}

/// Whether a quoted path is absolute, on any kind of machine.
fn is_absolute(quoted: &[u8]) -> bool {
    match quoted {
        [b'"', b'/', ..] | [b'"', b'\\', b'\\', b'\\', b'\\', ..] => true,
        [b'"', drive, b':', b'/' | b'\\', ..] => drive.is_ascii_alphabetic(),
        _ => false,
    }
}

/// Whether a number can be an exit code.
fn is_code(number: &[u8]) -> bool {
    let number = std::str::from_utf8(number).ok();
    number.is_some_and(|number| number.parse::<u32>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_absolute_paths_count() {
        for path in [
            r#""/w""#,
            r#""C:\\w""#,
            r#""c:/w""#,
            r#""\\\\server\\share""#,
        ] {
            assert!(is_absolute(path.as_bytes()), "{path}");
        }
        for path in [r#""""#, r#""w""#, r#""C:w""#, r#""\\w""#] {
            assert!(!is_absolute(path.as_bytes()), "{path}");
        }
    }
}
