//! How much memory a replay takes while a slow reader takes it in small steps.

use std::thread::sleep;
use std::time::{Duration, Instant};

use rejoin::store::Durability;
use rejoin::sys::SessionId;

use crate::client::Client;
use crate::fill::Filled;
use crate::report::{Report, mb};
use crate::{Result, Settings};

/// The text of a chunk, in bytes.
const TEXT: usize = 600;
/// About the length of a chunk's line in the log.
const LINE: usize = TEXT + 215;
/// How long the slow reader takes.
const TIME: Duration = Duration::from_secs(20);
/// How much it reads at once.
const STEP: usize = 16 * 1024;
/// It rests each time it has read so much.
const REST: usize = 1024 * 1024;

pub(crate) fn run(settings: &Settings, report: &mut Report) -> Result<()> {
    if !cfg!(target_os = "linux") {
        report.note("only Linux tells the most memory that a process had");
        return Ok(());
    }
    let filled = Filled::new(Durability::Os)?;
    let id = filled.long_answer(settings.memory_mb * 1_000_000 / LINE, TEXT)?;
    let log = std::fs::metadata(filled.log_path(&id))?.len();
    report.note(&format!("a log of {:.0} MB", log as f64 / 1e6));
    let idle = Client::initialized(filled.path(), &[])?.peak_memory()?;
    report.figure("before any session", &mb(idle), "");
    for (name, options) in [
        ("merged, slow reader", &[][..]),
        ("exact, slow reader", &["--replay", "exact"]),
    ] {
        let (peak, time) = slowly(&filled, &id, options, log)?;
        let detail = format!("read in {:.1} s", time.as_secs_f64());
        report.at_most(name, peak as f64 / 1e6, 16.0, " MB", &detail);
    }
    for (name, options) in [
        ("merged, fast reader", &[][..]),
        ("exact, fast reader", &["--replay", "exact"]),
    ] {
        let mut client = Client::initialized(filled.path(), options)?;
        let start = Instant::now();
        let load = client.ask_load(&id)?;
        client.output.until_answer(load)?;
        let detail = format!("read in {:.1} s", start.elapsed().as_secs_f64());
        report.at_most(
            name,
            client.peak_memory()? as f64 / 1e6,
            16.0,
            " MB",
            &detail,
        );
    }
    Ok(())
}

/// Reads a replay at such a pace that as many bytes as the log has would take [`TIME`].
fn slowly(filled: &Filled, id: &SessionId, options: &[&str], log: u64) -> Result<(u64, Duration)> {
    let mut client = Client::initialized(filled.path(), options)?;
    let load = client.ask_load(id)?;
    let start = Instant::now();
    let (mut total, mut rest_at) = (0, REST);
    loop {
        let (read, done) = client.output.step(STEP, load)?;
        total += read;
        if done {
            return Ok((client.peak_memory()?, start.elapsed()));
        }
        if total >= rest_at {
            rest_at += REST;
            let due = TIME.mul_f64(total as f64 / log as f64);
            sleep(due.saturating_sub(start.elapsed()));
        }
    }
}
