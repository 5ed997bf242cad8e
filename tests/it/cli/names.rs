//! How people name sessions and commands: by parts of IDs and titles, and without `sessions`.
#![expect(
    clippy::disallowed_methods,
    reason = "opens a real log for the real binary"
)]

use std::fs;

use rejoin::record::Kind;
use serde_json::json;
use tempfile::TempDir;

use crate::support::command::{command, fails, runs};
use crate::support::logs::{log, session};

/// The ID of a session that does not exist.
const NOBODY: &str = "sess_019aa564-cd00-7b3c-9e41-5f2d8c6a1b07";

#[test]
fn sessions_are_found_by_parts_of_their_ids_and_titles() {
    let root = TempDir::new().unwrap();
    let store = root.path();
    let old = session(store, "Fix the cache");
    let new = session(store, "Clear the cache");
    let title = |name: &str| {
        let text = runs(store, &["export", name]);
        text.lines().next().unwrap().to_owned()
    };
    for (name, expected) in [
        (&old[old.len() - 8..], "# Fix the cache"),
        (&new[new.len() - 12..], "# Clear the cache"),
        (&old[..old.len() - 1], "# Fix the cache"),
        (&old[5..old.len() - 1], "# Fix the cache"),
        ("last", "# Clear the cache"),
        ("fix THE", "# Fix the cache"),
        ("Clear", "# Clear the cache"),
    ] {
        assert_eq!(title(name), expected, "{name}");
    }
    let (first, last) = ("  Clear the cache  ", "  Fix the cache    ");
    let export = command(store, &["export", "the cache"]).output().unwrap();
    let text = String::from_utf8(export.stderr).unwrap();
    assert_eq!(export.status.code(), Some(2), "{text}");
    let (a, b) = (text.find(first), text.find(last));
    assert!(
        a.is_some() && a < b && text.contains("2 sessions"),
        "{text}"
    );
    let hint = format!("such as {}", &new[new.len() - 8..]);
    assert!(text.contains(&hint), "{text}");
    // What is in the trash is found there, and messages say where it is.
    runs(store, &["rm", "fix the"]);
    let hint = format!(" restore {old}`");
    fails(store, &["export", "fix the"], 3, &hint);
    assert_eq!(
        runs(store, &["restore", "last"]),
        format!("{old} is back\n")
    );
    let forever = ["sessions", "delete", "--forever", "--yes", "fix"];
    let gone = runs(store, &forever);
    assert_eq!(gone, format!("{old} is removed for good\n"));
    fails(store, &["export", "fix the"], 3, "there is no session");
    fails(store, &["restore", "last"], 3, "the trash is empty");
}

#[test]
fn sessions_are_renamed() {
    let root = TempDir::new().unwrap();
    let store = root.path();
    let id = session(store, "Fix the cache");
    let rename = ["sessions", "rename", "last", "Another", "\u{1b}title"];
    assert_eq!(runs(store, &rename), format!("{id} is renamed\n"));
    assert!(runs(store, &["ls"]).ends_with("  Another title\n"));
    assert!(runs(store, &["export", "another"]).starts_with("# Another title\n"));
    fails(store, &["sessions", "rename", &id, " "], 2, "no visible");
    fails(
        store,
        &["sessions", "rename", NOBODY, "x"],
        3,
        "there is no session",
    );
    let log = store.join("sessions").join(format!("{id}.jsonl"));
    let holder = fs::OpenOptions::new().append(true).open(log).unwrap();
    holder.lock().unwrap();
    fails(
        store,
        &["sessions", "rename", &id, "x"],
        4,
        "close the session",
    );
    drop(holder);
    // The trash has the title, too.
    runs(store, &["rm", "another"]);
    assert!(runs(store, &["trash", "list"]).contains("Another title"));
    assert!(runs(store, &["trash", "-n", "1"]).contains("Another title"));
    assert!(runs(store, &["restore", "another"]).contains(&id));
}

#[test]
fn sessions_are_forked_after_a_turn() {
    let root = TempDir::new().unwrap();
    let store = root.path();
    let turn = |id: &'static str| {
        let prompt = json!({ "prompt": [{ "type": "text", "text": id }] });
        let end = json!({ "stopReason": "end_turn" });
        [(Kind::Prompt, Some(id), prompt), (Kind::End, None, end)]
    };
    let records = ["one", "two", "three"].map(turn).concat();
    let id = log(store, &records);
    let turns = |id: &str| {
        let text = runs(store, &["export", "--format", "json", id]);
        let exported: serde_json::Value = serde_json::from_str(&text).unwrap();
        exported["session"]["turns"].as_u64().unwrap()
    };
    let all = turns(&id);
    for at in 1..=all {
        let said = runs(store, &["sessions", "fork", &id, "--at", &at.to_string()]);
        let before = format!("{id} is forked after turn {at}: ");
        let fork = said.strip_prefix(&before).unwrap().trim_end();
        assert_eq!(turns(fork), at);
        assert!(runs(store, &["ls"]).contains(fork));
    }
    assert_eq!((turns(&id), all), (3, 3));
    let beyond = (all + 1).to_string();
    let fork = ["sessions", "fork", &*id, "--at", &beyond];
    fails(store, &fork, 2, &format!("there is no turn {beyond}"));
    fails(store, &["sessions", "fork", &id, "--at", "0"], 2, "0");
    let open = log(store, &[&records[..], &turn("four")[..1]].concat());
    let fork = ["sessions", "fork", &*open, "--at", "3"];
    assert!(runs(store, &fork).contains("forked after turn 3"));
    let nobody = ["sessions", "fork", NOBODY, "--at", "1"];
    fails(store, &nobody, 3, "there is no session");
}

#[test]
fn commands_of_sessions_need_not_say_so() {
    let root = TempDir::new().unwrap();
    let store = root.path();
    let id = session(store, "hello");
    let list = runs(store, &["sessions", "list"]);
    for names in [&["list"][..], &["ls"], &["sessions", "ls"]] {
        assert_eq!(runs(store, names), list);
    }
    assert!(runs(store, &["search", "hello"]).starts_with(&id));
    assert!(runs(store, &["sessions", "rm", &id]).starts_with(&id));
    assert_eq!(runs(store, &["ls"]), "");
    let trash = runs(store, &["trash", "ls"]);
    assert!(trash.starts_with(&id), "{trash}");
    fails(store, &["list", "--fnord"], 2, "rejoin list [OPTIONS]");
    fails(
        store,
        &["sessions", "trash", "search"],
        2,
        "unrecognized subcommand 'search'",
    );
    assert!(runs(store, &["list", "--help"]).contains(" rejoin list [OPTIONS]"));
}
