//! A client and an engine, both in the hands of a test, with the program between them.

use std::io::{PipeWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};

use rejoin::engine::{AttachOutcome, AttachReason, CloseReason, EngineError, Outlet};
use rejoin::server::Options;
use rejoin::store::{Durability, Store};
use rejoin::sys::SessionId;
use rejoin::sys::sim::SimDisk;
use serde_json::{Value, json};

use super::engine::{Event, Responder, Scripted};
use crate::support::agent::{GUARD, Inbox};
use crate::support::server::{self, Server};
use crate::support::systems::FOLDER;

pub(super) struct Rig {
    pub(super) disk: SimDisk,
    input: Option<PipeWriter>,
    inbox: Inbox,
    events: Receiver<Event>,
    server: Server,
    last: u64,
}

impl Rig {
    /// A connection to an empty store, `initialize` behind it.
    pub(super) fn start() -> Self {
        Self::start_with(SimDisk::new(), true, 1)
    }

    /// The same, of another process on this disk.
    pub(super) fn start_on(disk: SimDisk) -> Self {
        Self::start_with(disk, true, 1)
    }

    /// The same with version 2 of the protocol, and without an agent behind the engine.
    pub(super) fn start_v2() -> Self {
        Self::start_with(SimDisk::new(), false, 2)
    }

    fn start_with(disk: SimDisk, wraps: bool, version: u16) -> Self {
        let sys = disk.sys();
        let (tell, events) = mpsc::channel();
        let tell = Arc::new(Mutex::new(tell));
        let engine = Arc::new(Scripted { tell, wraps });
        let options = Options {
            store: Some(root()),
            ..Options::default()
        };
        let (server, input, output) = server::start(options, sys, engine, 2);
        let mut rig = Self {
            disk,
            input: Some(input),
            inbox: Inbox::new(Box::new(output)),
            events,
            server,
            last: 0,
        };
        let info = json!({ "name": "rig", "version": "1" });
        let hello = json!({ "protocolVersion": version, "info": info });
        rig.ask("initialize", hello);
        assert_eq!(rig.next()["result"]["protocolVersion"], version);
        rig
    }

    pub(super) fn send(&mut self, message: &Value) {
        let input = self.input.as_mut().expect("the input is open");
        writeln!(input, "{message}").expect("the program reads");
    }

    /// Sends a request; the answer has this id.
    pub(super) fn ask(&mut self, method: &str, params: Value) -> u64 {
        self.last += 1;
        let id = self.last;
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.send(&request);
        id
    }

    /// Asks for something that is done in a folder.
    pub(super) fn ask_for(&mut self, method: &str, session: &str) -> u64 {
        let params = json!({ "sessionId": session, "cwd": FOLDER, "mcpServers": [] });
        self.ask(method, params)
    }

    /// The next message.
    #[track_caller]
    pub(super) fn next(&mut self) -> Value {
        serde_json::from_str(&self.next_line()).expect("a message is JSON")
    }

    /// The next line. What the session is called comes with the end of each first turn, and is
    /// passed over.
    #[track_caller]
    pub(super) fn next_line(&mut self) -> String {
        loop {
            let line = self.inbox.next(GUARD).expect("something comes");
            let line = line.expect("the program has not ended");
            let line = String::from_utf8(line).expect("UTF-8");
            if !line.contains(TITLE) {
                return line;
            }
        }
    }

    /// The answer to a request, which is the next message.
    #[track_caller]
    pub(super) fn answer(&mut self, id: u64) -> Value {
        let message = self.next();
        assert_eq!(message["id"], id, "{message}");
        assert_eq!(message.get("method"), None, "{message}");
        message
    }

    #[track_caller]
    pub(super) fn event(&mut self) -> Event {
        self.events
            .recv_timeout(GUARD)
            .expect("the engine is asked")
    }

    /// The engine is to make ready.
    #[track_caller]
    pub(super) fn attach(&mut self, expected: AttachReason) -> (Outlet, Responder<AttachOutcome>) {
        match self.event() {
            Event::Attach(how, out, responder) if how == expected => (out, responder),
            event => panic!("{event:?}"),
        }
    }

    #[track_caller]
    pub(super) fn parted(&mut self, expected: CloseReason) {
        let event = self.event();
        assert!(matches!(event, Event::Part(how) if how == expected));
    }

    /// A new session, and what the engine speaks through.
    #[track_caller]
    pub(super) fn session(&mut self) -> (String, Outlet) {
        let id = self.ask("session/new", json!({ "cwd": FOLDER, "mcpServers": [] }));
        let (out, responder) = self.attach(AttachReason::New);
        responder
            .send(Ok(AttachOutcome::default()))
            .expect("it waits");
        let answer = self.answer(id);
        let session = answer["result"]["sessionId"].as_str().expect("an id");
        (session.to_owned(), out)
    }

    /// Nothing comes before the answer to a request that changes nothing.
    #[track_caller]
    pub(super) fn is_quiet(&mut self) {
        let id = self.ask("session/list", json!({}));
        assert!(self.answer(id).get("result").is_some());
    }

    /// Kinds and payloads of the records of a session's log.
    pub(super) fn records(&self, session: &str) -> Vec<(&'static str, String)> {
        let store = Store::at(&root(), self.disk.sys(), Durability::Turn);
        let id = SessionId::parse(session).expect("one of ours");
        let mut reader = store.read(&id).expect("it is there");
        let mut records = Vec::new();
        while let Some(entry) = reader.next().expect("it can be read") {
            let record = entry.record;
            if record.payload.contains(TITLE) {
                continue;
            }
            records.push((record.kind.as_str(), record.payload.to_owned()));
        }
        records
    }

    /// Ends the input; nothing more may come.
    pub(super) fn end(mut self) {
        self.input = None;
        assert_eq!(self.inbox.next(GUARD), Ok(None));
        let served = self.server.wait(GUARD).expect("it ends");
        served.expect("serving began");
    }
}

/// What an update begins with that says what a session is called.
const TITLE: &str = r#"{"sessionUpdate":"session_info_update","title":"#;

pub(super) fn refusal() -> EngineError {
    EngineError::of_agent(-31999, "no".to_owned(), None)
}

fn root() -> PathBuf {
    Path::new("/store").to_owned()
}

/// How many sessions a disk has.
pub(super) fn logs(disk: &SimDisk) -> usize {
    let files = disk.files();
    let is_log = |path: &&PathBuf| path.parent() == Some(&root().join("sessions"));
    files.iter().filter(is_log).count()
}
