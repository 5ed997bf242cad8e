//! Sessions that go back to an earlier place: what is read then, and what remains in the log.

use std::collections::{BTreeMap, HashMap};
use std::io::ErrorKind;

use proptest::prelude::*;
use rejoin::record::{Header, Kind, Places, RewindTarget};
use rejoin::store::{Durability, ForkPoint, Log, RewindError, Store, Sync};
use rejoin::sys::SessionId;
use rejoin::sys::sim::{Fault, SimDisk, Tail};

use super::support::*;

fn prompt(log: &mut Log, id: &str) {
    let sync = Sync::Turn;
    log.append(Kind::Prompt, Some(id), PROMPT, sync).unwrap();
    log.append(Kind::Update, None, CHUNK, Sync::Buffered)
        .unwrap();
    log.append(Kind::End, None, END, sync).unwrap();
}

fn before(id: &str) -> RewindTarget {
    RewindTarget::Message(id.to_owned())
}

/// The ids of the prompts of a conversation as it is now.
fn prompts_of(store: &Store, id: &SessionId) -> Vec<String> {
    let records = rest(&mut store.read(id).unwrap());
    let prompts = records
        .into_iter()
        .filter(|record| record.kind == Kind::Prompt);
    prompts.filter_map(|record| record.id).collect()
}

fn prompts(store: &Store) -> Vec<String> {
    prompts_of(store, &id())
}

/// The cursors of a conversation as it is now, each with the prompts that are before it.
fn cursors(store: &Store) -> BTreeMap<String, Vec<String>> {
    let (mut places, mut prompts) = (Places::new(id().as_str()), Vec::new());
    let mut found = BTreeMap::new();
    let mut log = store.read(&id()).unwrap();
    while let Some(entry) = log.next().unwrap() {
        let before = prompts.clone();
        let is_prompt = entry.record.kind == Kind::Prompt;
        prompts.extend(entry.record.id.filter(|_| is_prompt).map(str::to_owned));
        if let Some(place) = places.record(&entry.record) {
            let kept = if is_prompt { before } else { prompts.clone() };
            found.insert(place.cursor.to_string(), kept);
        }
    }
    found
}

/// The bytes of the log behind its header.
fn behind_header(disk: &SimDisk) -> Vec<u8> {
    let bytes = bytes(disk);
    let header = bytes.iter().position(|byte| *byte == b'\n').unwrap();
    bytes[header..].to_vec()
}

#[test]
fn a_rewind_and_its_undo() {
    let disk = SimDisk::new();
    let store = store(&disk);
    let mut log = store.create(&id(), &header()).unwrap();
    for id in ["a", "b", "c"] {
        prompt(&mut log, id);
    }
    assert_eq!(store.read(&id()).unwrap().header().format, 1);
    let scan = log.rewind(&before("b"), "mark", None).unwrap();
    assert_eq!((scan.prompts.len(), scan.open_turns.len()), (1, 0));
    assert_eq!(prompts(&store), ["a"]);
    assert_eq!(store.read(&id()).unwrap().header().format, 3);
    prompt(&mut log, "d");
    assert_eq!(prompts(&store), ["a", "d"]);
    log.rewind(&RewindTarget::Undo, "mark", None).unwrap();
    assert_eq!(prompts(&store), ["a", "b", "c"]);
    log.rewind(&RewindTarget::Undo, "mark", None).unwrap();
    assert_eq!(prompts(&store), ["a", "d"]);
    log.rewind(&RewindTarget::Turns(0), "mark", None).unwrap();
    assert_eq!(prompts(&store), [""; 0]);
    for target in [before("x"), RewindTarget::Turns(0)] {
        let refused = log.rewind(&target, "mark", None);
        assert!(
            matches!(refused, Err(RewindError::NoSuchPlace)),
            "{target:?}"
        );
    }
}

#[test]
fn nothing_is_brought_back_where_nothing_was_undone() {
    let disk = SimDisk::new();
    let mut log = store(&disk).create(&id(), &header()).unwrap();
    prompt(&mut log, "a");
    let before = bytes(&disk);
    let refused = log.rewind(&RewindTarget::Undo, "mark", None);
    assert!(matches!(refused, Err(RewindError::NothingUndone)));
    assert_eq!(bytes(&disk), before);
}

#[test]
fn turns_that_overlap_are_closed_at_the_place() {
    let disk = SimDisk::new();
    let store = store(&disk);
    let mut log = store.create(&id(), &header()).unwrap();
    let mut add = |kind, id, payload: &str| log.append(kind, id, payload, Sync::Turn).unwrap();
    add(Kind::Prompt, Some("a"), PROMPT);
    add(Kind::Update, None, CALL);
    add(Kind::Prompt, Some("b"), PROMPT);
    add(Kind::Update, None, DONE);
    add(Kind::End, Some("a"), END);
    add(Kind::End, Some("b"), END);
    let scan = log.rewind(&before("b"), "mark", None).unwrap();
    assert!(scan.interrupted && !scan.turn_open());
    let last: Vec<_> = read(&store).split_off(4);
    let kinds: Vec<_> = last.iter().map(|record| record.kind).collect();
    let event = Kind::Transient;
    assert_eq!(kinds, [event, Kind::Update, Kind::Update, Kind::End]);
    assert!(last[2].payload.contains("failed"), "{last:?}");
    drop(log);
    // Nothing is left to be closed.
    let length = bytes(&disk).len();
    drop(store.open_log(&id()).unwrap());
    assert_eq!(bytes(&disk).len(), length);
}

