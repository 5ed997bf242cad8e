//! Requests that are sent without waiting: each answer comes before the updates of what follows.

use std::path::Path;

use rejoin::sys::sim::SimDisk;

use crate::support::sessions::memory::{Memory, Setup};
use crate::support::sessions::seen::Asked;

/// How often it is tried; the order must not depend on luck.
const ROUNDS: usize = 100;

#[test]
fn response_precedes_updates_of_next_prompt() {
    for first in [Asked::Resume, Asked::Load, Asked::text("/fail")] {
        let setup = Setup {
            threads: 2,
            ..Setup::default()
        };
        let disk = SimDisk::new();
        let mut memory = Memory::start(Path::new("/store"), &disk.sys(), &setup);
        let client = &mut memory.client;
        let id = client.new_session().unwrap().unwrap();
        for _ in 0..ROUNDS {
            // What the client makes of it fails if an update comes that it cannot place.
            client.begin(&id, first.clone()).unwrap();
            client.begin(&id, Asked::text("/think")).unwrap();
            client.wait_for_all().unwrap();
        }
        memory.end();
    }
}
