//! `/tools`: the session's MCP servers, how they are, and what they can do.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::Tool;
use serde_json::Value;
use tokio::time::Instant;

use super::server::{Server, State};
use super::servers::Servers;
use crate::engine::local::describe::shorten;
use crate::engine::local::turn::{Done, Turn};

/// How long a server that is starting is waited for.
const WAITS: Duration = Duration::from_secs(1);

/// How much of a description is shown, in characters.
const DESCRIBED: usize = 200;

/// How many arguments of a tool are named.
const NAMED: usize = 20;

/// Lists the servers.
pub(crate) async fn run(turn: &Turn<'_>, servers: &Servers) -> Done {
    let list = servers.list();
    if list.is_empty() {
        let text = "This session has no MCP servers. A client names them when it makes or opens a \
                    session.";
        return turn.say_all(text).await;
    }
    for server in &list {
        server.revive();
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

/// A server with its tools, as items of a list.
async fn describe(server: &Arc<Server>, until: Instant) -> String {
    let name = server.name();
    match server.settled(until).await {
        State::Starting | State::Gone => format!("- **{name}** is still starting\n"),
        State::Failed(why) => format!("- **{name}** cannot be used: {why}\n"),
        State::Ready(_) => match server.tools().await {
            Ok((connection, tools)) => {
                let who = shorten(&connection.who(), DESCRIBED);
                if tools.is_empty() {
                    return format!("- **{name}** ({who}) has no tools\n");
                }
                let tools: String = tools.iter().map(line).collect();
                format!("- **{name}** ({who})\n{tools}")
            }
            Err(why) => format!("- **{name}** cannot be used: {why}\n"),
        },
    }
}

fn line(tool: &Tool) -> String {
    let arguments = arguments(&Value::Object((*tool.input_schema).clone()));
    let about = tool.description.as_deref().or(tool.title.as_deref());
    let about = about.map(|about| format!(": {}", shorten(about, DESCRIBED)));
    format!(
        "  - `{}{arguments}`{}\n",
        shorten(&tool.name, DESCRIBED),
        about.unwrap_or_default()
    )
}

/// The arguments that a tool takes, in short: ` {"path": string, "limit"?: integer}`.
fn arguments(schema: &Value) -> String {
    let Some(properties) = schema["properties"].as_object() else {
        return String::new();
    };
    if properties.is_empty() {
        return String::new();
    }
    let required = |name: &str| {
        let required = schema["required"].as_array();
        required.is_some_and(|required| required.iter().any(|one| one == name))
    };
    let mut named: Vec<String> = properties
        .iter()
        .take(NAMED)
        .map(|(name, schema)| {
            let mark = if required(name) { "" } else { "?" };
            format!("\"{}\"{mark}: {}", shorten(name, 60), kind(schema))
        })
        .collect();
    if properties.len() > NAMED {
        named.push("…".to_owned());
    }
    format!(" {{{}}}", named.join(", "))
}

/// What an argument may be.
fn kind(schema: &Value) -> String {
    if let Some(values) = schema["enum"].as_array() {
        let values: Vec<String> = values.iter().map(Value::to_string).collect();
        return shorten(&values.join("|"), 60);
    }
    match &schema["type"] {
        Value::String(kind) => shorten(kind, 30),
        Value::Array(kinds) => {
            let kinds: Vec<&str> = kinds.iter().filter_map(Value::as_str).collect();
            shorten(&kinds.join("|"), 60)
        }
        _ => "any".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn arguments_are_told_in_short() {
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
            assert_eq!(arguments(&schema), expected);
        }
    }
}
