//! `rejoin wrap` around `rejoin` itself, with a store of its own or with the same one.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::command::command;
use crate::support::systems::FOLDER;

const REJOIN: &str = env!("CARGO_BIN_EXE_rejoin");

/// `rejoin wrap` around another `rejoin`.
struct Wrap {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    asked: u64,
}

impl Wrap {
    /// Starts it with these arguments behind `rejoin wrap -- rejoin`.
    fn start(store: &Path, inner: &[&str]) -> Self {
        let wrap = ["wrap", "--", REJOIN];
        let mut child = command(store, &[&wrap, inner].concat())
            .env("REJOIN_STORE", store)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut wrap = Self {
            child,
            input,
            output,
            asked: 0,
        };
        wrap.answer("initialize", &json!({ "protocolVersion": 1 }));
        wrap
    }

    fn ask(&mut self, method: &str, params: &Value) -> u64 {
        self.asked += 1;
        let id = self.asked;
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        writeln!(self.input, "{request}").unwrap();
        id
    }

    fn next(&mut self) -> Value {
        let mut line = String::new();
        assert_ne!(self.output.read_line(&mut line).unwrap(), 0, "it ended");
        serde_json::from_str(&line).unwrap()
    }

    fn answer(&mut self, method: &str, params: &Value) -> Value {
        let id = self.ask(method, params);
        loop {
            let line = self.next();
            if line["id"] == id {
                return line;
            }
        }
    }

    /// The ids that are listed, in their order.
    fn list(&mut self, params: &Value) -> Vec<String> {
        let list = self.answer("session/list", params);
        let sessions = list["result"]["sessions"].as_array().unwrap();
        let id = |session: &Value| session["sessionId"].as_str().unwrap().to_owned();
        sessions.iter().map(id).collect()
    }

    fn end(mut self) {
        drop(self.input);
        self.child.wait().unwrap();
    }
}

fn prompt(session: &str, text: &str) -> Value {
    json!({ "sessionId": session, "prompt": [{ "type": "text", "text": text }] })
}

#[test]
fn session_continues_after_kill_of_nested_wrap() {
    let folder = TempDir::new().unwrap();
    let (store, inner) = (folder.path().join("outer"), folder.path().join("inner"));
    let inner = ["--store", inner.to_str().unwrap(), "serve"];
    let mut first = Wrap::start(&store, &inner);
    let new = first.answer("session/new", &json!({ "cwd": FOLDER, "mcpServers": [] }));
    let session = new["result"]["sessionId"].as_str().unwrap().to_owned();
    let modes = &new["result"]["modes"];
    assert!(modes.is_object(), "{new}");
    first.ask("session/prompt", &prompt(&session, "/slow 600"));
    while first.next()["params"]["update"]["sessionUpdate"] != "agent_message_chunk" {}
    first.child.kill().unwrap();
    first.child.wait().unwrap();

    let mut second = Wrap::start(&store, &inner);
    let place = json!({ "sessionId": session, "cwd": FOLDER, "mcpServers": [] });
    let load = second.answer("session/load", &place);
    assert_eq!(&load["result"]["modes"], modes, "{load}");
    assert_eq!(load["result"]["_meta"]["rejoin"]["holder"], Value::Null);
    let answer = second.answer("session/prompt", &prompt(&session, "/echo on"));
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    second.end();
}

#[test]
fn shared_store_lists_sessions_once() {
    for inner in [&["serve"][..], &["wrap", "--", REJOIN, "serve"]] {
        let store = TempDir::new().unwrap();
        let mut wrap = Wrap::start(store.path(), inner);
        let mut made = Vec::new();
        for text in ["/echo one", "/echo two"] {
            let new = wrap.answer("session/new", &json!({ "cwd": FOLDER, "mcpServers": [] }));
            let session = new["result"]["sessionId"].as_str().unwrap().to_owned();
            wrap.answer("session/prompt", &prompt(&session, text));
            made.insert(0, session);
        }
        assert_eq!(wrap.list(&json!({})), made);
        assert_eq!(wrap.list(&json!({ "cwd": FOLDER })), made);
        let counted = wrap.answer("session/list", &json!({ "search": "echo" }));
        assert_eq!(counted["result"]["total"], 2, "{counted}");
        wrap.end();

        // So are they in another life, and on the command line.
        let mut wrap = Wrap::start(store.path(), inner);
        assert_eq!(wrap.list(&json!({})), made);
        wrap.end();
        for args in [&["sessions", "list"][..], &["sessions", "search", "echo"]] {
            let output = command(store.path(), args).output().unwrap();
            let output = String::from_utf8(output.stdout).unwrap();
            let listed = output.lines().filter_map(|line| line.split(' ').next());
            let listed: Vec<_> = listed.filter(|id| id.starts_with("sess_")).collect();
            assert_eq!(listed, made, "{args:?}");
        }

        // The agents' sessions are still there, and listed when no session of ours represents them.
        for session in &made {
            let delete = ["sessions", "delete", session];
            let deleted = command(store.path(), &delete).output().unwrap();
            assert!(deleted.status.success(), "{deleted:?}");
        }
        let mut wrap = Wrap::start(store.path(), inner);
        let left = wrap.list(&json!({}));
        assert_eq!(left.len(), 2, "{left:?}");
        let place = json!({ "sessionId": left[0], "cwd": FOLDER, "mcpServers": [] });
        let loaded = wrap.answer("session/load", &place);
        assert!(loaded["result"].is_object(), "{loaded}");
        wrap.end();
    }
}