#[test]
fn a_disk_that_fails_leaves_the_session_before_or_after_the_rewind() {
    let kinds = [
        Fault::Error(ErrorKind::Other),
        Fault::ShortWrite,
        Fault::TornWrite(ErrorKind::Other),
        Fault::Sync(ErrorKind::Other),
    ];
    let (mut ends, mut at) = ([0, 0], 0);
    loop {
        let mut reached = false;
        for fault in kinds {
            let disk = SimDisk::new();
            let mut log = store(&disk).create(&id(), &header()).unwrap();
            prompt(&mut log, "a");
            prompt(&mut log, "b");
            let written = behind_header(&disk);
            let first = disk.operations() + at;
            disk.fail_at(first, fault);
            let rewound = log.rewind(&before("b"), "mark", None);
            reached |= disk.operations() > first;
            drop(log);
            for tail in [None, Some(Tail::Lost), Some(Tail::Torn), Some(Tail::Zeroed)] {
                let what = format!("operation {at}, {fault:?}, {tail:?}: {rewound:?}");
                let left = tail.map_or_else(|| disk.crash(), |tail| disk.power_cut(tail));
                let store = store_with(&left, Durability::Turn);
                let read = prompts(&store);
                drop(store.open_log(&id()).expect(&what));
                assert_eq!(prompts(&store), read, "{what}");
                let is_back = read == ["a"];
                assert!(is_back || read == ["a", "b"], "{what}: {read:?}");
                assert!(is_back || rewound.is_err(), "{what}");
                assert!(behind_header(&left).starts_with(&written), "{what}");
                ends[usize::from(is_back)] += 1;
                // A later attempt is like the first.
                let mut log = store.open_log(&id()).expect(&what).log;
                log.rewind(&before("a"), "mark", None).expect(&what);
                assert_eq!(prompts(&store), [""; 0], "{what}");
            }
        }
        if !reached {
            break;
        }
        at += 1;
    }
    assert!(ends[0] > 3 && ends[1] > 3, "{ends:?}");
}

#[test]
fn a_crash_between_header_and_record_loses_nothing() {
    let disk = SimDisk::new();
    let mut log = store(&disk).create(&id(), &header()).unwrap();
    prompt(&mut log, "a");
    drop(log);
    let old = bytes(&disk);
    let mut log = store(&disk).open_log(&id()).unwrap().log;
    log.rewind(&before("a"), "mark", None).unwrap();
    drop(log);
    let end = old.iter().position(|byte| *byte == b'\n').unwrap();
    let new = bytes(&disk)[..end].to_vec();
    // The process may die after any of the bytes, and the disk may write them in any order.
    for mix in 0..4 {
        let mut torn = old.clone();
        if mix & 1 != 0 {
            torn[8..16].copy_from_slice(&new[8..16]);
        }
        if mix & 2 != 0 {
            torn[16..end].copy_from_slice(&new[16..]);
        }
        let (disk, store) = store_of(&torn);
        assert_eq!(prompts(&store), ["a"], "{mix}");
        assert_eq!(store.read(&id()).unwrap().scan().unwrap().damage, []);
        let mut log = store.open_log(&id()).unwrap().log;
        prompt(&mut log, "b");
        assert_eq!(prompts(&store), ["a", "b"], "{mix}");
        log.rewind(&before("b"), "mark", None).unwrap();
        assert_eq!(prompts(&store), ["a"], "{mix}");
        assert_eq!(bytes(&disk)[..end], new, "{mix}");
    }
}

/// A step of a model.
#[derive(Clone, Debug)]
enum Step {
    Prompt,
    /// To before the prompt with this number, of all that there ever were.
    Back(usize),
    /// To behind so many turns.
    Turns(u64),
    Undo,
    /// To one of the cursors that there ever were.
    BackToCursor(usize),
    /// All of it, or up to one of its messages or of the cursors that there ever were.
    Fork(usize),
    /// The process ends, perhaps within a turn.
    Crash(bool),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        5 => Just(Step::Prompt),
        3 => any::<usize>().prop_map(Step::Back),
        2 => (0..6_u64).prop_map(Step::Turns),
        2 => Just(Step::Undo),
        2 => any::<usize>().prop_map(Step::BackToCursor),
        3 => any::<usize>().prop_map(Step::Fork),
        1 => any::<bool>().prop_map(Step::Crash),
    ];
    prop::collection::vec(step, 1..40)
}

