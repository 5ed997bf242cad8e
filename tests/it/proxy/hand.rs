//! Both sides of `rejoin proxy` in one hand: what the client says, what the successor says, and
//! what comes back.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin};
use std::sync::mpsc::{self, Receiver};

use serde_json::{Value, json};

use crate::support::agent::GUARD;
use crate::support::conductor;
use crate::support::systems::FOLDER;

/// A conductor that a test plays.
pub(super) struct Hand {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    store: tempfile::TempDir,
    log: tempfile::NamedTempFile,
}

/// How a successor greets.
pub(super) const GREETING: &str = r#"{"protocolVersion":1,"agentInfo":{"name":"far","version":"7"},"agentCapabilities":{"loadSession":true},"_meta":{"n":1e400}}"#;

impl Hand {
    pub(super) fn new() -> Self {
        let store = tempfile::tempdir().expect("folders can be made");
        let log = tempfile::NamedTempFile::new().expect("files can be made");
        let (child, input, lines) = start(&store, &log);
        Self {
            child,
            input: Some(input),
            lines,
            store,
            log,
        }
    }

    /// A proxy that is initialized.
    pub(super) fn greeted() -> Self {
        let mut hand = Self::new();
        hand.greet();
        hand
    }

    /// A proxy with a session: the client's id of it.
    pub(super) fn in_session() -> (Self, String) {
        let mut hand = Self::greeted();
        let new = json!({ "jsonrpc": "2.0", "id": "n", "method": "session/new", "params": { "cwd": FOLDER, "mcpServers": [] } });
        hand.send(&new.to_string());
        let (id, method, params) = hand.successor_request();
        assert_eq!(method, "session/new");
        assert_eq!(params, json!({ "cwd": FOLDER, "mcpServers": [] }));
        hand.answer(&id, r#"{"sessionId":"in"}"#);
        let answer = hand.next();
        assert_eq!(answer["id"], "n");
        let session = answer["result"]["sessionId"].as_str().expect("a session");
        let session = session.to_owned();
        (hand, session)
    }

    pub(super) fn greet(&mut self) {
        self.send(r#"{"jsonrpc":"2.0","id":0,"method":"proxy/initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}"#);
        let (id, method, _) = self.successor_request();
        assert_eq!(method, "initialize");
        self.answer(&id, GREETING);
        let answer = self.next_line();
        assert!(answer.contains(r#""n":1e400"#), "{answer}");
        let answer: Value = serde_json::from_str(&answer.replace("1e400", "1")).expect("JSON");
        assert_eq!(answer["id"], 0);
        assert_eq!(answer["result"]["agentInfo"]["name"], "far");
    }

    pub(super) fn send(&mut self, line: &str) {
        let input = self.input.as_mut().expect("the input is open");
        writeln!(input, "{line}").expect("it reads");
    }

    /// The successor answers a request under its id, given as JSON text.
    pub(super) fn answer(&mut self, id: &str, result: &str) {
        self.send(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#
        ));
    }

    pub(super) fn next_line(&mut self) -> String {
        let line = self.lines.recv_timeout(GUARD);
        line.unwrap_or_else(|error| panic!("{error}; it said:\n{}", self.said()))
    }

    pub(super) fn next(&mut self) -> Value {
        let line = self.next_line();
        serde_json::from_str(&line).expect("it sends JSON")
    }

    /// The next line, a request to the successor: its id as JSON text, its method and parameters.
    pub(super) fn successor_request(&mut self) -> (String, String, Value) {
        let request = self.next();
        assert_eq!(request["method"], "proxy/successor", "{request}");
        let id = request["id"].to_string();
        assert!(id.starts_with("\"s"), "{request}");
        let method = request["params"]["method"].as_str().expect("a method");
        (id, method.to_owned(), request["params"]["params"].clone())
    }

    /// Kills it, and starts another one on the same store.
    pub(super) fn crash(&mut self) {
        self.child.kill().expect("it is a child of ours");
        self.child.wait().expect("it is a child of ours");
        let (child, input, lines) = start(&self.store, &self.log);
        self.child = child;
        self.input = Some(input);
        self.lines = lines;
    }

    /// Ends its input, reads the rest and checks that it ends well.
    pub(super) fn end(mut self) -> Vec<String> {
        self.input = None;
        let mut rest = Vec::new();
        while let Ok(line) = self.lines.recv_timeout(GUARD) {
            rest.push(line);
        }
        let status = self.child.wait().expect("it is a child of ours");
        assert!(status.success(), "{status}: {}", self.said());
        rest
    }

    pub(super) fn said(&self) -> String {
        std::fs::read_to_string(self.log.path()).unwrap_or_default()
    }
}

impl Drop for Hand {
    fn drop(&mut self) {
        self.child.kill().unwrap_or_default();
        self.child.wait().expect("it is a child of ours");
    }
}

fn start(
    store: &tempfile::TempDir,
    log: &tempfile::NamedTempFile,
) -> (Child, ChildStdin, Receiver<String>) {
    let mut child = conductor::proxy(store.path(), &[], log);
    let input = child.stdin.take().expect("it was asked for");
    let output = child.stdout.take().expect("it was asked for");
    let (sender, lines) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    (child, input, lines)
}
