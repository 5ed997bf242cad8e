//! Files that are almost logs, or nothing like one: whatever is read from them was once written.

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use rejoin::record::header::Header;
use rejoin::record::{Kind, line};
use rejoin::store::{Durability, Store, StoreError, Sync};
use rejoin::sys::sim::SimDisk;
use rejoin::sys::{SessionId, Timestamp};

use super::cases;
use super::mutate::{mutated, mutations};
use crate::support::systems::FOLDER;

const ID: &str = "sess_01902f3c-7b1e-7c3a-8f00-000000000001";

const UPDATE: &str = r#"{"sessionUpdate":"x"}"#;

/// Kind, id and payload of a record.
type Written = (Kind, Option<&'static str>, String);

fn id() -> SessionId {
    SessionId::parse(ID).unwrap()
}

fn root() -> &'static Path {
    Path::new("/store")
}

fn path() -> PathBuf {
    root().join(format!("sessions/{ID}.jsonl"))
}

fn records() -> impl Strategy<Value = Vec<Written>> {
    let text = prop_oneof![
        any::<String>(),
        // What a payload has when the conversation is about logs.
        Just(r#"{"crc":"1c291ca3","seq":7,"at":"2026-11-21T08:30:00.123Z","kind":"update","payload":{}}"#.to_owned()),
        (0usize..30_000).prop_map(|len| "long ".repeat(len / 5)),
    ];
    let update = text.prop_map(|text| serde_json::json!({ "sessionUpdate": "x", "text": text }));
    let one = prop_oneof![
        6 => update.prop_map(|update| (Kind::Update, None, update.to_string())),
        1 => Just((Kind::Prompt, Some("msg_1"), r#"{"prompt":[]}"#.to_owned())),
        1 => Just((Kind::End, None, r#"{"stopReason":"end_turn"}"#.to_owned())),
        1 => Just((Kind::Reopen, None, r#"{"cwd":"/x"}"#.to_owned())),
    ];
    prop::collection::vec(one, 0..12)
}

/// The bytes of a log of these records, header included.
fn log(records: &[Written]) -> (Vec<u8>, Vec<Written>) {
    let header = Header::new(&id(), FOLDER);
    let header = serde_json::to_string(&header).unwrap();
    let mut all = vec![(Kind::Session, None, header)];
    all.extend_from_slice(records);
    let mut bytes = Vec::new();
    for (seq, (kind, id, payload)) in all.iter().enumerate() {
        let at = Timestamp::from_millis(1_795_250_000_000);
        line::encode(&mut bytes, seq as u64, at, *kind, *id, payload);
    }
    (bytes, all)
}

/// Reads a file as a session's log in every way there is, then goes on with it.
fn check(bytes: &[u8], written: &[Written]) -> Result<(), TestCaseError> {
    let disk = SimDisk::new();
    disk.put(&path(), bytes);
    let store = Store::open(root(), disk.sys(), Durability::Turn).unwrap();
    let known = |kind: Kind, seq: u64, id: Option<&str>, payload: &str| {
        let at = usize::try_from(seq).unwrap();
        let there = written.get(at);
        there.is_some_and(|there| there.0 == kind && there.1 == id && there.2 == payload)
    };
    let mut reader = match store.read(&id()) {
        Ok(reader) => reader,
        Err(error) => {
            let refused = matches!(
                error,
                StoreError::Headerless { .. }
                    | StoreError::WrongId { .. }
                    | StoreError::Newer { .. }
            );
            prop_assert!(refused, "{}", error);
            prop_assert!(store.open_log(&id()).is_err());
            prop_assert_eq!(
                disk.bytes(&path()).unwrap(),
                bytes,
                "a reader does not write"
            );
            return Ok(());
        }
    };
    let scan = reader.scan().unwrap();
    let mut count = 0;
    let mut end = 0;
    while let Some(entry) = reader.next().unwrap() {
        count += 1;
        prop_assert!(
            entry.offset >= end && entry.end > entry.offset,
            "going round"
        );
        end = entry.end;
        let record = entry.record;
        prop_assert!(
            known(record.kind, record.seq, record.id, record.payload),
            "made up: {:?}",
            record
        );
    }
    prop_assert_eq!(count, scan.records);
    prop_assert!(end <= bytes.len() as u64 + 1);
    for report in reader.damage() {
        prop_assert!(
            report.offset + report.len <= bytes.len() as u64 + 1,
            "{}",
            report
        );
    }

    let mut opened = store.open_log(&id()).unwrap();
    let now = disk.bytes(&path()).unwrap();
    let kept = bytes.len()
        - scan
            .torn
            .map_or(0, |torn| usize::try_from(torn.len).unwrap());
    prop_assert!(now.starts_with(&bytes[..kept]), "what is no torn end stays");
    let appended = opened
        .log
        .append(Kind::Update, None, UPDATE, Sync::Turn)
        .unwrap();
    prop_assert!(appended.seq >= opened.scan.next_seq);
    drop(opened);
    let mut reader = store.read(&id()).unwrap();
    reader.seek(appended.offset);
    let last = reader.next().unwrap().unwrap().record;
    prop_assert_eq!((last.seq, last.payload), (appended.seq, UPDATE));
    prop_assert!(reader.next().unwrap().is_none());
    let again = store.open_log(&id()).unwrap();
    prop_assert!(again.kept_aside.is_none(), "recovered once");
    Ok(())
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn damage_makes_up_no_record(records in records(), mutations in mutations()) {
        let (bytes, written) = log(&records);
        check(&bytes, &written)?;
        check(&mutated(&bytes, &mutations), &written)?;
    }

    #[test]
    fn any_bytes_after_a_header_are_read(
        bytes in prop::collection::vec(any::<u8>(), 0..3000),
        with_header in any::<bool>(),
    ) {
        let (header, written) = log(&[]);
        let bytes = if with_header { [header, bytes].concat() } else { bytes };
        check(&bytes, &written)?;
    }

    #[test]
    fn a_line_is_a_record_or_damaged(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        mutations in mutations(),
    ) {
        prop_assert!(line::decode(&bytes).is_err());
        let (good, _) = log(&[]);
        let good = good.strip_suffix(b"\n").unwrap();
        let bad = mutated(good, &mutations);
        prop_assert_eq!(line::decode(&bad).is_ok(), bad == good);
    }
}
