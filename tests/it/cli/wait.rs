//! `rejoin wait`: its exit codes, and that it ends when a turn does. `rejoin ps --watch`, which goes on.
#![cfg(unix)]
#![expect(
    clippy::disallowed_methods,
    reason = "writes real files for the real binary"
)]

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

use rejoin::record::{Kind, line};
use rejoin::sys::Sys;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::command::{command, fails, runs};
use crate::support::logs::log;

/// How much later a turn ends each time that it has ended before the command has looked.
const LATER: Duration = Duration::from_millis(100);

/// A session with a turn, which another process seems to have open.
pub(super) struct OpenSession {
    pub(super) id: String,
    file: File,
    next: u64,
}

impl OpenSession {
    pub(super) fn new(store: &Path) -> Self {
        let id = log(store, &[(Kind::Prompt, Some("msg_1"), prompt())]);
        let path = store.join(format!("sessions/{id}.jsonl"));
        let file = fs::OpenOptions::new().append(true).open(path).unwrap();
        file.lock().unwrap();
        fs::create_dir_all(store.join("open")).unwrap();
        let hint = r#"{"pid":4711,"host":"elsewhere"}"#;
        fs::write(store.join(format!("open/{id}")), hint).unwrap();
        Self { id, file, next: 2 }
    }

    fn append(&mut self, kind: Kind, id: Option<&str>, payload: &Value) {
        let mut bytes = Vec::new();
        let at = Sys::real().clock.now();
        line::encode(&mut bytes, self.next, at, kind, id, &payload.to_string());
        self.next += 1;
        self.file.write_all(&bytes).unwrap();
    }
}

fn prompt() -> Value {
    json!({ "prompt": [{ "type": "text", "text": "Fix the cache" }] })
}

fn starts(store: &Path, arguments: &[&str]) -> Child {
    let mut wait = command(store, arguments);
    wait.stdout(Stdio::piped()).stderr(Stdio::null());
    wait.spawn().unwrap()
}

/// What a command that was started prints, and its exit code.
fn ends(child: Child) -> (String, Option<i32>) {
    let output = child.wait_with_output().unwrap();
    (
        String::from_utf8(output.stdout).unwrap(),
        output.status.code(),
    )
}

#[test]
fn the_exit_code_says_what_has_happened() {
    let root = TempDir::new().unwrap();
    let store = root.path();
    let idle = crate::support::logs::session(store, "Done long ago");
    assert_eq!(runs(store, &["wait"]), "");
    assert_eq!(runs(store, &["wait", &idle]), format!("{idle}: is idle\n"));
    fails(
        store,
        &["wait", "nothing like that"],
        3,
        "there is no session",
    );
    let mut session = OpenSession::new(store);
    let id = session.id.clone();
    for one in [
        &["wait", "--timeout", "50ms"][..],
        &["wait", &id, "--timeout", "50ms"],
    ] {
        fails(store, one, 12, "the time is over");
    }
    let ask = json!({ "method": "session/request_permission", "params": { "options": [] } });
    session.append(Kind::Ask, Some("ask_1"), &ask);
    for one in [&["wait"][..], &["wait", &id]] {
        assert_eq!(
            fails(store, one, 10, ""),
            format!("{id}: waits for an answer\n")
        );
    }
    let said: Value = serde_json::from_str(&fails(store, &["wait", "--json"], 10, "")).unwrap();
    assert_eq!(said["outcome"], "waiting");
    assert_eq!(said["title"], "Fix the cache");
}

#[test]
fn it_ends_with_the_turn() {
    let root = TempDir::new().unwrap();
    let store = root.path();
    let mut session = OpenSession::new(store);
    let id = session.id.clone();
    let failed = json!({ "error": { "code": -32603, "message": "out of\u{1b} tokens" } });
    // A turn that ends before the command looks is over, as for anyone who comes too late.
    for (end, code) in [(json!({ "stopReason": "end_turn" }), 0), (failed, 11)] {
        let mut later = Duration::ZERO;
        let said = loop {
            let one = starts(store, &["wait", &id]);
            let any = starts(store, &["wait"]);
            thread::sleep(later);
            later += LATER;
            session.append(Kind::End, None, &end);
            let (said, got) = ends(one);
            let (_, of_any) = ends(any);
            session.append(Kind::Prompt, Some("msg_2"), &prompt());
            if got == Some(code) && of_any == Some(code) {
                break said;
            }
            assert_eq!(
                (got == Some(0) || got == Some(code), code),
                (true, 11),
                "{said}"
            );
        };
        let expected = if code == 0 {
            "is idle"
        } else {
            r"The turn failed: out of\u{1b} tokens"
        };
        assert!(said.contains(expected), "{said}");
    }
    // The process is gone, and its turn with it.
    let mut later = Duration::ZERO;
    loop {
        let wait = starts(store, &["wait", &id]);
        thread::sleep(later);
        later += LATER;
        fs::remove_file(store.join(format!("open/{id}"))).unwrap();
        session.file.unlock().unwrap();
        let (said, code) = ends(wait);
        if code == Some(11) {
            assert!(said.contains("interrupted"), "{said}");
            break;
        }
        assert_eq!(code, Some(0), "{said}");
        session.file.lock().unwrap();
        fs::write(
            store.join(format!("open/{id}")),
            r#"{"pid":4711,"host":"elsewhere"}"#,
        )
        .unwrap();
    }
}

#[test]
fn what_runs_is_followed_until_nobody_reads_it() {
    let root = TempDir::new().unwrap();
    let store = root.path();
    let mut session = OpenSession::new(store);
    let mut watch = starts(store, &["ps", "--watch", "--json"]);
    let mut shown = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut next = || -> Value { serde_json::from_str(&shown.next().unwrap().unwrap()).unwrap() };
    let first = next();
    assert_eq!(first["sessions"][0]["sessionId"], session.id.as_str());
    assert_eq!(first["sessions"][0]["state"], "running");
    let ask = json!({ "method": "session/request_permission", "params": { "options": [] } });
    session.append(Kind::Ask, Some("ask_1"), &ask);
    assert_eq!(next()["sessions"][0]["state"], "requires_action");
    session.append(
        Kind::Answer,
        Some("ask_1"),
        &json!({ "error": { "code": -32603, "message": "none" } }),
    );
    session.append(Kind::End, None, &json!({ "stopReason": "end_turn" }));
    // Between the two, the turn may be seen to go on.
    while next()["sessions"][0]["state"] != "idle" {}
    drop(shown);
    session.append(Kind::Prompt, Some("msg_2"), &prompt());
    assert_eq!(watch.wait().unwrap().code(), Some(0));
}
