//! Conversations of other tools beside the sessions of a wrapped agent.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};

use rejoin::sys::{Sys, Timestamp};

use super::home;
use super::listed::append;
use crate::support::command::command;
use crate::support::systems::FOLDER;
use crate::support::wrapped;

/// The id of the thread of Codex that the fixtures have.
const THREAD: &str = "019e1625-0000-7000-8000-000000000001";

struct Wrap {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    asked: u64,
}

impl Wrap {
    /// Wraps an agent with this name, which notes in a file what it receives.
    fn start(store: &Path, home: &Path, name: &str) -> Self {
        let agent = wrapped::program();
        let agent = agent.to_str().unwrap();
        let record = home.join("received.jsonl");
        let record = record.to_str().unwrap();
        let wrap = ["wrap", "--sources", "codex", "--name", name, "--", agent];
        let flags = ["--record", record, "--resume", "--resume-blind"];
        let mut child = command(store, &[&wrap[..], &flags].concat())
            .env("HOME", home)
            .env("USERPROFILE", home)
            .env_remove("CODEX_HOME")
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
        wrap.call("initialize", &json!({ "protocolVersion": 1 }));
        wrap
    }

    fn call(&mut self, method: &str, params: &Value) -> Value {
        self.asked += 1;
        let id = self.asked;
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        writeln!(self.input, "{request}").unwrap();
        loop {
            let mut line = String::new();
            assert_ne!(self.output.read_line(&mut line).unwrap(), 0, "it ended");
            let line: Value = serde_json::from_str(&line).unwrap();
            if line["id"] == id && line.get("method").is_none() {
                return line["result"].clone();
            }
        }
    }

    /// How many turns Codex has written to its thread since it was continued here, as a list says.
    fn since(&mut self) -> Value {
        let list = self.call("session/list", &json!({}));
        let mut sessions = list["sessions"].as_array().unwrap().iter();
        let thread = sessions.find(|session| session["sessionId"] == THREAD);
        thread.unwrap()["_meta"]["rejoin"]["toolBranch"]["turns"].clone()
    }

    /// The ids that are listed.
    fn list(&mut self) -> Vec<String> {
        let list = self.call("session/list", &json!({}));
        let sessions = list["sessions"].as_array().unwrap();
        let id = |session: &Value| session["sessionId"].as_str().unwrap().to_owned();
        sessions.iter().map(id).collect()
    }

    fn end(mut self) {
        drop(self.input);
        self.child.wait().unwrap();
    }
}

/// What the agent received by this method.
fn received(home: &Path, method: &str) -> Vec<Value> {
    let file = std::fs::File::open(home.join("received.jsonl")).unwrap();
    let lines = BufReader::new(file).lines();
    let lines = lines.map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap_or_default());
    lines
        .filter(|line| line.to_string().contains(&format!("\"{method}\"")))
        .collect()
}

#[test]
fn the_agent_that_has_it_is_asked_to_resume_it() {
    let (home, store) = (home(), tempfile::tempdir().unwrap());
    let mut wrap = Wrap::start(store.path(), home.path(), "codex-acp");
    let listed = wrap.list();
    assert_eq!(listed.len(), 2);
    assert!(listed.contains(&THREAD.to_owned()), "{listed:?}");
    let params = json!({ "sessionId": THREAD, "cwd": FOLDER, "mcpServers": [] });
    wrap.call("session/load", &params);
    let resumed = received(home.path(), "session/resume");
    assert!(resumed[0].to_string().contains(THREAD), "{resumed:?}");
    assert_eq!(wrap.list(), listed);
    wrap.end();
}

#[test]
fn another_agent_gets_the_transcript() {
    let (home, store) = (home(), tempfile::tempdir().unwrap());
    let mut wrap = Wrap::start(store.path(), home.path(), "another-agent");
    let listed = wrap.list();
    assert!(
        listed.iter().all(|id| id.starts_with("sess_")),
        "{listed:?}"
    );
    let params = json!({ "sessionId": listed[0], "cwd": FOLDER, "mcpServers": [] });
    wrap.call("session/load", &params);
    let prompt = json!([{ "type": "text", "text": "And then?" }]);
    let params = json!({ "sessionId": listed[0], "prompt": prompt });
    wrap.call("session/prompt", &params);
    let prompts = received(home.path(), "session/prompt");
    let first = prompts[0].to_string();
    assert!(
        first.contains("And then?") && first.contains("Run the tests"),
        "{first}"
    );
    wrap.end();
}

#[test]
fn what_the_tools_own_agent_writes_while_it_answers_here_is_no_branch() {
    let (home, store) = (home(), tempfile::tempdir().unwrap());
    let mut wrap = Wrap::start(store.path(), home.path(), "codex-acp");
    wrap.list();
    let params = json!({ "sessionId": THREAD, "cwd": FOLDER, "mcpServers": [] });
    wrap.call("session/load", &params);
    let prompt = json!([{ "type": "text", "text": "And then?" }]);
    wrap.call(
        "session/prompt",
        &json!({ "sessionId": THREAD, "prompt": prompt }),
    );
    let now = Sys::real().clock.now();
    let later = Timestamp::from_millis(now.as_millis() + 3_600_000);
    let file = home.path().join(format!(
        ".codex/sessions/2026/05/11/rollout-2026-05-11T11-26-55-{THREAD}.jsonl"
    ));
    // The agent has written what was said here, with a time of its own.
    for (at, since) in [(now, Value::Null), (later, json!(1))] {
        for (kind, text) in [("user_message", "And then?"), ("agent_message", "This.")] {
            let payload = json!({ "type": kind, "message": text });
            let at = at.to_string();
            let line = json!({ "timestamp": at, "type": "event_msg", "payload": payload });
            append(&file, &line.to_string());
        }
        assert_eq!(wrap.since(), since, "{at}");
    }
    wrap.end();
}
