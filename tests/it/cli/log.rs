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
use crate::support::systems::FOLDER;

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
    json!({ "sessionId": id, "cwd": FOLDER, "mcpServers": [] })
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
    assert!(
        start.contains(&format!("{:?}", store.to_str().unwrap())),
        "{start}"
    );

    let requests = [
        ("session/resume", place(id)),
        ("session/prompt", prompt(id)),
        ("session/load", place(NOBODY)),
    ];
    let gone_on = serve(&store, Some("info"), &requests);
    let expected = ["resumed", "turn begun", "turn ended"];
    assert_eq!(about(&gone_on.log, id), expected);
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
    // The prompt, the answer, and the title.
    let counts = loaded.log.contains("turns=1 updates=3 ms=");
    assert!(counts, "{}", loaded.log);

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
fn failures_have_a_log_line_with_the_reason() {
    let folder = TempDir::new().unwrap();
    let store = folder.path().join("store");
    let made = serve(&store, None, &[("session/new", place(""))]);
    let id = made.answers[1]["result"]["sessionId"].as_str().unwrap();
    let log = store.join(format!("sessions/{id}.jsonl"));
    fs::write(&log, format!("{WORDS}\n")).unwrap();
    let loaded = serve(&store, Some("info"), &[("session/load", place(id))]);
    let lines = about(&loaded.log, id);
    assert!(
        lines.len() == 1 && lines[0].starts_with("not opened"),
        "{lines:?}"
    );
    let message = loaded.answers[1]["error"]["message"].as_str().unwrap();
    assert!(loaded.log.contains(message), "{}", loaded.log);
    assert!(!loaded.log.contains(WORDS), "{}", loaded.log);
}

/// A client that waits for each response.
#[cfg(unix)]
#[test]
fn each_event_of_an_agent_has_a_log_line() {
    use std::io::{BufRead, BufReader};

    let folder = TempDir::new().unwrap();
    let store = folder.path().join("store");
    let log = folder.path().join("the.log");
    let agent = crate::support::wrapped::Wrapped::new(folder.path(), &["--resume".to_owned()]);
    let agent = agent.arguments();
    let options = [
        "wrap",
        "--log-level",
        "info",
        "--log-file",
        log.to_str().unwrap(),
    ];
    let arguments = options.into_iter().chain(agent.iter().map(String::as_str));
    let mut child = command(&store, &arguments.collect::<Vec<_>>())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut ask = |method: &str, params: Value| {
        let request = json!({ "jsonrpc": "2.0", "id": method, "method": method, "params": params });
        writeln!(input, "{request}").unwrap();
        let mut lines = output.by_ref().map(|line| line.unwrap());
        let mut lines = lines
            .by_ref()
            .map(|line| serde_json::from_str::<Value>(&line).unwrap());
        lines.find(|line| line["id"] == method).unwrap()
    };
    ask("initialize", json!({ "protocolVersion": 1 }));
    let made = ask("session/new", place(""));
    let id = made["result"]["sessionId"].as_str().unwrap();
    let prompt =
        |text: &str| json!({ "sessionId": id, "prompt": [{ "type": "text", "text": text }] });
    ask("session/prompt", prompt(&format!("say {WORDS}\nexit 7")));
    ask("session/prompt", prompt("say again"));
    drop(input);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let log = fs::read_to_string(&log).unwrap();
    // The end of the agent and that of its turn are seen by two threads.
    let mut expected = [
        "created",
        "its agent has ended",
        "opened in the agent again",
        "request failed",
        "turn begun",
        "turn begun",
        "turn ended",
        "turn failed",
    ];
    expected.sort_unstable();
    let mut lines = about(&log, id);
    for line in &mut lines {
        // The sentence of the error.
        if line.starts_with("request failed") {
            line.truncate("request failed".len());
        }
    }
    lines.sort_unstable();
    assert_eq!(lines, expected, "{log}");
    assert!(log.contains("way=\"resume\""), "{log}");
    assert_eq!(log.matches("the agent has started").count(), 2, "{log}");
    assert_eq!(log.matches("the agent was ended").count(), 1, "{log}");
    assert!(!log.contains(WORDS), "{log}");
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
