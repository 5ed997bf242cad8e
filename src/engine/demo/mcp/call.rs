//! `/call`: calls a tool of one of the session's MCP servers.

use std::sync::Arc;

use rmcp::model::ProgressNotificationParam;
use serde_json::Value;
use serde_json::value::RawValue;

use super::connection::{Connection, Heard};
use super::content::{content, has_failed};
use super::server::Server;
use super::servers::{Servers, cut};
use super::tool::Tool;
use crate::engine::demo::describe::{quote, shorten};
use crate::engine::demo::sample::text;
use crate::engine::demo::tools::permission::{Action, Verdict, may};
use crate::engine::demo::turn::{Done, Sent, Stop, Turn};
use crate::engine::demo::update::{Status, ToolCall, ToolProgress, tool_call, tool_call_update};

/// How many characters of a name are shown.
const NAMED: usize = 100;

/// The tool to call, with its arguments.
struct Target {
    server: Arc<Server>,
    connection: Arc<Connection>,
    tool: Tool,
    /// The arguments as they were typed, on one line.
    typed: Box<RawValue>,
    arguments: serde_json::Map<String, Value>,
}

/// A call as it is announced.
type Call<'a> = ToolCall<'a, Box<RawValue>>;

/// The outcome of a call.
enum Outcome {
    /// The tool returned this result.
    Result(Value),
    /// The call failed.
    Failed(String),
    /// The call was rejected before it was made.
    Refused(String),
}

/// Calls a tool and shows the result.
pub(crate) async fn run(turn: &Turn<'_>, servers: &Servers, rest: &str) -> Done {
    let found = turn.unless_cancelled(find(servers, rest)).await?;
    let target = match found {
        Ok(target) => target,
        Err(why) => return turn.say_all(&why).await,
    };
    let ended = show(turn, &target).await?;
    turn.say_all(&ended).await
}

/// Whether the tool may be called. A read-only tool always may: its annotation is trusted as much
/// as the server itself, which the user has configured.
async fn permission(turn: &Turn<'_>, call: &Call<'_>, target: &Target) -> Result<Verdict, Stop> {
    if target.tool.only_reads {
        return Ok(Verdict::Allowed);
    }
    let deed = Action {
        about: &format!("call {} of {}", target.tool.name, target.server.name()),
        changes: true,
    };
    may(turn, call, deed, &[]).await
}

