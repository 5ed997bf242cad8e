//! What `rejoin wrap` costs between an agent and its client: updates that are recorded on their
//! way, against `cat` between the same pipes.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rejoin::store::Durability;

use crate::client::{Client, INITIALIZE, INITIALIZE_V2, prompt_params, timed};
use crate::fill::Filled;
use crate::report::{Pairs, Report, median};
use crate::{Result, Settings};

/// How many updates a flood has, and how many bytes of text each.
const UPDATES: usize = 200_000;
const TEXT: usize = 300;
/// How many single updates are timed in a round, and how long the agent rests between them.
pub(crate) const TICKS: usize = 1000;
pub(crate) const REST_MICROS: usize = 500;
/// How long the slow client takes for a flood.
const TIME: Duration = Duration::from_secs(10);
/// How much the slow client reads at once, and when it rests.
const STEP: usize = 16 * 1024;
const REST: usize = 1024 * 1024;

pub(crate) fn run(settings: &Settings, report: &mut Report) -> Result<()> {
    if !cfg!(unix) {
        report.note("needs a shell to put `cat` between two pipes");
        return Ok(());
    }
    let agent = agent()?;
    let filled = Filled::new(Durability::Os)?;
    report.note(&format!("{UPDATES} updates with {TEXT} bytes of text each"));
    for (name, durability, goal) in [
        ("times cat", "os", Some(2.0)),
        ("times cat, synced at the end", "turn", None),
    ] {
        let pairs = Pairs::measure(
            settings.rounds,
            || {
                let client = wrapped(&filled, &agent, &["--durability", durability])?;
                flood(client, UPDATES)
            },
            || flood(bare(&agent)?, UPDATES),
        )?;
        let detail = format!(
            "{:.0} updates/s; against {:.0}",
            UPDATES as f64 / pairs.ours(),
            UPDATES as f64 / pairs.theirs()
        );
        match goal {
            Some(goal) => report.at_most(name, pairs.ratio(), goal, "x", &detail),
            None => report.figure(name, &format!("{:.2}x", pairs.ratio()), &detail),
        }
        filled.empty()?;
    }
    let pairs = Pairs::measure(
        settings.rounds,
        || flood_until_end(wrapped_v2(&filled, &agent)?),
        || flood_until_end(wrapped_with_ids(&filled, &agent)?),
    )?;
    let detail = "an agent and a client of version 2, against version 1";
    report.at_most("version 2", pairs.ratio(), 1.1, "x", detail);
    filled.empty()?;
    let pairs = Pairs::measure(
        settings.rounds,
        || latency(wrapped(&filled, &agent, &[])?),
        || latency(bare(&agent)?),
    )?;
    let (ours, theirs) = (pairs.ours() * 1e6, pairs.theirs() * 1e6);
    let detail = format!("{ours:.0} us from agent to client; cat {theirs:.0} us");
    report.at_most("added to one update", ours - theirs, 100.0, " us", &detail);
    if cfg!(target_os = "linux") {
        memory(&filled, &agent, report)?;
    }
    Ok(())
}

