//! Every operation of a session's life fails once, in every way, and then the machine stops.

use std::io::ErrorKind;

use rejoin::record::Kind;
use rejoin::store::{Durability, Log, Store, StoreError, Sync};
use rejoin::sys::sim::{Fault, SimDisk, Tail};

use super::support::*;

/// What was promised so far.
#[derive(Debug, Default)]
struct Promises {
    /// Payloads of the records that were acknowledged.
    given: Vec<String>,
    /// How many of them must survive a power cut, but for those of `in_doubt`.
    synced: usize,
    /// Those that waited for a sync when it failed: the error said so.
    in_doubt: Vec<usize>,
    /// How many calls failed.
    errors: usize,
}

impl Promises {
    fn doubt(&mut self, error: &StoreError) {
        if matches!(
            error,
            StoreError::Disk {
                operation: "sync",
                ..
            } | StoreError::ReadOnly {
                operation: "sync",
                ..
            }
        ) {
            self.in_doubt.extend(self.synced..self.given.len());
        }
    }
}

/// What is written before the process dies, and after it was started again. Each payload is
/// there once, so that records can be distinguished.
fn story() -> [Vec<(Kind, String)>; 2] {
    let number = |payload: &str, n: usize| payload.replacen('{', &format!("{{\"n\":{n},"), 1);
    let kinds = [
        (Kind::Prompt, PROMPT),
        (Kind::Update, CHUNK),
        (Kind::Update, CHUNK),
        (Kind::End, END),
        (Kind::Prompt, PROMPT),
        (Kind::Update, CALL),
    ];
    let mut story = [Vec::new(), Vec::new()];
    for (n, (kind, payload)) in kinds.iter().chain(&kinds[..4]).enumerate() {
        let part = usize::from(n >= kinds.len());
        story[part].push((*kind, number(payload, n)));
    }
    story
}

/// Lives through the story. One failure is met as a session would: a call that failed is made
/// again, a poisoned log is opened again. `after_error` looks at the disk right after a failure.
fn live(disk: &SimDisk, durability: Durability, after_error: &dyn Fn(&Promises)) -> Promises {
    let mut promises = Promises::default();
    let mut failed = |promises: &mut Promises| {
        promises.errors += 1;
        after_error(promises);
    };
    let store = loop {
        match Store::open(root(), disk.sys(), durability) {
            Ok(store) => break store,
            Err(_) => failed(&mut promises),
        }
    };
    let [first, second] = story();
    let mut log = loop {
        match store.create(&id(), &header()) {
            Ok(log) => break log,
            Err(StoreError::Exists { .. }) => panic!("half a session was left behind"),
            Err(_) => failed(&mut promises),
        }
    };
    promises
        .given
        .push(serde_json::to_string(&header()).unwrap());
    promises.synced = usize::from(durability != Durability::Os);
    for (part, more) in [(first, true), (second, false)] {
        for (kind, payload) in part {
            while let Err(error) = append(&mut log, kind, &payload, durability, &mut promises) {
                failed(&mut promises);
                promises.doubt(&error);
                if matches!(error, StoreError::Poisoned { .. }) {
                    drop(log);
                    log = reopen(&store, &mut promises, &mut failed);
                }
            }
        }
        if more {
            drop(log);
            log = reopen(&store, &mut promises, &mut failed);
        }
    }
    promises
}

fn append(
    log: &mut Log,
    kind: Kind,
    payload: &str,
    durability: Durability,
    promises: &mut Promises,
) -> Result<(), StoreError> {
    let sync = match kind {
        Kind::End => Sync::Turn,
        _ => Sync::Buffered,
    };
    log.append(kind, None, payload, sync)?;
    promises.given.push(payload.to_owned());
    if durability.syncs(sync) {
        promises.synced = promises.given.len();
    }
    Ok(())
}

