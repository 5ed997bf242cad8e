//! Runs a command in a terminal of the client.

use std::time::Duration;

use agent_client_protocol_schema::v1::TerminalExitStatus;
use serde_json::json;

use crate::engine::demo::tool_call::{ToolCall, ToolResult};
use crate::engine::demo::turn::{DemoTurn, EarlyStop};
use crate::engine::process::shell;
use crate::engine::terminal_text::{Exit, item};
use crate::json;
use crate::protocol::UpdateKind;
use crate::protocol::method::{
    TERMINAL_CREATE, TERMINAL_KILL, TERMINAL_OUTPUT, TERMINAL_RELEASE, TERMINAL_WAIT_FOR_EXIT,
};
use crate::record::Kind;
use crate::transport::Outcome;

use super::client::{ask, ask_regardless, disconnected, problem, send};
use super::run::ended;

/// How many bytes of output the client is to keep.
const KEPT: u64 = 256 * 1024;

/// How long a client may take to return the output of a cancelled terminal.
const LAST_LOOK: Duration = Duration::from_millis(300);

pub(super) async fn run(
    turn: &DemoTurn<'_>,
    call: &ToolCall,
    command: &str,
) -> Result<ToolResult, EarlyStop> {
    let (shell, arguments) = shell(command);
    let params = json!({
        "command": shell,
        "args": arguments,
        "cwd": turn.cwd(),
        "outputByteLimit": KEPT,
    })
    .to_string();
    let created = create(turn, &params).await?;
    let id = match &created {
        Ok(answer) => json::string_member(answer, "terminalId"),
        Err(error) => return Ok(ToolResult::failed(&no_terminal(&problem(error)))),
    };
    let Some(id) = id else {
        let reason = no_terminal("the client's answer has no id");
        return Ok(ToolResult::failed(&reason));
    };
    let terminal = json!({ "terminalId": id }).to_string();
    let mut worked = watch(turn, call, &id).await;
    if let Err(EarlyStop::Cancelled) = worked {
        send(&turn.opening.out, TERMINAL_KILL, &terminal).await;
        let shown = ask_regardless(&turn.opening.out, TERMINAL_OUTPUT, &terminal).await;
        if let Ok(Ok(shown)) = tokio::time::timeout(LAST_LOOK, shown).await {
            log_output(turn, call, &shown).await?;
        }
        // No new content, so that the call still shows the terminal.
        worked = Ok(ToolResult::cancelled(None));
    }
    // After the release the client still shows the output, but the terminal cannot be used.
    send(&turn.opening.out, TERMINAL_RELEASE, &terminal).await;
    worked
}

/// Creates a terminal in the client. If the turn is cancelled meanwhile, the terminal is released
/// as soon as its id is known.
async fn create(turn: &DemoTurn<'_>, params: &str) -> Result<Outcome, EarlyStop> {
    let mut created = ask_regardless(&turn.opening.out, TERMINAL_CREATE, params).await;
    tokio::select! {
        biased;
        () = turn.cancel.cancelled() => {
            let out = turn.opening.out.clone();
            tokio::spawn(async move {
                if let Ok(Ok(answer)) = created.await
                    && let Some(id) = json::string_member(&answer, "terminalId")
                {
                    let terminal = json!({ "terminalId": id }).to_string();
                    send(&out, TERMINAL_KILL, &terminal).await;
                    send(&out, TERMINAL_RELEASE, &terminal).await;
                }
            });
            Err(EarlyStop::Cancelled)
        }
        answer = &mut created => answer.map_err(|_| disconnected()),
    }
}

/// Shows the terminal until its command has ended.
async fn watch(turn: &DemoTurn<'_>, call: &ToolCall, id: &str) -> Result<ToolResult, EarlyStop> {
    let content = json!({ "type": "terminal", "terminalId": id });
    let terminal = json!({ "terminalId": id }).to_string();
    call.progress(turn, Some(&[content])).await?;
    let waited = ask(turn, TERMINAL_WAIT_FOR_EXIT, &terminal, false).await?;
    let shown = ask(turn, TERMINAL_OUTPUT, &terminal, false).await?;
    let reported = log_output(turn, call, &shown).await?;
    Ok(match waited {
        Ok(exit) => {
            let exit = exit_of(&exit);
            ended(&exit.or(reported).unwrap_or_default())
        }
        Err(error) => {
            ToolResult::failed(&format!("cannot wait for the command: {}", problem(&error)))
        }
    })
}

/// Logs the terminal's output, since the terminal no longer exists when the session is loaded
/// again. Returns how its command ended, if the client reports that.
async fn log_output(
    turn: &DemoTurn<'_>,
    call: &ToolCall,
    shown: &Outcome,
) -> Result<Option<Exit>, EarlyStop> {
    let Ok(shown) = shown else {
        return Ok(None);
    };
    let output = json::string_member(shown, "output").unwrap_or_default();
    let truncated = json::text_member(shown, "truncated") == Some("true");
    let exit = json::text_member(shown, "exitStatus").and_then(exit_of);
    let item = item(&output, truncated, exit.as_ref());
    let update = UpdateKind::ToolCallUpdate.object();
    let update = update.string("toolCallId", call.id.as_str());
    let update = update.raw("content", &format!("[{item}]"));
    turn.append(Kind::Output, update.end()).await?;
    Ok(exit)
}

fn exit_of(status: &str) -> Option<Exit> {
    let status: TerminalExitStatus = serde_json::from_str(status).ok()?;
    Some(Exit {
        code: status.exit_code,
        signal: status.signal,
    })
}

fn no_terminal(reason: &str) -> String {
    format!("cannot create a terminal: {reason}")
}
