//! Logs in the database: what a writer appends, who may write, what readers see.

use std::path::Path;

use rejoin::record::{Header, Kind};
use rejoin::store::{Copied, Durability, Store, StoreError, Sync};
use rejoin::sys::{SessionId, Sys, Timestamp};
use serde_json::json;

use super::cluster;

/// The store as a process of its own opens it.
pub(super) fn open(place: &Path) -> Store {
    Store::open(place, Sys::real(), Durability::Turn).unwrap()
}

pub(super) fn texts(store: &Store, id: &SessionId) -> Vec<String> {
    let mut reader = store.read(id).unwrap();
    let mut texts = Vec::new();
    while let Some(entry) = reader.next().unwrap() {
        texts.push(entry.record.payload.to_owned());
    }
    assert_eq!(reader.damage(), []);
    texts
}

pub(super) fn update(text: &str) -> String {
    format!(r#"{{"sessionUpdate":"plan","entries":[],"_meta":{{"text":{text:?}}}}}"#)
}

pub(super) fn header(id: &SessionId) -> Header {
    serde_json::from_value(json!({
        "format": 1, "sessionId": id.as_str(), "cwd": "/work", "additionalDirectories": [],
        "mcpServers": [], "engine": { "name": "rejoin" }, "protocolVersion": 1,
    }))
    .unwrap()
}

pub(super) fn new_id() -> SessionId {
    Sys::real().ids.session()
}

#[test]
fn what_is_appended_is_read() {
    let Some(place) = cluster::store() else {
        return;
    };
    let (store, other) = (open(&place), open(&place));
    let id = new_id();
    let mut log = store.create(&id, &header(&id)).unwrap();
    let mut reader = other.read(&id).unwrap();
    reader.next().unwrap().unwrap();
    for n in 0..200 {
        let text = update(&format!("{n} {}", "x".repeat(n * 50)));
        log.append(Kind::Update, None, &text, Sync::Buffered)
            .unwrap();
        let seen = reader.next().unwrap().unwrap().record.payload.to_owned();
        assert_eq!(seen, text);
        assert!(reader.next().unwrap().is_none());
    }
    log.sync().unwrap();
    assert_eq!(texts(&other, &id).len(), 201);
    assert_eq!(other.len_of(&id).unwrap(), Some(log.end()));
    assert_eq!(other.ids().unwrap(), [id]);
}

#[test]
fn a_long_log_is_read_from_anywhere() {
    let Some(place) = cluster::store() else {
        return;
    };
    let store = open(&place);
    let id = new_id();
    let mut log = store.create(&id, &header(&id)).unwrap();
    let long = update(&"y".repeat(20 << 20));
    let mut offsets = Vec::new();
    for n in 0..60 {
        let text = if n == 30 {
            &long
        } else {
            &update(&"z".repeat(100_000))
        };
        let appended = log
            .append(Kind::Update, None, text, Sync::Buffered)
            .unwrap();
        offsets.push(appended.offset);
    }
    assert_eq!(texts(&store, &id).len(), 61);
    let mut reader = store.read(&id).unwrap();
    for (at, offset) in offsets.iter().enumerate().rev().step_by(7) {
        reader.seek(*offset);
        let mut rest = 0;
        while reader.next().unwrap().is_some() {
            rest += 1;
        }
        assert_eq!(rest, offsets.len() - at);
    }
}

#[test]
fn one_process_writes() {
    let Some(place) = cluster::store() else {
        return;
    };
    let (first, second) = (open(&place), open(&place));
    first.serves("Zed");
    let id = new_id();
    let mut log = first.create(&id, &header(&id)).unwrap();
    let refused = second.open_log(&id).unwrap_err();
    assert!(
        matches!(&refused, StoreError::InUse { holder: Some(holder), .. }
            if holder.pid == std::process::id() && holder.client.as_deref() == Some("Zed")),
        "{refused:?}"
    );
    assert!(matches!(first.open_log(&id), Err(StoreError::InUse { .. })));
    assert!(second.is_open(&id));
    log.append(Kind::Update, None, &update("a"), Sync::Buffered)
        .unwrap();
    drop(log);
    assert!(!second.is_open(&id));
    let mut opened = second.open_log(&id).unwrap();
    opened
        .log
        .append(Kind::Update, None, &update("b"), Sync::Turn)
        .unwrap();
    assert_eq!(texts(&first, &id)[1..], [update("a"), update("b")]);
}

#[test]
fn who_was_taken_over_writes_nothing() {
    let Some(place) = cluster::store() else {
        return;
    };
    let (first, second) = (open(&place), open(&place));
    let id = new_id();
    let mut log = first.create(&id, &header(&id)).unwrap();
    log.append(Kind::Update, None, &update("a"), Sync::Buffered)
        .unwrap();
    let mut opened = second.take_over_with(&id, &mut |_| {}).unwrap();
    for _ in 0..3 {
        let fenced = log.append(Kind::Update, None, &update("no"), Sync::Buffered);
        assert!(
            matches!(fenced, Err(StoreError::Fenced { .. })),
            "{fenced:?}"
        );
        opened
            .log
            .append(Kind::Update, None, &update("b"), Sync::Buffered)
            .unwrap();
    }
    assert!(log.check_name().is_err());
    assert!(log.trash().is_err());
    drop(opened);
    let b = || update("b");
    assert_eq!(texts(&first, &id)[1..], [update("a"), b(), b(), b()]);
}

#[test]
fn the_trash_is_copied_there_and_back() {
    let Some(place) = cluster::store() else {
        return;
    };
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let [files, back] = [0, 1].map(|n: usize| open(folders[n].path()));
    let tables = open(&place);
    let id = new_id();
    drop(files.create(&id, &header(&id)).unwrap());
    assert!(files.trash(&id).unwrap());
    let trashed = files.trashed().unwrap();
    for (from, to) in [(&files, &tables), (&tables, &back)] {
        for expected in [Copied::New, Copied::Same] {
            let copied = from.copy_trashed_to(&trashed[0], to, true).unwrap();
            assert_eq!(copied, expected);
        }
        assert_eq!(to.trashed().unwrap(), trashed);
        assert!(!to.exists(&id).unwrap());
    }
    let bytes = |folder: &tempfile::TempDir| {
        let trash = folder.path().join("trash").read_dir().unwrap();
        let files = trash.map(|file| file.unwrap());
        let files = files.map(|file| (file.file_name(), std::fs::read(file.path()).unwrap()));
        files.collect::<Vec<_>>()
    };
    assert_eq!(bytes(&folders[0]), bytes(&folders[1]));
    tables.restore(&id).unwrap();
    // It is not in the trash there any longer.
    let copied = files.copy_trashed_to(&trashed[0], &tables, true).unwrap();
    assert_eq!(copied, Copied::Same);
    assert!(tables.trashed().unwrap().is_empty());
}

#[test]
fn the_trash_keeps_and_gives_back() {
    let Some(place) = cluster::store() else {
        return;
    };
    let store = open(&place);
    let id = new_id();
    let log = store.create(&id, &header(&id)).unwrap();
    assert!(log.trash().unwrap());
    assert!(!store.exists(&id).unwrap());
    assert!(matches!(store.read(&id), Err(StoreError::NotFound { .. })));
    let trashed = store.trashed().unwrap();
    assert_eq!(trashed.len(), 1);
    store.read_trashed(&trashed[0]).unwrap();
    store.restore(&id).unwrap();
    assert_eq!(texts(&store, &id).len(), 2);
    assert!(store.trash(&id).unwrap());
    assert!(store.has_traces_of(&id).unwrap());
    assert_eq!(
        store.count_trash_before(Timestamp::from_millis(0)).unwrap(),
        0
    );
    let later = Timestamp::from_millis(store.trashed().unwrap()[0].at.as_millis() + 1);
    assert_eq!(store.empty_trash(later).unwrap(), 1);
    assert!(!store.has_traces_of(&id).unwrap());
    let id = new_id();
    drop(store.create(&id, &header(&id)).unwrap());
    assert!(store.erase(&id).unwrap());
    assert!(!store.has_traces_of(&id).unwrap());
}

#[test]
fn a_session_is_created_once() {
    let Some(place) = cluster::store() else {
        return;
    };
    let (first, second) = (open(&place), open(&place));
    let id = new_id();
    let log = first.create(&id, &header(&id)).unwrap();
    let again = second.create(&id, &header(&id));
    assert!(matches!(again, Err(StoreError::Exists { .. })), "{again:?}");
    drop(log);
    assert_eq!(first.ids().unwrap(), [id]);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "damage is made by hand")]
