//! A whole conversation on a disk that fails: at each of its operations, in every way, and then
//! for good.
//!
//! Each operation of the disk is one point to fail at. `RUN_SLOW_TESTS` tries them all, otherwise
//! they are sampled evenly; which operation comes at which number varies a little from run to
//! run, since the server has more than one thread.

mod failing;
mod fork;
mod power;
mod story;

use std::collections::BTreeMap;
use std::path::Path;

use rejoin::sys::sim::SimDisk;

use crate::support::env;
use crate::support::sessions::memory::{Memory, Setup};
use crate::support::sessions::seen::Event;

fn root() -> &'static Path {
    Path::new("/store")
}

/// A run in which nothing fails.
struct Whole {
    operations: u64,
    /// How many updates each prompt gets.
    updates: BTreeMap<String, usize>,
}

impl Whole {
    fn of(setup: &Setup) -> Self {
        let disk = SimDisk::new();
        let mut memory = Memory::start(root(), &disk.sys(), setup);
        let client_view = story::tell(&mut memory.client).expect("nothing fails");
        assert_eq!(client_view.errors, [""; 0]);
        let operations = disk.operations();
        let seen = memory.end().seen;
        let turns = seen.values().flat_map(|seen| whole_turns(&seen.events));
        let mut updates: BTreeMap<_, _> = turns.collect();
        // Of this one, the replay beside it brings some.
        updates.insert("/flood 25 30".to_owned(), 25);
        assert_eq!(updates.len(), 3, "{updates:?}");
        Self {
            operations,
            updates,
        }
    }

    /// All of the operations, or about `most` of them, evenly spread from the `from`-th.
    fn sample(&self, most: u64, from: usize) -> impl Iterator<Item = u64> {
        let step = self
            .operations
            .div_ceil(if env::slow() { u64::MAX } else { most });
        (from as u64 % step..self.operations).step_by(usize::try_from(step).unwrap())
    }
}

/// The turns that ended as they should, all of whose updates came live: what was asked, and how
/// many updates it got. Turns that depend on what was said before are left out.
fn whole_turns(events: &[Event]) -> impl Iterator<Item = (String, usize)> {
    let turns = events.split_inclusive(|event| matches!(event, Event::End(_)));
    turns.filter_map(|turn| {
        let begun = turn
            .iter()
            .position(|event| matches!(event, Event::Prompt(_)))?;
        let [Event::Prompt(params), updates @ .., Event::End(Ok(end))] = &turn[begun..] else {
            return None;
        };
        let text = params["prompt"][0]["text"].as_str()?.to_owned();
        let live = updates.iter().all(|event| *event != Event::Replayed);
        let whole = end["stopReason"] == "end_turn" && text.starts_with('/');
        // What an earlier turn left open may be closed only now.
        let late = |event: &&Event| {
            matches!(event, Event::Update(update) if update.contains(r#""status":"failed""#))
        };
        let own = updates.len() - updates.iter().filter(late).count();
        (live && whole && text != "/recall 2").then_some((text, own))
    })
}
