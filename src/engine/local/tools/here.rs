//! Runs a command here, and shows what it says while it runs.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::engine::captured::{self, Exit};
use crate::engine::local::sample::text;
use crate::engine::local::turn::{Stop, Turn};
use crate::engine::process::Shell;

use super::ended::ended;
use super::shown::{Shown, Worked};

/// How much of what a command says is kept, in bytes.
const KEPT: usize = 64 * 1024;

/// How much of it is shown while it runs, in bytes. Each time, the log grows by as much.
const SHOWN: usize = 4 * 1024;

/// How soon it is first looked whether there is something to show; later, less often.
const FIRST: Duration = Duration::from_millis(200);
const LAST: Duration = Duration::from_secs(2);

pub(super) async fn run(turn: &Turn<'_>, call: &Shown, command: &str) -> Result<Worked, Stop> {
    call.begins(turn).await?;
    let folder = turn.cwd().to_owned();
    let (line, guard) = (command.to_owned(), turn.guard().map(Path::to_owned));
    let start = move || Shell::start(&line, Path::new(&folder), KEPT, guard.as_deref());
    let shell = match turn.on_disk(start).await? {
        Ok(shell) => shell,
        Err(error) => {
            let reason = format!("cannot run it in `{}`: {error}", turn.cwd());
            return Ok(Worked::failed(&reason));
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
                        let (said, cut) = shell.said(SHOWN);
                        call.shows(turn, &[text(&captured::so_far(&said, cut))]).await
                    }
                    paused => paused,
                };
                if let Err(stop) = sent {
                    let exit = shell.end().await;
                    let Stop::Cancelled = stop else {
                        return Err(stop);
                    };
                    return Ok(Worked::cancelled(Some(said(&shell, &exit))));
                }
                if total > shown {
                    shown = total;
                    pause = LAST.min(pause * 2);
                }
            }
        }
    };
    Ok(Worked {
        content: Some(said(&shell, &exit)),
        ..ended(&exit)
    })
}

/// All that is shown of a command that has ended.
fn said(shell: &Shell, exit: &Exit) -> Vec<Value> {
    let (said, cut) = shell.said(KEPT);
    vec![text(&captured::text(&said, cut, Some(exit)))]
}
