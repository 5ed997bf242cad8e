//! Prompts with idempotency keys, each sent again until it is answered, while the program and its agent
//! are killed: the agent gets none of them twice.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::thread;

use rejoin::sys::SessionId;
use serde_json::{Value, json};

use super::after;
use crate::support::agent::{Agent, GUARD, Inbox};
use crate::support::process;
use crate::support::sessions::random::Random;
use crate::support::systems::FOLDER;
use crate::support::wrapped::{self, Wrapped};

/// How many prompts are sent.
const PROMPTS: usize = 5;
/// After so many lives at the latest, nothing is killed any longer.
const LIVES: usize = 25;

#[test]
fn a_prompt_with_a_key_reaches_the_agent_once_whatever_is_killed() {
    super::all(3, &|seed| {
        let folder = tempfile::tempdir().unwrap();
        case(seed, folder.path(), folder.path().join("store"));
    });
}

#[test]
fn four_clients_that_send_a_key_at_once_have_it_run_once() {
    for flags in [&["--resume"][..], &["--version-2"]] {
        let folder = tempfile::tempdir().unwrap();
        at_once(flags, folder.path(), folder.path().join("store"));
    }
}

/// A store, and the agent whose sessions it has.
struct Place {
    store: PathBuf,
    agent: Wrapped,
}

impl Place {
    fn new(folder: &Path, store: PathBuf, flags: &[&str]) -> Self {
        let flags: Vec<_> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        Self {
            store,
            agent: Wrapped::new(folder, &flags),
        }
    }

    /// Starts the program. Nothing if it is gone before it has answered.
    fn client(&self, version: u64) -> Option<Client> {
        Client::start(&self.store, &self.agent.arguments(), version)
    }

    /// How often the agent got each prompt, by its text.
    fn calls(&self) -> BTreeMap<String, usize> {
        let record = std::fs::read(self.agent.record()).unwrap_or_default();
        let mut calls = BTreeMap::new();
        for line in String::from_utf8_lossy(&record).lines() {
            let line: Value = serde_json::from_str(line).unwrap_or_default();
            if line["method"] == "session/prompt" {
                // A briefing may come before it.
                let blocks = line["params"]["prompt"].as_array().unwrap();
                let text = blocks.last().unwrap()["text"].as_str().unwrap();
                *calls.entry(text.to_owned()).or_default() += 1;
            }
        }
        calls
    }
}

/// A client of a process of its own.
pub(super) struct Client {
    pub(super) agent: Box<dyn Agent>,
    inbox: Inbox,
    /// The answers that have come, by the ids of their requests.
    answers: BTreeMap<u64, Value>,
    /// The parameters of the updates that have come.
    pub(super) updates: Vec<Value>,
}

impl Client {
    /// Starts the program with these arguments. Nothing if it is gone before it has answered.
    pub(super) fn start(store: &Path, arguments: &[String], version: u64) -> Option<Self> {
        let (agent, output) = process::start(store, arguments);
        let mut client = Self {
            agent,
            inbox: Inbox::new(output),
            answers: BTreeMap::new(),
            updates: Vec::new(),
        };
        let params = json!({
            "protocolVersion": version,
            "info": {"name": "keys", "version": "1"},
            "capabilities": {},
        });
        client.ask(0, "initialize", &params)?;
        Some(client)
    }

    pub(super) fn send(&mut self, id: usize, method: &str, params: &Value) {
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        // A process that was killed takes nothing more.
        self.agent.send(format!("{request}\n").as_bytes()).ok();
    }

    /// Takes the next message. Nothing if the process is gone.
    fn next(&mut self) -> Option<()> {
        let line = self.inbox.next(GUARD).expect("it does not hang")?;
        // The last line may not be whole.
        let mut message: Value = serde_json::from_slice(&line).ok()?;
        if message["method"] == "session/update" {
            self.updates.push(message["params"].take());
        } else if let (Some(id), true) = (message["id"].as_u64(), message["method"].is_null()) {
            self.answers.insert(id, message);
        }
        Some(())
    }

    fn is_answered(&self, id: usize) -> bool {
        self.answers.contains_key(&(id as u64))
    }

    /// The answer to a request. Nothing if the process is gone.
    pub(super) fn answer(&mut self, id: usize) -> Option<Value> {
        while !self.is_answered(id) {
            self.next()?;
        }
        self.answers.remove(&(id as u64))
    }

    pub(super) fn ask(&mut self, id: usize, method: &str, params: &Value) -> Option<Value> {
        self.send(id, method, params);
        self.answer(id)
    }

    pub(super) fn new_session(&mut self) -> Option<String> {
        let params = json!({"cwd": FOLDER, "mcpServers": []});
        let answer = self.ask(1, "session/new", &params)?;
        let id = answer["result"]["sessionId"].as_str();
        Some(id.unwrap_or_else(|| panic!("{answer}")).to_owned())
    }

    pub(super) fn resume(&mut self, session: &str) -> Option<()> {
        let params = json!({"sessionId": session, "cwd": FOLDER, "mcpServers": []});
        let answer = self.ask(2, "session/resume", &params)?;
        assert!(answer["error"].is_null(), "{answer}");
        Some(())
    }
}

/// The prompt of this number, with its key, in a version of the protocol.
fn prompt(session: &str, number: usize, version: u64) -> Value {
    let text = format!("say {number}");
    let mut params = json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]});
    let key = format!("key {number}");
    if version == 1 {
        params["_meta"] = json!({"rejoin": {"idempotencyKey": key}});
    } else {
        params["idempotencyKey"] = key.into();
    }
    params
}

