//! `/run`: runs a shell command, in a terminal of the client or in a subprocess of ours.

use std::path::Path;
use std::time::Duration;

use agent_client_protocol_schema::v1::ToolKind;
use serde_json::{Value, json};

use crate::engine::demo::command::{DemoCommand, usage};
use crate::engine::demo::tool_call::{ToolCall, ToolResult, text};
use crate::engine::demo::turn::{DemoTurn, Done, EarlyStop};
use crate::engine::process::Shell;
use crate::engine::terminal_text::{self, Exit};
use crate::text::shortened;

use super::permission::{GuardedAction, Permission, may};
use super::terminal;

/// How many bytes of a command's output are kept.
const KEPT: usize = 64 * 1024;

/// How many bytes of the output are shown while it runs. The log grows by as much each time.
const SHOWN: usize = 4 * 1024;

/// The delay before the first check for new output; later checks are less frequent.
const FIRST: Duration = Duration::from_millis(200);
const LAST: Duration = Duration::from_secs(2);

/// Runs a command.
pub(crate) async fn run(turn: &DemoTurn<'_>, rest: &str) -> Done {
    let command = rest.trim();
    if command.is_empty() || command.contains('\0') {
        let explanation = "The shell runs COMMAND.";
        return turn
            .say_all(&usage(DemoCommand::Run, explanation, rest))
            .await;
    }
    let title = shortened(command, 120);
    let raw_input = json!({ "command": command, "cwd": turn.cwd() });
    let call = ToolCall::new(turn, title, ToolKind::Execute, Vec::new(), &raw_input);
    call.answer(turn, work(turn, &call, command)).await
}

async fn work(
    turn: &DemoTurn<'_>,
    call: &ToolCall,
    command: &str,
) -> Result<ToolResult, EarlyStop> {
    let action = GuardedAction {
        about: "run commands",
        changes: true,
    };
    if let Permission::Refused(reason) = may(turn, call, action, &[]).await? {
        return Ok(ToolResult::failed(&reason));
    }
    if turn.opening.client.terminals {
        terminal::run(turn, call, command).await
    } else {
        in_subprocess(turn, call, command).await
    }
}

/// Runs a command in a subprocess of ours, and shows its output while it runs.
async fn in_subprocess(
    turn: &DemoTurn<'_>,
    call: &ToolCall,
    command: &str,
) -> Result<ToolResult, EarlyStop> {
    call.progress(turn, None).await?;
    let folder = turn.cwd().to_owned();
    let (line, launch) = (command.to_owned(), turn.session.launch.clone());
    let start = move || Shell::start(&line, Path::new(&folder), KEPT, &launch);
    let shell = match turn.on_disk(start).await? {
        Ok(shell) => shell,
        Err(error) => {
            let reason = format!("cannot run it in `{}`: {error}", turn.cwd());
            return Ok(ToolResult::failed(&reason));
        }
    };
    let (mut pause, mut shown) = (FIRST, 0);
    let exit = loop {
        tokio::select! {
            biased;
            exit = shell.ended() => break exit,
            paused = turn.pause(pause) => {
                let total = shell.total();
                let sent = match paused {
                    Ok(()) if total > shown => {
                        let (output, cut) = shell.output(SHOWN);
                        call.progress(turn, Some(&[text(&terminal_text::so_far(&output, cut))])).await
                    }
                    paused => paused,
                };
                if let Err(stop) = sent {
                    let exit = shell.end().await;
                    let EarlyStop::Cancelled = stop else {
                        return Err(stop);
                    };
                    return Ok(ToolResult::cancelled(Some(content(&shell, &exit))));
                }
                if total > shown {
                    shown = total;
                    pause = LAST.min(pause * 2);
                }
            }
        }
    };
    Ok(ToolResult {
        content: Some(content(&shell, &exit)),
        ..ended(&exit)
    })
}

/// The content of the tool call for a command that has ended.
fn content(shell: &Shell, exit: &Exit) -> Vec<Value> {
    let (output, cut) = shell.output(KEPT);
    vec![text(&terminal_text::text(&output, cut, Some(exit)))]
}

/// The result of a command that has ended: only exit code 0 is a success.
pub(super) fn ended(exit: &Exit) -> ToolResult {
    let how = match exit {
        Exit {
            signal: Some(signal),
            ..
        } => format!("It was ended by signal {signal}."),
        Exit {
            code: Some(code), ..
        } => format!("It exited with code {code}."),
        _ => "How it ended is not known.".to_owned(),
    };
    ToolResult {
        failed: exit.code != Some(0) || exit.signal.is_some(),
        raw_output: Some(json!({ "exitCode": exit.code, "signal": exit.signal })),
        comment: how,
        ..ToolResult::default()
    }
}
