//! Appending: answers that can be believed, and a disk that refuses.

use std::io::ErrorKind;

use rejoin::record::Kind;
use rejoin::store::{Durability, Log, Store, StoreError, Sync};
use rejoin::sys::sim::{Fault, SimDisk, Tail};

use super::support::*;

fn new_log(disk: &SimDisk, durability: Durability) -> (Store, Log) {
    let store = store_with(disk, durability);
    let log = store.create(&id(), &header()).unwrap();
    (store, log)
}

#[test]
fn append_returns_offsets() {
    let disk = SimDisk::new();
    let (store, mut log) = new_log(&disk, Durability::Turn);
    let mut expected = vec![(0, log.end())];
    for _ in 0..3 {
        let before = log.end();
        let appended = log
            .append(Kind::Update, None, CHUNK, Sync::Buffered)
            .unwrap();
        assert_eq!(appended.offset, before);
        assert_eq!(appended.end, log.end());
        assert_eq!(appended.seq, expected.len() as u64);
        expected.push((appended.offset, appended.end));
    }
    assert_eq!(log.end(), store.len_of(&id()).unwrap().unwrap());
    assert_eq!(log.id(), &id());
    let mut reader = store.read(&id()).unwrap();
    let mut found = Vec::new();
    while let Some(entry) = reader.next().unwrap() {
        found.push((entry.offset, entry.end));
    }
    assert_eq!(found, expected);
}

#[test]
fn power_cut_keeps_what_durability_promises() {
    for (durability, buffered, turn) in [
        (Durability::Os, 0, 0),
        (Durability::Turn, 1, 3),
        (Durability::Each, 2, 3),
    ] {
        let disk = SimDisk::new();
        disk.put(&root().join("sessions/.keep"), b"");
        let (_store, mut log) = new_log(&disk, durability);
        let survives = || {
            let after = disk.power_cut(Tail::Lost);
            after
                .bytes(&log_path())
                .map_or(0, |bytes| memchr::memchr_iter(b'\n', &bytes).count())
        };
        add(&mut log, Kind::Prompt, PROMPT).unwrap();
        assert_eq!(survives(), buffered, "{durability}");
        add(&mut log, Kind::End, END).unwrap();
        assert_eq!(survives(), turn, "{durability}");
        add(&mut log, Kind::Update, CHUNK).unwrap();
        log.sync().unwrap();
        let all = if durability == Durability::Os { 0 } else { 4 };
        assert_eq!(survives(), all, "{durability}");
    }
}

#[test]
fn one_write_for_each_record() {
    let disk = SimDisk::new();
    let (_store, mut log) = new_log(&disk, Durability::Turn);
    let before = disk.operations();
    add(&mut log, Kind::Update, CHUNK).unwrap();
    assert_eq!(disk.operations(), before + 1);
    add(&mut log, Kind::End, END).unwrap();
    assert_eq!(disk.operations(), before + 3, "a write and a sync");
    log.sync().unwrap();
    assert_eq!(disk.operations(), before + 3, "nothing to sync");
}

#[test]
fn a_short_write_is_continued() {
    let disk = SimDisk::new();
    let (store, mut log) = new_log(&disk, Durability::Turn);
    for n in 0..3 {
        disk.fail_at(disk.operations() + n, Fault::ShortWrite);
    }
    add(&mut log, Kind::Update, CHUNK).unwrap();
    assert_eq!(read(&store).len(), 2);
}

#[test]
fn full_disk_is_an_error_and_leaves_no_trace() {
    let disk = SimDisk::new();
    let (store, mut log) = new_log(&disk, Durability::Turn);
    let before = bytes(&disk);
    for fault in [
        Fault::Error(ErrorKind::StorageFull),
        Fault::TornWrite(ErrorKind::StorageFull),
    ] {
        disk.fail_at(disk.operations(), fault);
        let error = add(&mut log, Kind::Update, CHUNK).unwrap_err();
        let cause = error.disk_error().map(std::io::Error::kind);
        assert_eq!(cause, Some(ErrorKind::StorageFull));
        assert_eq!(bytes(&disk), before);
    }
    assert_eq!(add(&mut log, Kind::Update, CHUNK).unwrap(), 1);
    assert_eq!(read(&store).len(), 2);
}

