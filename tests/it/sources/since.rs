//! What tools write to conversations that were continued here.

#![expect(
    clippy::disallowed_methods,
    reason = "the files of other tools are no store"
)]

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::client::Client;
use crate::support::command::{command, runs};
use crate::support::systems::FOLDER;

/// A prompt and its answer. The answer to the prompt `X` is `X!`.
type Said = &'static str;

/// A tool, and how it writes a conversation with these turns. Each turn has its own time: the later its
/// letter in the alphabet, the later.
struct Tool {
    name: &'static str,
    write: fn(&Path, &[Said]),
    /// The file of the conversation, if it has one of its own.
    file: Option<&'static str>,
}

const TOOLS: [Tool; 5] = [
    Tool {
        name: "claude-code",
        write: claude_code,
        file: Some(".claude/projects/-srv-app/00001a20-0000-4000-8000-000000000001.jsonl"),
    },
    Tool {
        name: "codex",
        write: codex,
        file: Some(
            ".codex/sessions/2026/02/01/rollout-2026-02-01T10-00-00-019f7c30-0000-7000-8000-000000000001.jsonl",
        ),
    },
    Tool {
        name: "gemini",
        write: gemini,
        file: Some(".gemini/tmp/app/chats/session-2026-02-01T10-00-00001a30.json"),
    },
    Tool {
        name: "opencode",
        write: opencode,
        file: None,
    },
    Tool {
        name: "pi",
        write: pi,
        file: Some(".pi/agent/sessions/--srv-app--/2026-02-01T10-00-00-000Z_0199.jsonl"),
    },
];

/// The minute of a turn.
fn minute(said: Said) -> u32 {
    u32::from(said.as_bytes()[0] - b'A')
}

fn time(said: Said, second: u32) -> String {
    format!("2026-02-01T10:{:02}:{second:02}.000Z", minute(said))
}

fn write(path: PathBuf, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn write_lines(path: PathBuf, lines: &[Value]) {
    let lines: Vec<_> = lines.iter().map(|line| format!("{line}\n")).collect();
    write(path, &lines.concat());
}

fn claude_code(home: &Path, said: &[Said]) {
    let mut parent = Value::Null;
    let mut lines = Vec::new();
    for turn in said {
        for (role, text, second) in [
            ("user", (*turn).to_owned(), 1),
            ("assistant", format!("{turn}!"), 2),
        ] {
            let uuid = format!("{role}-{turn}");
            let content = match role {
                "user" => json!(text),
                _ => json!([{ "type": "text", "text": text }]),
            };
            lines.push(json!({
                "type": role, "uuid": uuid, "parentUuid": parent, "cwd": FOLDER,
                "sessionId": "00001a20-0000-4000-8000-000000000001", "timestamp": time(turn, second),
                "message": { "id": uuid, "role": role, "content": content },
            }));
            parent = uuid.into();
        }
    }
    write_lines(home.join(TOOLS[0].file.unwrap()), &lines);
}

fn codex(home: &Path, said: &[Said]) {
    let id = "019f7c30-0000-7000-8000-000000000001";
    let mut lines = vec![
        json!({ "timestamp": time("A", 0), "type": "session_meta", "payload": {
        "id": id, "timestamp": time("A", 0), "cwd": FOLDER, "source": "cli" } }),
    ];
    for turn in said {
        for (kind, text, second) in [
            ("user_message", (*turn).to_owned(), 1),
            ("agent_message", format!("{turn}!"), 2),
        ] {
            let payload = json!({ "type": kind, "message": text });
            lines.push(
                json!({ "timestamp": time(turn, second), "type": "event_msg", "payload": payload }),
            );
        }
    }
    write_lines(home.join(TOOLS[1].file.unwrap()), &lines);
}

fn gemini(home: &Path, said: &[Said]) {
    let mut messages = Vec::new();
    for turn in said {
        messages.push(
            json!({ "id": format!("u{turn}"), "timestamp": time(turn, 1), "type": "user",
            "content": [{ "text": turn }] }),
        );
        messages.push(
            json!({ "id": format!("g{turn}"), "timestamp": time(turn, 2), "type": "gemini",
            "content": format!("{turn}!") }),
        );
    }
    let chat = json!({ "sessionId": "00001a30-0000-4000-8000-000000000001", "startTime": time("A", 0),
        "lastUpdated": time("A", 0), "messages": messages });
    write(home.join(TOOLS[2].file.unwrap()), &chat.to_string());
}

fn opencode(home: &Path, said: &[Said]) {
    let path = home.join(".local/share/opencode/opencode.db");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let database = Connection::open(path).unwrap();
    let tables = "CREATE TABLE IF NOT EXISTS session (id text PRIMARY KEY, parent_id text,
            directory text NOT NULL, title text NOT NULL, revert text, time_created integer NOT NULL,
            time_updated integer NOT NULL);
        CREATE TABLE IF NOT EXISTS message (id text PRIMARY KEY, session_id text NOT NULL,
            time_created integer NOT NULL, data text NOT NULL);
        CREATE TABLE IF NOT EXISTS part (id text PRIMARY KEY, message_id text NOT NULL,
            session_id text NOT NULL, time_created integer NOT NULL, data text NOT NULL);
        DELETE FROM part; DELETE FROM message; DELETE FROM session;";
    database.execute_batch(tables).unwrap();
    let start: i64 = 1_769_940_000_000;
    for turn in said {
        for (role, text, second) in [
            ("user", (*turn).to_owned(), 1),
            ("assistant", format!("{turn}!"), 2),
        ] {
            let at = start + 60_000 * i64::from(minute(turn)) + 1000 * second;
            let id = format!("msg_{}{second}", minute(turn) + 10);
            let data = json!({ "role": role }).to_string();
            let part = json!({ "type": "text", "text": text }).to_string();
            let message = "INSERT INTO message VALUES (?, 'ses_1', ?, ?)";
            database.execute(message, (&id, at, data)).unwrap();
            let sql = "INSERT INTO part VALUES (?, ?, 'ses_1', ?, ?)";
            database
                .execute(sql, (format!("prt_{id}"), &id, at, part))
                .unwrap();
        }
    }
    // A change is seen by the time of the last one.
    let changed = start + 1_000_000 + i64::try_from(said.len()).unwrap();
    let session = "INSERT INTO session VALUES ('ses_1', NULL, ?, 'Files', NULL, ?, ?)";
    if !said.is_empty() {
        database.execute(session, (FOLDER, start, changed)).unwrap();
    }
}

