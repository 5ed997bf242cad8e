//! `rejoin import FILE`: a stream of updates of the protocol, in several forms.

#![expect(
    clippy::disallowed_methods,
    reason = "the files of other tools are no store"
)]

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::import::{at_home, listed};
use crate::support::command::runs;

fn import(store: &Path, arguments: &[&str], input: &str) -> Output {
    let mut command = at_home(store, store, &[&["import", "--json"], arguments].concat());
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).ok();
    drop(stdin);
    child.wait_with_output().unwrap()
}

/// The report of an import that succeeds.
fn report(store: &Path, arguments: &[&str], input: &str) -> Value {
    let output = import(store, arguments, input);
    assert!(output.status.success(), "{output:?}");
    let reports: Value = serde_json::from_slice(&output.stdout).unwrap();
    reports[0].clone()
}

fn lines(lines: &[Value]) -> String {
    let lines = lines.iter().map(|line| format!("{line}\n"));
    lines.collect()
}

/// The records of the only session: kind, time and payload.
fn exported(store: &Path) -> Value {
    let (_, id) = listed(store).remove(0);
    let text = runs(store, &["export", &id, "--format", "json"]);
    serde_json::from_str(&text).unwrap()
}

fn chunk(kind: &str, text: &str) -> Value {
    json!({"sessionUpdate": kind, "content": {"type": "text", "text": text}})
}

#[test]
fn bare_updates_are_a_conversation_that_grows_with_its_file() {
    let store = TempDir::new().unwrap();
    let store = store.path();
    let file = store.join("talk.jsonl");
    let mut said = lines(&[
        json!({"cwd": "/srv/app", "agent": "My Tool", "model": "m-1"}),
        json!({"time": "2026-05-28T20:26:40Z", "update": chunk("user_message_chunk", "Count to ")}),
        json!({"time": 1_780_000_000.5, "update": chunk("user_message_chunk", "two.")}),
        json!({"timestamp": 1_780_000_001, "sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": "One"}}),
        json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "Count", "kind": "other", "status": "pending", "locations": [{"path": "a.txt"}]}),
        json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed"}),
        json!({"type": "noise"}),
        json!({"sessionUpdate": "noise_update"}),
    ]);
    said.push_str("{broken\n");
    fs::write(&file, &said).unwrap();
    let path = file.to_str().unwrap();
    let found = report(store, &[path, "--title", "Counting"], "");
    let numbers = ["imported", "unknownRecords", "damagedLines"].map(|name| &found[name]);
    assert_eq!(numbers, [1, 2, 1], "{found}");
    let listed = runs(store, &["list", "--json"]);
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(listed[0]["title"], "Counting");
    assert_eq!(listed[0]["cwd"], "/srv/app");
    assert_eq!(listed[0]["createdAt"], "2026-05-28T20:26:40.000Z");
    let text = exported(store).to_string();
    for part in ["Count to ", "two.", "/srv/app/a.txt", "My Tool"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    // The file grows, and is what it was.
    said.push_str(&lines(&[
        json!({"time": 1_780_000_009, "update": chunk("agent_message_chunk", "One, two.")}),
    ]));
    fs::write(&file, &said).unwrap();
    assert_eq!(
        report(store, &[path, "--title", "Counting"], "")["extended"],
        1
    );
    assert_eq!(
        report(store, &[path, "--title", "Counting"], "")["unchanged"],
        1
    );
    assert!(runs(store, &["search", "two"]).contains("Counting"));
    runs(store, &["sessions", "verify"]);
}

