//! `/run`: runs a shell command, in a terminal of the client or in a subprocess of ours.

use serde_json::json;

use crate::engine::demo::describe::shorten;
use crate::engine::demo::turn::{Done, Stop, Turn};

use super::permission::{Action, Verdict, may};
use super::shown::{Shown, Worked};
use super::{here, terminal};

/// Runs a command.
pub(crate) async fn run(turn: &Turn<'_>, rest: &str) -> Done {
    let command = rest.trim();
    if command.is_empty() || command.contains('\0') {
        return turn.say_all("`/run` takes a command for the shell.").await;
    }
    let call = Shown {
        id: turn.new_tool_call(),
        title: shorten(command, 120),
        kind: "execute",
        locations: Vec::new(),
        raw_input: json!({ "command": command, "cwd": turn.cwd() }),
    };
    call.during(turn, work(turn, &call, command)).await
}

async fn work(turn: &Turn<'_>, call: &Shown, command: &str) -> Result<Worked, Stop> {
    let deed = Action {
        about: "run commands",
        changes: true,
    };
    if let Verdict::Refused(reason) = may(turn, &call.call(), deed, &[]).await? {
        return Ok(Worked::failed(&reason));
    }
    if turn.client().terminals {
        terminal::run(turn, call, command).await
    } else {
        here::run(turn, call, command).await
    }
}
