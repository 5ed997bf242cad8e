//! `/tools` lists the tools of the session's MCP servers, and `/call` calls one.

use std::sync::Arc;
use std::time::Duration;

use agent_client_protocol_schema::v1::ToolKind;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::connected_server::{DemoMcpServer, McpServerState};
use super::connection::{CallEvent, McpConnection};
use super::peer::{RequestError, ToolProgress};
use super::servers::{McpServers, strip_name};
use super::tools::{DESCRIBED, McpTool};
use crate::engine::demo::command::{DemoCommand, usage};
use crate::engine::demo::describe::{is_content, quote};
use crate::engine::demo::tool_call::{ToolCall, ToolResult, text};
use crate::engine::demo::tools::permission::{GuardedAction, Permission, may};
use crate::engine::demo::turn::{DemoTurn, Done, EarlyStop, Sent};
use crate::text::shortened;

/// How many characters of a name are shown.
const NAMED: usize = 100;

/// How long `/tools` waits for servers that are starting.
const WAITS: Duration = Duration::from_secs(1);

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
                let who = shortened(connection.server_info(), DESCRIBED);
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

/// The tool to call, with its arguments.
struct CallTarget {
    server: Arc<DemoMcpServer>,
    connection: Arc<McpConnection>,
    tool: McpTool,
    /// The arguments as they were typed, on one line.
    typed: Box<RawValue>,
    arguments: serde_json::Map<String, Value>,
}

/// Calls a tool and shows the result.
pub(crate) async fn call_tool(turn: &DemoTurn<'_>, rest: &str) -> Done {
    let found = turn.unless_cancelled(find(&turn.session.servers, rest));
    let target = match found.await? {
        Ok(target) => target,
        Err(why) => return turn.say_all(&why).await,
    };
    let (server, tool) = target.names();
    let title = format!("{server}: {tool}");
    let call = ToolCall::new(turn, title, ToolKind::Other, Vec::new(), &target.typed);
    call.answer(turn, Box::pin(work(turn, &call, &target)))
        .await
}

impl CallTarget {
    /// The names of the server and the tool, as they are shown.
    fn names(&self) -> (String, String) {
        let server = shortened(self.server.name(), NAMED);
        (server, shortened(&self.tool.name, NAMED))
    }
}

/// Finds the tool to call, or returns what is wrong with the command.
async fn find(servers: &McpServers, rest: &str) -> Result<CallTarget, String> {
    let list = servers.list();
    let named = list.iter().map(|server| format!("`{}`", server.name()));
    let known = match named.collect::<Vec<_>>().join(", ") {
        none if none.is_empty() => "This session has no MCP servers.".to_owned(),
        named => format!("The MCP servers of this session are: {named}."),
    };
    if rest.trim().is_empty() {
        let explanation = format!("JSON is an object with the arguments. {known}");
        return Err(usage(DemoCommand::Call, &explanation, rest));
    }
    let Some((server, rest)) = servers.named(rest) else {
        let word = rest.split_whitespace().next().unwrap_or_default();
        return Err(format!("There is no MCP server {}. {known}", quote(word)));
    };
    let name = server.name();
    let cannot = |why| format!("The server `{name}` cannot be used: {why}");
    let (connection, tools) = server.tools().await.map_err(cannot)?;
    let names = tools.list.iter();
    let names = names.map(|tool| format!("`{}`", shortened(&tool.name, NAMED)));
    let mut names = names.collect::<Vec<_>>().join(", ");
    if tools.more {
        names.push_str(" and more, which are not used");
    }
    let fitting = tools
        .list
        .into_iter()
        .filter_map(|tool| Some((strip_name(rest, &tool.name)?.len(), tool)))
        .min_by_key(|(left, _)| *left);
    let Some((left, tool)) = fitting else {
        let wrong = match rest.split_whitespace().next() {
            Some(word) => format!("The server `{name}` has no tool {}.", quote(word)),
            None => "The name of a tool is missing.".to_owned(),
        };
        return Err(if names.is_empty() {
            format!("{wrong} `{name}` has no tools.")
        } else {
            format!("{wrong} The tools of `{name}` are: {names}.")
        });
    };
    let typed = rest.get(rest.len() - left..).unwrap_or_default().trim();
    let typed = if typed.is_empty() { "{}" } else { typed };
    let arguments = serde_json::from_str(typed)
        .map_err(|error| format!("The arguments must be a JSON object: {error}."))?;
    // Between the tokens of JSON all white space is equivalent, and strings contain no line breaks.
    let typed = typed.replace(['\r', '\n'], " ");
    let typed = RawValue::from_string(typed)
        .map_err(|error| format!("The arguments must be a JSON object: {error}."))?;
    Ok(CallTarget {
        server,
        connection,
        tool,
        typed,
        arguments,
    })
}

