//! Runs a command in a subprocess of ours, and shows its output while it runs.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::engine::captured::{self, Exit};
use crate::engine::demo::sample::text;
use crate::engine::demo::turn::{Stop, Turn};
use crate::engine::process::Shell;

use super::ended::ended;
use super::shown::{Shown, Worked};

/// How many bytes of a command's output are kept.
const KEPT: usize = 64 * 1024;

/// How many bytes of the output are shown while it runs. The log grows by as much each time.
const SHOWN: usize = 4 * 1024;

/// The delay before the first check for new output; later checks are less frequent.
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

/// The content of the tool call for a command that has ended.
fn said(shell: &Shell, exit: &Exit) -> Vec<Value> {
    let (said, cut) = shell.said(KEPT);
    vec![text(&captured::text(&said, cut, Some(exit)))]
}
