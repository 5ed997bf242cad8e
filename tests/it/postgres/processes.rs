//! Processes that share nothing but the database: one is killed or stopped in mid-answer, and another
//! one goes on.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rejoin::store::{Durability, Store};
use rejoin::sys::{SessionId, Sys};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::cluster;
use crate::support::command::{command, fails, runs};

/// A process that sends nothing for so long is stuck.
const STUCK: Duration = Duration::from_mins(5);
/// How many updates of an answer are awaited before something happens to its process.
const SEEN: usize = 50;

/// `rejoin serve` with its client.
pub(super) struct Process {
    child: Child,
    lines: Receiver<Value>,
    last: u64,
    /// The text of the agent's messages, as far as it came.
    pub(super) text: String,
    /// The texts in its tool calls.
    pub(super) output: String,
    updates: usize,
}

impl Process {
    pub(super) fn start(store: &Path) -> Self {
        Self::with_client(command(store, &["serve"]), 1)
    }

    /// The process that a command starts, with a client of this version.
    pub(super) fn with_client(command: Command, version: u8) -> Self {
        let mut process = Self::of(command);
        let hello = match version {
            1 => json!({ "protocolVersion": 1 }),
            _ => json!({
                "protocolVersion": version,
                "info": { "name": "test", "version": "1" },
                "capabilities": {},
            }),
        };
        process.ask("initialize", &hello).unwrap();
        process
    }

    /// One whose client has said nothing so far.
    pub(super) fn silent(store: &Path) -> Self {
        Self::of(command(store, &["serve"]))
    }

    /// The process that a command starts.
    pub(super) fn of(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (send, lines) = channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                // A killed process may leave half a line.
                if let Ok(message) = serde_json::from_str(&line) {
                    send.send(message).ok();
                }
            }
        });
        Self {
            child,
            lines,
            last: 0,
            text: String::new(),
            output: String::new(),
            updates: 0,
        }
    }

    pub(super) fn notify(&mut self, method: &str, params: &Value) {
        let line = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        let input = self.child.stdin.as_mut().unwrap();
        writeln!(input, "{line}").unwrap();
    }

    pub(super) fn end_input(&mut self) {
        drop(self.child.stdin.take());
    }

    /// Waits until it has ended.
    pub(super) fn ends(&mut self) {
        let begun = Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            assert!(begun.elapsed() < STUCK, "it does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub(super) fn begin(&mut self, method: &str, params: &Value) -> u64 {
        self.last += 1;
        let id = self.last;
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        let input = self.child.stdin.as_mut().unwrap();
        writeln!(input, "{request}").unwrap();
        id
    }

    /// Takes a message; false at the end. Answers are returned.
    fn take(&mut self) -> Option<Value> {
        let message = self.lines.recv_timeout(STUCK).ok()?;
        let update = &message["params"]["update"];
        if update["sessionUpdate"] == "agent_message_chunk" {
            self.updates += 1;
            self.text
                .push_str(update["content"]["text"].as_str().unwrap());
        }
        if update["sessionUpdate"] == "tool_call_update" {
            let content = update["content"].as_array().into_iter().flatten();
            let texts = content.filter_map(|part| part["content"]["text"].as_str());
            self.output.extend(texts);
        }
        Some(message)
    }

    pub(super) fn wait(&mut self, id: u64) -> Result<Value, Value> {
        loop {
            let mut message = self.take().expect("it answers");
            if message["id"] == id {
                return match message["error"].take() {
                    Value::Null => Ok(message["result"].take()),
                    error => Err(error),
                };
            }
        }
    }

    pub(super) fn ask(&mut self, method: &str, params: &Value) -> Result<Value, Value> {
        let id = self.begin(method, params);
        self.wait(id)
    }

    pub(super) fn new_session(&mut self) -> String {
        let made = self.ask("session/new", &json!({ "cwd": "/work", "mcpServers": [] }));
        made.unwrap()["sessionId"].as_str().unwrap().to_owned()
    }

    /// Begins a long answer, and takes its beginning. Returns the prompt's request.
    fn begin_answer(&mut self, session: &str) -> u64 {
        let id = self.begin("session/prompt", &prompt(session, "/flood 200000 40"));
        self.take_updates(SEEN);
        id
    }

    /// Takes messages until so many updates of messages came in all.
    pub(super) fn take_updates(&mut self, updates: usize) {
        while self.updates < updates {
            self.take().expect("it answers");
        }
    }

    /// Takes messages until one reports the end of a turn to a client of version 2. Returns the report.
    pub(super) fn take_idle(&mut self) -> Value {
        loop {
            let mut message = self.take().expect("it is reported");
            let update = message["params"]["update"].take();
            if update["state"] == "idle" && update.get("stopReason").is_some() {
                return update;
            }
        }
    }

    /// Takes messages until the agent has said this.
    fn take_text(&mut self, text: &str) {
        while !self.text.contains(text) {
            self.take().expect("it is said");
        }
    }

    pub(super) fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).unwrap();
    }

    fn kill(mut self) -> String {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        while self.take().is_some() {}
        self.text
    }

    pub(super) fn leave(mut self) {
        drop(self.child.stdin.take());
        while self.take().is_some() {}
        assert!(self.child.wait().unwrap().success());
    }
}

