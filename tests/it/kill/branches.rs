//! Sessions that are prompted, forked and taken back at any place, by the client and on the command line,
//! while the program is killed: a client sees what a model of them says, and nothing that was recorded is gone.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use rejoin::record::Kind;
use rejoin::sys::SessionId;
use serde_json::{Value, json};

use super::after;
use super::keys::Client;
use crate::support::place;
use crate::support::sessions::random::Random;
use crate::support::systems::FOLDER;

/// How much is done to the sessions of one store.
const STEPS: usize = 24;
/// The most sessions that one store has.
const SESSIONS: usize = 4;
/// The end of the message that says that a session went back.
const MARK: &str = "Files in the workspace were not changed.";

#[test]
fn forks_and_rewinds_at_any_place_are_those_of_a_model() {
    super::all(4, &|seed| {
        let folder = tempfile::tempdir().unwrap();
        case(seed, &folder.path().join("store"));
    });
}

/// A message as a client sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Message {
    /// Nothing if it is the client's guess of what comes.
    id: String,
    is_user: bool,
    text: String,
}

impl Message {
    fn is_mark(&self) -> bool {
        self.text.trim_end().ends_with(MARK)
    }
}

/// What a session must be.
#[derive(Debug, Default)]
struct Model {
    now: Vec<Message>,
    /// What it was before its last rewind.
    undone: Option<Vec<Message>>,
    /// What came before each message that the session ever had.
    messages: BTreeMap<String, Vec<Message>>,
    /// What came before each cursor that the session ever had.
    cursors: BTreeMap<String, Vec<Message>>,
    /// Those that it has now.
    valid: Vec<String>,
    /// All prompts that were ever seen.
    prompts: BTreeSet<String>,
    /// The lines of its log but the first, which a rewind may change.
    log: Vec<u8>,
}

/// What is done to a session.
#[derive(Clone, Debug)]
enum Step {
    Prompt(String),
    /// Back to before this message.
    ToMessage(String),
    ToCursor(String),
    /// Back to behind so many turns, on the command line.
    ToTurn(usize),
    Undo,
    Fork,
    ForkAtMessage(String),
    ForkAtCursor(String),
    ForkAtTurn(usize),
}

/// One store, whose sessions are used in several processes.
pub(crate) fn case(seed: u64, store: &Path) {
    let mut random = Random::of(seed);
    let mut world = World {
        store,
        client: Client::start(store, &["--unstable".to_owned()], 1).unwrap(),
        models: BTreeMap::new(),
        open: BTreeSet::new(),
    };
    let first = world.client.new_session().unwrap();
    world.models.insert(first, Model::default());
    for number in 0..STEPS {
        let ids: Vec<_> = world.models.keys().cloned().collect();
        let id = &ids[random.below(ids.len())];
        let step = world.models[id].step(number, ids.len() < SESSIONS, &mut random);
        world.take(id, &step, &mut random);
    }
    world.restart();
    for (id, model) in &world.models {
        let mut found = BTreeSet::new();
        let mut log = after::store(store)
            .read_all(&SessionId::parse(id).unwrap())
            .unwrap();
        while let Some(entry) = log.next().unwrap() {
            let is_prompt = entry.record.kind == Kind::Prompt;
            found.extend(entry.record.id.filter(|_| is_prompt).map(str::to_owned));
        }
        assert!(
            model.prompts.is_subset(&found),
            "{id} lacks some: {model:?}"
        );
    }
    after::verify(store);
    world.client.agent.end_input();
    world.client.agent.wait().unwrap();
}

impl Model {
    /// Anything that can be done to the session.
    fn step(&self, number: usize, may_fork: bool, random: &mut Random) -> Step {
        let any = |from: Vec<&String>, random: &mut Random| -> Option<String> {
            (!from.is_empty()).then(|| from[random.below(from.len())].clone())
        };
        let turns = turns(&self.now);
        let last = if may_fork { 9 } else { 6 };
        let step = match random.below(last) {
            2 => any(self.messages.keys().collect(), random).map(Step::ToMessage),
            3 => any(self.cursors.keys().collect(), random).map(Step::ToCursor),
            4 if turns > 0 => Some(Step::ToTurn(random.below(turns))),
            5 if self.undone.is_some() => Some(Step::Undo),
            6 if turns > 0 => Some(Step::Fork),
            7 if random.once_in(2) => {
                let shown = self.now.iter().filter(|message| !message.is_mark());
                any(shown.map(|message| &message.id).collect(), random).map(Step::ForkAtMessage)
            }
            7 if turns > 0 => Some(Step::ForkAtTurn(1 + random.below(turns))),
            8 => any(self.cursors.keys().collect(), random).map(Step::ForkAtCursor),
            _ => None,
        };
        step.unwrap_or_else(|| Step::Prompt(format!("words {number}")))
    }

