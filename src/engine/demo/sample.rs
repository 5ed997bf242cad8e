//! The tool calls that `/tool` shows, one of each kind in the protocol.

use serde_json::{Value, json};

/// The protocol's kinds of tools.
pub(super) const KINDS: [&str; 10] = [
    "read",
    "edit",
    "delete",
    "move",
    "search",
    "execute",
    "think",
    "fetch",
    "switch_mode",
    "other",
];

/// Everything that is shown of one tool call.
#[derive(Debug)]
pub(super) struct Sample {
    /// The kind, by its name in the protocol.
    pub(super) kind: &'static str,
    /// The title that the user sees.
    pub(super) title: &'static str,
    /// The file locations that the call is about.
    pub(super) locations: Vec<Value>,
    /// The input of the tool.
    pub(super) raw_input: Value,
    /// The content when it is completed.
    pub(super) content: Vec<Value>,
    /// The output of the tool.
    pub(super) raw_output: Value,
}

impl Sample {
    /// The sample of one of [`KINDS`], about made-up files under `cwd`.
    pub(super) fn of(kind: &'static str, cwd: &str) -> Self {
        let file = at(cwd, &["rejoin-example", "greeting.txt"]);
        let place = |line: u32| json!({ "path": file, "line": line });
        let (title, locations, raw_input, content, raw_output) = match kind {
            "read" => (
                "Read greeting.txt",
                vec![place(1)],
                json!({ "path": file, "limit": 2 }),
                vec![text("# Greeting\nHello, world.\n")],
                json!({ "lines": 2 }),
            ),
            "edit" => (
                "Edit greeting.txt",
                vec![place(2)],
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
            "delete" => (
                "Delete greeting.txt",
                vec![json!({ "path": file })],
                json!({ "path": file }),
                vec![text("greeting.txt is gone.")],
                json!({ "deleted": true }),
            ),
            "move" => {
                let target = at(cwd, &["rejoin-example", "welcome.txt"]);
                (
                    "Move greeting.txt to welcome.txt",
                    vec![json!({ "path": file }), json!({ "path": target })],
                    json!({ "from": file, "to": target }),
                    vec![text("greeting.txt is now welcome.txt.")],
                    json!({ "moved": true }),
                )
            }
            "search" => (
                "Search for “Hello”",
                vec![place(2), place(7)],
                json!({ "pattern": "Hello" }),
                vec![text(
                    "greeting.txt:2: Hello, world.\ngreeting.txt:7: Hello?\n",
                )],
                json!({ "matches": 2 }),
            ),
            "execute" => (
                "Run the tests",
                vec![],
                json!({ "command": "make", "args": ["test"] }),
                vec![text("running 2 tests\n..\nok\n")],
                json!({ "exitCode": 0 }),
            ),
            "think" => (
                "Think about the greeting",
                vec![],
                json!({ "about": "greeting.txt" }),
                vec![text("“Hello, again.” is friendlier.")],
                Value::Null,
            ),
            "fetch" => (
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
            "switch_mode" => (
                "Switch to writing",
                vec![],
                json!({ "mode": "write" }),
                vec![text("The mode is as it was; this only shows the call.")],
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
            kind,
            title,
            locations,
            raw_input,
            content,
            raw_output,
        }
    }
}

/// Text as the content of a tool call.
pub(super) fn text(text: &str) -> Value {
    json!({ "type": "content", "content": { "type": "text", "text": text } })
}

/// The absolute path of a file under a directory.
pub(super) fn at(cwd: &str, names: &[&str]) -> String {
    let mut path = std::path::PathBuf::from(cwd);
    path.extend(names);
    path.to_string_lossy().into_owned()
}
