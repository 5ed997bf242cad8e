//! `/tool`: a tool call from beginning to end that does nothing.

use std::path::PathBuf;
use std::time::Duration;

use agent_client_protocol_schema::v1::{ToolCallLocation, ToolKind};
use serde_json::{Value, json};

use super::args::{LONGEST_SECONDS, seconds};
use super::command::{DemoCommand, usage};
use super::tool_call::{ToolCall, ToolResult, text};
use super::turn::{DemoTurn, Done, Sent};
use crate::protocol::Role;

/// The kinds of tools, by their names in the protocol.
const KINDS: [(&str, ToolKind); 10] = [
    ("read", ToolKind::Read),
    ("edit", ToolKind::Edit),
    ("delete", ToolKind::Delete),
    ("move", ToolKind::Move),
    ("search", ToolKind::Search),
    ("execute", ToolKind::Execute),
    ("think", ToolKind::Think),
    ("fetch", ToolKind::Fetch),
    ("switch_mode", ToolKind::SwitchMode),
    ("other", ToolKind::Other),
];

/// How long `/tool slow` takes by default.
const DEFAULT: Duration = Duration::from_secs(5);

/// The options of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Options {
    kind: ToolKind,
    fails: bool,
    takes: Duration,
}

/// Announces the call, shows it and reports its outcome: two messages with a call in between.
pub(super) async fn run(turn: &DemoTurn<'_>, rest: &str) -> Done {
    let Some(options) = options(rest) else {
        let kinds = KINDS.map(|(name, _)| name).join(", ");
        let explanation =
            format!("KIND is one of {kinds}; SECONDS is from 0 to {LONGEST_SECONDS}.");
        return turn
            .say_all(&usage(DemoCommand::Tool, &explanation, rest))
            .await;
    };
    let intro = "I only show a tool call; no file is touched and nothing is run.";
    turn.say_alone(Role::Agent, intro).await?;
    show(turn, options.kind, options.takes, options.fails).await?;
    turn.say_all(if options.fails {
        "The tool call has failed, as requested."
    } else {
        "The tool call is complete."
    })
    .await
}

/// Shows one tool call of a kind.
pub(super) async fn show(
    turn: &DemoTurn<'_>,
    kind: ToolKind,
    takes: Duration,
    fails: bool,
) -> Sent {
    let sample = Sample::of(kind, turn.cwd());
    let call = ToolCall::new(
        turn,
        sample.title,
        kind,
        sample.locations,
        &sample.raw_input,
    );
    let work = async {
        call.progress(turn, None).await?;
        turn.pause(takes).await?;
        let (content, raw_output) = if fails {
            let content = vec![text("It failed, as requested.")];
            (content, json!({ "error": "failed as requested" }))
        } else {
            (sample.content, sample.raw_output)
        };
        Ok(ToolResult {
            failed: fails,
            content: Some(content),
            raw_output: Some(raw_output),
            ..ToolResult::default()
        })
    };
    call.run(turn, work).await.map(drop)
}

/// Parses the options after the command's name, in any order.
fn options(rest: &str) -> Option<Options> {
    let mut options = Options {
        kind: ToolKind::Edit,
        fails: false,
        takes: Duration::ZERO,
    };
    let mut words = rest.split_whitespace().peekable();
    while let Some(word) = words.next() {
        let word = word.to_ascii_lowercase();
        if let Some((_, kind)) = KINDS.iter().find(|(name, _)| *name == word) {
            options.kind = *kind;
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

/// The content of a simulated tool call that succeeds.
struct Sample {
    title: &'static str,
    locations: Vec<ToolCallLocation>,
    raw_input: Value,
    content: Vec<Value>,
    raw_output: Value,
}

impl Sample {
    /// The sample of this kind, about fictitious files under `cwd`.
    fn of(kind: ToolKind, cwd: &str) -> Self {
        let folder = PathBuf::from(cwd).join("rejoin-example");
        let at = |name: &str| ToolCallLocation::new(folder.join(name));
        let greeting = || at("greeting.txt");
        let file = greeting().path;
        let (title, locations, raw_input, content, raw_output) = match kind {
            ToolKind::Read => (
                "Read greeting.txt",
                vec![greeting().line(1)],
                json!({ "path": file, "limit": 2 }),
                vec![text("# Greeting\nHello, world.\n")],
                json!({ "lines": 2 }),
            ),
            ToolKind::Edit => (
                "Edit greeting.txt",
                vec![greeting().line(2)],
                json!({ "path": file, "find": "world", "replace": "again" }),
                vec![
                    json!({
                        "type": "diff",
                        "path": file,
                        "oldText": "# Greeting\nHello, world.\n",
                        "newText": "# Greeting\nHello, again.\n",
                    }),
                    text("1 line changed."),
                ],
                json!({ "changed": 1 }),
            ),
            ToolKind::Delete => (
                "Delete greeting.txt",
                vec![greeting()],
                json!({ "path": file }),
                vec![text("Deleted greeting.txt.")],
                json!({ "deleted": true }),
            ),
            ToolKind::Move => {
                let target = at("welcome.txt");
                (
                    "Move greeting.txt to welcome.txt",
                    vec![greeting(), target.clone()],
                    json!({ "from": file, "to": target.path }),
                    vec![text("greeting.txt is now welcome.txt.")],
                    json!({ "moved": true }),
                )
            }
            ToolKind::Search => (
                "Search for “Hello”",
                vec![greeting().line(2), greeting().line(7)],
                json!({ "pattern": "Hello" }),
                vec![text(
                    "greeting.txt:2: Hello, world.\ngreeting.txt:7: Hello?\n",
                )],
                json!({ "matches": 2 }),
            ),
            ToolKind::Execute => (
                "Run the tests",
                vec![],
                json!({ "command": "make", "args": ["test"] }),
                vec![text("running 2 tests\n..\nok\n")],
                json!({ "exitCode": 0 }),
            ),
            ToolKind::Think => (
                "Think about the greeting",
                vec![],
                json!({ "about": "greeting.txt" }),
                vec![text("“Hello, again.” is friendlier.")],
                Value::Null,
            ),
            ToolKind::Fetch => (
                "Fetch https://example.com/greeting",
                vec![],
                json!("https://example.com/greeting"),
                vec![
                    text("The page says hello."),
                    json!({
                        "type": "content",
                        "content": {
                            "type": "resource_link",
                            "uri": "https://example.com/greeting",
                            "name": "greeting",
                        },
                    }),
                ],
                json!({ "status": 200 }),
            ),
            ToolKind::SwitchMode => (
                "Switch to writing",
                vec![],
                json!({ "mode": "write" }),
                vec![text("The mode has not changed: this call is simulated.")],
                json!(true),
            ),
            _ => (
                "Count to three",
                vec![],
                json!([1, 2, 3]),
                vec![text("1, 2, 3")],
                json!(3),
            ),
        };
        Self {
            title,
            locations,
            raw_input,
            content,
            raw_output,
        }
    }
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
            ("", call(ToolKind::Edit, false, 0)),
            (" read", call(ToolKind::Read, false, 0)),
            ("FAIL", call(ToolKind::Edit, true, 0)),
            ("slow", call(ToolKind::Edit, false, 5)),
            ("slow 30", call(ToolKind::Edit, false, 30)),
            ("execute slow 2 fail", call(ToolKind::Execute, true, 2)),
            ("slow fail", call(ToolKind::Edit, true, 5)),
            ("slow 4000", None),
            ("sing", None),
            ("3", None),
        ] {
            assert_eq!(options(rest), expected, "{rest:?}");
        }
    }
}
