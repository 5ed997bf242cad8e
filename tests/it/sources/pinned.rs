//! Conversations that the user has pinned in their tool.

#![expect(
    clippy::disallowed_methods,
    reason = "the files of other tools are no store"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rusqlite::Connection;
use serde_json::Value;
use tempfile::TempDir;

use super::client::Client;
use super::home;

/// A thread of Codex among the fixtures.
const THREAD: &str = "0190aaaa-0000-7000-8000-000000000003";

#[test]
fn a_list_says_which_are_pinned_now() {
    let (home, store) = (home(), TempDir::new().unwrap());
    let database = Connection::open(home.path().join(".codex/state_5.sqlite")).unwrap();
    database
        .execute_batch(&format!(
            "CREATE TABLE threads (id TEXT PRIMARY KEY, title TEXT NOT NULL,
                 first_user_message TEXT NOT NULL, archived INTEGER NOT NULL DEFAULT 0,
                 is_pinned INTEGER NOT NULL DEFAULT 0);
             INSERT INTO threads VALUES ('{THREAD}', '', '', 0, 1)"
        ))
        .unwrap();
    // OpenCode has them in a file.
    let state = home.path().join(".local/state/opencode");
    fs::create_dir_all(&state).unwrap();
    fs::write(state.join("session.json"), r#"{"pinned":["ses_1"]}"#).unwrap();
    let others = other_pins(home.path());
    let hermes = Connection::open(home.path().join(".hermes/state.db")).unwrap();
    hermes
        .execute_batch(
            "ALTER TABLE sessions ADD COLUMN pinned INTEGER DEFAULT 0;
             UPDATE sessions SET pinned = 1 WHERE cwd = '/srv/well'",
        )
        .unwrap();
    let tools = ["cline", "codex", "hermes", "opencode", "qwen", "vscode"];
    let mut client = Client::new(store.path(), home.path(), &tools);
    let pinned = |client: &mut Client| {
        let sessions = client.list();
        let pinned = sessions.into_iter();
        let pinned = pinned.filter(|session| session["_meta"]["rejoin"]["pinned"] == true);
        pinned
            .map(|session| session["sessionId"].clone())
            .collect::<Vec<_>>()
    };
    let ids = pinned(&mut client);
    assert_eq!(ids.len(), tools.len());
    let list = |arguments: &[&str]| {
        let mut list = Command::new(env!("CARGO_BIN_EXE_rejoin"));
        list.arg("list").args(arguments).stdin(Stdio::null());
        list.env_clear()
            .env("HOME", home.path())
            .env("USERPROFILE", home.path());
        list.envs(std::env::var_os("SystemRoot").map(|root| ("SystemRoot", root)));
        list
    };
    let tools = tools.join(",");
    let output = list(&["--sources", &tools, "--json"]).output().unwrap();
    let listed: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    // What was not counted is not known.
    assert!(listed.iter().all(|session| session["prompts"] != 0));
    assert!(listed.iter().all(|session| session["bytes"].is_null()));
    let pins = listed.iter().filter(|session| session["pinned"] == true);
    assert_eq!(
        pins.map(|session| session["sessionId"].clone())
            .collect::<Vec<_>>(),
        ids
    );
    #[cfg(unix)]
    {
        let mut people = list(&["--sources", &tools]);
        people.env("COLUMNS", "120").env("NO_COLOR", "1");
        let shown = crate::support::terminal::shown(people);
        let lines = shown.lines().filter(|line| line.contains("pinned"));
        assert_eq!(lines.count(), ids.len(), "{shown}");
    }
    database
        .execute("UPDATE threads SET is_pinned = 0", [])
        .unwrap();
    fs::remove_dir_all(&state).unwrap();
    hermes
        .execute("UPDATE sessions SET pinned = 0", [])
        .unwrap();
    for file in others {
        fs::remove_file(file).unwrap();
    }
    assert_eq!(pinned(&mut client), [Value::Null; 0]);
}

/// Pins a conversation of Cline, Qwen Code and VS Code each, and returns the files that say so.
fn other_pins(home: &Path) -> [PathBuf; 3] {
    let code = home.join(".config/Code/User");
    let cline = code.join("globalStorage/saoudrizwan.claude-dev/state/taskHistory.json");
    fs::write(
        &cline,
        r#"[{"id":"1780000000000","isFavorited":true},{"id":"1"}]"#,
    )
    .unwrap();
    let qwen = home.join(".qwen/projects/-srv-app/session-organization.v1.json");
    let organized = r#"{"schemaVersion":1,"groups":[],"sessions":{
        "9a000000-0000-4000-8000-000000000001":{"groupId":null,"pinnedAt":"2026-06-01T10:00:00.000Z"},
        "9a000000-0000-4000-8000-000000000002":{"groupId":null}}}"#;
    fs::write(&qwen, organized).unwrap();
    let workspace = code.join("workspaceStorage/0123456789abcdef0123456789abcdef");
    let vscode = workspace.join("state.vscdb");
    // The base64 of the session's id.
    let state = r#"[{"resource":"vscode-chat-session://local/ZTVlNTAwMDAtMDAwMC00MDAwLTgwMDAtMDAwMDAwMDAwMDAx",
        "archived":false,"pinned":true},{"resource":"vscode-chat-session://local/YQ","read":1},
        {"resource":"copilotcli:/a","pinned":true}]"#;
    let database = Connection::open(&vscode).unwrap();
    let table = "CREATE TABLE ItemTable (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB)";
    database.execute_batch(table).unwrap();
    let insert = "INSERT INTO ItemTable VALUES ('agentSessions.state.cache', ?)";
    database.execute(insert, [state]).unwrap();
    [cline, qwen, vscode]
}
