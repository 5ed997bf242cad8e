//! Random conversations with a whole server on a simulated disk: what was seen live is what a
//! load replays, whatever is requested in which order, and whenever the process dies.

use std::collections::BTreeMap;
use std::path::Path;

use proptest::prelude::*;
use rejoin::store::{Durability, Store};
use rejoin::sys::sim::SimDisk;

use crate::support::env;
use crate::support::sessions::client::Client;
use crate::support::sessions::logged::{Logged, survivors};
use crate::support::sessions::memory::{Memory, Setup};
use crate::support::sessions::seen::{Asked, Seen};
use crate::support::sessions::view;

/// A turn that goes on until it is cancelled.
const ENDLESS: &str = "/tool execute slow 3600";

const PROMPTS: [&str; 12] = [
    "plain words",
    "other words\r\nand \u{2028} more \u{0}",
    "/echo \u{1f469}\u{200d}\u{1f680}\t ",
    "/demo",
    "/think",
    "/plan",
    "/image",
    "/flood 60 20",
    "/tool search fail",
    "/fail",
    "/fail refusal",
    ENDLESS,
];

/// What a client does next. Sessions are meant by number.
#[derive(Clone, Copy, Debug)]
enum Step {
    New,
    Prompt(usize, usize),
    Load(usize),
    LoadAndCancel(usize),
    Resume(usize),
    Cancel(usize),
    Close(usize),
    Delete(usize),
    /// Take so many messages.
    Take(usize),
    /// Wait for every answer, and hold each session against its replay.
    Look,
    /// End the connection, and begin another one.
    Leave(Setting),
    /// The process dies and another one starts.
    Die(Setting),
}

/// How a server is started.
#[derive(Clone, Copy, Debug)]
struct Setting {
    exact: bool,
    durability: Durability,
}

fn step() -> impl Strategy<Value = Step> {
    let session = 0usize..3;
    let durability = prop::sample::select(Durability::ALL.as_slice());
    let setting =
        (any::<bool>(), durability).prop_map(|(exact, durability)| Setting { exact, durability });
    prop_oneof![
        2 => Just(Step::New),
        12 => (session.clone(), 0..PROMPTS.len()).prop_map(|(n, text)| Step::Prompt(n, text)),
        4 => session.clone().prop_map(Step::Load),
        1 => session.clone().prop_map(Step::LoadAndCancel),
        1 => session.clone().prop_map(Step::Resume),
        3 => session.clone().prop_map(Step::Cancel),
        2 => session.clone().prop_map(Step::Close),
        1 => session.prop_map(Step::Delete),
        6 => (1usize..40).prop_map(Step::Take),
        4 => Just(Step::Look),
        1 => setting.clone().prop_map(Step::Leave),
        2 => setting.prop_map(Step::Die),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if env::slow() { 1500 } else { 50 }))]

    #[test]
    fn load_replays_what_was_shown_live(
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let mut conversation = Conversation::begin();
        for step in steps {
            conversation.step(step);
        }
        conversation.end();
    }
}

/// A client, its server and the disk.
struct Conversation {
    disk: SimDisk,
    memory: Memory,
}

impl Conversation {
    fn begin() -> Self {
        let disk = SimDisk::new();
        let setting = Setting {
            exact: false,
            durability: Durability::Turn,
        };
        let memory = start(&disk, setting);
        let mut conversation = Self { disk, memory };
        conversation.step(Step::New);
        conversation
    }

    fn step(&mut self, step: Step) {
        let client = &mut self.memory.client;
        let session = |n: usize| {
            client
                .seen
                .keys()
                .nth(n % client.seen.len().max(1))
                .cloned()
        };
        match step {
            Step::New => {
                client.new_session().unwrap().unwrap();
            }
            Step::Take(messages) => {
                for _ in 0..messages {
                    // An endless turn says no more once its tool call is in progress.
                    if !client.is_waiting() || is_endless(client) {
                        break;
                    }
                    client.take().unwrap();
                }
            }
            Step::Look => look(client),
            Step::Leave(setting) => {
                stop_endless(client);
                let memory = start(&SimDisk::new(), setting);
                let old = std::mem::replace(&mut self.memory, memory).end();
                self.memory = start(&self.disk, setting);
                self.go_on(old.seen);
            }
            Step::Die(setting) => {
                let mut sessions = client.forget();
                let disk = self.disk.crash();
                let memory = start(&disk, setting);
                let old = std::mem::replace(&mut self.memory, memory);
                drop(old.abandon());
                self.disk = disk;
                survivors(&store(&self.disk), &mut sessions);
                self.go_on(sessions);
            }
            Step::Prompt(n, _)
            | Step::Load(n)
            | Step::LoadAndCancel(n)
            | Step::Resume(n)
            | Step::Cancel(n)
            | Step::Close(n)
            | Step::Delete(n) => {
                if let Some(id) = session(n) {
                    ask(client, &id, step);
                }
            }
        }
    }

