//! One operation fails, then the disk works again: the client gets an error, and the session goes
//! on as if the failure had been agreed upon.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use rejoin::store::{Durability, Store};
use rejoin::sys::sim::{Fault, SimDisk};

use crate::support::env;
use crate::support::sessions::client::Client;
use crate::support::sessions::logged::Logged;
use crate::support::sessions::memory::{Memory, Setup};
use crate::support::sessions::seen::{Asked, Fate};
use crate::support::sessions::view;

use super::story::{ClientView, tell};
use super::{Whole, root, whole_turns};

const FAULTS: [Fault; 5] = [
    Fault::Error(ErrorKind::StorageFull),
    Fault::Error(ErrorKind::PermissionDenied),
    Fault::ShortWrite,
    Fault::TornWrite(ErrorKind::StorageFull),
    Fault::Sync(ErrorKind::Other),
];

#[test]
fn session_continues_after_any_failed_operation() {
    for durability in Durability::ALL {
        let setup = Setup {
            durability,
            ..Setup::default()
        };
        let whole = Whole::of(&setup);
        let mut errors = BTreeMap::new();
        for (n, fault) in FAULTS.into_iter().enumerate() {
            let mut reported = 0;
            // With one sync a turn, a sample of the operations may well hold none.
            let rare = durability == Durability::Turn && matches!(fault, Fault::Sync(_));
            let most = if rare { u64::MAX } else { 14 };
            for at in whole.sample(most, 3 * n + durability as usize) {
                let run = catch_unwind(AssertUnwindSafe(|| one(&setup, &whole, at, fault)));
                reported += run.unwrap_or_else(|failure| {
                    let all = whole.operations;
                    eprintln!("with {durability}, operation {at} of {all}, {fault:?}");
                    resume_unwind(failure)
                });
            }
            errors.insert(format!("{fault:?}"), reported);
        }
        assert_eq!(errors["ShortWrite"], 0, "a short write is no failure");
        for (fault, reported) in errors {
            // A turn has one sync among its many operations, which a sample need not hit.
            let syncs = match durability {
                Durability::Os => false,
                Durability::Turn => env::slow(),
                Durability::Each => true,
            };
            let met = fault != "ShortWrite" && (syncs || !fault.starts_with("Sync"));
            assert!(reported > 0 || !met, "{durability}, {fault}");
        }
    }
}

#[test]
fn session_continues_after_failed_writes() {
    for durability in Durability::ALL {
        let setup = Setup {
            durability,
            ..Setup::default()
        };
        let whole = Whole::of(&setup);
        for (n, length) in [2, 5, 15, 40].into_iter().enumerate() {
            for at in whole.sample(12, 3 * n + durability as usize) {
                let run = catch_unwind(AssertUnwindSafe(|| {
                    let full = Fault::Error(ErrorKind::StorageFull);
                    several(&setup, &whole, at..at + length, full)
                }));
                if let Err(failure) = run {
                    eprintln!("with {durability}, {length} operations from {at}");
                    resume_unwind(failure);
                }
            }
        }
    }
}

/// Plays the story while one operation fails. Returns the number of errors.
fn one(setup: &Setup, whole: &Whole, at: u64, fault: Fault) -> usize {
    several(setup, whole, at..at + 1, fault)
}

/// Plays the story while some operations in a row fail.
fn several(setup: &Setup, whole: &Whole, failing: Range<u64>, fault: Fault) -> usize {
    let disk = SimDisk::new();
    let several = failing.end - failing.start > 1;
    for at in failing {
        disk.fail_at(at, fault);
    }
    let mut memory = Memory::start(root(), &disk.sys(), setup);
    let mut client_view = tell(&mut memory.client).expect("the connection lives on");
    disk.heal();
    let id = go_on(&mut memory.client, &mut client_view);
    let client = memory.end();
    let seen = &client.seen[&id];
    let store = Store::open(root(), disk.sys(), Durability::Os).unwrap();
    let logged = Logged::read(&store, &id).unwrap();
    assert!(logged.scan.damage.is_empty(), "{:?}", logged.scan.damage);
    assert!(logged.scan.torn.is_none() && !logged.scan.turn_open());
    let held = logged.holds(&seen.events, false).unwrap();
    assert_eq!((held.behind, held.untold), (0, 0), "the client knows all");
    if !several {
        // Where even what should put a failure right fails, updates may come late.
        view::same(&held.shown(), &logged.shown).unwrap();
        for (text, updates) in whole_turns(&seen.events) {
            assert_eq!(whole.updates.get(&text), Some(&updates), "{text}");
        }
        for replay in &seen.replays {
            assert_eq!(
                view::open_calls(&replay.shown),
                [""; 0],
                "for ever in progress"
            );
        }
    }
    let replay = seen.replays.last().unwrap();
    view::same(&replay.shown, &logged.shown).unwrap();
    assert_eq!(view::open_calls(&replay.shown), [""; 0]);

    for left in store.ids().unwrap() {
        let left = Logged::read(&store, left.as_str()).map(|logged| (left, logged));
        let (left, logged) = left.unwrap();
        match client.seen.get(left.as_str()) {
            Some(seen) => assert!(!seen.is_deleted(), "deleted, and still there: {left}"),
            // The disk would not even let it be removed again.
            None => assert!(
                several && logged.scan.records == 1,
                "{left} is not of this session"
            ),
        }
    }
    client_view.errors.len()
}

/// Continues a session when nothing fails anymore.
fn go_on(client: &mut Client, client_view: &mut ClientView) -> String {
    let id = match client_view.kept.take() {
        Some(id) => id,
        None => client.new_session().unwrap().unwrap(),
    };
    if client.seen[&id].fate == Fate::Closed
        || client_view
            .errors
            .iter()
            .any(|error| error.contains("not_open"))
    {
        client.ask(&id, Asked::Resume).unwrap().unwrap();
    }
    let answer = client.ask(&id, Asked::text("when all is well again"));
    assert_eq!(answer.unwrap().unwrap()["stopReason"], "end_turn");
    for _ in 0..2 {
        client.ask(&id, Asked::Load).unwrap().unwrap();
    }
    let [.., first, second] = client.seen[&id].replays.as_slice() else {
        panic!("two replays");
    };
    assert_eq!(first.lines, second.lines);
    id
}
