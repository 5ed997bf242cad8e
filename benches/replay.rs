//! How long the replay of a large session takes, against `cat` pushing the same bytes through the
//! same kind of pipe to the same reader.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use rejoin::store::Durability;
use rejoin::sys::SessionId;

use crate::client::{Client, timed};
use crate::fill::Filled;
use crate::report::{Pairs, Report, ms};
use crate::{Result, Settings};

const CHUNKS: usize = 200_000;
/// Makes a line of the log 375 bytes long, more or less.
const TEXT: usize = 155;

/// The request that asks for the replay.
const LOAD: u64 = 2;

pub(crate) fn run(settings: &Settings, report: &mut Report) -> Result<()> {
    let filled = Filled::new(Durability::Os)?;
    let id = filled.long_answer(CHUNKS, TEXT)?;
    let log = std::fs::metadata(filled.log_path(&id))?.len() as f64;
    report.note(&format!(
        "{CHUNKS} chunks in a log of {:.1} MB; both from the start of the process to the answer",
        log / 1e6
    ));
    for (name, options, goal) in [
        ("exact, times cat", &["--replay", "exact"][..], Some(2.0)),
        ("merged, times cat", &[], None),
    ] {
        let same = filled.beside("output");
        let out = keep(&filled, &id, options, &same)?;
        let pairs = Pairs::measure(
            settings.rounds,
            || timed(|| replay(&filled, &id, options)),
            || timed(|| cat(&same)),
        )?;
        let detail = format!(
            "{} for {:.1} MB out, {:.0} MB/s in; cat {}",
            ms(pairs.ours()),
            out as f64 / 1e6,
            log / 1e6 / pairs.ours(),
            ms(pairs.theirs()),
        );
        match goal {
            Some(goal) => report.at_most(name, pairs.ratio(), goal, "x", &detail),
            None => report.figure(name, &format!("{:.2}x", pairs.ratio()), &detail),
        }
    }
    Ok(())
}

/// Writes what a replay sends, with its answer, to a file.
fn keep(filled: &Filled, id: &SessionId, options: &[&str], to: &Path) -> Result<u64> {
    let mut file = File::create(to)?;
    let mut client = Client::start(filled.path(), options)?;
    client.ask_load(id)?;
    let mut failed = None;
    let bytes = client.output.until_answer_with(LOAD, |new| {
        failed = failed.take().or(file.write_all(new).err());
    })?;
    failed.map_or(Ok(bytes), |error| Err(error.into()))
}

fn replay(filled: &Filled, id: &SessionId, options: &[&str]) -> Result<()> {
    let mut client = Client::start(filled.path(), options)?;
    client.ask_load(id)?;
    client.output.until_answer(LOAD)?;
    Ok(())
}

fn cat(file: &Path) -> Result<()> {
    let mut command = Command::new("cat");
    command.arg(file).stderr(Stdio::null());
    Client::of(command)?.output.until_answer(LOAD)?;
    Ok(())
}
