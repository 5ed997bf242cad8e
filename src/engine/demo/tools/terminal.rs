//! Runs a command in a terminal of the client.

use std::time::Duration;

use serde_json::{Value, json};

use crate::engine::captured::{Exit, item};
use crate::engine::demo::turn::{Stop, Turn};
use crate::engine::process::shell;
use crate::json as plain;
use crate::record::Kind;
use crate::transport::Outcome;

use super::client::{ask, ask_regardless, gone, problem, tell};
use super::ended::ended;
use super::shown::{Shown, Worked};

/// How many bytes of output the client is to keep.
const KEPT: u64 = 256 * 1024;

/// How long a client may take to return the output of a cancelled terminal.
const LAST_LOOK: Duration = Duration::from_millis(300);

pub(super) async fn run(turn: &Turn<'_>, call: &Shown, command: &str) -> Result<Worked, Stop> {
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
        Ok(answer) => plain::string_member(answer, "terminalId"),
        Err(error) => return Ok(Worked::failed(&no_terminal(&problem(error)))),
    };
    let Some(id) = id else {
        let reason = no_terminal("the client's answer has no id");
        return Ok(Worked::failed(&reason));
    };
    let terminal = json!({ "terminalId": id }).to_string();
    let mut worked = watch(turn, call, &id).await;
    if let Err(Stop::Cancelled) = worked {
        tell(turn.out(), "terminal/kill", &terminal).await;
        let shown = ask_regardless(turn.out(), "terminal/output", &terminal).await;
        if let Ok(Ok(shown)) = tokio::time::timeout(LAST_LOOK, shown).await {
            keep(turn, call, &shown).await?;
        }
        // No new content, so that the call still shows the terminal.
        worked = Ok(Worked::cancelled(None));
    }
    // After the release the client still shows the output, but the terminal cannot be used.
    tell(turn.out(), "terminal/release", &terminal).await;
    worked
}

/// Creates a terminal in the client. If the turn is cancelled meanwhile, the terminal is released
/// as soon as its id is known.
async fn create(turn: &Turn<'_>, params: &str) -> Result<Outcome, Stop> {
    let mut created = ask_regardless(turn.out(), "terminal/create", params).await;
    tokio::select! {
        biased;
        () = turn.cancel().cancelled() => {
            let out = turn.out().clone();
            tokio::spawn(async move {
                if let Ok(Ok(answer)) = created.await
                    && let Some(id) = plain::string_member(&answer, "terminalId")
                {
                    let terminal = json!({ "terminalId": id }).to_string();
                    tell(&out, "terminal/kill", &terminal).await;
                    tell(&out, "terminal/release", &terminal).await;
                }
            });
            Err(Stop::Cancelled)
        }
        answer = &mut created => answer.map_err(|_| gone()),
    }
}

/// Shows the terminal until its command has ended.
async fn watch(turn: &Turn<'_>, call: &Shown, id: &str) -> Result<Worked, Stop> {
    let content = json!({ "type": "terminal", "terminalId": id });
    let terminal = json!({ "terminalId": id }).to_string();
    call.shows(turn, &[content]).await?;
    let waited = ask(turn, "terminal/wait_for_exit", &terminal, false).await?;
    let shown = ask(turn, "terminal/output", &terminal, false).await?;
    let told = keep(turn, call, &shown).await?;
    Ok(match waited {
        Ok(exit) => {
            let exit = plain::tree(&exit).as_ref().map(exit_of);
            ended(&exit.or(told).unwrap_or_default())
        }
        Err(error) => Worked::failed(&format!("cannot wait for its end: {}", problem(&error))),
    })
}

/// Logs the terminal's output, since the terminal no longer exists when the session is loaded
/// again. Returns how its command ended, if the client reports that.
async fn keep(turn: &Turn<'_>, call: &Shown, shown: &Outcome) -> Result<Option<Exit>, Stop> {
    let Ok(shown) = shown else {
        return Ok(None);
    };
    let output = plain::string_member(shown, "output").unwrap_or_default();
    let truncated = plain::text_member(shown, "truncated") == Some("true");
    let status = plain::text_member(shown, "exitStatus").and_then(plain::tree);
    let exit = status.filter(Value::is_object).as_ref().map(exit_of);
    let id = Value::from(call.id.as_str());
    let item = item(&output, truncated, exit.as_ref());
    let update =
        format!(r#"{{"sessionUpdate":"tool_call_update","toolCallId":{id},"content":[{item}]}}"#);
    turn.keep(Kind::Output, update).await?;
    Ok(exit)
}

fn exit_of(status: &Value) -> Exit {
    let code = status["exitCode"].as_u64();
    Exit {
        code: code.and_then(|code| u32::try_from(code).ok()),
        signal: status["signal"].as_str().map(str::to_owned),
    }
}

fn no_terminal(reason: &str) -> String {
    format!("cannot run it: there is no terminal; {reason}")
}