fn copies_have_the_same_bytes() {
    let Some(place) = cluster::store() else {
        return;
    };
    let (here, back) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (files, tables, files_again) = (open(here.path()), open(&place), open(back.path()));
    let id = new_id();
    let mut log = files.create(&id, &header(&id)).unwrap();
    for n in 0..300 {
        let text = update(&"ü".repeat(n * 10));
        log.append(Kind::Update, None, &text, Sync::Buffered)
            .unwrap();
    }
    assert!(matches!(
        files.copy_to(&id, &tables, true),
        Ok(Copied::InUse(_))
    ));
    drop(log);
    let path = |folder: &Path| folder.join(format!("sessions/{id}.jsonl"));
    let mut bytes = std::fs::read(path(here.path())).unwrap();
    // Damage and a torn end are copied, too.
    bytes[700] ^= 1;
    bytes.extend_from_slice(b"{\"crc\":\"0000");
    std::fs::write(path(here.path()), &bytes).unwrap();
    assert_eq!(files.copy_to(&id, &tables, true).unwrap(), Copied::New);
    assert_eq!(files.copy_to(&id, &tables, true).unwrap(), Copied::Same);
    assert_eq!(
        tables.copy_to(&id, &files_again, true).unwrap(),
        Copied::New
    );
    assert_eq!(std::fs::read(path(back.path())).unwrap(), bytes);
    // The torn end is cut off where the session goes on.
    let mut opened = tables.open_log(&id).unwrap();
    assert!(opened.kept_aside.is_some());
    opened
        .log
        .append(Kind::Update, None, &update("more"), Sync::Turn)
        .unwrap();
    drop(opened);
    assert_eq!(
        texts_with_damage(&tables, &id).last().unwrap(),
        &update("more")
    );
    assert_eq!(
        files_again.copy_to(&id, &tables, true).unwrap(),
        Copied::Differs
    );
    let short = std::fs::read(path(here.path())).unwrap();
    let whole = short.len() - b"{\"crc\":\"0000".len();
    std::fs::write(path(back.path()), &short[..whole]).unwrap();
    assert_eq!(
        tables.copy_to(&id, &files_again, true).unwrap(),
        Copied::Continued
    );
}

fn texts_with_damage(store: &Store, id: &SessionId) -> Vec<String> {
    let mut reader = store.read(id).unwrap();
    let mut texts = Vec::new();
    while let Some(entry) = reader.next().unwrap() {
        texts.push(entry.record.payload.to_owned());
    }
    texts
}

#[test]
fn without_tables_it_says_what_to_do() {
    let Some(place) = cluster::place() else {
        return;
    };
    let store = Store::at(&place, Sys::real(), Durability::Turn);
    assert!(!store.is_there().unwrap());
    let error = store.prepare().unwrap_err().to_string();
    assert!(error.contains("rejoin store migrate --store"), "{error}");
    assert!(Store::migrate(&place, &Sys::real()).unwrap());
    assert!(!Store::migrate(&place, &Sys::real()).unwrap());
    store.prepare().unwrap();
}
