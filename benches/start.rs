//! How long it takes from the start of the process to the answer to `initialize`, against a C
//! program that reads one line and answers with one.

use std::process::Command;

use rejoin::store::Durability;

use crate::baseline::ANSWER;
use crate::client::{Client, INITIALIZE, timed};
use crate::fill::Filled;
use crate::report::{Pairs, Report, ms};
use crate::{Result, Settings};

pub(crate) fn run(settings: &Settings, report: &mut Report) -> Result<()> {
    let filled = Filled::new(Durability::Os)?;
    filled.sessions(10)?;
    let answer = Client::start(filled.path(), &[])?.output.answer(1)?;
    let (program, language) = ANSWER.command(&filled.beside(""))?;
    // Processes are quick, so there can be more rounds.
    let pairs = Pairs::measure(
        settings.rounds * 10,
        || started(|| Client::start(filled.path(), &[])),
        || {
            started(|| {
                let mut command = Command::new(program.get_program());
                command.args(program.get_args()).arg(&answer);
                let mut client = Client::of(command)?;
                client.write(INITIALIZE)?;
                Ok(client)
            })
        },
    )?;
    let detail = format!("{}; {language} {}", ms(pairs.ours()), ms(pairs.theirs()));
    report.at_most("times a small program", pairs.ratio(), 3.0, "x", &detail);
    Ok(())
}

/// How long a process takes to answer. Its end is not part of it.
fn started(start: impl FnOnce() -> Result<Client>) -> Result<std::time::Duration> {
    let mut running = None;
    timed(|| {
        let mut client = start()?;
        client.output.until_answer(1)?;
        running = Some(client);
        Ok(())
    })
}