fn pi(home: &Path, said: &[Said]) {
    let mut lines = vec![json!({ "type": "session", "version": 3, "cwd": FOLDER,
        "id": "0199aaaa-0000-7000-8000-000000000001", "timestamp": time("A", 0) })];
    let mut parent = Value::Null;
    for turn in said {
        for (role, text, second) in [
            ("user", (*turn).to_owned(), 1),
            ("assistant", format!("{turn}!"), 2),
        ] {
            let id = format!("{role}-{turn}");
            lines.push(json!({ "type": "message", "id": id, "parentId": parent,
                "timestamp": time(turn, second),
                "message": { "role": role, "content": [{ "type": "text", "text": text }] } }));
            parent = id.into();
        }
    }
    write_lines(home.join(TOOLS[4].file.unwrap()), &lines);
}

/// A client of a server that lists the conversations of a tool, with the only one of them, in which there
/// are the turns A and B, open and continued here by `Here.`.
fn continued(tool: &Tool, home: &Path, store: &Path) -> (Client, Value) {
    (tool.write)(home, &["A", "B"]);
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
        let shown = match tool.name {
            "claude-code" => "Claude Code",
            "codex" => "Codex",
            "gemini" => "Gemini CLI",
            "opencode" => "OpenCode",
            _ => "pi",
        };
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
            (tool.write)(home.path(), there);
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

#[test]
fn a_file_that_is_damaged_or_gone_changes_nothing_of_what_was_said_here() {
    for tool in TOOLS.iter().filter(|tool| tool.file.is_some()) {
        let (home, store) = place();
        let (mut client, id) = continued(tool, home.path(), store.path());
        let file = home.path().join(tool.file.unwrap());
        (tool.write)(home.path(), &["A", "B", "C", "D"]);
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
    let tool = &TOOLS[1];
    let (mut client, id) = continued(tool, home.path(), store.path());
    client.call("session/close", json!({ "sessionId": id }));
    (tool.write)(home.path(), &["A", "B", "C"]);
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
    (tool.write)(home.path(), &["A", "B", "C"]);
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