pub(super) fn prompt(session: &str, text: &str) -> Value {
    json!({ "sessionId": session, "prompt": [{ "type": "text", "text": text }] })
}

pub(super) fn load(session: &str, take_over: bool) -> Value {
    let meta = json!({ "rejoin": { "takeOver": take_over } });
    json!({ "sessionId": session, "cwd": "/work", "mcpServers": [], "_meta": meta })
}

/// The lines of a session's log.
fn log(place: &Path, session: &str) -> Vec<String> {
    let store = Store::at(place, Sys::real(), Durability::Turn);
    let mut reader = store.read(&SessionId::parse(session).unwrap()).unwrap();
    let mut lines = Vec::new();
    while let Some(entry) = reader.next().unwrap() {
        let record = entry.record;
        lines.push(format!(
            "{} {} {}",
            record.seq,
            record.kind.as_str(),
            record.payload
        ));
    }
    assert_eq!(reader.damage(), []);
    assert_eq!(reader.torn(), None);
    lines
}

#[test]
fn another_process_goes_on_where_one_was_killed() {
    let Some(place) = cluster::store() else {
        return;
    };
    let mut first = Process::start(&place);
    let session = first.new_session();
    first.begin_answer(&session);
    let seen = first.kill();
    let mut second = Process::start(&place);
    second.ask("session/load", &load(&session, false)).unwrap();
    assert!(
        second.text.starts_with(&seen),
        "{} of {}",
        second.text.len(),
        seen.len()
    );
    let answer = second
        .ask("session/prompt", &prompt(&session, "hello"))
        .unwrap();
    assert_eq!(answer["stopReason"], "end_turn");
    second.leave();
    runs(&place, &["sessions", "verify"]);
}

