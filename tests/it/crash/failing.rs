//! One operation fails, then the disk works again: the client is told, and the session goes on as
//! if the failure had been agreed upon.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use rejoin::store::{Durability, Store};
use rejoin::sys::sim::{Fault, SimDisk};
use serde_json::Value;

use crate::support::env;
use crate::support::sessions::client::Client;
use crate::support::sessions::logged::{Logged, is_storage};
use crate::support::sessions::memory::{Memory, Setup};
use crate::support::sessions::seen::{Asked, Fate};
use crate::support::sessions::view;

use super::story::{Told, tell};
use super::{Whole, root, whole_turns};

const FAULTS: [Fault; 5] = [
    Fault::Error(ErrorKind::StorageFull),
    Fault::Error(ErrorKind::PermissionDenied),
    Fault::ShortWrite,
    Fault::TornWrite(ErrorKind::StorageFull),
    Fault::Sync(ErrorKind::Other),
];

#[test]
fn whichever_operation_fails_the_session_goes_on_as_the_client_saw_it() {
    for durability in Durability::ALL {
        let setup = Setup {
            durability,
            ..Setup::default()
        };
        let whole = Whole::of(&setup);
        let mut errors = BTreeMap::new();
        for (n, fault) in FAULTS.into_iter().enumerate() {
            let mut told = 0;
            // With one sync a turn, a sample of the operations may well hold none.
            let rare = durability == Durability::Turn && matches!(fault, Fault::Sync(_));
            let most = if rare { u64::MAX } else { 14 };
            for at in whole.sample(most, 3 * n + durability as usize) {
                let run = catch_unwind(AssertUnwindSafe(|| one(&setup, &whole, at, fault)));
                told += run.unwrap_or_else(|failure| {
                    let all = whole.operations;
                    eprintln!("with {durability}, operation {at} of {all}, {fault:?}");
                    resume_unwind(failure)
                });
            }
            errors.insert(format!("{fault:?}"), told);
        }
        assert_eq!(errors["ShortWrite"], 0, "a short write is no failure");
        for (fault, told) in errors {
            // A turn has one sync among its many operations, which a sample need not hit.
            let syncs = match durability {
                Durability::Os => false,
                Durability::Turn => env::slow(),
                Durability::Each => true,
            };
            let met = fault != "ShortWrite" && (syncs || !fault.starts_with("Sync"));
            assert!(told > 0 || !met, "{durability}, {fault}");
        }
    }
}

/// Tells the story while one operation fails. Answers with how many errors there were.
fn one(setup: &Setup, whole: &Whole, at: u64, fault: Fault) -> usize {
    let disk = SimDisk::new();
    disk.fail_at(at, fault);
    let mut memory = Memory::start(root(), &disk.sys(), setup);
    let mut told = tell(&mut memory.client).expect("the connection lives on");
    let id = go_on(&mut memory.client, &mut told);
    let client = memory.end();
    let seen = &client.seen[&id];
    for (text, updates) in whole_turns(&seen.events) {
        assert_eq!(whole.updates.get(&text), Some(&updates), "{text}");
    }

    let store = Store::open(root(), disk.sys(), Durability::Os).unwrap();
    let logged = Logged::read(&store, &id).unwrap();
    assert!(logged.scan.damage.is_empty(), "{:?}", logged.scan.damage);
    assert!(logged.scan.torn.is_none() && !logged.scan.turn_open);
    let held = logged.holds(&seen.events, false).unwrap();
    assert_eq!((held.behind, held.untold), (0, 0), "the client knows all");
    assert_eq!(view::entries(&held.shown()), view::entries(&logged.shown));
    let replay = seen.replays.last().unwrap();
    assert_eq!(view::entries(&replay.shown), view::entries(&logged.shown));
    assert_eq!(view::open_calls(&replay.shown), [""; 0]);

    let known: Vec<&String> = client.seen.keys().collect();
    for left in store.ids().unwrap() {
        assert!(
            known.contains(&&left.to_string()),
            "nobody was told of {left}"
        );
        let deleted = client.seen[left.as_str()].is_deleted();
        assert!(!deleted, "deleted, and still there: {left}");
        Logged::read(&store, left.as_str()).unwrap();
    }
    told.errors.len()
}

/// Works on in a session when nothing fails any more.
fn go_on(client: &mut Client, told: &mut Told) -> String {
    let id = match told.kept.take() {
        Some(id) => id,
        None => client.new_session().unwrap().unwrap(),
    };
    if client.seen[&id].fate == Fate::Closed
        || told.errors.iter().any(|error| error.contains("not_open"))
    {
        ask(client, &id, Asked::Resume);
    }
    let answer = ask(client, &id, Asked::text("when all is well again"));
    assert_eq!(answer["stopReason"], "end_turn");
    for _ in 0..2 {
        ask(client, &id, Asked::Load);
    }
    let [.., first, second] = client.seen[&id].replays.as_slice() else {
        panic!("two replays");
    };
    assert_eq!(first.lines, second.lines);
    id
}

/// Asks again if the one failure comes only now: a run may have fewer operations than another.
fn ask(client: &mut Client, id: &str, asked: Asked) -> Value {
    let again = match &asked {
        // In other words, so that one can tell which of them is in the log.
        Asked::Prompt(_) => Asked::text("now that all is well"),
        other => other.clone(),
    };
    let answer = client.ask(id, asked).unwrap();
    answer.unwrap_or_else(|error| {
        assert!(is_storage(&error), "{error}");
        client.ask(id, again).unwrap().unwrap()
    })
}