    /// What the session, or its fork, is after that. Nothing if it must be refused.
    fn expected(&self, step: &Step) -> Option<Vec<Message>> {
        let marked = |kept: &[Message]| {
            let mut kept = kept.to_vec();
            kept.push(said(false, MARK));
            kept
        };
        let behind = |id: &String| {
            let place = self.now.iter().position(|message| message.id == *id);
            self.now[..=place.expect("it is shown")].to_vec()
        };
        Some(match step {
            Step::Prompt(text) => {
                let mut now = self.now.clone();
                now.extend([said(true, &format!("/echo {text}")), said(false, text)]);
                now
            }
            Step::ToMessage(id) => marked(&self.messages[id]),
            Step::ToCursor(id) => marked(&self.cursors[id]),
            Step::ToTurn(turn) => marked(before_turn(&self.now, *turn)),
            Step::Undo => marked(self.undone.as_ref().expect("there is one")),
            Step::Fork => self.now.clone(),
            Step::ForkAtMessage(id) => behind(id),
            Step::ForkAtCursor(id) => {
                if !self.valid.contains(id) {
                    return None;
                }
                self.cursors[id].clone()
            }
            Step::ForkAtTurn(turn) => before_turn(&self.now, *turn).to_vec(),
        })
    }
}

struct World<'a> {
    store: &'a Path,
    client: Client,
    models: BTreeMap<String, Model>,
    /// The sessions that the client has opened in this process.
    open: BTreeSet<String>,
}

