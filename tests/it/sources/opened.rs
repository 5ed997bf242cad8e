//! Conversations of other tools are loaded, read and continued in a server that lists them.

#![expect(
    clippy::disallowed_methods,
    reason = "the files of other tools are no store"
)]

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::client::Client;
use super::listed::{ROLLOUT, append};
use super::{copy, home};
use crate::support::command::runs;
use crate::support::systems::FOLDER;

/// A line of the early version of Codex.
pub(super) fn said(role: &str, text: &str) -> String {
    let kind = if role == "user" {
        "input_text"
    } else {
        "output_text"
    };
    let content = json!([{ "type": kind, "text": text }]);
    json!({ "type": "message", "role": role, "content": content }).to_string()
}

/// The texts of a replay.
fn texts(notified: &[Value]) -> Vec<String> {
    let texts = notified.iter().filter_map(|message| {
        let text = message["params"]["update"]["content"]["text"].as_str();
        text.map(str::to_owned)
    });
    texts.collect()
}

fn load(client: &mut Client, id: &Value) -> Vec<String> {
    client.call(
        "session/load",
        json!({ "sessionId": id, "cwd": FOLDER, "mcpServers": [] }),
    );
    texts(&client.notified)
}

/// All files below a folder with their content.
fn content(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(content(&path));
        } else {
            files.push((path.display().to_string(), fs::read(&path).unwrap()));
        }
    }
    files.sort();
    files
}

