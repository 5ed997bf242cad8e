//! The tools of MCP servers, and `/tools`, which lists them.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model;
use serde_json::{Map, Value};
use tokio::time::Instant;

use crate::engine::demo::turn::{DemoTurn, Done};
use crate::text::shortened;

use super::server::{DemoMcpServer, McpServerState};

/// How long to wait for a server that is starting.
const WAITS: Duration = Duration::from_secs(1);

/// How many characters of a name or a description are shown.
pub(super) const DESCRIBED: usize = 200;

/// The longest name of a tool that can be called, in bytes.
pub(super) const LONGEST_NAME: usize = 1024;

/// How many arguments of a tool are named.
pub(super) const NAMED: usize = 20;

/// The parts of a tool that are used here. The rest of its description may be of any size.
#[derive(Clone, Debug)]
pub(super) struct McpTool {
    pub(super) name: String,
    /// Whether the server declares it as read-only.
    pub(super) only_reads: bool,
    /// Its description in one line, for users.
    pub(super) line: String,
}

/// The tools of a server.
#[derive(Clone, Debug, Default)]
pub(super) struct McpTools {
    pub(super) list: Vec<McpTool>,
    /// Whether the server has more tools than are used.
    pub(super) more: bool,
}

impl McpTool {
    /// The used parts of a tool; `None` if its name is too long.
    pub(super) fn of(tool: &model::Tool) -> Option<Self> {
        if tool.name.len() > LONGEST_NAME {
            return None;
        }
        let hints = tool.annotations.as_ref();
        Some(Self {
            name: tool.name.to_string(),
            only_reads: hints.and_then(|hints| hints.read_only_hint) == Some(true),
            line: line(tool),
        })
    }
}

fn line(tool: &model::Tool) -> String {
    let arguments = arguments(&tool.input_schema);
    let about = tool.description.as_deref().or(tool.title.as_deref());
    let about = about.map(|about| format!(": {}", shortened(about, DESCRIBED)));
    format!(
        "  - `{}{arguments}`{}\n",
        shortened(&tool.name, DESCRIBED),
        about.unwrap_or_default()
    )
}

/// The arguments of a tool, in short: ` {"path": string, "limit"?: integer}`.
fn arguments(schema: &Map<String, Value>) -> String {
    let properties = schema.get("properties").and_then(Value::as_object);
    let Some(properties) = properties.filter(|properties| !properties.is_empty()) else {
        return String::new();
    };
    let required = schema.get("required").and_then(Value::as_array);
    let required =
        |name: &str| required.is_some_and(|required| required.iter().any(|one| one == name));
    let mut named: Vec<String> = properties
        .iter()
        .take(NAMED)
        .map(|(name, schema)| {
            let mark = if required(name) { "" } else { "?" };
            format!("\"{}\"{mark}: {}", shortened(name, 60), kind(schema))
        })
        .collect();
    if properties.len() > NAMED {
        named.push("…".to_owned());
    }
    format!(" {{{}}}", named.join(", "))
}

/// The type of an argument.
fn kind(schema: &Value) -> String {
    if let Some(values) = schema["enum"].as_array() {
        let values: Vec<String> = values.iter().map(Value::to_string).collect();
        return shortened(&values.join("|"), 60);
    }
    match &schema["type"] {
        Value::String(kind) => shortened(kind, 30),
        Value::Array(kinds) => {
            let kinds: Vec<&str> = kinds.iter().filter_map(Value::as_str).collect();
            shortened(&kinds.join("|"), 60)
        }
        _ => "any".to_owned(),
    }
}

/// Lists the servers with their states and tools.
pub(crate) async fn list_tools(turn: &DemoTurn<'_>) -> Done {
    let list = turn.session.servers.list();
    if list.is_empty() {
        let text = "This session has no MCP servers. A client configures them when it creates or \
                    opens a session.";
        return turn.say_all(text).await;
    }
    for server in &list {
        server.restart_if_ended();
    }
    let until = Instant::now() + WAITS;
    let mut text = String::new();
    for server in &list {
        let described = turn.unless_cancelled(describe(server, until)).await?;
        text.push_str(&described);
    }
    text.push_str("\n`/call SERVER TOOL JSON` calls a tool.\n");
    turn.say_all(&text).await
}

/// A server with its tools, as list items.
async fn describe(server: &Arc<DemoMcpServer>, until: Instant) -> String {
    let name = server.name();
    match server.wait_until_started(until).await {
        McpServerState::Starting | McpServerState::Closed => {
            format!("- **{name}** is still starting\n")
        }
        McpServerState::Failed(why) => {
            // The failure is reported here, so it is not reported again.
            server.unreported_failure();
            format!("- **{name}** cannot be used: {why}\n")
        }
        McpServerState::Ready(_) => match server.tools().await {
            Ok((connection, tools)) => {
                let who = shortened(&connection.server_info(), DESCRIBED);
                if tools.list.is_empty() && !tools.more {
                    return format!("- **{name}** ({who}) has no tools\n");
                }
                let mut lines: String = tools.list.iter().map(|tool| &*tool.line).collect();
                if tools.more {
                    lines.push_str("  - … and more, which are not used\n");
                }
                format!("- **{name}** ({who})\n{lines}")
            }
            Err(why) => format!("- **{name}** cannot be used: {why}\n"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn arguments_are_shown_in_short() {
        for (schema, expected) in [
            (json!({}), ""),
            (json!({"type": "object", "properties": {}}), ""),
            (json!({"properties": 5}), ""),
            (
                json!({
                    "properties": {
                        "a": {"type": "string"},
                        "b": {"type": ["integer", "null"]},
                        "c": {"enum": ["x", 1]},
                        "d": true,
                    },
                    "required": ["a"],
                }),
                r#" {"a": string, "b"?: integer|null, "c"?: "x"|1, "d"?: any}"#,
            ),
        ] {
            assert_eq!(arguments(schema.as_object().unwrap()), expected);
        }
    }
}
