//! Threads of Codex that go on from the history of another rollout, which they do not repeat.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::import::{import, listed};
use crate::support::command::runs;

const SOURCE: &str = "019c0000-0000-7000-8000-00000000000a";
const FORK: &str = "019c0000-0000-7000-8000-00000000000b";
const REWOUND: &str = "019c0000-0000-7000-8000-00000000000c";

/// A head, which may name the rollout that this one goes on from, and where that ends.
fn head(ordinal: u64, thread: &str, base: Option<(&str, u64)>) -> Value {
    let base = base.map(|(id, end)| json!({"thread_id": id, "end_ordinal_exclusive": end}));
    let payload = json!({"id": thread, "cwd": "/srv/app", "history_base": base});
    json!({"ordinal": ordinal, "type": "session_meta", "payload": payload})
}

fn said(ordinal: u64, who: &str, text: &str) -> Value {
    let payload = json!({"type": format!("{who}_message"), "message": text});
    json!({"ordinal": ordinal, "type": "event_msg", "payload": payload})
}

fn write(home: &Path, name: &str, records: &[Value]) {
    let folder = home.join(".codex/sessions/2026/01/28");
    fs::create_dir_all(&folder).unwrap();
    let lines = records.iter().zip(10..).map(|(record, second)| {
        let mut record = record.clone();
        record["timestamp"] = format!("2026-01-28T10:00:{second}.000Z").into();
        record.to_string() + "\n"
    });
    let path = folder.join(format!("rollout-2026-01-28T10-00-00-{name}.jsonl"));
    fs::write(path, lines.collect::<String>()).unwrap();
}

/// What the user and the agent say in a session, with the ends of lines as slashes.
fn text(store: &Path, id: &str) -> String {
    let exported = runs(store, &["export", id, "--format", "json"]);
    let exported: Value = serde_json::from_str(&exported).unwrap();
    let updates = exported["updates"].as_array().unwrap().iter();
    let texts = updates.filter_map(|update| update["update"]["content"]["text"].as_str());
    texts.collect::<Vec<_>>().join("/")
}

#[test]
fn a_fork_has_the_history_it_was_made_from_and_a_rewound_thread_is_one() {
    let (home, store) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (home, store) = (home.path(), store.path());
    let of_source = [
        head(0, SOURCE, None),
        said(1, "user", "First."),
        said(2, "agent", "One."),
        said(3, "user", "Second."),
        said(4, "agent", "Two."),
    ];
    write(home, SOURCE, &of_source);
    let of_fork = [
        head(3, FORK, Some((SOURCE, 3))),
        said(4, "user", "Elsewhere."),
        said(5, "agent", "Forked."),
    ];
    write(home, FORK, &of_fork);
    assert_eq!(import(store, home, "codex"), [2, 0, 0, 0, 0]);
    assert_eq!(text(store, SOURCE), "First./One./Second./Two.");
    assert_eq!(text(store, FORK), "First./One./Elsewhere./Forked.");
    let titles: Vec<String> = listed(store).into_iter().map(|(title, _)| title).collect();
    assert_eq!(titles, ["First.", "First. (2)"]);

    // The user goes back in the source: a further rollout of the same thread.
    let of_source = [
        head(1, SOURCE, Some((SOURCE, 1))),
        said(2, "user", "Better."),
        said(3, "agent", "Anew."),
    ];
    write(home, &format!("{SOURCE}_{REWOUND}"), &of_source);
    import(store, home, "codex");
    assert_eq!(listed(store).len(), 2);
    assert_eq!(text(store, SOURCE), "Better./Anew.");
    // The fork still has what it was made from.
    assert_eq!(text(store, FORK), "First./One./Elsewhere./Forked.");
}
