//! The real program, killed at random moments: everything that its client had received comes back.
//!
//! A case is one store on which the program is started, driven and killed several times in a row.
//! It is a function of its seed, but for the moment of the kill, which depends on how fast the
//! program is. `KILL_SEED` repeats one case, `KILL_CASES` runs so many of each kind, and `RUN_SLOW_TESTS`
//! at least 200 kills of each.

pub(crate) mod after;
pub(crate) mod branches;
pub(crate) mod keys;
pub(crate) mod process;
pub(crate) mod rewind;
mod script;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;

use crate::support::env;
use crate::support::place;
use crate::support::sessions::logged::survivors;
use crate::support::sessions::random::Random;
use process::{Kill, Modes, Process};
use script::Script;

/// How often the program is killed on one store.
const KILLS: usize = 4;

/// How many cases of each kind there are with `RUN_SLOW_TESTS`.
const MANY: u64 = 60;

/// The most that a script asks for before it is killed anyway.
const STEPS: usize = 40;

#[test]
fn kill_minus_nine_loses_nothing_that_was_received() {
    all(2, &|seed| {
        let folder = tempfile::tempdir().unwrap();
        case(seed, folder.path());
    });
}

/// Runs the one case that the environment names, or so many as it asks for, or else this number of them.
pub(crate) fn all(few: u64, case: &dyn Fn(u64)) {
    if let Some(seed) = env::number("KILL_SEED") {
        return case(seed);
    }
    let cases = match env::number("KILL_CASES") {
        Some(cases) => cases,
        None if env::slow() => MANY,
        None => few,
    };
    for seed in 0..cases {
        let run = catch_unwind(AssertUnwindSafe(|| case(seed)));
        if let Err(failure) = run {
            eprintln!("repeat it with KILL_SEED={seed}");
            resume_unwind(failure);
        }
    }
}

/// Several lives on one store, which is empty at first, each but the last ended by a kill.
pub(crate) fn case(seed: u64, store: &Path) {
    let mut random = Random::of(seed);
    let mut sessions = BTreeMap::new();
    for _ in 0..KILLS {
        let modes = Modes::any(&mut random);
        let kill = Kill::any(&mut random);
        // The first bytes are those of looking at the existing sessions.
        let mut process = Process::start(store, modes);
        after::look(&mut process, store, &mut sessions, &mut random);
        process.kill_after(&kill);
        let mut script = Script::new(&mut random);
        for step in 0..STEPS {
            if script.step(&mut process.client).is_none() || kill.is_due(step) {
                break;
            }
        }
        sessions = process.kill();
        place::at(store).await_idle().unwrap();
        survivors(&after::store(store), &mut sessions);
        after::verify(store);
    }
    let mut process = Process::start(store, Modes::any(&mut random));
    after::look(&mut process, store, &mut sessions, &mut random);
    process.leave();
    after::verify(store);
}
