//! The program's own log, for a reader who wants to know what became of a session.
#![expect(
    clippy::disallowed_methods,
    reason = "reads what the real binary has written"
)]

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use rejoin::store::{Durability, Store};
use rejoin::sys::{SessionId, Sys};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::command::command;

const NOBODY: &str = "sess_019aa564-cd00-7b3c-9e41-5f2d8c6a1b07";
const WORDS: &str = "zanzibarhunter2";

struct Served {
    answers: Vec<Value>,
    log: String,
}

/// Pipes requests into `rejoin serve` with a log of this level.
fn serve(store: &Path, level: Option<&str>, requests: &[(&str, Value)]) -> Served {
    let log = store.with_extension("log");
    fs::remove_file(&log).ok();
    let mut arguments = vec!["serve", "--log-file", log.to_str().unwrap()];
    arguments.extend(level.into_iter().flat_map(|level| ["--log-level", level]));
    let mut child = command(store, &arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let hello = [("initialize", json!({ "protocolVersion": 1 }))];
    for (id, (method, params)) in hello.iter().chain(requests).enumerate() {
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        writeln!(input, "{request}").unwrap();
    }
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let lines = String::from_utf8(output.stdout).unwrap();
    let lines = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    Served {
        answers: lines.filter(|line: &Value| line["id"].is_u64()).collect(),
        log: fs::read_to_string(&log).unwrap(),
    }
}

fn place(id: &str) -> Value {
    json!({ "sessionId": id, "cwd": "/w", "mcpServers": [] })
}

fn prompt(id: &str) -> Value {
    json!({ "sessionId": id, "prompt": [{ "type": "text", "text": format!("/echo {WORDS}") }] })
}

/// The lines about a session, without their times.
fn about(log: &str, id: &str) -> Vec<String> {
    let mut about = Vec::new();
    for line in log.lines().filter(|line| line.contains(id)) {
        let (_, line) = line.split_once(" INFO ").expect("no other level");
        let (target, line) = line.split_once(": ").unwrap();
        assert!(target.starts_with("rejoin::"), "{line}");
        let words = line.split(' ').filter(|word| !word.contains('='));
        about.push(words.collect::<Vec<_>>().join(" "));
    }
    about
}

#[test]
fn each_session_event_has_a_log_line() {
    let folder = TempDir::new().unwrap();
    let store = folder.path().join("store");
    let made = serve(&store, Some("info"), &[("session/new", place(""))]);
    let id = made.answers[1]["result"]["sessionId"].as_str().unwrap();
    assert_eq!(about(&made.log, id), ["created"]);
    let start = made.log.lines().next().unwrap();
    assert!(start.contains("serving version=\"0."), "{start}");
    assert!(start.contains(store.to_str().unwrap()), "{start}");

    let requests = [
        ("session/resume", place(id)),
        ("session/prompt", prompt(id)),
        ("session/load", place(NOBODY)),
    ];
    let gone_on = serve(&store, Some("info"), &requests);
    assert_eq!(about(&gone_on.log, id), ["resumed", "turn ended"]);
    assert_eq!(about(&gone_on.log, NOBODY), ["not found"]);
    let turn = gone_on.log.lines().find(|line| line.contains("turn ended"));
    let turn = turn.unwrap();
    assert!(turn.contains("reason=") && turn.contains("ms="), "{turn}");

    let requests = [
        ("session/load", place(id)),
        ("session/close", json!({ "sessionId": id })),
    ];
    let loaded = serve(&store, Some("info"), &requests);
    assert_eq!(about(&loaded.log, id), ["loaded", "closed"]);
    assert!(loaded.log.contains("turns=1 ms="), "{}", loaded.log);

    let held = Store::at(&store, Sys::real(), Durability::Os);
    let held = held.open_log(&SessionId::parse(id).unwrap()).unwrap();
    let requests = [("session/load", place(id)), ("session/prompt", prompt(id))];
    let second = serve(&store, Some("info"), &requests);
    let mut lines = about(&second.log, id);
    // The sentence of the error.
    lines[2] = lines[2].split(' ').next().unwrap().to_owned();
    assert_eq!(lines[..2], ["loaded", "in use"]);
    drop(held);

    let delete = [("session/delete", json!({ "sessionId": id }))];
    let deleted = serve(&store, Some("info"), &delete);
    assert_eq!(about(&deleted.log, id), ["deleted"]);
    for log in [made.log, gone_on.log, loaded.log, second.log, deleted.log] {
        assert!(!log.contains(WORDS), "{log}");
    }
}

#[test]
fn log_levels() {
    let folder = TempDir::new().unwrap();
    let store = folder.path().join("store");
    let requests = [("session/new", place("")), ("session/load", place(NOBODY))];
    assert_eq!(serve(&store, None, &requests).log, "");
    for level in ["debug", "trace"] {
        let log = serve(&store, Some(level), &requests).log;
        assert!(log.contains("rejoin::session"), "{log}");
    }
}
