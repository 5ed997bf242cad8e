//! Turns that a crash left open.

use rejoin::record::{Kind, line};
use rejoin::store::Store;
use rejoin::sys::Timestamp;
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
    assert!(!opened.scan.turn_open());
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
fn calls_that_began_outside_of_a_turn_are_closed() {
    let call = |id: &str, status: &str| {
        format!(
            r#"{{"sessionUpdate":"tool_call","toolCallId":"{id}","title":"t","status":"{status}"}}"#
        )
    };
    let (late, other, done) = (
        call("late", "pending"),
        call("own", "pending"),
        call("late", "completed"),
    );
    let prompt = (Kind::Prompt, PROMPT);
    let ended = (Kind::End, r#"{"stopReason":"end_turn"}"#);
    let (late, other, done) = (
        (Kind::Update, &*late),
        (Kind::Update, &*other),
        (Kind::Update, &*done),
    );
    // One that a turn left open when it ended is that turn's affair.
    assert_eq!(appended(&[prompt, other, ended]), []);
    assert_eq!(appended(&[prompt, other, ended, late]), [failed("late")]);
    assert_eq!(appended(&[prompt, ended, late, done]), []);
    assert_eq!(appended(&[prompt, ended, late, prompt, done, ended]), []);
    assert_eq!(
        appended(&[prompt, ended, late, prompt, other, ended]),
        [failed("late")]
    );
    assert_eq!(
        appended(&[prompt, ended, late, prompt, other]),
        [failed("late"), failed("own"), end()]
    );
}

#[test]
fn recovery_closes_open_turns_only() {
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
fn interrupted_recovery_is_finished_by_the_next() {
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
fn torn_bytes_are_kept() {
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

/// Lines of records, each a second after the one before, with the ids that are given.
fn lines(records: &[(Kind, Option<&str>, &str)]) -> Vec<u8> {
    let mut out = sample()[0].clone();
    for ((kind, id, payload), seq) in records.iter().zip(1..) {
        let at = Timestamp::from_millis(seq * 1000);
        line::encode(&mut out, seq.unsigned_abs(), at, *kind, *id, payload);
    }
    out
}

#[test]
fn all_open_turns_are_closed_at_the_time_of_the_last_record() {
    const A: Option<&str> = Some("msg_a");
    const B: Option<&str> = Some("msg_b");
    const C: Option<&str> = Some("msg_c");
    let begun = [
        (Kind::Prompt, A, PROMPT),
        (Kind::Update, None, CALL),
        (Kind::Prompt, B, PROMPT),
        (Kind::Prompt, C, PROMPT),
        (Kind::Update, None, CHUNK),
    ];
    for (ended, expected, closed) in [
        (vec![], vec![A, B, C], 1),
        (vec![B], vec![A, C], 1),
        // What is left alone needs no id, and the call began before it.
        (vec![C, A], vec![None], 0),
    ] {
        let mut records = begun.to_vec();
        records.extend(ended.iter().map(|id| (Kind::End, *id, END)));
        let (_disk, store) = store_of(&lines(&records));
        let opened = store.open_log(&id()).unwrap();
        let last = Timestamp::from_millis(1000 * i64::try_from(records.len()).unwrap()).to_string();
        assert_eq!(opened.scan.updated_at.as_ref(), Some(&last));
        assert!(opened.scan.interrupted && !opened.scan.turn_open());
        drop(opened);
        let mut reader = store.read(&id()).unwrap();
        let (mut count, mut ends, mut calls) = (0, Vec::new(), 0);
        while let Some(entry) = reader.next().unwrap() {
            count += 1;
            if count > records.len() + 1 {
                assert_eq!(entry.record.at, last);
                match entry.record.kind {
                    Kind::End => ends.push(entry.record.id.map(str::to_owned)),
                    _ => calls += 1,
                }
            }
        }
        let expected: Vec<_> = expected.iter().map(|id| id.map(str::to_owned)).collect();
        assert_eq!((ends, calls), (expected, closed));
        let scan = store.read(&id()).unwrap().scan().unwrap();
        assert_eq!(scan.updated_at, Some(last));
        assert!(!scan.turn_open());
    }
}

#[test]
fn calls_of_version_2_are_closed_in_the_form_of_both_versions() {
    let prompt = (Kind::Prompt, PROMPT);
    let call = |id: &str, status: &str| {
        format!(
            r#"{{"update":{{"sessionUpdate":"tool_call_update","toolCallId":"{id}","status":{status}}},"_meta":{{}}}}"#
        )
    };
    let (a, b, done) = (
        call("a", "null"),
        call("b", "\"paused\""),
        call("a", "\"completed\""),
    );
    let (a, b, done) = (
        (Kind::UpdateV2, &*a),
        (Kind::UpdateV2, &*b),
        (Kind::UpdateV2, &*done),
    );
    assert_eq!(appended(&[prompt, a, b]), [failed("a"), failed("b"), end()]);
    assert_eq!(appended(&[prompt, a, b, done]), [failed("b"), end()]);
    let ended = (Kind::End, r#"{"stopReason":"end_turn"}"#);
    assert_eq!(appended(&[prompt, ended, b]), [failed("b")]);
    let about = r#"{"update":{"sessionUpdate":"subagent_update","sessionId":"t","state":{"state":"running"}}}"#;
    let inside = r#"{"sessionId":"t","update":{"sessionUpdate":"tool_call_update","toolCallId":"c","title":"T"}}"#;
    let closed = appended(&[prompt, (Kind::UpdateV2, about), (Kind::SubagentV2, inside)]);
    let closed: Vec<_> = closed.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(closed, [Kind::Subagent, Kind::Update, Kind::End]);
}
