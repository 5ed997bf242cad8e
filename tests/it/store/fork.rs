//! Forking: a copy that is whole or not there at all, whatever the disk does.

use std::io::ErrorKind;

use rejoin::record::header::ForkedFrom;
use rejoin::record::{AgentPlace, AgentSessionId, Header, Kind, Places};
use rejoin::store::{Durability, ForkError, ForkPoint, Forked, LogReader, Store, StoreError, Sync};
use rejoin::sys::SessionId;
use rejoin::sys::sim::{Fault, SimDisk, Tail};

use super::support::*;

const INNER: &str = r#"{"id":"i1","agent":{"name":"a"},"how":"new"}"#;
const REOPEN: &str = r#"{"cwd":"/elsewhere","additionalDirectories":[],"mcpServers":[]}"#;
const TITLE: &str = r#"{"sessionUpdate":"session_info_update","title":"Named"}"#;

fn fork_id() -> SessionId {
    SessionId::parse("sess_01902f3c-7b1e-7c3a-8f00-000000000002").unwrap()
}

fn fork_header() -> Header {
    Header {
        session_id: fork_id().to_string(),
        forked_from: Some(ForkedFrom {
            session_id: id().to_string(),
            message_id: None,
            cursor_id: None,
        }),
        ..header()
    }
}

fn never() -> bool {
    false
}

fn fork(store: &Store, source: &mut LogReader, at: Option<&str>) -> Result<Forked, ForkError> {
    let at = at.map(|id| ForkPoint::Message(id.to_owned()));
    store.fork(source, &fork_id(), &fork_header(), at.as_ref(), &never)
}

/// A session with everything in it: two turns, and perhaps a third that has not ended.
fn source(open: bool) -> Vec<u8> {
    let header = serde_json::to_string(&header()).unwrap();
    let mut records = vec![
        (Kind::Session, header.as_str()),
        (Kind::AgentSessionId, INNER),
        (Kind::Prompt, PROMPT),
        (Kind::Update, CHUNK),
        (Kind::End, END),
        (Kind::Info, TITLE),
        (Kind::Reopen, REOPEN),
        (Kind::Unknown, "{}"),
        (Kind::Prompt, PROMPT),
        (Kind::Transient, CHUNK),
        (Kind::Update, CALL),
        (Kind::Ask, "{}"),
        (Kind::Answer, "{}"),
        (Kind::Output, DONE),
        (Kind::End, END),
    ];
    if open {
        records.extend([(Kind::Prompt, PROMPT), (Kind::Update, CALL)]);
    }
    let records = records.into_iter().zip(0..);
    let lines = records.map(|((kind, payload), seq)| line(seq, kind, payload));
    lines.collect::<Vec<_>>().concat()
}

/// What a fork of it has behind its header.
fn copied() -> Vec<(Kind, String)> {
    let kept = [
        (
            Kind::AgentSessionId,
            r#"{"agent":{"name":"a"},"how":"new"}"#,
        ),
        (Kind::Prompt, PROMPT),
        (Kind::Update, CHUNK),
        (Kind::End, END),
        (Kind::Info, TITLE),
        (Kind::Prompt, PROMPT),
        (Kind::Transient, CHUNK),
        (Kind::Update, CALL),
        (Kind::Ask, "{}"),
        (Kind::Answer, "{}"),
        (Kind::Output, DONE),
        (Kind::End, END),
    ];
    kept.map(|(kind, payload)| (kind, payload.to_owned()))
        .to_vec()
}

fn of(store: &Store, id: &SessionId) -> Vec<Owned> {
    rest(&mut store.read(id).unwrap())
}

fn payloads(records: &[Owned]) -> Vec<(Kind, String)> {
    let records = records.iter().skip(1);
    records
        .map(|record| (record.kind, record.payload.clone()))
        .collect()
}

