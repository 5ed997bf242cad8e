//! What it costs that other processes have a session open, too: attaching to one that is live, what
//! seven more clients cost the engine, and how much later they are sent an update.

use std::sync::mpsc::channel;
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
/// The same at a pace that models reach.
const PACED: usize = 4_000;
/// The niceness of those that are to take no time from the owner.
const NICE: i32 = 19;

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

/// What other clients cost the engine while it says as much as it can, and at a pace that models
/// reach: with all processes alike, and where the others take only the time that the owner leaves, as
/// if they had processors of their own.
fn throughput(settings: &Settings, report: &mut Report) -> Result<()> {
    for (name, stream, nice, has_goal) in [
        ("a flood with eight clients", Stream::FLOOD, 0, false),
        ("the same, the others nice", Stream::FLOOD, NICE, true),
        ("a stream with eight clients", Stream::PACED, 0, true),
        ("the same, the others nice", Stream::PACED, NICE, true),
    ] {
        let (mut used, mut taken, mut paces) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..settings.rounds {
            let (alone, alone_took) = stream.measure(0, nice)?;
            let (shared, shared_took) = stream.measure(OTHERS, nice)?;
            used.push(shared.as_secs_f64() / alone.as_secs_f64());
            taken.push(shared_took.as_secs_f64() / alone_took.as_secs_f64());
            paces.push(stream.updates as f64 / alone_took.as_secs_f64());
        }
        let taken = median(taken);
        let detail = format!(
            "{:.2}x the owner's processor time; alone {:.0} updates/s",
            median(used),
            median(paces)
        );
        if has_goal {
            report.at_most(name, taken, 1.05, "x", &detail);
        } else {
            report.figure(name, &format!("{taken:.2}x"), &detail);
        }
    }
    Ok(())
}

/// An answer of the engine.
#[derive(Clone, Copy)]
struct Stream {
    /// How many updates it has.
    updates: usize,
    is_paced: bool,
}

impl Stream {
    const FLOOD: Self = Self {
        updates: UPDATES,
        is_paced: false,
    };
    const PACED: Self = Self {
        updates: PACED,
        is_paced: true,
    };

    /// The owner's processor time, and the time from the prompt to its answer.
    fn measure(self, others: usize, nice: i32) -> Result<(Duration, Duration)> {
        let filled = Filled::new(Durability::Os)?;
        let (mut owner, text) = if self.is_paced {
            let owner = wrapped(&filled, &agent()?, &["--durability", "os"])?;
            (owner, format!("ticks {} {REST_MICROS}", self.updates))
        } else {
            let owner = Client::initialized(filled.path(), &["--durability", "os"])?;
            (owner, format!("/flood {} {TEXT}", self.updates))
        };
        let id = owner.new_session()?;
        owner.call("session/prompt", &prompt_params(&id, "Hello"))?;
        let others = attached(&filled, &id, others, self.updates, nice)?;
        let before = owner.cpu_time()?;
        let start = Instant::now();
        owner.call("session/prompt", &prompt_params(&id, &text))?;
        let took = start.elapsed();
        let used = owner.cpu_time()?.saturating_sub(before);
        // The last client ends when it has been sent all.
        for other in others {
            other.join().map_err(|_| "a client failed")??;
        }
        Ok((used, took))
    }
}

type Reader = thread::JoinHandle<std::result::Result<(), String>>;

/// Clients that have the session open and read until they were sent so many updates.
fn attached(
    filled: &Filled,
    id: &str,
    count: usize,
    updates: usize,
    nice: i32,
) -> Result<Vec<Reader>> {
    let mut others = Vec::new();
    let (ready, loaded) = channel();
    for _ in 0..count {
        let (store, params, ready) = (filled.path().to_owned(), load_params(id), ready.clone());
        others.push(thread::spawn(move || {
            let read = move || {
                yield_to_others(nice)?;
                let mut other = Client::initialized(&store, &[])?;
                other.call("session/load", &params)?;
                ready.send(())?;
                drop(ready);
                let mut left = updates;
                other.output.until(|read| {
                    let found = memchr::memmem::find_iter(read, b"agent_message_chunk").count();
                    left = left.saturating_sub(found);
                    // A few may be cut by the blocks that are read.
                    left < updates / 100
                })
            };
            read().map_err(|error| error.to_string())
        }));
    }
    drop(ready);
    if loaded.iter().count() < count {
        return Err("a client failed".into());
    }
    Ok(others)
}

/// From now on, this thread and the processes that it starts have the processors that nobody else wants.
#[cfg(unix)]
fn yield_to_others(nice: i32) -> Result<()> {
    rustix::process::nice(nice)?;
    Ok(())
}

/// Other systems are not measured.
#[cfg(not(unix))]
fn yield_to_others(_: i32) -> Result<()> {
    Ok(())
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
