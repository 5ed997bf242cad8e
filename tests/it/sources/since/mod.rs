//! What tools write to conversations that were continued here.

#![expect(
    clippy::disallowed_methods,
    reason = "the files of other tools are no store"
)]

mod tools;

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use self::tools::{Said, TOOLS, Tool};
use super::client::Client;
use crate::support::command::{command, runs};
use crate::support::systems::FOLDER;

/// A client of a server that lists the conversations of a tool, with the only one of them, in which there
/// are the turns A and B, open and continued here by `Here.`.
fn continued(tool: &Tool, home: &Path, store: &Path) -> (Client, Value) {
    tool.write(home, &["A", "B"]);
    let mut client = Client::new(store, home, &[tool.name]);
    let id = client.list()[0]["sessionId"].clone();
    let params = json!({ "sessionId": id, "cwd": FOLDER, "mcpServers": [] });
    client.call("session/load", params);
    say(&mut client, &id, "Here.");
    (client, id)
}

fn say(client: &mut Client, id: &Value, text: &str) {
    let prompt = json!([{ "type": "text", "text": text }]);
    client.call(
        "session/prompt",
        json!({ "sessionId": id, "prompt": prompt }),
    );
}

/// The prompts and `[rejoin]` messages of a session, as a client reads them, and how many turns its tool
/// has written since.
fn read(client: &mut Client, id: &Value, all_branches: bool) -> (Vec<String>, Value) {
    let params = json!({ "sessionId": id, "allBranches": all_branches });
    let got = client.call("session/get", params);
    let mut said = Vec::new();
    for turn in got["turns"].as_array().unwrap() {
        for block in turn["content"].as_array().unwrap() {
            let text = block["text"].as_str().unwrap_or_default();
            let note = text.find("[rejoin]").map(|at| text[at..].trim().to_owned());
            if turn["role"] == "user" {
                said.push(text.to_owned());
            } else if let Some(note) = note {
                said.push(note);
            }
        }
    }
    (said, got["toolBranch"]["turns"].clone())
}

fn note(turns: &str, tool: &str, place: &str) -> String {
    format!(
        "[rejoin] {turns} since in {tool}, {place}. The conversation here goes on without them."
    )
}

fn place() -> (TempDir, TempDir) {
    (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap())
}

#[test]
fn what_a_tool_writes_since_is_a_branch_beside_what_was_said_here() {
    for tool in &TOOLS {
        let (home, store) = place();
        let (mut client, id) = continued(tool, home.path(), store.path());
        let own = ["A", "B", "Here."];
        let shown = tool.title;
        // Extended, rewound, both, shortened, empty, and extended again; also while it is open here.
        let cases: [(&[Said], &[Said], &str); 8] = [
            (&["A", "B"], &[], ""),
            (&["A", "B", "C"], &["C"], "behind turn 2"),
            (&["A", "B", "C", "D"], &["C", "D"], "behind turn 2"),
            (&["A"], &[], ""),
            (&["A", "E", "F"], &["E", "F"], "behind turn 1"),
            (&["G"], &["G"], "from the beginning"),
            (&[], &[], ""),
            (
                &["A", "B", "C", "D", "E"],
                &["C", "D", "E"],
                "behind turn 2",
            ),
        ];
        for (there, since, place) in cases {
            tool.write(home.path(), there);
            let listed = client.list();
            let context = format!("{} {there:?}", tool.name);
            let [session] = &listed[..] else {
                panic!("{context}: {listed:?}");
            };
            assert_eq!(session["sessionId"], id, "{context}");
            let branch = &session["_meta"]["rejoin"]["toolBranch"];
            let expected = if since.is_empty() {
                Value::Null
            } else {
                json!({ "tool": tool.name, "turns": since.len() })
            };
            assert_eq!(*branch, expected, "{context}");
            assert_eq!(
                read(&mut client, &id, false),
                (own.map(str::to_owned).into(), expected["turns"].clone())
            );
            let mut all: Vec<String> = own.map(str::to_owned).into();
            if !since.is_empty() {
                let turns = if since.len() == 1 {
                    "1 turn".to_owned()
                } else {
                    format!("{} turns", since.len())
                };
                all.push(note(&turns, shown, place));
                all.extend(since.iter().map(|said| (*said).to_owned()));
            }
            assert_eq!(read(&mut client, &id, true).0, all, "{context}");
        }
        // What is said here then does not hide it.
        say(&mut client, &id, "Here again.");
        assert_eq!(
            client.list()[0]["_meta"]["rejoin"]["toolBranch"]["turns"],
            3
        );
        runs(store.path(), &["sessions", "verify"]);
    }
}