fn reopen(store: &Store, promises: &mut Promises, failed: &mut dyn FnMut(&mut Promises)) -> Log {
    loop {
        match store.open_log(&id()) {
            Ok(opened) => return opened.log,
            Err(error) => {
                failed(promises);
                promises.doubt(&error);
            }
        }
    }
}

/// Starts anew on what is left of the disk: the first `kept` promises must hold, in their order,
/// and the session must take more.
fn check(disk: &SimDisk, promises: &Promises, power_cut: bool, what: &str) {
    let kept = if power_cut {
        promises.synced
    } else {
        promises.given.len()
    };
    if kept == 0 {
        return;
    }
    let store = store(disk);
    let opened = store.open_log(&id());
    let mut opened = opened.unwrap_or_else(|error| panic!("{what}: {error}"));
    if !power_cut {
        assert!(opened.scan.damage.is_empty(), "{what}: {:?}", opened.scan);
    }
    let found = read(&store);
    let mut found = found.iter();
    for (n, given) in promises.given[..kept].iter().enumerate() {
        if power_cut && promises.in_doubt.contains(&n) {
            continue;
        }
        let there = found.any(|record| record.payload == *given);
        assert!(there, "{what}: {given} is missing");
    }
    let seq = add(&mut opened.log, Kind::Prompt, PROMPT).unwrap();
    let last = read(&store).pop().unwrap();
    assert_eq!((last.seq, last.kind), (seq, Kind::Prompt), "{what}");
}

const TAILS: [Tail; 3] = [Tail::Lost, Tail::Torn, Tail::Zeroed];

fn check_all(disk: &SimDisk, promises: &Promises, what: &str) {
    check(&disk.crash(), promises, false, &format!("{what}, crash"));
    for tail in TAILS {
        let what = format!("{what}, power cut, {tail:?}");
        check(&disk.power_cut(tail), promises, true, &what);
    }
}

#[test]
fn without_failures_there_is_no_error() {
    for durability in Durability::ALL {
        let disk = SimDisk::new();
        let promises = live(&disk, durability, &|_| {});
        assert_eq!(promises.errors, 0);
        assert_eq!(promises.given.len(), 11);
        let synced = if durability == Durability::Os { 0 } else { 11 };
        assert_eq!(promises.synced, synced);
        check_all(&disk, &promises, "no failure");
    }
}

#[test]
fn promises_hold_after_any_failed_operation() {
    for durability in Durability::ALL {
        let counting = SimDisk::new();
        live(&counting, durability, &|_| {});
        let mut errors = 0;
        for n in 0..counting.operations() {
            for fault in [
                Fault::Error(ErrorKind::StorageFull),
                Fault::Error(ErrorKind::Other),
                Fault::ShortWrite,
                Fault::TornWrite(ErrorKind::StorageFull),
                Fault::Sync(ErrorKind::Other),
            ] {
                let what = format!("{durability}, operation {n}, {fault:?}");
                let disk = SimDisk::new();
                disk.fail_at(n, fault);
                let promises = live(&disk, durability, &|promises| {
                    check_all(&disk, promises, &format!("{what}, at once"));
                });
                check_all(&disk, &promises, &what);
                errors += promises.errors;
                // A short write is no failure, and only a hint may fail in silence.
                assert!(promises.errors == 0 || fault != Fault::ShortWrite, "{what}");
            }
        }
        assert!(errors > 50, "{durability}: the failures were met: {errors}");
    }
}

#[test]
fn promises_hold_after_two_failed_operations() {
    let durability = Durability::Turn;
    let counting = SimDisk::new();
    live(&counting, durability, &|_| {});
    for n in 0..counting.operations() {
        let disk = SimDisk::new();
        disk.fail_at(n, Fault::TornWrite(ErrorKind::StorageFull));
        disk.fail_at(n + 1, Fault::Error(ErrorKind::StorageFull));
        let promises = live(&disk, durability, &|promises| {
            check_all(
                &disk,
                promises,
                &format!("operations {n} and next, at once"),
            );
        });
        check_all(&disk, &promises, &format!("operations {n} and next"));
    }
}
