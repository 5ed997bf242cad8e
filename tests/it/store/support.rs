//! A store on a simulated disk, and what the tests of it look at.

use std::path::{Path, PathBuf};

use rejoin::record::{Header, Kind, line};
use rejoin::store::{Durability, Log, LogReader, Store, StoreError, Sync};
use rejoin::sys::sim::SimDisk;
use rejoin::sys::{SessionId, Timestamp};

pub(super) const PROMPT: &str = r#"{"prompt":[{"type":"text","text":"hello"}]}"#;
pub(super) const CHUNK: &str =
    r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"hé\u0000\n"}}"#;
pub(super) const CALL: &str =
    r#"{"sessionUpdate":"tool_call","toolCallId":"call_1","title":"Run","status":"in_progress"}"#;
pub(super) const DONE: &str =
    r#"{"sessionUpdate":"tool_call_update","toolCallId":"call_1","status":"completed"}"#;
pub(super) const END: &str = r#"{"stopReason":"end_turn"}"#;
pub(super) const INTERRUPTED: &str = r#"{"interrupted":"the process ended during this turn"}"#;

/// A record that outlives its reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owned {
    pub(super) seq: u64,
    pub(super) kind: Kind,
    pub(super) id: Option<String>,
    pub(super) payload: String,
}

pub(super) fn id() -> SessionId {
    SessionId::parse("sess_01902f3c-7b1e-7c3a-8f00-000000000001").unwrap()
}

pub(super) fn root() -> &'static Path {
    Path::new("/data/rejoin")
}

pub(super) fn log_path() -> PathBuf {
    root().join(format!("sessions/{}.jsonl", id()))
}

pub(super) fn header() -> Header {
    Header::new(&id(), "/w")
}

pub(super) fn store(disk: &SimDisk) -> Store {
    store_with(disk, Durability::Turn)
}

pub(super) fn store_with(disk: &SimDisk, durability: Durability) -> Store {
    Store::open(root(), disk.sys(), durability).unwrap()
}

/// A store whose one session has these bytes.
pub(super) fn store_of(bytes: &[u8]) -> (SimDisk, Store) {
    let disk = SimDisk::new();
    disk.put(&log_path(), bytes);
    let store = store(&disk);
    (disk, store)
}

/// The bytes of the session.
pub(super) fn bytes(disk: &SimDisk) -> Vec<u8> {
    disk.bytes(&log_path()).unwrap()
}

/// Everything in the trash: names and bytes.
pub(super) fn trash(disk: &SimDisk) -> Vec<(String, Vec<u8>)> {
    let files = disk.files().into_iter();
    files
        .filter(|path| path.starts_with(root().join("trash")))
        .map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, disk.bytes(&path).unwrap())
        })
        .collect()
}

pub(super) fn read(store: &Store) -> Vec<Owned> {
    rest(&mut store.read(&id()).unwrap())
}

pub(super) fn rest(reader: &mut LogReader) -> Vec<Owned> {
    let mut records = Vec::new();
    while let Some(entry) = reader.next().unwrap() {
        let record = entry.record;
        assert!(entry.offset < entry.end);
        records.push(Owned {
            seq: record.seq,
            kind: record.kind,
            id: record.id.map(str::to_owned),
            payload: record.payload.to_owned(),
        });
    }
    records
}

pub(super) fn kinds(records: &[Owned]) -> Vec<Kind> {
    records.iter().map(|record| record.kind).collect()
}

pub(super) fn add(log: &mut Log, kind: Kind, payload: &str) -> Result<u64, StoreError> {
    let id = (kind == Kind::Prompt).then_some("msg_1");
    let sync = match kind {
        Kind::End => Sync::Turn,
        _ => Sync::Buffered,
    };
    log.append(kind, id, payload, sync)
        .map(|appended| appended.seq)
}

/// The line of a record.
pub(super) fn line(seq: u64, kind: Kind, payload: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let id = (kind == Kind::Prompt).then_some("msg_1");
    line::encode(&mut out, seq, Timestamp::from_millis(0), kind, id, payload);
    out
}

/// The lines of a session: a finished turn, then one that is still open.
pub(super) fn sample() -> Vec<Vec<u8>> {
    let header = serde_json::to_string(&header()).unwrap();
    [
        (Kind::Session, header.as_str()),
        (Kind::Prompt, PROMPT),
        (Kind::Update, CHUNK),
        (Kind::Update, CALL),
        (Kind::Update, DONE),
        (Kind::End, END),
        (Kind::Prompt, PROMPT),
        (Kind::Update, CALL),
        (Kind::Update, CHUNK),
    ]
    .into_iter()
    .zip(0..)
    .map(|((kind, payload), seq)| line(seq, kind, payload))
    .collect()
}

/// The records of [`sample`].
pub(super) fn sample_records() -> Vec<Owned> {
    let (_disk, store) = store_of(&sample().concat());
    read(&store)
}