#[test]
fn failed_truncation_is_done_before_the_next_record() {
    let disk = SimDisk::new();
    let (store, mut log) = new_log(&disk, Durability::Turn);
    let before = bytes(&disk);
    let now = disk.operations();
    disk.fail_at(now, Fault::TornWrite(ErrorKind::StorageFull));
    for n in 1..=2 {
        disk.fail_at(now + n, Fault::Error(ErrorKind::Other));
    }
    let error = add(&mut log, Kind::Update, CHUNK).unwrap_err();
    let cause = error.disk_error().map(std::io::Error::kind);
    assert_eq!(cause, Some(ErrorKind::StorageFull), "the first cause");
    assert!(bytes(&disk).len() > before.len());
    add(&mut log, Kind::Update, CHUNK).unwrap_err();
    assert_eq!(add(&mut log, Kind::Update, CHUNK).unwrap(), 1);
    let mut reader = store.read(&id()).unwrap();
    assert_eq!(rest(&mut reader).len(), 2);
    assert_eq!(reader.damage(), []);
}

#[test]
fn failed_sync_stops_appends() {
    let disk = SimDisk::new();
    let (store, mut log) = new_log(&disk, Durability::Turn);
    add(&mut log, Kind::Prompt, PROMPT).unwrap();
    disk.fail_at(disk.operations() + 1, Fault::Sync(ErrorKind::Other));
    add(&mut log, Kind::End, END).unwrap_err();
    for _ in 0..2 {
        let error = add(&mut log, Kind::End, END).unwrap_err();
        assert!(matches!(error, StoreError::Poisoned { .. }), "{error}");
        let error = log.sync().unwrap_err();
        assert!(matches!(error, StoreError::Poisoned { .. }), "{error}");
    }
    drop(log);
    let opened = store.open_log(&id()).unwrap();
    assert!(opened.kept_aside.is_none() && opened.scan.damage.is_empty());
    let last = read(&store).pop().unwrap();
    assert_ne!(last.payload, END, "what was refused does not come back");
    let mut log = opened.log;
    add(&mut log, Kind::Prompt, PROMPT).unwrap();
    add(&mut log, Kind::End, END).unwrap();
}

#[test]
fn failed_sync_undoes_record_after_missing_line_break() {
    let disk = SimDisk::new();
    let (store, mut log) = new_log(&disk, Durability::Each);
    add(&mut log, Kind::Update, CHUNK).unwrap();
    drop(log);
    let whole = bytes(&disk);
    disk.put(&log_path(), &whole[..whole.len() - 1]);
    let mut log = store.open_log(&id()).unwrap().log;
    disk.fail_at(disk.operations() + 1, Fault::Sync(ErrorKind::Other));
    add(&mut log, Kind::Update, CALL).unwrap_err();
    assert_eq!(bytes(&disk), whole[..whole.len() - 1]);
    drop(log);
    let mut log = store.open_log(&id()).unwrap().log;
    assert_eq!(add(&mut log, Kind::Update, CHUNK).unwrap(), 2);
    assert!(bytes(&disk).starts_with(&whole));
}

#[test]
fn a_payload_with_a_line_break_is_refused() {
    let disk = SimDisk::new();
    let (_store, mut log) = new_log(&disk, Durability::Turn);
    let before = bytes(&disk);
    for payload in ["{\n}", "{\r}"] {
        let error = add(&mut log, Kind::Update, payload).unwrap_err();
        assert!(matches!(error, StoreError::LineBreak { .. }), "{error}");
    }
    assert_eq!(bytes(&disk), before);
}