#[test]
fn fork_copies_finished_turns() {
    let (disk, store) = store_of(&source(false));
    let mut reader = store.read(&id()).unwrap();
    let mut forked = fork(&store, &mut reader, None).unwrap();
    let records = of(&store, &fork_id());
    assert_eq!(payloads(&records), copied());
    assert!(
        records
            .iter()
            .zip(0..)
            .all(|(record, seq)| record.seq == seq)
    );
    assert_eq!(bytes(&disk), source(false), "the source is left alone");
    assert_eq!(trash(&disk), []);

    let scan = &forked.scan;
    assert_eq!((scan.prompts.len(), scan.turn_open()), (2, false));
    assert_eq!(scan.titles.title(), Some("Named"));
    assert_eq!(
        scan.workspace.cwd, "/w",
        "where the source worked counts no more"
    );
    assert_eq!(scan.updated_at.as_deref(), Some("1970-01-01T00:00:00.000Z"));
    assert_eq!(scan.agent_ids, []);
    let inner = AgentSessionId {
        agent: "a".to_owned(),
        id: "i1".to_owned(),
    };
    let origin = AgentPlace {
        session: inner,
        cursor: None,
    };
    assert_eq!(forked.origin, Some(origin));

    let appended = forked.log.append(Kind::Prompt, None, PROMPT, Sync::Turn);
    assert_eq!(appended.unwrap().seq, records.len() as u64);
    drop(forked);
    assert_eq!(store.read(&fork_id()).unwrap().scan().unwrap().damage, []);
}

#[test]
fn fork_omits_running_turn_and_closes_interrupted_turn() {
    let disk = SimDisk::new();
    let store = store(&disk);
    let mut at_work = store.create(&id(), &header()).unwrap();
    for (kind, payload) in copied() {
        add(&mut at_work, kind, &payload).unwrap();
    }
    add(&mut at_work, Kind::Prompt, PROMPT).unwrap();
    add(&mut at_work, Kind::Update, CALL).unwrap();
    let before = bytes(&disk);

    let mut reader = store.read(&id()).unwrap();
    let forked = fork(&store, &mut reader, None).unwrap();
    assert_eq!(payloads(&of(&store, &fork_id())), copied());
    assert_eq!(forked.origin, None, "the agent knows more than that");
    assert!(!forked.scan.turn_open());
    drop(forked);
    assert!(store.trash(&fork_id()).unwrap());

    drop(at_work);
    let mut reader = store.read(&id()).unwrap();
    let forked = fork(&store, &mut reader, None).unwrap();
    let records = of(&store, &fork_id());
    let end = [Kind::Prompt, Kind::Update, Kind::Update, Kind::End];
    assert!(kinds(&records).ends_with(&end), "{records:?}");
    let last = records.last().unwrap();
    assert_eq!(last.payload, INTERRUPTED);
    assert!(!forked.scan.turn_open());
    assert_eq!(bytes(&disk), before, "the source is left as it is");
}

#[test]
fn failed_fork_leaves_nothing() {
    let (disk, store) = store_of(&source(false));
    let mut reader = store.read(&id()).unwrap();
    let unknown = fork(&store, &mut reader, Some("m")).unwrap_err();
    assert!(matches!(unknown, ForkError::ForkPointNotFound));
    let mut reader = store.read(&id()).unwrap();
    let gone = store.fork(&mut reader, &fork_id(), &fork_header(), None, &|| true);
    assert!(matches!(gone, Err(ForkError::Cancelled)));
    assert!(!store.exists(&fork_id()).unwrap());
    assert_eq!(trash(&disk), []);
    let mut reader = store.read(&id()).unwrap();
    drop(fork(&store, &mut reader, None).unwrap());
    let mut reader = store.read(&id()).unwrap();
    let again = fork(&store, &mut reader, None);
    assert!(matches!(
        again,
        Err(ForkError::Store(StoreError::Exists { .. }))
    ));
    assert_eq!(payloads(&of(&store, &fork_id())), copied());
}