/// A tool may write to its file while a client has the conversation open, which is shown what it was when it
/// was loaded.
#[test]
fn a_conversation_that_nobody_continued_is_its_file_when_it_is_loaded() {
    for tool in &TOOLS {
        let (home, store) = place();
        tool.write(home.path(), &["A", "B"]);
        let mut client = Client::new(store.path(), home.path(), &[tool.name]);
        let id = client.list()[0]["sessionId"].clone();
        let load = json!({ "sessionId": id, "cwd": FOLDER, "mcpServers": [] });
        client.call("session/load", load.clone());
        let mut before = vec!["A", "B"];
        let mut is = |context: &str, expected: &[Said]| {
            let context = format!("{} {context}", tool.name);
            let listed = client.list();
            assert_eq!(listed.len(), 1, "{context}: {listed:?}");
            assert_eq!(listed[0]["sessionId"], id, "{context}");
            assert_eq!(read(&mut client, &id, true).0, before, "{context}");
            client.call("session/close", json!({ "sessionId": id }));
            client.call("session/load", load.clone());
            assert_eq!(read(&mut client, &id, true).0, expected, "{context}");
            before = expected.to_vec();
        };
        tool.write(home.path(), &["A", "B", "C"]);
        is("has grown", &["A", "B", "C"]);
        tool.write(home.path(), &["A", "D"]);
        is("was rewound", &["A", "D"]);
        tool.compact(home.path(), &["A", "D", "E"]);
        is("was compacted", &["A", "D", "E"]);
        if tool.migrate(home.path(), &["A", "D", "E"]) {
            is("was migrated", &["A", "D", "E"]);
            tool.migrate(home.path(), &["A", "D", "E", "F"]);
            is("has grown in the other form", &["A", "D", "E", "F"]);
        }
        runs(store.path(), &["sessions", "verify"]);
    }
}

#[test]
fn what_is_behind_a_compaction_or_in_another_form_is_beside_what_was_said_here() {
    for tool in &TOOLS {
        let (home, store) = place();
        let (mut client, id) = continued(tool, home.path(), store.path());
        let mut is = |context: &str, expected: &[Said]| {
            let context = format!("{} {context}", tool.name);
            let listed = client.list();
            assert_eq!(listed.len(), 1, "{context}: {listed:?}");
            assert_eq!(listed[0]["sessionId"], id, "{context}");
            let all = read(&mut client, &id, true);
            assert_eq!(all.0[..3], ["A", "B", "Here."], "{context}");
            let since = all.0.get(4..).unwrap_or_default();
            assert_eq!(since, expected, "{context}");
            let turns = match expected.len() {
                0 => Value::Null,
                turns => turns.into(),
            };
            assert_eq!(all.1, turns, "{context}");
        };
        tool.compact(home.path(), &["A", "B"]);
        is("was compacted", &[]);
        tool.compact(home.path(), &["A", "B", "C"]);
        is("was compacted, and goes on", &["C"]);
        if tool.migrate(home.path(), &["A", "B", "C"]) {
            is("was migrated", &["C"]);
            tool.migrate(home.path(), &["A", "B", "C", "D"]);
            is("goes on in the other form", &["C", "D"]);
        }
        runs(store.path(), &["sessions", "verify"]);
    }
}

#[test]
fn a_file_that_is_damaged_or_gone_changes_nothing_of_what_was_said_here() {
    for tool in TOOLS.iter().filter(|tool| tool.file.is_some()) {
        let (home, store) = place();
        let (mut client, id) = continued(tool, home.path(), store.path());
        let file = home.path().join(tool.file.unwrap());
        tool.write(home.path(), &["A", "B", "C", "D"]);
        assert_eq!(read(&mut client, &id, false).1, 2, "{}", tool.name);
        let whole = fs::read(&file).unwrap();
        for cut in [whole.len() - 1, whole.len() - 40, whole.len() / 2, 10, 0] {
            fs::write(&file, &whole[..cut]).unwrap();
            let listed = client.list();
            assert_eq!(listed.len(), 1, "{} {cut}", tool.name);
            let all = read(&mut client, &id, true).0;
            assert_eq!(all[..3], ["A", "B", "Here."], "{} {cut}", tool.name);
        }
        fs::remove_file(&file).unwrap();
        assert_eq!(client.list().len(), 1);
        assert_eq!(
            read(&mut client, &id, true),
            (["A", "B", "Here."].map(str::to_owned).into(), Value::Null)
        );
        fs::write(&file, whole).unwrap();
        assert_eq!(
            client.list()[0]["_meta"]["rejoin"]["toolBranch"]["turns"],
            2
        );
    }
}

