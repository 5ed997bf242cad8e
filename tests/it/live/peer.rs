//! A client with a process of its own, which keeps what it is shown of one session.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::agent::{Agent, GUARD};
use crate::support::command::command;
use crate::support::process;

/// What a client is shown: each message's text and each tool call's last status, in the order in
/// which they first came.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Shown {
    order: Vec<String>,
    parts: BTreeMap<String, String>,
}

impl std::fmt::Debug for Shown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts = self.order.iter().map(|key| {
            let (text, most) = (&self.parts[key], 80);
            (key, text.len(), text.get(..most).unwrap_or(text))
        });
        f.debug_list().entries(parts).finish()
    }
}

impl Shown {
    /// Whether this is in a message.
    pub(super) fn says(&self, text: &str) -> bool {
        self.parts.values().any(|part| part.contains(text))
    }

    fn add(&mut self, key: String, text: &str, replaces: bool) {
        if !self.parts.contains_key(&key) {
            self.order.push(key.clone());
        }
        let part = self.parts.entry(key).or_default();
        if replaces {
            part.clear();
        }
        part.push_str(text);
    }

    fn update(&mut self, update: &Value) {
        let text = |name: &str| update[name].as_str().unwrap_or_default().to_owned();
        let kind = text("sessionUpdate");
        match kind.as_str() {
            "agent_message_chunk" => {
                let words = update["content"]["text"].as_str().unwrap_or_default();
                self.add(format!("message {}", text("messageId")), words, false);
            }
            "tool_call" | "tool_call_update" => {
                if let Some(status) = update["status"].as_str() {
                    self.add(format!("call {}", text("toolCallId")), status, true);
                }
            }
            _ => {}
        }
    }
}

/// Whether a client reads what its process writes.
#[derive(Default)]
struct Reading {
    pauses: Mutex<bool>,
    changed: Condvar,
}

impl Reading {
    fn set(&self, pauses: bool) {
        *self.pauses.lock().unwrap() = pauses;
        self.changed.notify_all();
    }

    /// Waits until it reads.
    fn wait(&self) {
        let pauses = self.pauses.lock().unwrap();
        drop(self.changed.wait_while(pauses, |pauses| *pauses).unwrap());
    }
}

/// A client and its process.
pub(super) struct Peer {
    process: Box<dyn Agent>,
    lines: Receiver<Value>,
    reading: Arc<Reading>,
    pub(super) version: u8,
    /// Whether it only looks on, and is asked nothing.
    pub(super) observes: bool,
    last: u64,
    /// Requests without an answer.
    pub(super) waiting: BTreeSet<u64>,
    /// The answers to those that have one, until they are looked at.
    answers: BTreeMap<u64, Value>,
    /// Requests of the agent that are not answered.
    pub(super) asked: Vec<Value>,
    pub(super) shown: Shown,
    /// The ids of the user's messages, in the order in which they came.
    pub(super) prompts: Vec<String>,
}

impl Peer {
    /// Starts `rejoin serve` on a store, and initializes it.
    pub(super) fn start(store: &Path, version: u8) -> Self {
        let serve = command(store, &["serve", "--sources", "none"]);
        Self::of(serve, version)
    }

    /// Starts a process, and initializes it.
    pub(super) fn of(command: Command, version: u8) -> Self {
        Self::with(process::spawn(command), version)
    }

    /// Initializes a process.
    pub(super) fn with(
        (process, output): (Box<dyn Agent>, Box<dyn Read + Send>),
        version: u8,
    ) -> Self {
        let (sender, lines) = channel();
        let reading = Arc::new(Reading::default());
        let reader = reading.clone();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                reader.wait();
                let line = serde_json::from_str(&line).expect("stdout has only JSON");
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let mut peer = Self {
            process,
            lines,
            reading,
            version,
            observes: false,
            last: 0,
            waiting: BTreeSet::new(),
            answers: BTreeMap::new(),
            asked: Vec::new(),
            shown: Shown::default(),
            prompts: Vec::new(),
        };
        let params = match version {
            1 => json!({ "protocolVersion": 1 }),
            _ => json!({
                "protocolVersion": 2,
                "info": { "name": "peer", "version": "1" },
                "capabilities": {},
            }),
        };
        peer.call("initialize", params).unwrap();
        peer
    }

    /// From now on nothing is read, but for one line.
    pub(super) fn stops_reading(&self) {
        self.reading.set(true);
    }

    /// From now on everything is read.
    pub(super) fn reads(&self) {
        self.reading.set(false);
    }

    fn send(&mut self, message: Value) {
        let line = format!("{message}\n");
        // A process that was killed reads nothing.
        self.process.send(line.as_bytes()).ok();
    }

