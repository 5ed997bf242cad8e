//! Conversations of other tools in the list of a server.

#![expect(
    clippy::disallowed_methods,
    reason = "the files of other tools are no store"
)]

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;

use rejoin::sources::ToolFolders;
use rusqlite::Connection;
use serde_json::{Value, json};

use super::client::Client;
use super::home;
use crate::support::command::{command, runs};
use crate::support::systems::can_run;

/// Where the fixtures have a thread of Codex.
pub(super) const ROLLOUT: &str = ".codex/sessions/2025/06/01/\
                       rollout-2025-06-01T08-00-00-0190aaaa-0000-7000-8000-000000000003.jsonl";

pub(super) fn append(file: &Path, line: &str) {
    let file = OpenOptions::new().append(true).open(file);
    writeln!(file.unwrap(), "{line}").unwrap();
}

/// Lists until every conversation has been counted.
fn counted(client: &mut Client) -> Vec<Value> {
    loop {
        let sessions = client.list();
        let is_counted = |session: &Value| session["messageCount"].is_number();
        if sessions.iter().all(is_counted) {
            return sessions;
        }
    }
}

#[test]
fn programs_get_the_conversations_of_tools_as_people_do() {
    let (home, data) = (home(), tempfile::tempdir().unwrap());
    let lines = |sources: &str| {
        let mut list = std::process::Command::new(env!("CARGO_BIN_EXE_rejoin"));
        list.args(["list", "--json"])
            .env("REJOIN_STORE", "")
            .env("REJOIN_SOURCES", sources)
            .env("HOME", home.path())
            .env("USERPROFILE", home.path())
            .envs(["XDG_DATA_HOME", "LOCALAPPDATA"].map(|name| (name, data.path())));
        let output = list.output().unwrap();
        let listed: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
        listed.len()
    };
    assert!(lines("") > 20);
    assert_eq!((lines(""), lines("none")), (lines("all"), 0));
}

#[test]
fn a_list_has_what_an_import_would_have() {
    let (home, store, other) = (
        home(),
        tempfile::tempdir().unwrap(),
        tempfile::tempdir().unwrap(),
    );
    let mut client = Client::new(store.path(), home.path(), &[]);
    let first = client.titles();
    let mut live = counted(&mut client);
    let mut import = command(other.path(), &["import"]);
    import
        .env("HOME", home.path())
        .env("USERPROFILE", home.path());
    assert!(import.output().unwrap().status.success());
    let mut client = Client::new(other.path(), home.path(), &["qwen"]);
    let mut imported = client.list();
    // Databases have times of their own for the last change; the branch is not in a log.
    for session in imported.iter_mut().chain(&mut live) {
        let source = session["source"].as_str().unwrap_or_default();
        let has_database = ["OpenCode", "goose"].contains(&source);
        let session = session.as_object_mut().unwrap();
        session.remove("_meta");
        if has_database {
            session.remove("updatedAt");
            session.remove("lastModified");
        }
    }
    assert_eq!(first.len(), imported.len());
    let id = |session: &Value| session["sessionId"].to_string();
    imported.sort_by_key(id);
    live.sort_by_key(id);
    assert_eq!(live, imported);
    assert!(
        fs::read_dir(store.path().join("sessions"))
            .unwrap()
            .next()
            .is_none()
    );
}

#[test]
fn an_entry_says_what_the_tool_knows() {
    if !can_run("an_entry_says_what_the_tool_knows") {
        return;
    }
    let (home, store) = (home(), tempfile::tempdir().unwrap());
    let mut client = Client::new(store.path(), home.path(), &["claude-code", "unstable"]);
    let sessions = counted(&mut client);
    let [session] = &sessions[..] else {
        panic!("{sessions:?}");
    };
    assert_eq!(session["source"], "claude-agent-acp");
    assert_eq!(session["model"], "claude-opus-4-6");
    assert_eq!(session["_meta"]["rejoin"]["branch"], "main");
    assert_eq!(session["cwd"], "/srv/app");
    assert_eq!(session["state"], "idle");
}