#[test]
fn fork_of_long_log() {
    let disk = SimDisk::new();
    let store = store(&disk);
    let long = format!(r#"{{"sessionUpdate":"x","t":"{}"}}"#, "x".repeat(50_000));
    let mut at_work = store.create(&id(), &header()).unwrap();
    for _ in 0..7 {
        for (kind, payload) in [
            (Kind::Prompt, PROMPT),
            (Kind::Update, long.as_str()),
            (Kind::End, END),
        ] {
            add(&mut at_work, kind, payload).unwrap();
        }
    }
    // What is behind is copied in vain.
    add(&mut at_work, Kind::Prompt, PROMPT).unwrap();
    for _ in 0..20 {
        add(&mut at_work, Kind::Update, &long).unwrap();
    }
    let mut reader = store.read(&id()).unwrap();
    drop(fork(&store, &mut reader, None).unwrap());
    let (all, forked) = (read(&store), of(&store, &fork_id()));
    assert!(forked[1..] == all[1..22], "the fork differs");
    assert_eq!(forked.len(), 22);
}

#[test]
fn fork_is_atomic_under_any_failure() {
    let make = || {
        let (disk, store) = store_of(&source(true));
        disk.put(&root().join("sessions/.keep"), b"");
        (disk, store)
    };
    let tried = |durability| {
        let (disk, _) = make();
        let before = disk.operations();
        let store = store_with(&disk, durability);
        let mut reader = store.read(&id()).unwrap();
        drop(fork(&store, &mut reader, None).unwrap());
        disk.operations() - before
    };
    for durability in Durability::ALL {
        let operations = tried(durability);
        let mut failed = 0;
        for n in 0..operations {
            for fault in [
                Fault::Error(ErrorKind::Other),
                Fault::ShortWrite,
                Fault::TornWrite(ErrorKind::StorageFull),
                Fault::Sync(ErrorKind::Other),
            ] {
                let what = format!("{durability}, operation {n}, {fault:?}");
                let (disk, _) = make();
                disk.fail_at(disk.operations() + n, fault);
                let opened = Store::open(root(), disk.sys(), durability);
                let reader = opened.and_then(|store| Ok((store.read(&id())?, store)));
                let Ok((mut reader, store)) = reader else {
                    continue;
                };
                let done = fork(&store, &mut reader, None).map(drop);
                failed += usize::from(done.is_err());
                check(&disk.crash(), done.is_ok(), done.is_err(), &what);
                for tail in [Tail::Lost, Tail::Torn, Tail::Zeroed] {
                    let safe = done.is_ok() && durability != Durability::Os;
                    check(
                        &disk.power_cut(tail),
                        safe,
                        false,
                        &format!("{what}, {tail:?}"),
                    );
                }
            }
        }
        assert!(failed > 10, "{durability}: the failures were met: {failed}");
    }
}

/// A fork that was reported is there, one that failed is not, and every fork is whole.
fn check(disk: &SimDisk, must: bool, must_not: bool, what: &str) {
    let store = store(disk);
    let source = of(&store, &id());
    assert_eq!(source.len(), 17, "{what}: the source is as it was");
    let there = store.exists(&fork_id()).unwrap();
    assert!(there || !must, "{what}: it is missing");
    assert!(!(there && must_not), "{what}: it failed and is there");
    if there && must {
        let mut forked = store.open_log(&fork_id()).expect(what);
        assert_eq!(forked.scan.damage, [], "{what}");
        let records = of(&store, &fork_id());
        assert!(payloads(&records).starts_with(&copied()), "{what}");
        assert_eq!(records.len(), copied().len() + 5, "{what}");
        add(&mut forked.log, Kind::Prompt, PROMPT).expect(what);
    }
}

#[test]
fn fork_of_overlapping_turns() {
    let overlapping: [(Kind, Option<&str>, &str); 6] = [
        (Kind::Prompt, Some("msg_a"), PROMPT),
        (Kind::Update, None, CALL),
        (Kind::Prompt, Some("msg_b"), PROMPT),
        (Kind::Update, None, CHUNK),
        (Kind::End, Some("msg_b"), END),
        (Kind::Update, None, CHUNK),
    ];
    let disk = SimDisk::new();
    let store = store(&disk);
    let mut at_work = store.create(&id(), &header()).unwrap();
    for (kind, payload) in copied() {
        add(&mut at_work, kind, &payload).unwrap();
    }
    for (kind, id, payload) in overlapping {
        at_work.append(kind, id, payload, Sync::Buffered).unwrap();
    }
    // What follows the prompt that is being answered may be its answer.
    let forked = fork(&store, &mut store.read(&id()).unwrap(), None).unwrap();
    assert_eq!(payloads(&of(&store, &fork_id())), copied());
    drop(forked);
    assert!(store.trash(&fork_id()).unwrap());
    let mut reader = store.read(&id()).unwrap();
    let refused = fork(&store, &mut reader, Some("msg_b")).unwrap_err();
    assert!(matches!(refused, ForkError::ForkPointNotFound));

    drop(at_work);
    // After a crash, and at a message: what is open there is closed.
    for (at, ends) in [
        (None, vec![Some("msg_b"), None]),
        (Some("msg_b"), vec![Some("msg_a"), Some("msg_b")]),
    ] {
        let forked = fork(&store, &mut store.read(&id()).unwrap(), at).unwrap();
        assert!(!forked.scan.turn_open());
        let records = of(&store, &fork_id());
        let behind = records.iter().skip(copied().len() + 1);
        let found = behind.filter(|record| record.kind == Kind::End);
        let found: Vec<_> = found.map(|record| record.id.as_deref()).collect();
        assert_eq!(found, ends);
        drop(forked);
        assert!(store.trash(&fork_id()).unwrap());
    }
}

#[test]
fn fork_ends_subagents() {
    const ANNOUNCED: &str =
        r#"{"sessionUpdate":"subagent_update","sessionId":"child","state":{"state":"running"}}"#;
    let call = format!(r#"{{"sessionId":"child","update":{CALL}}}"#);
    let disk = SimDisk::new();
    let store = store(&disk);
    let mut at_work = store.create(&id(), &header()).unwrap();
    let turn = [
        (Kind::Prompt, PROMPT),
        (Kind::Update, ANNOUNCED),
        (Kind::Subagent, call.as_str()),
        (Kind::End, END),
    ];
    for (kind, payload) in turn {
        add(&mut at_work, kind, payload).unwrap();
    }

    let mut reader = store.read(&id()).unwrap();
    let forked = fork(&store, &mut reader, None).unwrap();
    assert!(forked.scan.open_subagents.is_empty());
    let records = payloads(&of(&store, &fork_id()));
    let (copy, closed) = records.split_at(turn.len());
    let own = SessionId::of_foreign(fork_id().as_str(), "child");
    let renamed = |payload: &str| payload.replace("child", own.as_str());
    assert_eq!(copy, turn.map(|(kind, payload)| (kind, renamed(payload))));
    let [(Kind::Subagent, failed), (Kind::Update, ended)] = closed else {
        panic!("{closed:?}");
    };
    assert!(failed.contains(r#""status":"failed""#), "{failed}");
    assert_eq!(ended, &renamed(ANNOUNCED).replace("running", "unknown"));

    // The original is closed when it is opened again, in the same way.
    drop(at_work);
    drop(store.open_log(&id()).unwrap());
    let kinds = kinds(&of(&store, &id()));
    assert!(kinds.ends_with(&[Kind::End, Kind::Subagent, Kind::Update]));
}

/// The places of the source, by the numbers of their records.
fn cursors(store: &Store) -> Vec<(u64, String)> {
    let mut places = Places::new(id().as_str());
    let mut reader = store.read(&id()).unwrap();
    let mut found = Vec::new();
    while let Some(entry) = reader.next().unwrap() {
        let place = places.record(&entry.record);
        found.extend(place.map(|place| (place.cursor.seq, place.cursor.to_string())));
    }
    found
}

fn fork_at(store: &Store, cursor: &str) -> Result<Forked, ForkError> {
    let at = ForkPoint::Cursor(cursor.to_owned());
    let mut reader = store.read(&id()).unwrap();
    store.fork(&mut reader, &fork_id(), &fork_header(), Some(&at), &never)
}

#[test]
fn a_fork_ends_at_its_cursor_and_the_agent_knows_it_only_at_the_end() {
    for open in [false, true] {
        let (_, store) = store_of(&source(open));
        let found = cursors(&store);
        let seqs: Vec<_> = found.iter().map(|(seq, _)| *seq).collect();
        assert_eq!(
            seqs,
            if open {
                &[2, 4, 8, 14, 15][..]
            } else {
                &[2, 4, 8, 14]
            }
        );
        // A title between two turns belongs to the first one.
        for ((_, cursor), copied_records) in found.iter().zip([1, 5, 5, 12, 12]) {
            let (_, store) = store_of(&source(open));
            let forked = fork_at(&store, cursor).unwrap();
            let records = of(&store, &fork_id());
            assert_eq!(payloads(&records), copied()[..copied_records], "{cursor}");
            assert!(!forked.scan.turn_open());
            let is_all = copied_records == 12 && !open;
            assert_eq!(forked.origin.is_some(), is_all, "{cursor}");
        }
    }
}

#[test]
fn a_place_in_a_turn_that_goes_on_can_be_forked_at() {
    use Kind::{End, Prompt, Session, Update};
    let compaction =
        r#"{"sessionUpdate":"compaction_update","compactionId":"k","status":"completed"}"#;
    let header = serde_json::to_string(&header()).unwrap();
    let records = [
        (Kind::Session, header.as_str()),
        (Kind::Prompt, PROMPT),
        (Kind::Update, CALL),
        (Kind::Update, compaction),
    ];
    let lines: Vec<_> = records.into_iter().zip(0..).collect();
    let lines = lines
        .iter()
        .map(|((kind, payload), seq)| line(*seq, *kind, payload));
    let (_, store) = store_of(&lines.collect::<Vec<_>>().concat());
    let (_, cursor) = cursors(&store).pop().unwrap();
    let forked = fork_at(&store, &cursor).unwrap();
    assert_eq!((forked.origin, forked.scan.turn_open()), (None, false));
    let records = of(&store, &fork_id());
    let kinds: Vec<_> = records.iter().map(|record| record.kind).collect();
    assert_eq!(kinds, [Session, Prompt, Update, Update, Update, End]);
}

#[test]
fn a_cursor_of_a_damaged_record_is_refused() {
    let (disk, store) = store_of(&source(false));
    let (_, cursor) = cursors(&store)[2].clone();
    let text = String::from_utf8(bytes(&disk)).unwrap();
    let at = text.find(r#""seq":8"#).unwrap();
    let mut damaged = text.into_bytes();
    damaged[at + 30] ^= 1;
    let (_, store) = store_of(&damaged);
    let refused = fork_at(&store, &cursor).unwrap_err();
    assert!(matches!(refused, ForkError::CursorNotFound));
    assert!(!store.exists(&fork_id()).unwrap());
}

#[test]
fn a_session_that_the_agent_opened_within_a_turn_has_the_turn() {
    let header = serde_json::to_string(&header()).unwrap();
    let inner = |id: &str| format!(r#"{{"id":"{id}","agent":{{"name":"a"}},"how":"transcript"}}"#);
    let (first, second) = (inner("i1"), inner("i2"));
    let records = [
        (Kind::Session, header.as_str()),
        (Kind::AgentSessionId, &first),
        (Kind::Prompt, PROMPT),
        (Kind::End, END),
        (Kind::Prompt, PROMPT),
        (Kind::AgentSessionId, &second),
        (Kind::Update, CHUNK),
        (Kind::End, END),
    ];
    let lines = records.iter().zip(0..);
    let lines = lines.map(|((kind, payload), seq)| line(seq, *kind, payload));
    let (_, store) = store_of(&lines.collect::<Vec<_>>().concat());
    let forked = fork(&store, &mut store.read(&id()).unwrap(), None).unwrap();
    assert_eq!(forked.origin.unwrap().session.id, "i2");
}