#[test]
fn who_was_stopped_and_goes_on_writes_nothing_more() {
    let Some(place) = cluster::store() else {
        return;
    };
    let mut first = Process::start(&place);
    let session = first.new_session();
    let answering = first.begin_answer(&session);
    first.signal(Signal::STOP);
    let mut second = Process::start(&place);
    // It is only followed until it is taken over.
    second.ask("session/load", &load(&session, false)).unwrap();
    let refused = second
        .ask("session/prompt", &prompt(&session, "hello"))
        .unwrap_err();
    assert_eq!(refused["data"]["error"], "session_in_use", "{refused}");
    second.text.clear();
    second.ask("session/load", &load(&session, true)).unwrap();
    let answer = second
        .ask("session/prompt", &prompt(&session, "hello"))
        .unwrap();
    assert_eq!(answer["stopReason"], "end_turn");
    let before = log(&place, &session);
    first.signal(Signal::CONT);
    let failed = first.wait(answering).unwrap_err();
    let message = failed["message"].as_str().unwrap_or_default();
    assert!(message.contains("taken over"), "{failed}");
    // It follows the session: what the second process has said may be a part of it.
    assert!(
        second.text.starts_with(&first.text),
        "{} of {}",
        second.text.len(),
        first.text.len()
    );
    assert_eq!(log(&place, &session), before);
    let refused = first
        .ask("session/prompt", &prompt(&session, "hello"))
        .unwrap_err();
    assert_eq!(refused["data"]["error"], "session_in_use", "{refused}");
    assert_eq!(log(&place, &session), before);
    first.leave();
    second.leave();
    runs(&place, &["sessions", "verify"]);
}

#[test]
fn an_idle_process_learns_that_its_session_was_taken_over() {
    let Some(place) = cluster::store() else {
        return;
    };
    let mut first = Process::start(&place);
    let session = first.new_session();
    first
        .ask("session/prompt", &prompt(&session, "/echo here"))
        .unwrap();
    let mut second = Process::start(&place);
    second.ask("session/load", &load(&session, true)).unwrap();
    second
        .ask("session/prompt", &prompt(&session, "/echo elsewhere"))
        .unwrap();
    // It asks for nothing, and is sent what the other process has added.
    first.take_text("elsewhere");
    first.leave();
    second.leave();
}

#[test]
fn commands_work_on_an_address() {
    let Some(place) = cluster::place() else {
        return;
    };
    for arguments in [
        &["store", "check"][..],
        &["sessions", "list"],
        &["sessions", "list", "--json"],
        &["sessions", "search", "word"],
        &["sessions", "show", "last"],
        &["ps"],
        &["ps", "--json"],
    ] {
        // Each names the store once.
        assert_eq!(
            fails(&place, arguments, 1, "`rejoin store migrate --store"),
            ""
        );
    }
    runs(&place, &["store", "migrate"]);
    assert!(runs(&place, &["store", "check"]).contains("0 sessions"));
    let mut process = Process::start(&place);
    let session = process.new_session();
    process
        .ask("session/prompt", &prompt(&session, "hello"))
        .unwrap();
    process.leave();
    assert!(runs(&place, &["sessions", "list", "--json"]).contains(&session));
    runs(&place, &["sessions", "search", &"x".repeat(3000)]);
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().to_str().unwrap();
    let from = place.to_str().unwrap();
    runs(
        &place,
        &["store", "copy", "--from", from, "--to", to, "--verify"],
    );
    runs(folder.path(), &["sessions", "verify"]);
    let again = runs(
        &place,
        &["store", "copy", "--from", to, "--to", from, "--json"],
    );
    assert!(again.contains("\"same\""), "{again}");
    let copy = ["store", "copy", "--from", from, "--to", to];
    let none = runs(&place, &[&copy[..], &["--since", "2999-01-01"]].concat());
    assert!(none.contains("0 were there already"), "{none}");
    fails(
        &place,
        &[&copy[..], &["--since", "soon"]].concat(),
        2,
        "--since",
    );
    let moved = runs(&place, &[&copy[..], &["--since", "1d", "--move"]].concat());
    assert!(moved.contains("1 were there already"), "{moved}");
    assert!(!runs(&place, &["sessions", "list", "--json"]).contains(&session));
    let none = runs(&place, &copy);
    // The other store has it, and not in its trash.
    let there = "copied 0 sessions in the trash, 1 were there already";
    assert!(none.contains(there), "{none}");
    runs(&place, &["sessions", "restore", &session]);
    runs(
        &place,
        &["sessions", "delete", "--forever", "--yes", &session],
    );
    assert!(!runs(&place, &["sessions", "list", "--json"]).contains(&session));
}