#[test]
fn the_index_may_be_deleted_and_a_session_forked_as_its_tool_has_it() {
    let (home, store) = place();
    let tool = Tool::named("codex");
    let (mut client, id) = continued(tool, home.path(), store.path());
    client.call("session/close", json!({ "sessionId": id }));
    tool.write(home.path(), &["A", "B", "C"]);
    let file = home.path().join(tool.file.unwrap());
    let key = ["C! ghp", "_", "x7Kq2mVb9TzR4nLw8YcJ3hFs6DgP1aQe5UoX"].concat();
    let written = fs::read_to_string(&file).unwrap().replace("C!", &key);
    fs::write(&file, written).unwrap();
    drop(client);
    for file in ["index.sqlite", "index.sqlite-wal", "index.sqlite-shm"] {
        fs::remove_file(store.path().join(file)).ok();
    }
    let run = |arguments: &[&str]| {
        let mut command = command(store.path(), arguments);
        command
            .env("HOME", home.path())
            .env("USERPROFILE", home.path());
        let output = command.env_remove("CODEX_HOME").output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let list = |json: &str| -> Value { serde_json::from_str(json).unwrap() };
    let listed = list(&run(&["sessions", "list", "--source", "codex", "--json"]));
    assert_eq!(
        listed[0]["toolBranch"],
        json!({ "tool": "codex", "turns": 1 })
    );
    let id = id.as_str().unwrap();
    let show = ["sessions", "show", "--no-pager", "--sources", "codex", id];
    let shown = run(&show);
    assert!(!shown.contains("C!"), "{shown}");
    assert!(shown.contains("1 turn since in Codex: "), "{shown}");
    let secrets = run(&["secrets", "--sources", "codex"]);
    assert_eq!(secrets, format!("{id}  github-pat  1  file\n"));
    let shown = run(&[&show[..], &["--all-branches"]].concat());
    assert!(
        shown.contains(&note("1 turn", "Codex", "behind turn 2")),
        "{shown}"
    );
    assert!(
        shown.contains("C!") && !shown.contains("1 turn since in Codex: "),
        "{shown}"
    );
    let exported = ["export", id, "--sources", "codex", "--format", "json"];
    assert_eq!(list(&run(&exported))["session"]["toolBranch"]["turns"], 1);

    run(&[
        "sessions",
        "fork",
        id,
        "--tool-branch",
        "--sources",
        "codex",
    ]);
    let listed = list(&run(&["sessions", "list", "--source", "codex", "--json"]));
    let forks = listed.as_array().unwrap().iter();
    let fork = forks
        .map(|session| session["sessionId"].as_str().unwrap())
        .find(|fork| *fork != id);
    let shown = runs(
        store.path(),
        &["sessions", "show", "--no-pager", fork.unwrap()],
    );
    assert!(shown.contains("C!") && !shown.contains("Here."), "{shown}");
    runs(store.path(), &["sessions", "verify"]);
}

#[test]
fn a_client_forks_a_session_as_its_tool_has_it() {
    let (home, store) = place();
    let tool = &TOOLS[1];
    let (client, id) = continued(tool, home.path(), store.path());
    drop(client);
    tool.write(home.path(), &["A", "B", "C"]);
    let mut client = Client::new(store.path(), home.path(), &["unstable", tool.name]);
    let fork = |own: Value| json!({ "sessionId": id, "cwd": FOLDER, "mcpServers": [], "_meta": { "rejoin": own } });
    let forked = client.call("session/fork", fork(json!({ "toolBranch": true })));
    let fork_id = &forked["sessionId"];
    assert_eq!(
        read(&mut client, fork_id, true),
        (["A", "B", "C"].map(str::to_owned).into(), Value::Null)
    );
    say(&mut client, fork_id, "And on.");
    assert_eq!(
        read(&mut client, fork_id, false).0.last().unwrap(),
        "And on."
    );
    assert_eq!(read(&mut client, &id, false).0.last().unwrap(), "Here.");
    let listed = client.list();
    let is_fork = |session: &&Value| session["sessionId"] == *fork_id;
    let entry = listed.iter().find(is_fork).unwrap();
    assert_eq!((listed.len(), &entry["forkedFrom"]), (2, &id));
    // A place besides, and a session that no tool has.
    for params in [
        fork(json!({ "toolBranch": true, "messageId": "msg_1" })),
        json!({ "sessionId": fork_id, "cwd": FOLDER, "_meta": { "rejoin": { "toolBranch": true } } }),
    ] {
        let answer = client.ask("session/fork", params);
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
    }
}
