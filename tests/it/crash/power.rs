//! The disk stops for good at one operation: what the client received until then is there when
//! the process, or the whole machine, is started again.

use rejoin::store::{Durability, Store};
use rejoin::sys::sim::{Fault, SimDisk, Tail};

use crate::support::sessions::logged::Logged;
use crate::support::sessions::memory::{Memory, Setup};
use crate::support::sessions::seen::{Asked, Event, Fate, Seen};

use super::story::tell;
use super::{Whole, root};

/// More operations than a story has.
const FOR_EVER: u64 = 5000;

#[test]
fn reported_updates_survive_power_cut() {
    for durability in Durability::ALL {
        let setup = Setup {
            durability,
            ..Setup::default()
        };
        let whole = Whole::of(&setup);
        assert!(whole.operations < FOR_EVER);
        for at in whole.sample(20, 3 * (durability as usize)) {
            stop(&setup, at, whole.operations);
        }
    }
}

/// Plays the story on a disk that works up to one operation, and starts again.
fn stop(setup: &Setup, at: u64, all: u64) {
    let disk = SimDisk::new();
    for n in at..at + FOR_EVER {
        disk.fail_at(n, Fault::Error(std::io::ErrorKind::Other));
    }
    let mut memory = Memory::start(root(), &disk.sys(), setup);
    tell(&mut memory.client);
    let (client, _) = memory.abandon();
    for (id, seen) in &client.seen {
        let what = format!("{}, operation {at} of {all}, {id}", setup.durability);
        start_again(&disk.crash(), setup, id, seen, Durability::Each, &what);
        for tail in [Tail::Lost, Tail::Torn, Tail::Zeroed] {
            let what = format!("{what}, power cut, {tail:?}");
            start_again(
                &disk.power_cut(tail),
                setup,
                id,
                seen,
                setup.durability,
                &what,
            );
        }
    }
}

/// Checks what is left, then goes on with it. `survives` says of what.
fn start_again(
    disk: &SimDisk,
    setup: &Setup,
    id: &str,
    seen: &Seen,
    survives: Durability,
    what: &str,
) {
    if survives == Durability::Os {
        return;
    }
    let store = Store::open(root(), disk.sys(), Durability::Os).unwrap();
    let logged = match Logged::read(&store, id) {
        Ok(logged) => logged,
        Err(error) => {
            let gone =
                seen.is_deleted() || seen.is_asked(&Asked::Delete) || seen.fate == Fate::Doubtful;
            assert!(gone, "{what}: {error}");
            return;
        }
    };
    assert!(!seen.is_deleted(), "{what}: deleted, and still there");
    let mut records = logged.events().into_iter();
    for promise in promises(&seen.events, survives) {
        let there = records.any(|record| is_same(&promise, &record));
        assert!(there, "{what}: {promise:?} is missing");
    }

    let mut memory = Memory::start(root(), &disk.sys(), setup);
    let client = &mut memory.client;
    for _ in 0..2 {
        client.ask(id, Asked::Load).unwrap().expect(what);
    }
    let replays = &client.seen[id].replays;
    assert_eq!(replays[0].lines, replays[1].lines, "{what}");
    let answer = client.ask(id, Asked::text("after the power cut")).unwrap();
    assert_eq!(answer.unwrap()["stopReason"], "end_turn", "{what}");
    memory.end();
}

/// Of what was seen, what must be there: each thing, or each turn that ended.
fn promises(events: &[Event], survives: Durability) -> Vec<Event> {
    let mut promised = Vec::new();
    let mut turn = Vec::new();
    for event in events {
        match event {
            Event::Replayed => {}
            Event::Prompt(_) => turn = vec![event.clone()],
            Event::Update(_) => turn.push(event.clone()),
            Event::End(answer) => {
                let kept = match answer {
                    Err(error) => !crate::support::sessions::logged::is_storage(error),
                    Ok(_) => true,
                };
                if kept {
                    turn.push(event.clone());
                    promised.append(&mut turn);
                } else if survives == Durability::Each && turn.len() > 1 {
                    promised.append(&mut turn);
                }
                turn.clear();
            }
        }
    }
    if survives == Durability::Each && turn.len() > 1 {
        promised.append(&mut turn);
    }
    promised
}

/// Whether a record of the log is what was seen.
fn is_same(seen: &Event, record: &Event) -> bool {
    match (seen, record) {
        (Event::End(_), Event::End(_)) => true,
        _ => seen == record,
    }
}
