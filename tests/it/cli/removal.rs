//! Sessions that are removed for good: nothing of them is in any file of the store.
#![expect(
    clippy::disallowed_methods,
    reason = "looks at and writes real files of the real binary"
)]

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::support::command::{fails, runs};
use crate::support::logs::session;

const SECRET: &str = "zanzibarhunter2";
const NONE: [PathBuf; 0] = [];

/// The files below a folder whose name or content has this text.
fn files_with(folder: &Path, text: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_with(&path, text));
            continue;
        }
        let named = path.to_string_lossy().contains(text);
        let bytes = fs::read(&path).unwrap();
        if named
            || bytes
                .windows(text.len())
                .any(|part| part == text.as_bytes())
        {
            found.push(path);
        }
    }
    found
}

/// A store with a session that has a secret in its log, in the trash, in a torn end and in the
/// index, and with another session; their ids.
fn store_with_a_secret(store: &Path) -> (String, String) {
    let secret = session(store, &format!("my password is {SECRET}"));
    let other = session(store, "something else");
    let log = fs::read(store.join(format!("sessions/{secret}.jsonl"))).unwrap();
    fs::create_dir_all(store.join("trash")).unwrap();
    fs::write(store.join(format!("trash/{secret}.1.jsonl")), log).unwrap();
    fs::write(store.join(format!("trash/{secret}.torn-7-1")), SECRET).unwrap();
    fs::create_dir_all(store.join("open")).unwrap();
    fs::write(store.join(format!("open/{secret}")), "{}").unwrap();
    let found = runs(store, &["sessions", "search", SECRET]);
    assert!(found.starts_with(&secret), "{found}");
    (secret, other)
}

#[test]
fn a_session_that_is_deleted_forever_is_in_no_file() {
    let root = TempDir::new().unwrap();
    let store = root.path();
    let (secret, other) = store_with_a_secret(store);
    assert!(files_with(store, SECRET).len() >= 4);

    // Without a terminal and without `--yes` nothing is done.
    let ask = ["sessions", "delete", "--forever", &secret];
    let before = files_with(store, "").len();
    assert_eq!(fails(store, &ask, 2, "add `--yes`"), "");
    assert_eq!(files_with(store, "").len(), before);

    let shown = runs(store, &[&ask[..], &["--yes"]].concat());
    assert_eq!(shown, format!("{secret} is removed for good\n"));
    assert_eq!(files_with(store, SECRET), NONE);
    assert_eq!(files_with(store, &secret), NONE);
    assert_eq!(runs(store, &["sessions", "search", SECRET]), "");
    let listed = runs(store, &["sessions", "list"]);
    assert!(listed.starts_with(&other) && listed.lines().count() == 1);
    fails(
        store,
        &["sessions", "restore", &secret],
        3,
        "not in the trash",
    );
    let again = [&ask[..], &["--yes"]].concat();
    fails(store, &again, 3, "there is no session");
    fails(
        store,
        &["sessions", "delete", "--yes", &other],
        2,
        "--forever",
    );
}

#[test]
fn search_text_of_a_removed_file_is_deleted() {
    let root = TempDir::new().unwrap();
    let store = root.path();
    let (secret, _) = store_with_a_secret(store);
    for path in files_with(store, &secret) {
        if path.parent() != Some(store) {
            fs::remove_file(path).unwrap();
        }
    }
    assert_ne!(files_with(store, SECRET), NONE);
    let delete = ["sessions", "delete", "--forever", "--yes", &secret];
    fails(store, &delete, 3, "there is no session");
    assert_eq!(files_with(store, SECRET), NONE);
}

#[test]
fn a_session_that_is_only_in_the_trash_is_removed_too() {
    let root = TempDir::new().unwrap();
    let store = root.path();
    let (secret, _) = store_with_a_secret(store);
    runs(store, &["sessions", "delete", &secret]);
    runs(
        store,
        &["sessions", "delete", "--forever", "--yes", &secret],
    );
    assert_eq!(files_with(store, SECRET), NONE);
    assert_eq!(files_with(store, &secret), NONE);
}

#[test]
fn a_session_that_is_open_is_not_removed() {
    let root = TempDir::new().unwrap();
    let store = root.path();
    let (secret, other) = store_with_a_secret(store);
    let log = store.join(format!("sessions/{secret}.jsonl"));
    let holder = fs::OpenOptions::new().append(true).open(&log).unwrap();
    holder.lock().unwrap();
    let hint = r#"{"pid":4711,"host":"elsewhere"}"#;
    fs::write(store.join(format!("open/{secret}")), hint).unwrap();
    let delete = ["sessions", "delete", "--forever", "--yes", &secret];
    fails(
        store,
        &delete,
        4,
        "is in use by process 4711 on host elsewhere",
    );
    assert!(log.exists());
    assert!(store.join(format!("trash/{secret}.1.jsonl")).exists());
    drop(holder);
    let both = [&delete[..], &[&other]].concat();
    assert_eq!(runs(store, &both).lines().count(), 2);
    assert_eq!(files_with(&store.join("sessions"), ""), NONE);
}

#[test]
fn emptied_trash_leaves_nothing() {
    let root = TempDir::new().unwrap();
    let store = root.path();
    let (secret, other) = store_with_a_secret(store);
    runs(store, &["sessions", "delete", &secret, &other]);
    let stray = store.join("trash/mine.txt");
    fs::write(&stray, "mine").unwrap();
    let trash = runs(store, &["sessions", "trash", "list"]);
    assert_eq!(trash.lines().count(), 3, "{trash}");
    assert_eq!(trash, runs(store, &["sessions", "restore"]));

    let empty = ["sessions", "trash", "empty"];
    assert_eq!(fails(store, &empty, 2, "add `--yes`"), "");
    let old = [&empty[..], &["--older-than", "30d", "--yes"]].concat();
    assert_eq!(
        runs(store, &old),
        "1 session and 1 torn end removed for good\n"
    );
    assert_eq!(
        runs(store, &["sessions", "trash", "list"]).lines().count(),
        2
    );
    assert_eq!(
        runs(store, &[&empty[..], &["--yes"]].concat()),
        "2 sessions removed for good\n"
    );
    assert_eq!(files_with(store, SECRET), NONE);
    assert_eq!(files_with(&store.join("trash"), ""), [stray]);
    // Where there is nothing to lose there is nothing to ask.
    assert_eq!(runs(store, &empty), "0 sessions removed for good\n");
}

#[test]
fn trash_file_in_use_is_not_removed() {
    let root = TempDir::new().unwrap();
    let store = root.path();
    let (secret, _) = store_with_a_secret(store);
    let begun = store.join(format!("trash/{secret}.torn-0-2"));
    fs::write(&begun, "").unwrap();
    let maker = fs::OpenOptions::new().append(true).open(&begun).unwrap();
    maker.lock().unwrap();
    runs(store, &["sessions", "trash", "empty", "--yes"]);
    assert_eq!(
        files_with(&store.join("trash"), ""),
        std::slice::from_ref(&begun)
    );
    drop(maker);
    runs(store, &["sessions", "trash", "empty", "--yes"]);
    assert!(!begun.exists());
}