#[test]
fn a_recording_of_both_directions_has_several_sessions_and_subagents() {
    let store = TempDir::new().unwrap();
    let store = store.path();
    let update = |session: &str, update: Value| json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": update}});
    let request = |id: u8, method: &str, params: Value| json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
    let prompt = |id: u8, session: &str, text: &str| {
        let prompt = [json!({"type": "text", "text": text})];
        request(
            id,
            "session/prompt",
            json!({"sessionId": session, "prompt": prompt}),
        )
    };
    let input = lines(&[
        json!({"ts": 1_780_000_000, "message": request(0, "initialize", json!({"protocolVersion": 1}))}),
        json!({"ts": 1_780_000_000, "message": {"jsonrpc": "2.0", "id": 0, "result": {"agentInfo": {"name": "recorded-agent"}}}}),
        request(
            1,
            "session/new",
            json!({"cwd": "/srv/one", "mcpServers": []}),
        ),
        json!({"jsonrpc": "2.0", "id": 1, "result": {"sessionId": "a"}}),
        json!({"time": 1_780_000_001, "message": prompt(2, "a", "Ask somebody.")}),
        update("a", chunk("user_message_chunk", "Ask somebody.")),
        update(
            "a",
            json!({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "Ask"}),
        ),
        update(
            "a",
            json!({"sessionUpdate": "subagent_update", "sessionId": "child", "title": "Somebody", "_meta": {"rejoin": {"toolCallId": "t"}}}),
        ),
        update("child", chunk("user_message_chunk", "What?")),
        update("child", chunk("agent_message_chunk", "That.")),
        request(
            7,
            "fs/read_text_file",
            json!({"sessionId": "a", "path": "/x"}),
        ),
        json!({"jsonrpc": "2.0", "id": 2, "result": {"stopReason": "cancelled", "usage": {"inputTokens": 5, "outputTokens": 2, "totalTokens": 7}}}),
        prompt(3, "b", "Another session."),
        json!({"jsonrpc": "2.0", "id": 3, "error": {"code": -32000, "message": "No credit"}}),
        update(
            "b",
            json!({"sessionUpdate": "session_info_update", "title": "The other"}),
        ),
    ]);
    let found = report(
        store,
        &["-", "--cwd", "/srv/two", "--agent", "somebody"],
        &input,
    );
    assert_eq!(found["imported"], 2, "{found}");
    let listed = runs(store, &["list", "--json"]);
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let mut about: Vec<String> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|session| format!("{} in {}", session["title"], session["cwd"]))
        .collect();
    about.sort();
    let expected = [
        "\"Ask somebody.\" in \"/srv/one\"",
        "\"The other\" in \"/srv/two\"",
    ];
    assert_eq!(about, expected);
    let stats: Value = serde_json::from_str(&runs(store, &["stats", "--json"])).unwrap();
    assert_eq!(stats["total"]["tokens"]["totalTokens"], 7, "{stats}");
    assert_eq!(stats["agents"][0]["name"], "recorded-agent");
    assert_eq!(
        report(store, &["-", "--cwd", "/srv/two"], &input)["unchanged"],
        2
    );
    let all = runs(store, &["search", "--json", "That"]);
    assert!(all.contains("Ask somebody."), "{all}");
}

/// The chats of Aider are in one file of Markdown in their project.
#[test]
fn the_chats_of_a_project_are_sessions_of_its_folder() {
    let (store, project) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let (store, folder) = (store.path(), project.path().canonicalize().unwrap());
    let file = folder.join(".aider.chat.history.md");
    let name = file.to_str().unwrap();
    let first = "\n# aider chat started at 2026-07-01 10:00:00\n\n\
        > aider --model model-5  \n> Model: model-5 with diff edit format  \n\n\
        #### Water the fern.  \n#### And the moss.  \n\nI water both.\n\n\
        > Tokens: 1.2k sent, 300 received. Cost: $0.25 message, $0.25 session.  \n\n\
        #### /exit  \n\n# aider chat started at 2026-07-01 11:00:00\n\n> Aider  \n";
    fs::write(&file, first).unwrap();
    assert_eq!(report(store, &[name], "")["imported"], 1);
    let more = format!("{first}\n#### Trim it.  \n\nIt is trimmed.\n");
    fs::write(&file, &more).unwrap();
    let found = report(store, &[name], "");
    assert_eq!(
        (&found["imported"], &found["unchanged"]),
        (&1.into(), &1.into())
    );
    let sessions: Value = serde_json::from_str(&runs(store, &["list", "--json"])).unwrap();
    let about = sessions.as_array().unwrap().iter().map(|session| {
        assert_eq!(session["cwd"], folder.to_str().unwrap());
        let (title, agent) = (&session["title"], &session["agentSessions"][0]["agent"]);
        (title.as_str().unwrap(), agent.as_str().unwrap())
    });
    let mut about: Vec<_> = about.collect();
    about.sort_unstable();
    assert_eq!(about, [("Trim it.", "Aider"), ("Water the fern.", "Aider")]);
    let stats: Value = serde_json::from_str(&runs(store, &["stats", "--json"])).unwrap();
    assert_eq!(stats["total"]["tokens"]["totalTokens"], 1500, "{stats}");
    let found = runs(store, &["search", "trimmed"]);
    assert!(found.contains("Trim it."), "{found}");
}

#[test]
fn what_is_no_file_and_no_tool_is_named() {
    let store = TempDir::new().unwrap();
    let store = store.path();
    for (arguments, code, why) in [
        (&["nothing.jsonl"][..], 2, "possible values: amp"),
        (&["./nothing.jsonl"], 1, "cannot read ./nothing.jsonl"),
        (&["."], 1, "cannot read ."),
    ] {
        let output = import(store, arguments, "");
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text}");
        assert!(text.contains(why), "{text}");
    }
    let none = report(
        store,
        &["-"],
        "{\"sessionUpdate\": \"plan\", \"entries\": []}\n",
    );
    assert_eq!(none["empty"], 1, "{none}");
    assert_eq!(listed(store), []);
}