impl World<'_> {
    /// Takes a step, and perhaps kills the program in its middle.
    fn take(&mut self, id: &str, step: &Step, random: &mut Random) {
        let model = &self.models[id];
        let (before, expected) = (model.now.clone(), model.expected(step));
        if !self.open.contains(id) {
            assert_eq!(self.load(id), before);
        }
        let is_killed = random.once_in(3);
        let is_command = matches!(step, Step::ToTurn(_) | Step::Undo | Step::ForkAtTurn(_));
        let answer = if is_command {
            self.command(id, step, is_killed, random)
        } else {
            self.request(id, step, is_killed, random)
        };
        if is_killed {
            self.restart();
        }
        let is_fork = matches!(
            step,
            Step::Fork | Step::ForkAtMessage(_) | Step::ForkAtCursor(_) | Step::ForkAtTurn(_)
        );
        if let Some(answer) = &answer {
            let is_refused = !answer["error"].is_null();
            assert_eq!(is_refused, expected.is_none(), "{step:?}: {answer}");
            if is_refused {
                assert_eq!(answer["error"]["code"], -32602, "{step:?}: {answer}");
            }
        }
        if is_fork {
            for fork in self.unknown() {
                let shown = self.load(&fork);
                let expected = expected.as_deref().expect("it is not refused");
                assert!(
                    same(&shown, expected),
                    "{step:?}: {shown:?}, not {expected:?}"
                );
                self.models.insert(fork.clone(), Model::default());
                self.adopt(&fork, shown);
            }
            let shown = self.load(id);
            assert_eq!(shown, before, "a fork leaves its source alone");
            return self.adopt(id, shown);
        }
        let expected = expected.expect("only forks are refused");
        let shown = self.load(id);
        let is_done = same(&shown, &expected);
        // What was not answered may have come to nothing, or to a part of the turn.
        let is_begun = matches!(step, Step::Prompt(_))
            && shown
                .strip_prefix(&before[..])
                .is_some_and(|new| match new {
                    [] => true,
                    [user, rest @ ..] => user.is_user && rest.len() < 2,
                });
        let may_be_otherwise = answer.is_none() && (shown == before || is_begun);
        assert!(
            is_done || may_be_otherwise,
            "{step:?}: {shown:?}, not {expected:?}"
        );
        let is_rewind = !matches!(step, Step::Prompt(_));
        if is_rewind && is_done && shown != before {
            let model = self.models.get_mut(id).expect("it is known");
            model.undone = Some(before);
        }
        self.adopt(id, shown);
    }

    /// Asks for a step. Nothing if the program is gone before it has answered.
    fn request(
        &mut self,
        id: &str,
        step: &Step,
        is_killed: bool,
        random: &mut Random,
    ) -> Option<Value> {
        let fork = |rest: Value| {
            let mut params = json!({"sessionId": id, "cwd": FOLDER, "mcpServers": []});
            for (name, value) in rest.as_object().expect("it is one") {
                params[name] = value.clone();
            }
            ("session/fork", params)
        };
        let (method, params) = match step {
            Step::Prompt(text) => {
                let prompt = json!([{"type": "text", "text": format!("/echo {text}")}]);
                ("session/prompt", json!({"sessionId": id, "prompt": prompt}))
            }
            Step::ToMessage(message) => (
                "_rejoin/rewind",
                json!({"sessionId": id, "messageId": message}),
            ),
            Step::ToCursor(cursor) => (
                "_rejoin/rewind",
                json!({"sessionId": id, "cursorId": cursor}),
            ),
            Step::Fork => fork(json!({})),
            Step::ForkAtMessage(message) => {
                fork(json!({"_meta": {"rejoin": {"messageId": message}}}))
            }
            Step::ForkAtCursor(cursor) => fork(json!({"cursorId": cursor})),
            Step::ToTurn(_) | Step::Undo | Step::ForkAtTurn(_) => unreachable!("it is a command"),
        };
        self.client.send(20, method, &params);
        if !is_killed {
            return Some(self.client.answer(20).expect("it answers"));
        }
        any_moment(random);
        self.client.agent.kill();
        self.client.answer(20)
    }

    /// Takes a step on the command line, in a process that is killed soon or not at all.
    fn command(
        &mut self,
        id: &str,
        step: &Step,
        is_killed: bool,
        random: &mut Random,
    ) -> Option<Value> {
        let arguments = match step {
            Step::ToTurn(turn) => vec!["rewind", id, "--to"]
                .into_iter()
                .map(str::to_owned)
                .chain([turn.to_string()])
                .collect::<Vec<_>>(),
            Step::Undo => vec!["rewind".to_owned(), id.to_owned(), "--undo".to_owned()],
            Step::ForkAtTurn(turn) => vec![
                "fork".to_owned(),
                id.to_owned(),
                "--at".to_owned(),
                turn.to_string(),
            ],
            _ => unreachable!("it is a request"),
        };
        if !self.store.is_dir() && self.open.remove(id) {
            // The processes of a store in a database do not reach each other.
            let params = json!({"sessionId": id});
            let answer = self.client.ask(24, "session/close", &params).unwrap();
            assert!(answer["error"].is_null(), "{answer}");
        }
        let mut command = Command::new(env!("CARGO_BIN_EXE_rejoin"));
        command.arg("--store").arg(self.store).args(&arguments);
        if is_killed {
            let mut child = command.stdout(std::process::Stdio::null()).spawn().unwrap();
            any_moment(random);
            child.kill().unwrap();
            child.wait().unwrap();
            return None;
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        Some(json!({}))
    }

    /// The sessions of the store that are in no model.
    fn unknown(&mut self) -> Vec<String> {
        let answer = self.client.ask(21, "session/list", &json!({})).unwrap();
        let listed = answer["result"]["sessions"].as_array().unwrap().iter();
        let ids = listed.map(|entry| entry["sessionId"].as_str().unwrap().to_owned());
        ids.filter(|id| !self.models.contains_key(id)).collect()
    }

    /// What a client sees of a session.
    fn load(&mut self, id: &str) -> Vec<Message> {
        self.client.updates.clear();
        let params = json!({"sessionId": id, "cwd": FOLDER, "mcpServers": []});
        let answer = self.client.ask(22, "session/load", &params).unwrap();
        assert!(answer["error"].is_null(), "{answer}");
        self.open.insert(id.to_owned());
        let mut messages: Vec<Message> = Vec::new();
        for params in self.client.updates.drain(..) {
            let update = &params["update"];
            // What was sent before the replay has no time.
            if params["_meta"]["rejoin"]["at"].is_null() {
                continue;
            }
            let is_user = match update["sessionUpdate"].as_str() {
                Some("user_message_chunk") => true,
                Some("agent_message_chunk") => false,
                _ => continue,
            };
            let text = update["content"]["text"].as_str().unwrap();
            let message = update["messageId"].as_str().unwrap();
            match messages.last_mut().filter(|last| last.id == message) {
                Some(last) => last.text.push_str(text),
                None => messages.push(Message {
                    id: message.to_owned(),
                    is_user,
                    text: text.to_owned(),
                }),
            }
        }
        messages
    }

    /// Takes note of what a session is now, after it was held against its model, and looks at its cursors
    /// and its log.
    fn adopt(&mut self, id: &str, now: Vec<Message>) {
        let (mut listed, mut cursor) = (Vec::new(), Value::Null);
        loop {
            let params = json!({"sessionId": id, "cursor": cursor});
            let answer = self.client.ask(23, "_rejoin/cursors", &params).unwrap();
            let page = &answer["result"];
            listed.extend(
                page["cursors"]
                    .as_array()
                    .unwrap_or_else(|| panic!("{answer}"))
                    .clone(),
            );
            cursor = page["nextCursor"].clone();
            if cursor.is_null() {
                break;
            }
        }
        let bytes = place::at(self.store).read(id).unwrap();
        let model = self.models.get_mut(id).expect("it is known");
        for (place, message) in now.iter().enumerate() {
            let known = model.messages.entry(message.id.clone());
            let before = known.or_insert_with(|| now[..place].to_vec());
            assert_eq!(*before, now[..place], "{message:?} stays where it is");
            if message.is_user {
                model.prompts.insert(message.id.clone());
            }
        }
        model.valid.clear();
        for cursor in &listed {
            let anchor = &cursor["anchor"];
            let name = cursor["cursorId"].as_str().unwrap().to_owned();
            let is_anchor = |message: &Message| anchor["messageId"] == *message.id;
            let place = now
                .iter()
                .position(is_anchor)
                .unwrap_or_else(|| panic!("{cursor}"));
            let place = place + usize::from(anchor["position"] == "after");
            let known = model.cursors.entry(name.clone());
            let before = known.or_insert_with(|| now[..place].to_vec());
            assert_eq!(*before, now[..place], "{name} stays where it is");
            model.valid.push(name);
        }
        assert_eq!(listed.len(), 2 * turns(&now), "{listed:?}");
        let line = memchr::memchr(b'\n', &bytes).map_or(0, |line| line + 1);
        assert!(
            bytes[line..].starts_with(&model.log),
            "the log of {id} only grows"
        );
        model.log = bytes[line..].to_vec();
        model.now = now;
    }

    /// Starts the program again.
    fn restart(&mut self) {
        self.client.agent.kill();
        self.open.clear();
        place::at(self.store).await_idle().unwrap();
        self.client = Client::start(self.store, &["--unstable".to_owned()], 1).unwrap();
    }
}

/// Waits for a moment, most of them short.
fn any_moment(random: &mut Random) {
    let bits = random.below(23);
    for _ in 0..random.below(1 << bits) {
        std::hint::spin_loop();
    }
}

fn said(is_user: bool, text: &str) -> Message {
    Message {
        id: String::new(),
        is_user,
        text: text.to_owned(),
    }
}

fn turns(messages: &[Message]) -> usize {
    messages.iter().filter(|message| message.is_user).count()
}

/// What comes before the turn behind so many turns.
fn before_turn(messages: &[Message], turn: usize) -> &[Message] {
    let mut prompts = (0..messages.len()).filter(|place| messages[*place].is_user);
    &messages[..prompts.nth(turn).unwrap_or(messages.len())]
}

/// Whether a client sees what was expected. The model knows no ids of what is new, and marks by their ends.
fn same(shown: &[Message], expected: &[Message]) -> bool {
    let is_same = |(shown, expected): (&Message, &Message)| {
        shown.is_user == expected.is_user
            && (shown.text == expected.text || shown.is_mark() && expected.is_mark())
    };
    shown.len() == expected.len() && shown.iter().zip(expected).all(is_same)
}