    /// Sends a request.
    pub(super) fn begin(&mut self, method: &str, params: Value) -> u64 {
        self.last += 1;
        let id = self.last;
        self.waiting.insert(id);
        self.send(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    /// Sends a notification.
    pub(super) fn notify(&mut self, method: &str, params: Value) {
        self.send(json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    /// Sends a request and waits for its answer.
    pub(super) fn call(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        let id = self.begin(method, params);
        self.wait(|peer| peer.answers.contains_key(&id));
        let answer = self.answers.remove(&id).unwrap();
        match answer.get("error") {
            Some(error) => Err(error.clone()),
            None => Ok(answer["result"].clone()),
        }
    }

    /// The folder and servers of a request that opens the session, with its id if it has one.
    pub(super) fn place(session: Option<&str>) -> Value {
        let mut place = json!({ "cwd": "/", "mcpServers": [] });
        if let Some(session) = session {
            place["sessionId"] = session.into();
        }
        place
    }

    /// Makes a session. Returns its id.
    pub(super) fn new_session(&mut self) -> String {
        let made = self.call("session/new", Self::place(None)).unwrap();
        made["sessionId"].as_str().unwrap().to_owned()
    }

    /// Loads the session.
    pub(super) fn load(&mut self, session: &str) -> Result<Value, Value> {
        let mut params = Self::place(Some(session));
        if self.observes {
            params["_meta"] = json!({ "rejoin": { "observe": true } });
        }
        if self.version == 1 {
            return self.call("session/load", params);
        }
        params["replayFrom"] = json!({ "type": "start" });
        self.call("session/resume", params)
    }

    /// Begins a prompt.
    pub(super) fn prompt(&mut self, session: &str, text: &str) -> u64 {
        let prompt = json!([{ "type": "text", "text": text }]);
        self.begin(
            "session/prompt",
            json!({ "sessionId": session, "prompt": prompt }),
        )
    }

    /// Prompts, and waits for the answer.
    #[track_caller]
    pub(super) fn turn(&mut self, session: &str, text: &str) -> Value {
        let id = self.prompt(session, text);
        self.wait(|peer| peer.answers.contains_key(&id));
        self.answers.remove(&id).unwrap()
    }

    /// Answers a request of the agent.
    pub(super) fn answer(&mut self, request: &Value, option: &str) {
        let outcome = json!({ "outcome": { "outcome": "selected", "optionId": option } });
        self.send(json!({ "jsonrpc": "2.0", "id": request["id"], "result": outcome }));
    }

    /// Answers a request of the agent with one of its options, or the last one.
    pub(super) fn choose(&mut self, request: &Value, option: usize) {
        let options = request["params"]["options"].as_array().unwrap();
        let chosen = options.get(option).or(options.last()).unwrap();
        self.answer(request, chosen["optionId"].as_str().unwrap());
    }

    /// Handles what has come, and waits for more until `done`.
    #[track_caller]
    pub(super) fn wait(&mut self, done: impl Fn(&Self) -> bool) {
        while !done(self) {
            match self.lines.recv_timeout(GUARD) {
                Ok(line) => self.handle(line),
                Err(error) => panic!(
                    "{error}: waits for {:?}, is asked {:?}, was shown {:?}",
                    self.waiting, self.asked, self.shown
                ),
            }
        }
    }

    /// Waits until it was shown the same as another client.
    #[track_caller]
    pub(super) fn wait_until_shown(&mut self, expected: &Shown) {
        while self.shown != *expected {
            match self.lines.recv_timeout(GUARD) {
                Ok(line) => self.handle(line),
                Err(error) => panic!(
                    "{error}: version {} was shown {:#?}\ninstead of {expected:#?}",
                    self.version, self.shown
                ),
            }
        }
    }

    /// Handles what has come.
    pub(super) fn look(&mut self) {
        while let Ok(line) = self.lines.recv_timeout(Duration::ZERO) {
            self.handle(line);
        }
    }

    fn handle(&mut self, line: Value) {
        let method = line["method"].as_str().unwrap_or_default().to_owned();
        match (method.as_str(), line.get("id")) {
            ("session/update", _) => {
                let update = &line["params"]["update"];
                self.shown.update(update);
                let kind = update["sessionUpdate"].as_str().unwrap_or_default();
                let id = update["messageId"].as_str().unwrap_or_default();
                if kind.starts_with("user_message") && self.prompts.last().is_none_or(|p| p != id) {
                    self.prompts.push(id.to_owned());
                }
            }
            ("$/cancel_request", _) => {
                let id = &line["params"]["requestId"];
                self.asked.retain(|request| request["id"] != *id);
                let error = json!({ "code": -32800, "message": "cancelled" });
                self.send(json!({ "jsonrpc": "2.0", "id": id, "error": error }));
            }
            ("", Some(id)) => {
                let id = id.as_u64().unwrap();
                assert!(self.waiting.remove(&id), "a second answer: {line}");
                self.answers.insert(id, line);
            }
            (_, Some(_)) => {
                assert!(!self.observes, "a client that looks on is asked {line}");
                self.asked.push(line);
            }
            _ => {}
        }
    }

    /// The process's memory of answers is not needed any longer.
    pub(super) fn forget_answers(&mut self) -> Vec<Value> {
        std::mem::take(&mut self.answers).into_values().collect()
    }

    /// The id of its process.
    pub(super) fn id(&self) -> u32 {
        self.process.process()
    }

    /// Ends the input, and waits for the process.
    #[track_caller]
    pub(super) fn leave(mut self) {
        self.process.end_input();
        self.ended().unwrap();
    }

    /// Waits for a process that ends by itself. Whether it ends well.
    #[track_caller]
    pub(super) fn ended(&mut self) -> Result<(), String> {
        loop {
            match self.lines.recv_timeout(GUARD) {
                Ok(line) => self.handle(line),
                Err(RecvTimeoutError::Disconnected) => return self.process.wait(),
                Err(error) => panic!("{error}: the process does not end"),
            }
        }
    }

    /// Kills the process.
    pub(super) fn kill(mut self) {
        self.process.kill();
    }
}
