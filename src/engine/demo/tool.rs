//! `/tool`: a tool call from beginning to end that does nothing.

use std::time::Duration;

use serde_json::{Value, json};

use super::args::{LONGEST_SECONDS, seconds};
use super::describe::quote;
use super::sample::{KINDS, Sample, text};
use super::turn::{Done, Sent, Stop, Turn, Voice};
use super::update::{Status, ToolCall, ToolProgress, tool_call, tool_call_update};

/// How long `/tool slow` takes by default.
const DEFAULT: Duration = Duration::from_secs(5);

/// The options of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Options {
    kind: &'static str,
    fails: bool,
    takes: Duration,
}

/// Announces the call, shows it and reports its outcome: two messages with a call in between.
pub(super) async fn run(turn: &Turn<'_>, rest: &str) -> Done {
    let Some(options) = options(rest) else {
        let text = format!(
            "`/tool` takes a kind ({}), `fail`, and `slow` with 0 to {LONGEST_SECONDS} seconds; {} \
             is not that.",
            KINDS.join(", "),
            quote(rest)
        );
        return turn.say_all(&text).await;
    };
    let intro = "I only show a tool call; no file is touched and nothing is run.";
    turn.say_alone(Voice::Answer, intro).await?;
    let sample = Sample::of(options.kind, turn.cwd());
    show(turn, &sample, options.takes, options.fails).await?;
    turn.say_all(if options.fails {
        "The tool call has failed, as it was told to."
    } else {
        "The tool call is complete."
    })
    .await
}

/// Shows one tool call. The call is always closed, however the turn ends.
pub(super) async fn show(turn: &Turn<'_>, sample: &Sample, takes: Duration, fails: bool) -> Sent {
    let id = turn.new_tool_call();
    let begun = tool_call(&ToolCall {
        id: &id,
        title: sample.title,
        kind: sample.kind,
        status: Status::Pending,
        locations: &sample.locations,
        raw_input: &sample.raw_input,
    });
    turn.send(begun).await?;
    let shown = rest_of_call(turn, &id, sample, takes, fails).await;
    if let Err(Stop::Cancelled) = shown {
        let content = [text("Cancelled.")];
        let closed = progress(&id, Status::Failed, Some(&content), None);
        turn.send_regardless(closed).await?;
    }
    shown
}

async fn rest_of_call(
    turn: &Turn<'_>,
    id: &str,
    sample: &Sample,
    takes: Duration,
    fails: bool,
) -> Sent {
    turn.send(progress(id, Status::InProgress, None, None))
        .await?;
    turn.pause(takes).await?;
    let ended = if fails {
        let content = [text("It did not work, as it was told.")];
        let raw_output = json!({ "error": "told to fail" });
        progress(id, Status::Failed, Some(&content), Some(&raw_output))
    } else {
        let raw_output = Some(&sample.raw_output);
        progress(id, Status::Completed, Some(&sample.content), raw_output)
    };
    turn.send(ended).await
}

fn progress(
    id: &str,
    status: Status,
    content: Option<&[Value]>,
    raw_output: Option<&Value>,
) -> String {
    tool_call_update(&ToolProgress {
        id,
        status,
        content,
        raw_output,
    })
}

/// Parses the options after the command's name, in any order.
fn options(rest: &str) -> Option<Options> {
    let mut options = Options {
        kind: "edit",
        fails: false,
        takes: Duration::ZERO,
    };
    let mut words = rest.split_whitespace().peekable();
    while let Some(word) = words.next() {
        let word = word.to_ascii_lowercase();
        if let Some(kind) = KINDS.iter().find(|kind| **kind == word) {
            options.kind = kind;
        } else if word == "fail" {
            options.fails = true;
        } else if word == "slow" {
            let time = words.peek().and_then(|next| seconds(next));
            if time.is_some() {
                words.next();
            }
            options.takes = time.unwrap_or(DEFAULT);
        } else {
            return None;
        }
    }
    Some(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_come_in_any_order() {
        let call = |kind, fails, seconds| {
            Some(Options {
                kind,
                fails,
                takes: Duration::from_secs(seconds),
            })
        };
        for (rest, expected) in [
            ("", call("edit", false, 0)),
            (" read", call("read", false, 0)),
            ("FAIL", call("edit", true, 0)),
            ("slow", call("edit", false, 5)),
            ("slow 30", call("edit", false, 30)),
            ("execute slow 2 fail", call("execute", true, 2)),
            ("slow fail", call("edit", true, 5)),
            ("slow 4000", None),
            ("sing", None),
            ("3", None),
        ] {
            assert_eq!(options(rest), expected, "{rest:?}");
        }
    }
}
