//! `/read`: shows a text file.

use agent_client_protocol_schema::v1::{ToolCallLocation, ToolKind};
use serde_json::{Value, json};

use crate::engine::demo::args::whole;
use crate::engine::demo::command::{DemoCommand, usage};
use crate::engine::demo::describe::counted;
use crate::engine::demo::tool_call::{ToolCall, ToolResult, text};
use crate::engine::demo::turn::{DemoTurn, Done, EarlyStop};
use crate::json;
use crate::protocol::method::READ_TEXT_FILE;

use super::client::{ask, problem};
use super::files::{self, FileExcerpt, SHOWN};
use super::path::{NamedFile, inside, named, outside};
use super::permission::{GuardedAction, Permission, may};

/// The lines to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LineRange {
    /// The number of the first line, counted from 1.
    from: u64,
    count: Option<u64>,
}

/// Reads a file through the client, or directly.
pub(crate) async fn read(turn: &DemoTurn<'_>, rest: &str) -> Done {
    let wanted = named(rest, turn.cwd()).and_then(|file| Some((lines(&file.rest)?, file)));
    let Some((lines, file)) = wanted else {
        let explanation = "A PATH with spaces is put in double quotes. FROM is the first line, counted \
                           from 1, and COUNT how many lines are shown.";
        return turn
            .say_all(&usage(DemoCommand::Read, explanation, rest))
            .await;
    };
    let mut raw_input = json!({ "path": file.path });
    let mut location = ToolCallLocation::new(&file.path);
    if lines != LineRange::ALL {
        raw_input["line"] = lines.from.into();
        location = location.line(u32::try_from(lines.from).unwrap_or(u32::MAX));
    }
    if let Some(count) = lines.count {
        raw_input["limit"] = count.into();
    }
    let title = format!("Read {}", file.short(turn.cwd()));
    let call = ToolCall::new(turn, title, ToolKind::Read, vec![location], &raw_input);
    call.answer(turn, work(turn, &call, &file, lines)).await
}

async fn work(
    turn: &DemoTurn<'_>,
    call: &ToolCall,
    file: &NamedFile,
    lines: LineRange,
) -> Result<ToolResult, EarlyStop> {
    let (workspace, path) = (turn.workspace().clone(), file.path.clone());
    let confined = turn.on_disk(move || inside(&workspace, &path)).await?;
    let failed = |reason: &str| {
        let reason = format!("cannot read `{}`: {reason}", file.path);
        Ok(ToolResult::failed(&reason))
    };
    let excerpt = if turn.opening.client.reads {
        if !matches!(confined, Ok(Some(_))) {
            let action = GuardedAction {
                about: "read files outside of the session's folders",
                changes: false,
            };
            if let Permission::Refused(reason) = may(turn, call, action, &[]).await? {
                return Ok(ToolResult::failed(&reason));
            }
        }
        call.progress(turn, None).await?;
        let params = lines.params(&file.path).to_string();
        match ask(turn, READ_TEXT_FILE, &params, false).await? {
            Ok(answer) => match json::string_member(&answer, "content") {
                Some(content) => bounded(content),
                None => return failed("the client's answer has no content"),
            },
            Err(error) => return failed(&problem(&error)),
        }
    } else {
        let confined = match confined {
            Ok(Some(confined)) => confined,
            Ok(None) => {
                let reason = outside(turn.workspace(), &file.path);
                return Ok(ToolResult::failed(&format!("not read: {reason}")));
            }
            Err(error) => return failed(&error.to_string()),
        };
        call.progress(turn, None).await?;
        let read = move || files::read(&confined, lines.from, lines.count);
        match turn.on_disk(read).await? {
            Ok(excerpt) => excerpt,
            Err(reason) => return failed(&reason),
        }
    };
    Ok(shown(&excerpt))
}

fn shown(excerpt: &FileExcerpt) -> ToolResult {
    let mut content = vec![text(&excerpt.text)];
    let bytes = excerpt.text.len();
    let (lines, long) = (excerpt.lines, counted(bytes as u64, "byte"));
    let mut comment = format!("Read {}, {long}.", counted(lines, "line"));
    if excerpt.cut {
        let note = format!("[only the first {bytes} bytes are shown]");
        content.push(text(&note));
        comment.push_str(" There is more; `/read PATH FROM` reads from a later line.");
    }
    ToolResult {
        content: Some(content),
        raw_output: Some(json!({ "lines": lines, "bytes": bytes, "cut": excerpt.cut })),
        comment,
        ..ToolResult::default()
    }
}

/// The content that a client has read, with the same limit as for direct reading.
fn bounded(mut content: String) -> FileExcerpt {
    let cut = content.len() > SHOWN;
    if cut {
        content.truncate(content.floor_char_boundary(SHOWN));
    }
    let lines = content.lines().count() as u64;
    FileExcerpt {
        text: content,
        lines,
        cut,
    }
}

impl LineRange {
    const ALL: Self = Self {
        from: 1,
        count: None,
    };

    /// The parameters of `fs/read_text_file`.
    fn params(self, path: &str) -> Value {
        let number = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        let mut params = json!({ "path": path });
        if self != Self::ALL {
            params["line"] = number(self.from).into();
        }
        if let Some(count) = self.count {
            params["limit"] = number(count).into();
        }
        params
    }
}

/// Parses the arguments after the path.
fn lines(rest: &str) -> Option<LineRange> {
    let mut words = rest.split_whitespace();
    let mut number = || words.next().map(whole);
    let (from, count) = (number(), number());
    let from = match from {
        Some(from) => from?,
        None => 1,
    };
    let count = match count {
        Some(count) => Some(count?),
        None => None,
    };
    (from > 0 && words.next().is_none()).then_some(LineRange { from, count })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_may_be_named() {
        let some = |from, count| Some(LineRange { from, count });
        for (rest, expected) in [
            ("", some(1, None)),
            ("  ", some(1, None)),
            ("3", some(3, None)),
            ("3 10", some(3, Some(10))),
            ("1 0\n", some(1, Some(0))),
            ("0", None),
            ("x", None),
            ("1 x", None),
            ("1 2 3", None),
        ] {
            assert_eq!(lines(rest), expected, "{rest:?}");
        }
    }

    #[test]
    fn what_a_client_reads_is_bounded() {
        let excerpt = bounded("ü".repeat(SHOWN));
        assert_eq!((excerpt.text.len(), excerpt.cut), (SHOWN, true));
        let excerpt = bounded("a\nb".to_owned());
        assert_eq!(
            (excerpt.text.len(), excerpt.lines, excerpt.cut),
            (3, 2, false)
        );
        assert_eq!(shown(&excerpt).content.unwrap().len(), 1);
    }
}
