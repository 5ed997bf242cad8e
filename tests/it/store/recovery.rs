//! Turns that a crash left open.

use rejoin::record::Kind;
use rejoin::store::Store;
use rejoin::sys::sim::{Fault, SimDisk, Tail};
use serde_json::Value;

use super::support::*;

/// A store whose one session has these records behind its header.
fn session(records: &[(Kind, &str)]) -> (SimDisk, Store) {
    let mut content = sample()[0].clone();
    for ((kind, payload), seq) in records.iter().zip(1..) {
        content.extend(line(seq, *kind, payload));
    }
    store_of(&content)
}

/// What opening the session for writing appends.
fn appended(records: &[(Kind, &str)]) -> Vec<(Kind, Value)> {
    let (disk, store) = session(records);
    let opened = store.open_log(&id()).unwrap();
    assert!(!opened.scan.turn_open);
    assert_eq!(opened.scan.end, opened.log.end());
    assert_eq!(opened.log.end(), bytes(&disk).len() as u64);
    drop(opened);
    let after = read(&store);
    let next = store.open_log(&id()).unwrap().scan.next_seq;
    assert_eq!(read(&store), after, "recovery happens once");
    assert_eq!(next, after.len() as u64);
    after[records.len() + 1..]
        .iter()
        .map(|record| (record.kind, serde_json::from_str(&record.payload).unwrap()))
        .collect()
}

fn end() -> (Kind, Value) {
    (Kind::End, serde_json::from_str(INTERRUPTED).unwrap())
}

fn failed(call: &str) -> (Kind, Value) {
    let text = "Interrupted: the agent process ended before this tool call did.";
    let content = serde_json::json!([
        {"type": "content", "content": {"type": "text", "text": text}}
    ]);
    (
        Kind::Update,
        serde_json::json!({
            "sessionUpdate": "tool_call_update",
            "toolCallId": call,
            "status": "failed",
            "content": content,
        }),
    )
}

#[test]
fn an_open_turn_is_closed_and_a_closed_one_is_not() {
    let prompt = (Kind::Prompt, PROMPT);
    let (chunk, call, done) = (
        (Kind::Update, CHUNK),
        (Kind::Update, CALL),
        (Kind::Update, DONE),
    );
    let finish = (Kind::End, END);
    assert_eq!(appended(&[]), []);
    assert_eq!(appended(&[prompt, chunk, finish]), []);
    assert_eq!(appended(&[prompt, call, finish, chunk]), []);
    assert_eq!(appended(&[prompt]), [end()]);
    assert_eq!(appended(&[prompt, call, done, chunk]), [end()]);
    assert_eq!(appended(&[prompt, chunk, call]), [failed("call_1"), end()]);
    // Only the last turn counts: what an earlier one left open was left so by its own end.
    assert_eq!(appended(&[prompt, call, finish, prompt]), [end()]);
    let wrapped = format!(r#"{{"_meta":{{"x":1}},"update":{CALL}}}"#);
    let other = CALL.replace("call_1", "call_2");
    let two = [
        prompt,
        (Kind::UpdateParams, &wrapped),
        (Kind::Update, &other),
    ];
    assert_eq!(appended(&two), [failed("call_1"), failed("call_2"), end()]);
}

#[test]
fn recovery_that_dies_half_way_is_finished_by_the_next() {
    let (disk, _) = session(&[(Kind::Prompt, PROMPT), (Kind::Update, CALL)]);
    let start = disk.crash();
    let first = store(&start);
    let before = start.operations();
    drop(first.open_log(&id()).unwrap());
    let whole = bytes(&start);
    for n in before..start.operations() {
        for fault in [
            Fault::Error(std::io::ErrorKind::StorageFull),
            Fault::TornWrite(std::io::ErrorKind::StorageFull),
        ] {
            let disk = disk.crash();
            let store = store(&disk);
            disk.fail_at(n, fault);
            let outcome = store.open_log(&id()).map(drop);
            let after = disk.crash();
            drop(self::store(&after).open_log(&id()).unwrap());
            let kinds = kinds(&read(&self::store(&after)));
            let expected = [
                Kind::Session,
                Kind::Prompt,
                Kind::Update,
                Kind::Update,
                Kind::End,
            ];
            assert_eq!(kinds, expected, "operation {n}, {fault:?}: {outcome:?}");
            assert_eq!(bytes(&after).len(), whole.len());
        }
    }
}

#[test]
fn torn_bytes_are_somewhere_whatever_happens() {
    let whole = sample()[0].clone();
    let torn = &line(1, Kind::Prompt, PROMPT)[..90];
    let (start, _) = store_of(&[&whole, torn].concat());
    let start = start.power_cut(Tail::Lost);
    let check = |disk: &SimDisk, what: &str| {
        let kept = trash(disk).into_iter().any(|(_, bytes)| bytes == torn);
        assert!(kept || bytes(disk).ends_with(torn), "{what}");
    };
    let counting = start.crash();
    let fresh = store(&counting);
    let first = counting.operations();
    assert!(fresh.open_log(&id()).unwrap().kept_aside.is_some());
    assert_eq!(bytes(&counting), whole);
    for n in first..counting.operations() {
        for fault in [
            Fault::Error(std::io::ErrorKind::Other),
            Fault::ShortWrite,
            Fault::TornWrite(std::io::ErrorKind::StorageFull),
            Fault::Sync(std::io::ErrorKind::Other),
        ] {
            let disk = start.crash();
            let store = store(&disk);
            disk.fail_at(n, fault);
            let outcome = store.open_log(&id()).map(|mut opened| opened.log.sync());
            let what = format!("operation {n}, {fault:?}: {outcome:?}");
            check(&disk.crash(), &what);
            check(&disk.power_cut(Tail::Lost), &what);
        }
    }
}