#[test]
fn a_failed_creation_leaves_no_file() {
    let disk = SimDisk::new();
    let store = store(&disk);
    let before = disk.operations();
    drop(store.create(&id(), &header()).unwrap());
    let count = disk.operations() - before;
    let mut failures = 0;
    for n in 0..count {
        let disk = SimDisk::new();
        let store = self::store(&disk);
        disk.fail_at(disk.operations() + n, Fault::Error(ErrorKind::StorageFull));
        if store.create(&id(), &header()).is_err() {
            failures += 1;
            assert!(!store.exists(&id()).unwrap(), "operation {n}");
            drop(store.create(&id(), &header()).unwrap());
        }
        assert_eq!(read(&store).len(), 1);
    }
    assert!(
        failures >= 4,
        "create, lock, write and both syncs: {failures}"
    );
}

#[test]
fn crash_during_creation_is_atomic() {
    let disk = SimDisk::new();
    drop(store(&disk).create(&id(), &header()).unwrap());
    let mut whole = 0;
    for n in 0..disk.operations() {
        let disk = SimDisk::new();
        // Nothing works from there on.
        for m in n..n + 100 {
            disk.fail_at(m, Fault::Error(ErrorKind::Other));
        }
        if let Ok(store) = Store::open(root(), disk.sys(), Durability::Turn) {
            drop(store.create(&id(), &header()));
        }
        let disk = disk.crash();
        let store = store(&disk);
        let ids = store.ids().unwrap();
        whole += ids.len();
        for id in ids {
            assert_eq!(store.read(&id).unwrap().scan().unwrap().records, 1, "{n}");
        }
    }
    assert!(whole > 0, "some died late");
}

#[test]
fn second_writer_learns_the_lock_holder() {
    let disk = SimDisk::new();
    let (store, log) = new_log(&disk, Durability::Turn);
    let hint = root().join(format!("open/{}", id()));
    let in_use = || {
        let error = store.open_log(&id()).unwrap_err();
        assert_eq!(
            store.trash(&id()).unwrap_err().to_string(),
            error.to_string()
        );
        match &error {
            StoreError::InUse { holder, .. } => (holder.clone(), error.to_string()),
            other => panic!("{other}"),
        }
    };
    let (holder, message) = in_use();
    let pid = std::process::id();
    assert_eq!(holder.unwrap().pid, pid);
    assert!(message.contains(&format!("this process, {pid} on host ")));
    disk.put(&hint, br#"{"pid":4711,"host":"elsewhere"}"#);
    let (_, message) = in_use();
    assert!(message.ends_with("is in use by process 4711 on host elsewhere"));
    for unreadable in [&b"{"[..], b"", &[b' '; 5000]] {
        disk.put(&hint, unreadable);
        let (holder, message) = in_use();
        assert_eq!(holder, None);
        assert!(message.ends_with("is in use by another process"));
    }
    drop(log);
    assert_eq!(disk.bytes(&hint), None, "the hint goes with the lock");
    drop(store.open_log(&id()).unwrap());
}

#[test]
fn a_hint_that_could_not_be_written_follows_with_the_next_record() {
    let disk = SimDisk::new();
    let (store, log) = new_log(&disk, Durability::Turn);
    drop(log);
    disk.set_full(true);
    let mut log = store.open_log(&id()).unwrap().log;
    assert_eq!(store.holder(&id()), None);
    disk.set_full(false);
    add(&mut log, Kind::Prompt, PROMPT).unwrap();
    assert_eq!(store.holder(&id()).unwrap().pid, std::process::id());
}

#[test]
fn a_stale_hint_is_replaced() {
    let disk = SimDisk::new();
    let hint = root().join(format!("open/{}", id()));
    disk.put(&hint, br#"{"pid":4711,"host":"elsewhere"}"#);
    let (_store, _log) = new_log(&disk, Durability::Turn);
    let text = String::from_utf8(disk.bytes(&hint).unwrap()).unwrap();
    assert!(text.contains(&std::process::id().to_string()), "{text}");
}