/// What a session is to show.
#[derive(Default)]
struct Model {
    now: Vec<String>,
    /// The conversation before the last rewind.
    before_rewind: Option<Vec<String>>,
    /// What led to each prompt that there ever was.
    led_to: HashMap<String, Vec<String>>,
    said: Vec<String>,
    /// What is before each cursor that there ever was.
    cursors: BTreeMap<String, Vec<String>>,
}

impl Model {
    fn say(&mut self) -> String {
        let id = format!("m{}", self.said.len());
        self.led_to.insert(id.clone(), self.now.clone());
        self.now.push(id.clone());
        self.said.push(id.clone());
        id
    }

    fn go_to(&mut self, place: Vec<String>) {
        let before = std::mem::replace(&mut self.now, place);
        self.before_rewind = Some(before);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_session_reads_as_a_model_says(steps in steps()) {
        let disk = SimDisk::new();
        let store = store(&disk);
        let mut log = store.create(&id(), &header()).unwrap();
        let (mut model, mut written) = (Model::default(), behind_header(&disk));
        for (number, step) in steps.iter().enumerate() {
            match step {
                Step::Prompt => prompt(&mut log, &model.say()),
                Step::Back(index) => {
                    let Some(id) = model.said.get(index % model.said.len().max(1)).cloned() else {
                        continue;
                    };
                    log.rewind(&before(&id), "mark", None).unwrap();
                    model.go_to(model.led_to[&id].clone());
                }
                Step::Turns(turns) => {
                    let rewound = log.rewind(&RewindTarget::Turns(*turns), "mark", None);
                    let turns = usize::try_from(*turns).unwrap();
                    prop_assert_eq!(rewound.is_ok(), turns < model.now.len());
                    if rewound.is_ok() {
                        model.go_to(model.now[..turns].to_vec());
                    }
                }
                Step::Undo => {
                    let undone = log.rewind(&RewindTarget::Undo, "mark", None);
                    prop_assert_eq!(undone.is_ok(), model.before_rewind.is_some());
                    if let Some(before) = model.before_rewind.clone() {
                        model.go_to(before);
                    }
                }
                Step::BackToCursor(index) => {
                    let known = model.cursors.len().max(1);
                    let Some((cursor, kept)) = model.cursors.iter().nth(index % known) else {
                        continue;
                    };
                    let (target, kept) = (RewindTarget::Cursor(cursor.clone()), kept.clone());
                    log.rewind(&target, "mark", None).unwrap();
                    model.go_to(kept);
                }
                Step::Fork(index) => {
                    let text = format!("sess_01902f3c-7b1e-7c3a-8f00-0000000001{number:02x}");
                    let fork = SessionId::parse(&text).unwrap();
                    let header = Header::new(&fork, "/w");
                    let mut source = store.read(&id()).unwrap();
                    let messages = model.said.iter().cloned().map(ForkPoint::Message);
                    let known = model.cursors.keys().cloned().map(ForkPoint::Cursor);
                    let points: Vec<_> = messages.chain(known).collect();
                    let point = points.get(index % (points.len() + 1));
                    let expected = match point {
                        None => Some(model.now.clone()),
                        Some(ForkPoint::Message(id)) => {
                            let last = model.now.iter().position(|said| said == id);
                            last.map(|last| model.now[..=last].to_vec())
                        }
                        Some(ForkPoint::Cursor(cursor)) => cursors(&store).remove(cursor),
                    };
                    let forked = store.fork(&mut source, &fork, &header, point, &|| false);
                    prop_assert_eq!(forked.is_ok(), expected.is_some(), "{:?}", point);
                    if let (Ok(forked), Some(expected)) = (forked, expected) {
                        prop_assert!(forked.scan.header.format < 3);
                        prop_assert_eq!(prompts_of(&store, &fork), expected);
                    }
                }
                Step::Crash(in_turn) => {
                    if *in_turn {
                        let id = model.say();
                        log.append(Kind::Prompt, Some(&id), PROMPT, Sync::Turn).unwrap();
                    }
                    drop(log);
                    log = store.open_log(&id()).unwrap().log;
                }
            }
            prop_assert_eq!(prompts(&store), model.now.clone(), "{} {:?}", number, step);
            let scan = store.read(&id()).unwrap().scan().unwrap();
            prop_assert_eq!(scan.prompts.len(), model.now.len());
            prop_assert!(!scan.turn_open());
            for (cursor, kept) in cursors(&store) {
                let known = model.cursors.entry(cursor).or_insert_with(|| kept.clone());
                prop_assert_eq!(&*known, &kept, "a place keeps its id");
            }
            let all = behind_header(&disk);
            prop_assert!(all.starts_with(&written), "something is gone after {:?}", step);
            written = all;
        }
        let all = rest(&mut store.read_all(&id()).unwrap());
        let said: Vec<_> = all.iter().filter(|record| record.kind == Kind::Prompt).collect();
        prop_assert_eq!(said.len(), model.said.len());
    }
}