/// Four clients, each with a process of its own, send a prompt with the same key at once, and again while
/// another process has the session and cannot be reached.
pub(crate) fn at_once(flags: &[&str], folder: &Path, store: PathBuf) {
    let place = Place::new(folder, store, flags);
    let agent_has = |text: &str| match place.calls().get(text) {
        Some(_) => Ok(()),
        None => Err(format!("the agent lacks {text:?}")),
    };
    let mut first = place.client(2).unwrap();
    let session = first.new_session().unwrap();
    let mut clients = vec![first];
    for _ in 0..3 {
        let mut client = place.client(2).unwrap();
        client.resume(&session).unwrap();
        clients.push(client);
    }
    let repeats = |mut client: Client| {
        let mut answered = None;
        let prompted = wrapped::until(|| {
            let params = prompt(&session, 0, 2);
            let answer = client.ask(9, "session/prompt", &params).unwrap();
            if answer["error"]["data"]["error"] == "session_in_use" {
                return Err(answer.to_string());
            }
            answered = Some(answer);
            Ok(())
        });
        prompted.unwrap();
        // A prompt is answered before the agent gets it.
        wrapped::until(|| agent_has("say 0")).unwrap();
        let params = json!({"sessionId": session});
        client.ask(10, "session/close", &params).unwrap();
        answered.unwrap()
    };
    let answers: Vec<_> = thread::scope(|scope| {
        let clients = clients.into_iter();
        let threads: Vec<_> = clients.map(|it| scope.spawn(move || repeats(it))).collect();
        let answers = threads.into_iter().map(|thread| thread.join().unwrap());
        answers.collect()
    });
    let id = &answers[0]["result"]["messageId"];
    assert!(id.is_string(), "{answers:?}");
    for answer in &answers {
        assert_eq!(answer["result"]["messageId"], *id, "{answer}");
    }
    // The agent gets the next one after it.
    let mut last = place.client(2).unwrap();
    last.resume(&session).unwrap();
    last.send(9, "session/prompt", &prompt(&session, 1, 2));
    wrapped::until(|| agent_has("say 1")).unwrap();
    assert_eq!(place.calls().get("say 0").copied(), Some(1));
}

/// Several lives on one store, each but the last ended by a kill, until each prompt is answered.
pub(crate) fn case(seed: u64, folder: &Path, store: PathBuf) {
    let mut random = Random::of(seed);
    let flags = random.one_of(&[&["--resume"][..], &["--version-2"], &["--load"]]);
    let place = Place::new(folder, store, flags);
    let mut session = None;
    let mut answered = [false; PROMPTS];
    for life in 0.. {
        let version = 1 + random.below(2) as u64;
        let kills = life < LIVES;
        let ended = live(
            &place,
            version,
            &mut session,
            &mut answered,
            &mut random,
            kills,
        );
        if ended.is_some() && answered.iter().all(|answered| *answered) {
            break;
        }
    }
    // Once more, when nothing is killed: each has run, or may have.
    let session = session.unwrap();
    for version in [1, 2] {
        let mut client = place.client(version).unwrap();
        client.resume(&session).unwrap();
        for number in 0..PROMPTS {
            let params = prompt(&session, number, version);
            client.ask(10 + number, "session/prompt", &params).unwrap();
        }
        client.agent.end_input();
        client.agent.wait().unwrap();
    }
    let calls = place.calls();
    assert!(calls.values().all(|calls| *calls == 1), "{calls:?}");
    let id = SessionId::parse(&session).unwrap();
    let scan = after::store(&place.store)
        .read(&id)
        .unwrap()
        .scan()
        .unwrap();
    assert_eq!(scan.prompts.len(), PROMPTS, "nothing was inserted twice");
    for number in 0..PROMPTS {
        let found = scan.keys.find(&format!("key {number}")).unwrap();
        let end = found.end.as_deref().unwrap();
        assert!(found.has_begun, "{end}");
        if end.contains("end_turn") {
            assert_eq!(calls.get(&format!("say {number}")), Some(&1), "{end}");
        }
    }
}

/// Sends what is not answered, until that is answered or the program is killed. Nothing if it was.
fn live(
    place: &Place,
    version: u64,
    session: &mut Option<String>,
    answered: &mut [bool; PROMPTS],
    random: &mut Random,
    kills: bool,
) -> Option<()> {
    let mut client = place.client(version)?;
    match session {
        Some(session) => client.resume(session)?,
        None => *session = Some(client.new_session()?),
    }
    let session = session.as_deref().unwrap_or_default();
    for (number, is_answered) in answered.iter_mut().enumerate() {
        if *is_answered {
            continue;
        }
        let id = 10 + number;
        client.send(id, "session/prompt", &prompt(session, number, version));
        if random.once_in(3) {
            client.send(
                100 + id,
                "session/prompt",
                &prompt(session, number, version),
            );
        }
        if kills && random.once_in(2) {
            // Somewhere between the request and what follows it.
            for _ in 0..random.below(4) {
                if !client.is_answered(id) {
                    client.next()?;
                }
            }
            let bits = random.below(20);
            for _ in 0..random.below(1 << bits) {
                std::hint::spin_loop();
            }
            if random.once_in(4) {
                // The agent alone, if it was started.
                place.agent.kill().ok();
            } else {
                client.agent.kill();
                return None;
            }
        }
        client.answer(id)?;
        *is_answered = true;
    }
    client.agent.end_input();
    client.agent.wait().unwrap();
    Some(())
}