/// Calls the tool, with the user's permission, and shows its progress.
async fn work(
    turn: &DemoTurn<'_>,
    call: &ToolCall,
    target: &CallTarget,
) -> Result<ToolResult, EarlyStop> {
    let (server, tool) = target.names();
    let failed = |why: &str, comment: String| {
        Ok(ToolResult {
            failed: true,
            content: Some(vec![text(why)]),
            comment,
            ..ToolResult::default()
        })
    };
    if let Permission::Refused(why) = permission(turn, call, target).await? {
        let reason = why.trim_start_matches("not done: ");
        let comment = format!("`{tool}` of `{server}` was not called: {reason}.");
        return failed(&why, comment);
    }
    call.progress(turn, None).await?;
    match result(turn, call, target).await? {
        Ok(result) => {
            let failed = result["isError"] == true;
            let how = if failed {
                "has reported an error"
            } else {
                "has answered"
            };
            Ok(ToolResult {
                failed,
                content: Some(content(&result)),
                raw_output: Some(result),
                comment: format!("`{tool}` of `{server}` {how}."),
                ..ToolResult::default()
            })
        }
        Err(error) => {
            let why = target.server.in_words(&target.connection, error).await;
            let comment = format!("`{tool}` of `{server}` has failed: {why}");
            failed(&why, comment)
        }
    }
}

/// Whether the tool may be called. A read-only tool always may: its annotation is trusted as much
/// as the server itself, which the user has configured.
async fn permission(
    turn: &DemoTurn<'_>,
    call: &ToolCall,
    target: &CallTarget,
) -> Result<Permission, EarlyStop> {
    if target.tool.only_reads {
        return Ok(Permission::Allowed);
    }
    let action = GuardedAction {
        about: &format!("call {} of {}", target.tool.name, target.server.name()),
        changes: true,
    };
    may(turn, call, action, &[]).await
}

/// The result of the tool, as JSON. If the turn is cancelled, the call is cancelled in the server.
async fn result(
    turn: &DemoTurn<'_>,
    call: &ToolCall,
    target: &CallTarget,
) -> Result<Result<Value, RequestError>, EarlyStop> {
    let mut running = target.connection.call(&target.tool.name, &target.arguments);
    loop {
        match turn.unless_cancelled(running.next()).await {
            Ok(CallEvent::Progress(progress)) => show_progress(turn, call, &progress).await?,
            Ok(CallEvent::Result(result)) => return Ok(result),
            Err(stop) => {
                running.cancel().await;
                return Err(stop);
            }
        }
    }
}

async fn show_progress(turn: &DemoTurn<'_>, call: &ToolCall, progress: &ToolProgress) -> Sent {
    let number = match progress.total {
        Some(total) => format!("{} of {total}", progress.progress),
        None => progress.progress.to_string(),
    };
    let line = match &progress.message {
        Some(message) => format!("{number}: {message}"),
        None => number,
    };
    call.progress(turn, Some(&[text(&line)])).await
}

/// The content of a tool call that had this result. MCP's content blocks have the form of ACP's;
/// anything else is shown as its JSON. If the result has nothing but structured content, that is
/// shown.
fn content(result: &Value) -> Vec<Value> {
    let blocks = result["content"].as_array().map_or(&[][..], Vec::as_slice);
    let mut content: Vec<Value> = blocks.iter().map(shown).collect();
    let structured = &result["structuredContent"];
    if content.is_empty() && !structured.is_null() {
        content.push(text(&format!("```json\n{structured:#}\n```")));
    }
    content
}

fn shown(block: &Value) -> Value {
    if is_content(block) {
        json!({ "type": "content", "content": block })
    } else {
        text(&block.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_block_is_shown() {
        let known = [
            json!({"type":"text","text":"a","annotations":{"audience":["user"]}}),
            json!({"type":"image","data":"AA==","mimeType":"image/png"}),
            json!({"type":"audio","data":"AA==","mimeType":"audio/wav"}),
            json!({"type":"resource_link","uri":"file:///a","name":"a","size":3}),
            json!({"type":"resource","resource":{"uri":"file:///a","text":"b"}}),
            json!({"type":"resource","resource":{"uri":"file:///a","blob":"AA=="}}),
        ];
        for block in known {
            let expected = json!([{ "type": "content", "content": block }]);
            assert_eq!(json!(content(&json!({ "content": [block] }))), expected);
        }
        for block in [json!({"type":"smell"}), json!({"type":"text"}), json!(5)] {
            let expected = json!([text(&block.to_string())]);
            assert_eq!(json!(content(&json!({ "content": [block] }))), expected);
        }
    }

    #[test]
    fn structured_content_is_shown_if_nothing_else_is() {
        let structured = json!({ "n": 1 });
        let alone = content(&json!({ "content": [], "structuredContent": structured }));
        assert_eq!(alone, [text("```json\n{\n  \"n\": 1\n}\n```")]);
        let block = json!({ "type": "text", "text": "1" });
        let both = content(&json!({ "content": [block], "structuredContent": structured }));
        assert_eq!(both, [text("1")]);
        assert_eq!(content(&json!({})), Vec::<Value>::new());
    }
}