#[test]
fn a_word_in_a_tools_output_is_found() {
    let (home, store) = (home(), tempfile::tempdir().unwrap());
    let mut client = Client::new(store.path(), home.path(), &["codex"]);
    counted(&mut client);
    let (text, word) = ("all of the output", "\"all of the output\"");
    let found = loop {
        let params = json!({ "query": word, "kinds": ["toolOutput"] });
        let found = client.call("_rejoin/search", params);
        if found["complete"] == true {
            break found;
        }
    };
    let hit = &found["hits"][0];
    assert_eq!(hit["source"], "codex-acp", "{found}");
    assert_eq!(hit["kind"], "toolOutput");
    assert_eq!(hit.get("offset"), None);
    let listed = client.call("session/list", json!({ "search": word }));
    assert_eq!(listed["sessions"][0]["sessionId"], hit["sessionId"]);
    for mode in ["substring", "regex"] {
        let params = json!({ "query": text, "mode": mode, "kinds": ["toolOutput"] });
        let scanned = client.call("_rejoin/search", params);
        assert_eq!(scanned["hits"][0]["sessionId"], hit["sessionId"]);
        assert_eq!(scanned["complete"], true);
    }
    // Sources that are off are not searched.
    let mut client = Client::new(store.path(), home.path(), &["gemini"]);
    let none = client.call("_rejoin/search", json!({ "query": word }));
    assert_eq!(none["hits"], json!([]));
}

#[test]
fn sources_that_are_off_are_neither_listed_nor_counted() {
    let (home, store) = (home(), tempfile::tempdir().unwrap());
    assert!(Client::new(store.path(), home.path(), &[]).titles().len() > 10);
    let mut client = Client::new(store.path(), home.path(), &["codex", "gemini"]);
    assert_eq!(client.titles().len(), 4);
    let cwd = client.list()[0]["cwd"].clone();
    let listed = client.call("session/list", json!({ "cwd": cwd, "limit": 1 }));
    let all = client.list();
    let there = all.iter().filter(|session| session["cwd"] == cwd).count();
    assert_eq!(listed["total"], there);
    let none = runs(store.path(), &["sessions", "list", "--json"]);
    assert_eq!(none, "[]\n");
}

#[test]
fn files_that_grow_come_and_go_are_followed() {
    let (home, store) = (home(), tempfile::tempdir().unwrap());
    let mut client = Client::new(store.path(), home.path(), &["codex"]);
    assert_eq!(client.titles().len(), 2);
    let file = home.path().join(ROLLOUT);
    append(
        &file,
        r#"{"timestamp":"2027-01-01T00:00:00.000Z","type":"message","role":"assistant","content":[{"type":"output_text","text":"More."}]}"#,
    );
    let sessions = client.list();
    assert_eq!(sessions[0]["title"], "Hello from an early version.");
    assert_eq!(sessions[0]["updatedAt"], "2027-01-01T00:00:00.000Z");
    let text = fs::read_to_string(&file).unwrap();
    let copy = file.with_file_name("rollout-copy.jsonl");
    fs::write(
        &copy,
        text.replace("0190aaaa", "0190bbbb")
            .replace("Hello", "Goodbye"),
    )
    .unwrap();
    assert_eq!(client.titles()[0], "Goodbye from an early version.");
    fs::remove_file(&file).unwrap();
    let titles = client.titles();
    assert_eq!(titles.len(), 2);
    assert_eq!(titles[0], "Goodbye from an early version.");
    // An ordinary process finds the same, and nothing is left when the tool is gone.
    fs::remove_dir_all(home.path().join(".codex")).unwrap();
    assert_eq!(
        Client::new(store.path(), home.path(), &["codex"]).titles(),
        [""; 0]
    );
}

#[test]
fn one_that_is_imported_or_deleted_here_is_listed_once_or_not_at_all() {
    if !can_run("one_that_is_imported_or_deleted_here_is_listed_once_or_not_at_all") {
        return;
    }
    let (home, store) = (home(), tempfile::tempdir().unwrap());
    let mut client = Client::new(store.path(), home.path(), &["codex"]);
    let before = client.list();
    let mut import = command(store.path(), &["import", "codex"]);
    import
        .env("HOME", home.path())
        .env("USERPROFILE", home.path());
    assert!(import.output().unwrap().status.success());
    let after = client.list();
    let ids = |sessions: &[Value]| -> Vec<Value> {
        sessions
            .iter()
            .map(|session| session["sessionId"].clone())
            .collect()
    };
    assert_eq!(ids(&before), ids(&after));
    let first = before[0]["sessionId"].as_str().unwrap();
    runs(store.path(), &["sessions", "delete", first]);
    assert_eq!(client.list(), after[1..]);
    append(&home.path().join(ROLLOUT), "{}");
    assert_eq!(client.list().len(), 1);
    // Also if the catalog is built anew.
    drop(client);
    fs::remove_file(store.path().join("index.sqlite")).unwrap();
    let mut client = Client::new(store.path(), home.path(), &["codex"]);
    assert_eq!(client.list().len(), 1);
}

