//! How fast updates go from the engine through the log to the client, against `cat` pushing the
//! same bytes, and against a small program that writes each line to a file and then to the pipe.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rejoin::store::Durability;

use crate::baseline::LOG_FIRST;
use crate::client::{Client, prompt_params, timed};
use crate::fill::Filled;
use crate::report::{Pairs, Report};
use crate::{Result, Settings};

/// How many updates are asked for, and how many bytes of text each has.
const UPDATES: usize = 100_000;
const TEXT: usize = 64;
/// The request that asks for them: the third, behind `initialize` and `session/new`.
const PROMPT: u64 = 3;

pub(crate) fn run(settings: &Settings, report: &mut Report) -> Result<()> {
    let filled = Filled::new(Durability::Os)?;
    let same = filled.beside("output");
    keep(&filled, &same)?;
    let (program, language) = LOG_FIRST.command(&filled.beside(""))?;
    report.note(&format!(
        "/flood {UPDATES} {TEXT}, from the prompt to its answer"
    ));

    let cat = || {
        let mut command = Command::new("cat");
        command.arg(&same);
        Client::of(command)?.output.until_answer(PROMPT)
    };
    let pairs = Pairs::measure(
        settings.rounds,
        || flood(&filled, &mut |_| {}),
        || timed(|| cat().map(drop)),
    )?;
    report.figure(
        "times cat",
        &format!("{:.2}x", pairs.ratio()),
        &rates(&pairs),
    );

    let log = filled.beside("log");
    let log_first = || {
        // What is deleted is not written back to the disk while the next round is measured.
        if log.exists() {
            std::fs::remove_file(&log)?;
        }
        let mut command = Command::new(program.get_program());
        command.args(program.get_args()).arg(&same).arg(&log);
        Client::of(command)?.output.until_answer(PROMPT)
    };
    let pairs = Pairs::measure(
        settings.rounds,
        || flood(&filled, &mut |_| {}),
        || timed(|| log_first().map(drop)),
    )?;
    let name = format!("times log first in {language}");
    report.figure(&name, &format!("{:.2}x", pairs.ratio()), &rates(&pairs));
    Ok(())
}

fn rates(pairs: &Pairs) -> String {
    format!(
        "{:.0} updates/s; against {:.0}",
        UPDATES as f64 / pairs.ours(),
        UPDATES as f64 / pairs.theirs()
    )
}

fn keep(filled: &Filled, to: &Path) -> Result<()> {
    let mut file = File::create(to)?;
    let mut failed = None;
    flood(filled, &mut |new| {
        failed = failed.take().or(file.write_all(new).err());
    })?;
    failed.map_or(Ok(()), |error| Err(error.into()))
}

fn flood(filled: &Filled, show: &mut dyn FnMut(&[u8])) -> Result<Duration> {
    let mut client = Client::initialized(filled.path(), &[])?;
    let id = client.new_session()?;
    let prompt = prompt_params(id, &format!("/flood {UPDATES} {TEXT}"));
    timed(|| {
        let asked = client.ask("session/prompt", &prompt)?;
        client.output.until_answer_with(asked, show).map(drop)
    })
}