#[test]
fn every_listed_conversation_is_loaded_and_read_and_the_files_stay() {
    let (home, store) = (home(), tempfile::tempdir().unwrap());
    let kept = tempfile::tempdir().unwrap();
    copy(home.path(), kept.path());
    let mut client = Client::new(store.path(), home.path(), &[]);
    let listed = client.list();
    for session in &listed {
        let id = &session["sessionId"];
        assert!(!load(&mut client, id).is_empty(), "{session}");
        let got = client.call("session/get", json!({ "sessionId": id }));
        assert_eq!(got["title"], session["title"]);
        client.call("session/close", json!({ "sessionId": id }));
    }
    let ids = |sessions: &[Value]| {
        let ids = sessions
            .iter()
            .map(|session| session["sessionId"].to_string());
        ids.collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(ids(&client.list()), ids(&listed));
    runs(store.path(), &["sessions", "verify"]);
    let name = |files: Vec<(String, Vec<u8>)>, root: &Path| -> Vec<(String, Vec<u8>)> {
        let root = root.display().to_string();
        let files = files.into_iter().filter(|(name, _)| !name.contains(".db-"));
        files
            .map(|(name, bytes)| (name.replace(&root, ""), bytes))
            .collect()
    };
    let (now, before) = (content(home.path()), content(kept.path()));
    assert!(name(now, home.path()) == name(before, kept.path()));
}

#[test]
fn what_is_not_continued_follows_its_file_and_what_is_does_not() {
    let (home, store) = (home(), tempfile::tempdir().unwrap());
    let file = home.path().join(ROLLOUT);
    let mut client = Client::new(store.path(), home.path(), &["codex"]);
    let id = client.list()[1]["sessionId"].clone();
    let before = load(&mut client, &id);
    client.call("session/close", json!({ "sessionId": id }));
    append(&file, &said("user", "And then?"));
    append(&file, &said("assistant", "This."));
    let counted = client.list();
    let entry = counted
        .iter()
        .find(|session| session["sessionId"] == id)
        .unwrap();
    assert_eq!(entry["messageCount"], 4);
    append(&file, &said("user", "And now?"));
    let after = load(&mut client, &id);
    assert_eq!(after[..before.len()], before);
    assert_eq!(after[before.len()..], ["And then?", "This.", "And now?"]);
    let prompt = json!([{ "type": "text", "text": "Go on here." }]);
    client.call(
        "session/prompt",
        json!({ "sessionId": id, "prompt": prompt }),
    );
    client.call("session/close", json!({ "sessionId": id }));
    append(&file, &said("user", "Go on there."));
    let last = load(&mut client, &id);
    assert!(last.contains(&"Go on here.".to_owned()), "{last:?}");
    assert!(!last.contains(&"Go on there.".to_owned()), "{last:?}");
    assert_eq!(client.list().len(), 2);
}

#[test]
fn one_is_forked_renamed_archived_and_deleted_like_any_session() {
    let (home, store) = (home(), tempfile::tempdir().unwrap());
    let mut client = Client::new(
        store.path(),
        home.path(),
        &["claude-code", "qwen", "unstable"],
    );
    let listed = client.list();
    let (first, second) = (&listed[0]["sessionId"], &listed[1]["sessionId"]);
    let params = json!({ "sessionId": first, "cwd": FOLDER, "mcpServers": [] });
    let fork = client.call("session/fork", params);
    assert_ne!(fork["sessionId"], *first);
    let params = json!({ "sessionId": first, "title": "Another name" });
    client.call("session/set_title", params);
    assert!(client.titles().contains(&"Another name".to_owned()));
    client.call("session/archive", json!({ "sessionId": second }));
    assert!(
        client
            .list()
            .iter()
            .all(|session| session["sessionId"] != *second)
    );
    client.call("session/delete", json!({ "sessionId": first }));
    assert!(
        client
            .list()
            .iter()
            .all(|session| session["sessionId"] != *first)
    );
    let params = json!({ "sessionId": first, "cwd": FOLDER, "mcpServers": [] });
    let answer = client.ask("session/load", params);
    assert_eq!(answer["error"]["data"]["error"], "session_not_found");
}

#[test]
fn one_whose_file_is_gone_is_not_found() {
    let (home, store) = (home(), tempfile::tempdir().unwrap());
    let mut client = Client::new(store.path(), home.path(), &["codex"]);
    let id = client.list()[1]["sessionId"].clone();
    fs::remove_file(home.path().join(ROLLOUT)).unwrap();
    let params = json!({ "sessionId": id, "cwd": FOLDER, "mcpServers": [] });
    let answer = client.ask("session/load", params);
    assert_eq!(answer["error"]["data"]["error"], "session_not_found");
    // And one that is not chosen is not, either.
    let mut client = Client::new(store.path(), home.path(), &["codex", "qwen"]);
    let id = client.list()[0]["sessionId"].clone();
    let mut client = Client::new(store.path(), home.path(), &["codex"]);
    let params = json!({ "sessionId": id, "cwd": FOLDER, "mcpServers": [] });
    let answer = client.ask("session/load", params);
    assert_eq!(answer["error"]["data"]["error"], "session_not_found");
}

#[test]
fn a_client_that_subscribes_is_notified_of_what_tools_do() {
    let (home, store) = (home(), tempfile::tempdir().unwrap());
    let mut client = Client::new(store.path(), home.path(), &["codex", "unstable"]);
    client.call("session/list/subscribe", json!({}));
    append(&home.path().join(ROLLOUT), &said("user", "And then?"));
    let changes = |client: &mut Client, is_wanted: &dyn Fn(&Value) -> bool| loop {
        let message = client.next();
        if message["method"] == "session/list/changes" && is_wanted(&message["params"]) {
            return;
        }
    };
    changes(&mut client, &|params| {
        params["sessions"][0]["messageCount"] == 4
    });
    let folder = home.path().join(".codex/sessions/2026/05/12");
    fs::create_dir_all(&folder).unwrap();
    let early = fs::read_to_string(home.path().join(ROLLOUT)).unwrap();
    let new = folder.join("rollout-2026-05-12T08-00-00-0190cccc-0000-7000-8000-000000000003.jsonl");
    fs::write(
        &new,
        early
            .replace("0190aaaa", "0190cccc")
            .replace("Hello", "Good day"),
    )
    .unwrap();
    changes(&mut client, &|params| {
        params["sessions"][0]["title"] == "Good day from an early version."
    });
    // Another process is first.
    let mut other = Client::new(store.path(), home.path(), &["codex"]);
    append(&new, &said("user", "And then?"));
    other.list();
    changes(&mut client, &|params| {
        params["sessions"][0]["messageCount"] == 6
    });
    fs::remove_file(&new).unwrap();
    other.list();
    changes(&mut client, &|params| params["removed"][0].is_string());
}