#[cfg(unix)]
#[test]
fn damage_stops_no_list() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let (home, store) = (home(), tempfile::tempdir().unwrap());
    let other = tempfile::tempdir().unwrap();
    let before = Client::new(other.path(), home.path(), &[]).titles().len();
    let projects = home.path().join(".claude/projects");
    let folder = projects.join("-work-app");
    symlink(&projects, folder.join("loop")).unwrap();
    symlink("/dev/zero", folder.join("zero.jsonl")).unwrap();
    fs::write(folder.join("empty.jsonl"), "").unwrap();
    fs::write(folder.join("nul.jsonl"), vec![0; 100_000]).unwrap();
    fs::write(folder.join("line.jsonl"), "x".repeat(2_000_000)).unwrap();
    let closed = folder.join("closed.jsonl");
    fs::write(&closed, "{}").unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o0)).unwrap();
    fs::write(
        home.path().join(".local/share/opencode/opencode.db"),
        "no database",
    )
    .unwrap();
    let mut client = Client::new(store.path(), home.path(), &[]);
    // OpenCode has two.
    assert_eq!(client.titles().len(), before - 2);
    // A file that was read before and is damaged now is no conversation.
    fs::write(home.path().join(ROLLOUT), "{\"half").unwrap();
    assert_eq!(client.titles().len(), before - 3);
}

#[test]
fn of_a_long_file_the_beginning_and_the_end_are_read_first() {
    let (home, store) = (home(), tempfile::tempdir().unwrap());
    let file = home.path().join(ROLLOUT);
    let text = "x".repeat(3000);
    for second in 10..60 {
        append(
            &file,
            &format!(
                r#"{{"timestamp":"2027-01-01T00:00:{second}.000Z","type":"message","role":"user","content":[{{"type":"input_text","text":"{text}"}}]}}"#
            ),
        );
    }
    // This process ends before it reads the rest.
    let mut list = command(
        store.path(),
        &["sessions", "list", "--source", "codex", "--json"],
    );
    list.env("HOME", home.path())
        .env("USERPROFILE", home.path());
    let listed: Value = serde_json::from_slice(&list.output().unwrap().stdout).unwrap();
    assert_eq!(listed[0]["messageCount"], Value::Null, "{listed}");
    let mut client = Client::new(store.path(), home.path(), &["codex"]);
    let first = client.list().remove(0);
    assert_eq!(first["title"], "Hello from an early version.");
    assert_eq!(first["updatedAt"], "2027-01-01T00:00:59.000Z");
    let first = counted(&mut client).remove(0);
    assert_eq!(first["messageCount"], 102);
    assert_eq!(first["updatedAt"], "2027-01-01T00:00:59.000Z");
}

#[test]
fn the_command_lists_them_by_tool() {
    let (home, store) = (home(), tempfile::tempdir().unwrap());
    let list = |words: &[&str]| {
        let mut command = command(store.path(), &[&["list"], words].concat());
        command
            .env("HOME", home.path())
            .env("USERPROFILE", home.path());
        for name in ToolFolders::names() {
            command.env_remove(name);
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let all = list(&["--sources", "all"]);
    assert!(all.lines().count() > 10, "{all}");
    let of_codex = list(&["--sources", "codex"]);
    assert_eq!(list(&["--source", "codex"]), of_codex);
    assert_eq!(list(&["--sources=all", "--agent", "codex"]), of_codex);
    assert_eq!(list(&["--sources=all", "--since", "today"]), "");
    assert_eq!(of_codex.lines().count(), 2, "{of_codex}");
    assert!(
        of_codex
            .lines()
            .all(|line| line.starts_with("codex        sess_"))
    );
    assert_eq!(runs(store.path(), &["sessions", "list"]), "");
}

#[test]
fn nothing_is_called_complete_while_files_are_looked_at() {
    let (home, store) = (home(), tempfile::tempdir().unwrap());
    let database = home.path().join(".local/share/opencode/opencode.db");
    let database = Connection::open(database).unwrap();
    // A reader waits until its writer has finished.
    database.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let mut client = Client::new(store.path(), home.path(), &["opencode"]);
    let list = json!({ "limit": 5 });
    let search = json!({ "query": "stop" });
    let listed = client.call("session/list", list.clone());
    assert_eq!(listed, json!({ "sessions": [] }));
    let found = client.call("_rejoin/search", search.clone());
    assert_eq!(found, json!({ "hits": [], "complete": false }));
    database.execute_batch("COMMIT").unwrap();
    let listed = loop {
        let listed = client.call("session/list", list.clone());
        if listed.get("total").is_some() {
            break listed;
        }
    };
    assert_eq!(listed["total"], 2);
    let found = loop {
        let found = client.call("_rejoin/search", search.clone());
        if found["complete"] == true {
            break found;
        }
    };
    assert_eq!(found["hits"][0]["snippet"], "Stop?");
}