    /// Works on with the sessions of a process that is gone.
    fn go_on(&mut self, sessions: BTreeMap<String, Seen>) {
        let client = &mut self.memory.client;
        for (id, seen) in sessions {
            let before = Logged::read(&store(&self.disk), &id);
            if seen.is_deleted() {
                assert!(before.is_err(), "deleted, and still there");
                continue;
            }
            let before = before.unwrap();
            client.seen.insert(id.clone(), Seen::default());
            client
                .seen
                .get_mut(&id)
                .unwrap()
                .adopt(before.events(), before.shown);
            client.ask(&id, Asked::Load).unwrap().unwrap();
            let logged = Logged::read(&store(&self.disk), &id).unwrap();
            assert!(logged.scan.torn.is_none() && !logged.scan.turn_open());
            assert!(
                logged.records.starts_with(&before.records),
                "nothing is rewritten"
            );
            let seen = client.seen.get_mut(&id).unwrap();
            view::same(&seen.shown, &logged.shown).unwrap();
            seen.adopt(logged.events(), logged.shown);
        }
    }

    /// Looks once more, and again with chunks as they came.
    fn end(mut self) {
        look(&mut self.memory.client);
        for exact in [true, false] {
            let durability = Durability::Turn;
            self.step(Step::Leave(Setting { exact, durability }));
            look(&mut self.memory.client);
        }
        self.memory.end();
    }
}

fn ask(client: &mut Client, id: &str, step: Step) {
    let asked = match step {
        Step::Prompt(_, text) => Asked::text(PROMPTS[text]),
        Step::Load(_) => Asked::Load,
        Step::Resume(_) => Asked::Resume,
        Step::Close(_) => Asked::Close,
        Step::Delete(_) => Asked::Delete,
        Step::LoadAndCancel(_) => {
            let load = client.begin(id, Asked::Load).unwrap();
            return client.cancel_request(load);
        }
        _ => return client.cancel(id),
    };
    client.begin(id, asked).unwrap();
}

/// Waits for every answer, then loads each session: the replay shows what was seen, no more and no
/// less, and so does the next one.
fn look(client: &mut Client) {
    stop_endless(client);
    client.wait_for_all().unwrap();
    let ids: Vec<String> = client.seen.keys().cloned().collect();
    for id in ids {
        let seen = &client.seen[&id];
        if seen.is_deleted() {
            for asked in [Asked::Load, Asked::Resume, Asked::text("hello")] {
                let error = client.ask(&id, asked).unwrap().unwrap_err();
                assert_eq!(error["data"]["error"], "session_not_found");
            }
            continue;
        }
        let before = seen.shown.clone();
        for _ in 0..2 {
            client.ask(&id, Asked::Load).unwrap().unwrap();
        }
        let [.., first, second] = client.seen[&id].replays.as_slice() else {
            panic!("two replays");
        };
        assert_eq!(first.lines, second.lines);
        view::same(&first.shown, &before).unwrap();
    }
}

/// Whether the next message may never come.
fn is_endless(client: &Client) -> bool {
    client
        .seen
        .values()
        .any(|seen| seen.is_asked(&Asked::text(ENDLESS)))
}

/// Cancels turns that would not end by themselves.
fn stop_endless(client: &mut Client) {
    let seen = client.seen.iter();
    let endless = seen.filter(|(_, seen)| seen.is_asked(&Asked::text(ENDLESS)));
    let ids: Vec<String> = endless.map(|(id, _)| id.clone()).collect();
    for id in ids {
        client.cancel(&id);
    }
}

fn start(disk: &SimDisk, setting: Setting) -> Memory {
    let setup = Setup {
        exact: setting.exact,
        durability: setting.durability,
        threads: 2,
        ..Setup::default()
    };
    Memory::start(Path::new("/store"), &disk.sys(), &setup)
}

fn store(disk: &SimDisk) -> Store {
    Store::open(Path::new("/store"), disk.sys(), Durability::Os).unwrap()
}
