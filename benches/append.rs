//! How many records a second a log takes, against the same bytes written with a bare write(2), or
//! with one and a sync where the log syncs.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use rejoin::record::Kind;
use rejoin::store::{Durability, Sync};

use crate::Result;
use crate::Settings;
use crate::fill::{Filled, chunk};
use crate::report::{Pairs, Report};

/// How many records a turn has.
const TURN: usize = 1000;

pub(crate) fn run(settings: &Settings, report: &mut Report) -> Result<()> {
    report.note("chunks of 155 bytes of text; with `turn`, a turn has 1000 of them");
    for (durability, records, rounds) in [
        (Durability::Os, 100_000, settings.rounds),
        (Durability::Turn, 20_000, settings.rounds),
        (Durability::Each, 200, settings.rounds.min(5)),
    ] {
        let payloads: Vec<String> = (0..records).map(|n| chunk(n, 155)).collect();
        let lines = written(durability, &payloads)?.1;
        let pairs = Pairs::measure(
            rounds,
            || Ok(written(durability, &payloads)?.0),
            || bare(durability, &lines),
        )?;
        let rate = records as f64 / pairs.ours();
        let detail = format!(
            "{rate:.0} records/s; bare {:.0}",
            records as f64 / pairs.theirs()
        );
        let name = format!("{durability}, times bare writes");
        report.figure(&name, &format!("{:.2}x", pairs.ratio()), &detail);
    }
    Ok(())
}

/// Appends the payloads to a new log; returns the time it took and the file's content.
fn written(durability: Durability, payloads: &[String]) -> Result<(Duration, Vec<u8>)> {
    let filled = Filled::new(durability)?;
    let mut log = filled.session()?;
    let start = Instant::now();
    for (n, payload) in payloads.iter().enumerate() {
        let sync = if ends_turn(n) {
            Sync::Turn
        } else {
            Sync::Buffered
        };
        log.append(Kind::Update, None, payload, sync)?;
    }
    let time = start.elapsed();
    Ok((time, fs::read(filled.log_path(log.id()))?))
}

/// Writes the same lines with nothing in between.
fn bare(durability: Durability, content: &[u8]) -> Result<Duration> {
    let filled = Filled::new(Durability::Os)?;
    let mut lines = content.split_inclusive(|byte| *byte == b'\n');
    let header = lines.next().unwrap_or_default();
    let mut file = appending(&filled.beside("bare"))?;
    file.write_all(header)?;
    let start = Instant::now();
    for (n, line) in lines.enumerate() {
        file.write_all(line)?;
        if durability.syncs(if ends_turn(n) {
            Sync::Turn
        } else {
            Sync::Buffered
        }) {
            file.sync_data()?;
        }
    }
    Ok(start.elapsed())
}

fn ends_turn(n: usize) -> bool {
    n % TURN == TURN - 1
}

fn appending(path: &Path) -> Result<fs::File> {
    Ok(OpenOptions::new().create(true).append(true).open(path)?)
}