/// Finds the tool to call, or returns what is wrong with the command.
async fn find(servers: &Servers, rest: &str) -> Result<Target, String> {
    let list = servers.list();
    let named = list.iter().map(|server| format!("`{}`", server.name()));
    let named = named.collect::<Vec<_>>().join(", ");
    if rest.trim().is_empty() {
        return Err(format!(
            "`/call` takes a server, a tool and a JSON object of arguments, as `/tools` lists \
             them. {}",
            servers_there(&named)
        ));
    }
    let Some((server, rest)) = servers.named(rest) else {
        let word = rest.split_whitespace().next().unwrap_or_default();
        return Err(format!(
            "{} is no MCP server of this session. {}",
            quote(word),
            servers_there(&named)
        ));
    };
    let name = server.name();
    let cannot = |why| format!("The server `{name}` cannot be used: {why}");
    let (connection, tools) = server.tools().await.map_err(cannot)?;
    let there = tools.list.iter();
    let there = there.map(|tool| format!("`{}`", shorten(&tool.name, NAMED)));
    let mut there = there.collect::<Vec<_>>().join(", ");
    if tools.more {
        there.push_str(" and more, which are not used");
    }
    let fitting = tools
        .list
        .into_iter()
        .filter_map(|tool| Some((cut(rest, &tool.name)?.len(), tool)))
        .min_by_key(|(left, _)| *left);
    let Some((left, tool)) = fitting else {
        let word = rest.split_whitespace().next();
        let wrong = word.map_or("Which tool?".to_owned(), |word| {
            format!("{} is no tool of `{name}`.", quote(word))
        });
        return Err(if there.is_empty() {
            format!("{wrong} It has none.")
        } else {
            format!("{wrong} It has {there}.")
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
    Ok(Target {
        server,
        connection,
        tool,
        typed,
        arguments,
    })
}

fn servers_there(named: &str) -> String {
    if named.is_empty() {
        "It has none.".to_owned()
    } else {
        format!("It has {named}.")
    }
}

/// Shows the call from beginning to end, and returns the text that follows it. The call is always
/// closed, however the turn ends.
async fn show(turn: &Turn<'_>, target: &Target) -> Result<String, Stop> {
    let id = turn.new_tool_call();
    let name = shorten(&target.tool.name, NAMED);
    let server = shorten(target.server.name(), NAMED);
    let title = format!("{server}: {name}");
    let begun = ToolCall {
        id: &id,
        title: &title,
        kind: "other",
        status: Status::Pending,
        locations: &[],
        raw_input: &target.typed,
    };
    turn.send(tool_call(&begun)).await?;
    match call(turn, &begun, target).await {
        Ok(Outcome::Result(result)) => {
            let failed = has_failed(&result);
            let status = if failed {
                Status::Failed
            } else {
                Status::Completed
            };
            let shown = content(&result);
            turn.send_regardless(progress(&id, status, Some(&shown), Some(&result)))
                .await?;
            let how = if failed {
                "says that it has failed"
            } else {
                "has answered"
            };
            Ok(format!("`{name}` of `{server}` {how}."))
        }
        Ok(Outcome::Failed(why)) => {
            let shown = [text(&why)];
            turn.send_regardless(progress(&id, Status::Failed, Some(&shown), None))
                .await?;
            Ok(format!("`{name}` of `{server}` has not answered: {why}"))
        }
        Ok(Outcome::Refused(why)) => {
            let shown = [text(&why)];
            turn.send_regardless(progress(&id, Status::Failed, Some(&shown), None))
                .await?;
            let why = why.trim_start_matches("not done: ");
            Ok(format!("`{name}` of `{server}` was not called: {why}."))
        }
        Err(Stop::Cancelled) => {
            let shown = [text("Cancelled.")];
            turn.send_regardless(progress(&id, Status::Failed, Some(&shown), None))
                .await?;
            Err(Stop::Cancelled)
        }
        Err(stop) => Err(stop),
    }
}

async fn call(turn: &Turn<'_>, begun: &Call<'_>, target: &Target) -> Result<Outcome, Stop> {
    if let Verdict::Refused(why) = permission(turn, begun, target).await? {
        return Ok(Outcome::Refused(why));
    }
    let id = begun.id;
    turn.send(progress(id, Status::InProgress, None, None))
        .await?;
    let arguments = target.arguments.clone();
    let begun = target.connection.call(&target.tool.name, arguments);
    let mut call = match turn.unless_cancelled(begun).await? {
        Ok(call) => call,
        Err(why) => {
            let why = target.server.in_words(&target.connection, why).await;
            return Ok(Outcome::Failed(why));
        }
    };
    loop {
        match turn.unless_cancelled(call.next()).await {
            Ok(Heard::Progress(how_far)) => tell(turn, id, &how_far).await?,
            Ok(Heard::Result(Ok(result))) => return Ok(Outcome::Result(result)),
            Ok(Heard::Result(Err(why))) => {
                let why = target.server.in_words(&target.connection, why).await;
                return Ok(Outcome::Failed(why));
            }
            Err(stop) => {
                call.cancel().await;
                return Err(stop);
            }
        }
    }
}

/// Shows the progress of a call.
async fn tell(turn: &Turn<'_>, id: &str, how_far: &ProgressNotificationParam) -> Sent {
    let number = match how_far.total {
        Some(total) => format!("{} of {total}", how_far.progress),
        None => how_far.progress.to_string(),
    };
    let words = match &how_far.message {
        Some(message) => format!("{number}: {message}"),
        None => number,
    };
    let shown = [text(&words)];
    turn.send(progress(id, Status::InProgress, Some(&shown), None))
        .await
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