/// Builds the agent that the tests wrap, unless it is there, and says where it is.
pub(crate) fn agent() -> Result<PathBuf> {
    let own = std::env::current_exe()?;
    let folder = own.parent().and_then(Path::parent).ok_or("no folder")?;
    let cargo = std::env::var_os("CARGO").ok_or("run it with `cargo bench`")?;
    let built = Command::new(cargo)
        .args(["build", "--quiet", "--release", "--example", "fake-agent"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()?;
    if !built.success() {
        return Err("the agent cannot be built".into());
    }
    Ok(folder.join("examples").join("fake-agent"))
}

/// A client of ours, which wraps the agent.
pub(crate) fn wrapped(filled: &Filled, agent: &Path, options: &[&str]) -> Result<Client> {
    let mut command = Command::new(crate::machine::program());
    command.arg("wrap").arg("--store").arg(filled.path());
    command.args(options).arg("--").arg(agent);
    initialized(command)
}

/// A client of the agent itself, with `cat` in between.
pub(crate) fn bare(agent: &Path) -> Result<Client> {
    let mut command = Command::new("sh");
    command.args(["-c", "\"$0\" | cat"]).arg(agent);
    initialized(command)
}

/// A client of version 2, which wraps an agent of version 2.
fn wrapped_v2(filled: &Filled, agent: &Path) -> Result<Client> {
    initialized_as(wrap_of(filled, agent, "--version-2"), INITIALIZE_V2)
}

/// The same in version 1, with an agent that names its messages as all of version 2 do.
fn wrapped_with_ids(filled: &Filled, agent: &Path) -> Result<Client> {
    initialized(wrap_of(filled, agent, "--message-ids"))
}

fn wrap_of(filled: &Filled, agent: &Path, kind: &str) -> Command {
    let mut command = Command::new(crate::machine::program());
    command.arg("wrap").arg("--store").arg(filled.path());
    command.args(["--durability", "os", "--"]);
    command.arg(agent).arg(kind);
    command
}

pub(crate) fn initialized(command: Command) -> Result<Client> {
    initialized_as(command, INITIALIZE)
}

fn initialized_as(command: Command, initialize: &str) -> Result<Client> {
    let mut client = Client::of(command)?;
    client.write(initialize)?;
    client.output.until_answer(1)?;
    Ok(client)
}

/// Makes a session and asks it for something; returns the request's id.
pub(crate) fn prompt(client: &mut Client, text: &str) -> Result<u64> {
    let session = client.new_session()?;
    client.ask("session/prompt", &prompt_params(session, text))
}

/// How long a flood takes, from the prompt to its answer.
fn flood(mut client: Client, updates: usize) -> Result<Duration> {
    timed(|| {
        let asked = prompt(&mut client, &format!("flood {updates} {TEXT}"))?;
        client.output.until_answer(asked).map(drop)
    })
}

/// The same up to the reason of its end, which is in the answer or, in version 2, in an update. The
/// client looks for it in the same way, so that it costs the same.
fn flood_until_end(mut client: Client) -> Result<Duration> {
    timed(|| {
        prompt(&mut client, &format!("flood {UPDATES} {TEXT}"))?;
        client.output.until_text(r#""stopReason":"#)
    })
}

/// The median time from when the agent writes an update to when the client has read it.
pub(crate) fn latency(mut client: Client) -> Result<Duration> {
    let asked = prompt(&mut client, &format!("ticks {TICKS} {REST_MICROS}"))?;
    let mut times = Vec::new();
    client
        .output
        .until_answer_with(asked, |read| since_sent(read, &mut times))?;
    if times.len() < TICKS / 2 {
        return Err(format!("only {} updates can be told apart", times.len()).into());
    }
    Ok(Duration::from_secs_f64(median(times)))
}

/// Adds how long ago each of the ticks in what was read was sent, in seconds.
pub(crate) fn since_sent(read: &[u8], times: &mut Vec<f64>) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.unwrap_or_default().as_nanos();
    let text = String::from_utf8_lossy(read);
    for part in text.split(r#""text":""#).skip(1) {
        let sent = part.split('"').next().unwrap_or_default();
        if let Ok(sent) = sent.parse::<u128>() {
            times.push(now.saturating_sub(sent) as f64 / 1e9);
        }
    }
}

/// How much memory a flood takes while the client reads slowly.
fn memory(filled: &Filled, agent: &Path, report: &mut Report) -> Result<()> {
    let mut peaks = Vec::new();
    for updates in [UPDATES / 10, UPDATES] {
        let mut client = wrapped(filled, agent, &["--durability", "os"])?;
        let asked = prompt(&mut client, &format!("flood {updates} {TEXT}"))?;
        let time = TIME.mul_f64(updates as f64 / UPDATES as f64);
        let all = updates * (TEXT + 200);
        let start = Instant::now();
        let (mut total, mut rest_at) = (0, REST);
        loop {
            let (read, done) = client.output.step(STEP, asked)?;
            total += read;
            if done {
                break;
            }
            if total >= rest_at {
                rest_at += REST;
                let due = time.mul_f64(total as f64 / all as f64);
                sleep(due.saturating_sub(start.elapsed()));
            }
        }
        peaks.push(client.peak_memory()? as f64);
        filled.empty()?;
    }
    let detail = format!("{} with a tenth of the updates", megabytes(peaks[0]));
    let name = "memory, slow client";
    report.at_most(name, peaks[1] / 1e6, 16.0, " MB", &detail);
    Ok(())
}

fn megabytes(bytes: f64) -> String {
    format!("{:.2} MB", bytes / 1e6)
}
