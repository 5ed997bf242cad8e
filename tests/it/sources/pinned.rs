//! Conversations that the user has pinned in their tool.

#![expect(
    clippy::disallowed_methods,
    reason = "the files of other tools are no store"
)]

use std::fs;
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
    let mut client = Client::new(store.path(), home.path(), &["codex", "opencode"]);
    let pinned = |client: &mut Client| {
        let sessions = client.list();
        let pinned = sessions.into_iter();
        let pinned = pinned.filter(|session| session["_meta"]["rejoin"]["pinned"] == true);
        pinned
            .map(|session| session["sessionId"].clone())
            .collect::<Vec<_>>()
    };
    let ids = pinned(&mut client);
    assert_eq!(ids.len(), 2);
    let list = |arguments: &[&str]| {
        let mut list = Command::new(env!("CARGO_BIN_EXE_rejoin"));
        list.arg("list").args(arguments).stdin(Stdio::null());
        list.env_clear()
            .env("HOME", home.path())
            .env("USERPROFILE", home.path());
        list.envs(std::env::var_os("SystemRoot").map(|root| ("SystemRoot", root)));
        list
    };
    let output = list(&["--sources", "codex,opencode", "--json"])
        .output()
        .unwrap();
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
        let mut people = list(&["--sources", "codex,opencode"]);
        people.env("COLUMNS", "120").env("NO_COLOR", "1");
        let shown = crate::support::terminal::shown(people);
        let lines = shown.lines().filter(|line| line.contains("pinned"));
        assert_eq!(lines.count(), 2, "{shown}");
    }
    database
        .execute("UPDATE threads SET is_pinned = 0", [])
        .unwrap();
    fs::remove_dir_all(&state).unwrap();
    assert_eq!(pinned(&mut client), [Value::Null; 0]);
}
