//! `/tools`: the session's MCP servers with their states and tools.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::server::{Server, State};
use super::servers::Servers;
use super::tool::DESCRIBED;
use crate::engine::demo::describe::shorten;
use crate::engine::demo::turn::{Done, Turn};

/// How long to wait for a server that is starting.
const WAITS: Duration = Duration::from_secs(1);

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

/// A server with its tools, as list items.
async fn describe(server: &Arc<Server>, until: Instant) -> String {
    let name = server.name();
    match server.settled(until).await {
        State::Starting | State::Gone => format!("- **{name}** is still starting\n"),
        State::Failed(why) => {
            // The failure is reported here, so it is not reported again.
            server.unreported_failure();
            format!("- **{name}** cannot be used: {why}\n")
        }
        State::Ready(_) => match server.tools().await {
            Ok((connection, tools)) => {
                let who = shorten(&connection.who(), DESCRIBED);
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
