//! What it costs that other processes have a session open, too: attaching to one that is live, what
//! seven more clients cost the engine, and how much later they are sent an update.

use std::thread;
use std::time::{Duration, Instant};

use rejoin::store::Durability;

use crate::client::{Client, load_params, prompt_params};
use crate::fill::Filled;
use crate::report::{Report, median, ms};
use crate::wrap::{REST_MICROS, TICKS, agent, since_sent, wrapped};
use crate::{Result, Settings};

/// How many turns the session has that is attached to.
const TURNS: usize = 10_000;
/// How many clients a session has besides the owner's.
const OTHERS: usize = 7;
/// How many updates the engine sends to all of them, and how many bytes of text each has.
const UPDATES: usize = 100_000;
const TEXT: usize = 64;

pub(crate) fn run(settings: &Settings, report: &mut Report) -> Result<()> {
    if !cfg!(target_os = "linux") {
        report.note("needs the times of processes that Linux has");
        return Ok(());
    }
    attach(settings, report)?;
    throughput(settings, report)?;
    delay(settings, report)
}

/// How long a load takes up to the first update that is live, of which there are ten a second.
fn attach(settings: &Settings, report: &mut Report) -> Result<()> {
    let filled = Filled::new(Durability::Os)?;
    let id = filled.many_turns(TURNS)?;
    let mut owner = Client::initialized(filled.path(), &[])?;
    owner.call("session/load", &load_params(&id))?;
    owner.ask("session/prompt", &prompt_params(&id, "/slow 600"))?;
    let mut loaded = Vec::new();
    let mut live = Vec::new();
    for _ in 0..settings.rounds {
        let mut other = Client::initialized(filled.path(), &[])?;
        let start = Instant::now();
        let asked = other.ask_load(&id)?;
        other.output.until_answer(asked)?;
        loaded.push(start.elapsed().as_secs_f64());
        other.output.until_text("agent_message_chunk")?;
        live.push(start.elapsed().as_secs_f64());
    }
    report.at_most(
        "attached, first live update",
        median(live) * 1e3,
        200.0,
        " ms",
        &format!("{TURNS} turns, loaded in {}", ms(median(loaded))),
    );
    owner.notify("session/cancel", &format!(r#"{{"sessionId":"{id}"}}"#))
}

/// What the owner's process does for a flood of updates, alone and with other clients.
fn throughput(settings: &Settings, report: &mut Report) -> Result<()> {
    let (mut used, mut taken) = (Vec::new(), Vec::new());
    for _ in 0..settings.rounds {
        let (alone, alone_took) = flood(0)?;
        let (shared, shared_took) = flood(OTHERS)?;
        used.push(shared.as_secs_f64() / alone.as_secs_f64());
        taken.push(shared_took.as_secs_f64() / alone_took.as_secs_f64());
    }
    let detail = format!(
        "the owner's processor time; by the clock, with all processes on this machine, {:.2}x",
        median(taken)
    );
    let name = "a flood with eight clients";
    report.at_most(name, median(used), 1.05, "x", &detail);
    Ok(())
}

/// The owner's processor time for a flood, and the time from the prompt to its answer.
fn flood(others: usize) -> Result<(Duration, Duration)> {
    let filled = Filled::new(Durability::Os)?;
    let mut owner = Client::initialized(filled.path(), &["--durability", "os"])?;
    let id = owner.new_session()?;
    owner.call("session/prompt", &prompt_params(&id, "Hello"))?;
    let others = attached(&filled, &id, others)?;
    let before = owner.cpu_time()?;
    let start = Instant::now();
    let text = format!("/flood {UPDATES} {TEXT}");
    owner.call("session/prompt", &prompt_params(&id, &text))?;
    let took = start.elapsed();
    let used = owner.cpu_time()?.saturating_sub(before);
    // The last client ends when it has been sent all.
    for other in others {
        other.join().map_err(|_| "a client failed")??;
    }
    Ok((used, took))
}

/// Clients that have the session open and read until its next turn has been answered.
fn attached(
    filled: &Filled,
    id: &str,
    count: usize,
) -> Result<Vec<thread::JoinHandle<std::result::Result<(), String>>>> {
    let mut others = Vec::new();
    for _ in 0..count {
        let mut other = Client::initialized(filled.path(), &[])?;
        other.call("session/load", &load_params(id))?;
        others.push(thread::spawn(move || {
            let mut left = UPDATES;
            let seen = other.output.until(|read| {
                let found = memchr::memmem::find_iter(read, b"agent_message_chunk").count();
                left = left.saturating_sub(found);
                // A few may be cut by the blocks that are read.
                left < UPDATES / 100
            });
            seen.map_err(|error| error.to_string())
        }));
    }
    Ok(others)
}

/// How much later another process's client has an update of a wrapped agent.
fn delay(settings: &Settings, report: &mut Report) -> Result<()> {
    let agent = agent()?;
    let mut added = Vec::new();
    let mut whole = Vec::new();
    for _ in 0..settings.rounds {
        let filled = Filled::new(Durability::Os)?;
        let mut owner = wrapped(&filled, &agent, &["--durability", "os"])?;
        let id = owner.new_session()?;
        owner.call("session/prompt", &prompt_params(&id, "Hello"))?;
        let mut other = wrapped(&filled, &agent, &["--durability", "os"])?;
        other.call("session/load", &load_params(&id))?;
        let reader = thread::spawn(move || {
            let mut times = Vec::new();
            let seen = other.output.until(|read| {
                since_sent(read, &mut times);
                times.len() >= TICKS * 9 / 10
            });
            seen.map(|()| median(times))
                .map_err(|error| error.to_string())
        });
        let text = format!("ticks {TICKS} {REST_MICROS}");
        let asked = owner.ask("session/prompt", &prompt_params(&id, &text))?;
        let mut times = Vec::new();
        owner
            .output
            .until_answer_with(asked, |read| since_sent(read, &mut times))?;
        let theirs = reader.join().map_err(|_| "a client failed")??;
        added.push((theirs - median(times)) * 1e6);
        whole.push(theirs * 1e6);
    }
    let detail = format!("{:.0} us from the agent to that client", median(whole));
    let name = "added to one update by a front";
    report.at_most(name, median(added), 50.0, " us", &detail);
    Ok(())
}
