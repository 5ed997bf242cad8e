//! Conversations of subagents in the sessions that import makes.

#![expect(
    clippy::disallowed_methods,
    reason = "the files of other tools are no store"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::client::Client;
use super::import::{import, listed};
use super::{copy, home};
use crate::support::command::runs;
use crate::support::systems::FOLDER;

const SESSION: &str = "5f0c8a52-1111-4222-8333-444455556666";

/// What a client gets when it loads the one session: each update with its session.
fn replayed(store: &Path, capability: &str) -> Vec<(String, Value)> {
    let (_, id) = listed(store).remove(0);
    let nowhere = tempfile::tempdir().unwrap();
    let mut client = Client::new(store, nowhere.path(), &[capability]);
    let params = json!({"sessionId": id, "cwd": FOLDER, "mcpServers": []});
    client.call("session/load", params);
    let updates = client.notified.iter().map(|message| {
        let params = &message["params"];
        let session = params["sessionId"].as_str().unwrap();
        let session = if session == id { "" } else { session };
        (session.to_owned(), params["update"].clone())
    });
    updates.collect()
}

#[test]
fn subagents_are_shown_to_clients_that_know_them_and_their_results_to_all() {
    let (home, store) = (home(), tempfile::tempdir().unwrap());
    assert_eq!(
        import(store.path(), home.path(), "claude-code"),
        [1, 0, 0, 0, 0]
    );
    let shown = replayed(store.path(), "subagents");
    let mut announced = BTreeSet::new();
    for (session, update) in &shown {
        if update["sessionUpdate"] == "subagent_update" {
            announced.insert(update["sessionId"].as_str().unwrap());
        }
        assert!(
            session.is_empty() || announced.contains(session.as_str()),
            "{update}"
        );
    }
    let names = ["0w", "9f", "abc", "def"];
    let expected = names.map(|name| format!("{SESSION}/agent-{name}"));
    assert_eq!(announced, expected.iter().map(String::as_str).collect());
    let spoken = |session: &str| {
        let own = shown.iter().filter(|(of, _)| of == session);
        let texts = own.filter_map(|(_, update)| update["content"]["text"].as_str());
        texts.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(spoken(&expected[1]), "Count them. There are two.");
    // Others get the session without them.
    let hidden = replayed(store.path(), "none");
    let own = shown.iter().filter(|(session, update)| {
        session.is_empty() && update["sessionUpdate"] != "subagent_update"
    });
    let own: Vec<&Value> = own.map(|(_, update)| update).collect();
    assert_eq!(
        hidden.iter().map(|(_, update)| update).collect::<Vec<_>>(),
        own
    );
    let ended =
        |update: &Value| update["toolCallId"] == "toolu_13" && update["status"] == "completed";
    assert!(own.into_iter().any(ended));
}

#[test]
fn what_is_new_of_subagents_extends_a_session_and_what_is_gone_changes_nothing() {
    let (home, store) = (home(), tempfile::tempdir().unwrap());
    let (home, store) = (home.path(), store.path());
    let folder = home.join(".claude/projects/-work-app").join(SESSION);
    let aside = tempfile::tempdir().unwrap();
    copy(&folder, aside.path());
    fs::remove_dir_all(&folder).unwrap();
    assert_eq!(import(store, home, "claude-code"), [1, 0, 0, 0, 0]);
    // Without what is said about subagents.
    let own = || {
        let shown = runs(
            store,
            &["sessions", "show", &listed(store).remove(0).1, "--json"],
        );
        let shown: Value = serde_json::from_str(&shown).unwrap();
        let session = &shown["session"]["sessionId"];
        let mut updates = shown["updates"].as_array().unwrap().clone();
        updates.retain(|params| {
            params["sessionId"] == *session
                && params["update"]["sessionUpdate"] != "subagent_update"
        });
        updates
    };
    let before = own();
    // Half of one of them, then all of both.
    copy(aside.path(), &folder);
    let file = folder.join("subagents/agent-9f.jsonl");
    let whole = fs::read_to_string(&file).unwrap();
    let half: Vec<&str> = whole.split_inclusive('\n').take(2).collect();
    fs::write(&file, half.concat()).unwrap();
    assert_eq!(import(store, home, "claude-code"), [0, 1, 0, 0, 0]);
    assert_eq!(import(store, home, "claude-code"), [0, 0, 1, 0, 0]);
    fs::write(&file, &whole).unwrap();
    assert_eq!(import(store, home, "claude-code"), [0, 1, 0, 0, 0]);
    assert_eq!(import(store, home, "claude-code"), [0, 0, 1, 0, 0]);
    let shown = replayed(store, "subagents");
    let said = shown
        .iter()
        .filter(|(session, _)| session.ends_with("agent-9f"));
    let said = said.filter(|(_, update)| update["content"]["text"] == "There are two.");
    assert_eq!(said.count(), 1);
    fs::remove_dir_all(&folder).unwrap();
    assert_eq!(import(store, home, "claude-code"), [0, 0, 1, 0, 0]);
    assert_eq!(own(), before);
    runs(store, &["sessions", "verify"]);
}
