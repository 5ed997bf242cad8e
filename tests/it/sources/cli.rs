//! Conversations of other tools on the command line.

#![expect(
    clippy::disallowed_methods,
    reason = "the files of other tools are no store"
)]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use super::home;
use crate::support::command::command;

/// A word in the output of a tool of Codex.
const WORD: &str = "Hello from an early version";

/// The command in this home folder, with its default store or the one in `store`.
fn at_home(home: &Path, store: Option<&Path>, arguments: &[&str]) -> Command {
    let mut rejoin = if let Some(store) = store {
        command(store, arguments)
    } else {
        let mut rejoin = Command::new(env!("CARGO_BIN_EXE_rejoin"));
        rejoin.args(arguments).stdin(Stdio::null());
        rejoin
    };
    rejoin
        .env_clear()
        .env("HOME", home)
        .env("USERPROFILE", home)
        .env("LOCALAPPDATA", home.join("AppData"));
    // Without it no program of Windows has sockets.
    rejoin.envs(std::env::var_os("SystemRoot").map(|root| ("SystemRoot", root)));
    rejoin
}

/// What the command prints, and its exit code.
fn ran(mut command: Command) -> (String, Option<i32>) {
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    let code = output.status.code();
    assert!(matches!(code, Some(0..=3)), "{errors}");
    (text, code)
}

fn prints(home: &Path, store: Option<&Path>, arguments: &[&str]) -> String {
    let (text, code) = ran(at_home(home, store, arguments));
    assert_eq!(code, Some(0), "{arguments:?}");
    text
}

fn json(home: &Path, store: Option<&Path>, arguments: &[&str]) -> Value {
    serde_json::from_str(&prints(home, store, arguments)).unwrap()
}

#[test]
fn they_are_searched_shown_exported_and_counted_without_a_store() {
    let home = home();
    let home = home.path();
    let search = [
        "sessions",
        "search",
        "--json",
        "--agent",
        "codex-acp",
        "early",
    ];
    let found = json(home, None, &search);
    assert_eq!(found[0]["title"], format!("{WORD}."), "{found}");
    let id = found[0]["sessionId"].as_str().unwrap();
    assert!(prints(home, None, &["sessions", "show", id]).contains(WORD));
    assert!(prints(home, None, &["export", id]).contains(WORD));
    let substring = ["sessions", "search", "--json", "--substring", WORD];
    assert_eq!(json(home, None, &substring)[0]["sessionId"], id);
    let stats = json(home, None, &["stats", "--json"]);
    let agents = stats["agents"].as_array().unwrap();
    let names: Vec<_> = agents
        .iter()
        .map(|agent| agent["name"].as_str().unwrap())
        .collect();
    assert!(
        names.contains(&"codex-acp") && names.contains(&"OpenCode"),
        "{names:?}"
    );
    assert!(
        stats["total"]["tokens"]["totalTokens"].as_u64().unwrap() > 0,
        "{stats}"
    );
    let models = stats["models"].as_array().unwrap();
    assert!(
        models.iter().any(|model| model["name"] == "qwen4"),
        "{models:?}"
    );
    let listed = json(
        home,
        None,
        &["sessions", "list", "--source", "all", "--json"],
    );
    assert_eq!(stats["total"]["sessions"], listed.as_array().unwrap().len());
}

/// Its words are in no index, and the answer says so.
#[test]
fn a_conversation_that_is_too_long_for_words_is_not_passed_over_in_silence() {
    let home = TempDir::new().unwrap();
    let folder = home.path().join(".claude/projects/-srv-app");
    fs::create_dir_all(&folder).unwrap();
    let prompt = r#"{"type":"user","uuid":"u","parentUuid":null,"sessionId":"s","timestamp":"2026-05-01T10:00:00.000Z","cwd":"/srv/app","message":{"role":"user","content":"Find the sundial"}}"#;
    let filler = format!(
        "{{\"type\":\"progress\",\"data\":\"{}\"}}\n",
        "x".repeat(1 << 20)
    );
    // The first prompt may be behind something long.
    let text = format!("{filler}{prompt}\n{}", filler.repeat(33));
    fs::write(
        folder.join("00000000-0000-4000-8000-0000000000aa.jsonl"),
        text,
    )
    .unwrap();
    let search = |option: &str| {
        let arguments = ["sessions", "search", option, "sundial"];
        let output = at_home(home.path(), None, &arguments).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (text(output.stdout), text(output.stderr))
    };
    let (found, said) = search("--json");
    assert_eq!(found.trim(), "[]");
    assert!(
        said.contains("too long to be searched by words: ")
            && said.contains("00000000-0000-4000-8000-0000000000aa.jsonl"),
        "{said}"
    );
    let (found, said) = search("--substring");
    assert!(
        found.contains("sundial") && said.is_empty(),
        "{found}{said}"
    );
}

#[test]
fn an_export_needs_no_store() {
    let home = home();
    let name = "0190aaaa-0000-7000-8000-000000000003";
    assert!(prints(home.path(), None, &["export", name]).contains(WORD));
}

#[test]
fn with_a_named_store_they_are_chosen() {
    let (home, store) = (home(), TempDir::new().unwrap());
    let (home, store) = (home.path(), Some(store.path()));
    let count = |arguments: &[&str]| -> usize {
        let arguments = [&["sessions", "search", "--json", "the"], arguments].concat();
        json(home, store, &arguments).as_array().unwrap().len()
    };
    assert_eq!(count(&[]), 0);
    let (all, codex) = (count(&["--sources", "all"]), count(&["--sources", "codex"]));
    assert!(all > codex && codex > 0, "{all} {codex}");
    assert_eq!(count(&["--sources", "none"]), 0);
    let mut named = at_home(home, store, &["sessions", "search", "--json", "the"]);
    named.env("REJOIN_SOURCES", "codex");
    let found: Value = serde_json::from_str(&ran(named).0).unwrap();
    assert_eq!(found.as_array().unwrap().len(), codex);
}

#[test]
fn a_wrong_variable_disturbs_only_those_that_use_it() {
    let (home, store) = (home(), TempDir::new().unwrap());
    for (arguments, code) in [
        (&["sessions", "list"][..], 2),
        (&["sessions", "trash", "list"], 0),
        (&["import", "codex"], 0),
        (&["sessions", "search", "the"], 2),
        (&["stats"], 2),
        (&["serve"], 2),
        (&["mcp"], 2),
    ] {
        for (name, value) in [("REJOIN_SOURCES", "codx"), ("REJOIN_CLIP_TOOLS", "much")] {
            let mut command = at_home(home.path(), Some(store.path()), arguments);
            let is_used = name == "REJOIN_SOURCES" || arguments == ["serve"];
            let output = command.env(name, value).output().unwrap();
            let text = String::from_utf8_lossy(&output.stderr);
            let code = if is_used { code } else { 0 };
            assert_eq!(
                output.status.code(),
                Some(code),
                "{arguments:?} {name}: {text}"
            );
            assert_eq!(
                text.contains(name),
                code == 2,
                "{arguments:?} {name}: {text}"
            );
        }
    }
}

#[cfg(unix)]
#[test]
fn on_a_terminal_they_are_listed_and_counted() {
    let (home, store) = (home(), TempDir::new().unwrap());
    let (home, store) = (home.path(), store.path());
    crate::support::logs::session(store, "Fix the cache");
    let list = |store: Option<&Path>, more: &[&str], sources: &str| {
        let mut list = at_home(home, store, &[&["list"], more].concat());
        list.env("COLUMNS", "100").env("NO_COLOR", "1");
        list.env("REJOIN_SOURCES", sources);
        crate::support::terminal::shown(list)
    };
    let all = list(None, &["--all"], "");
    let kept = "of these are kept by other tools and only read here; `rejoin import` copies them\n";
    assert!(all.ends_with(kept) && all.lines().count() > 10, "{all}");
    assert!(all.lines().any(|line| line.starts_with(WORD)), "{all}");
    let named = list(Some(store), &[], "");
    assert_eq!(named.lines().count(), 2, "{named}");
    assert_eq!(list(Some(store), &["--source", "none"], "all"), named);
    assert_eq!(list(Some(store), &[], "codex").lines().count(), 5);
    assert_eq!(prints(home, Some(store), &["list"]).lines().count(), 1);
    let fix = list(Some(store), &["-n", "1"], "codex");
    assert!(
        fix.contains("Fix the cache") && !fix.contains("only read here"),
        "{fix}"
    );
}

#[test]
fn nothing_changes_them() {
    let (home, store) = (home(), TempDir::new().unwrap());
    let (home, store) = (home.path(), store.path());
    crate::support::logs::session(store, "Fix the cache");
    let listed = json(home, Some(store), &["list", "--source", "codex", "--json"]);
    let id = listed.as_array().unwrap().iter();
    let id = id.filter_map(|one| one["sessionId"].as_str());
    let id = id.max_by_key(|id| *id == listed[1]["sessionId"]).unwrap();
    for (words, code) in [
        (vec!["rename", WORD, "Hello"], 1),
        (vec!["delete", id], 1),
        (vec!["rewind", id, "--to", "1"], 1),
        (vec!["delete", &id[id.len() - 8..]], 1),
        (vec!["delete", "nothing like that"], 3),
    ] {
        let mut change = at_home(home, Some(store), &words);
        let output = change.env("REJOIN_SOURCES", "all").output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{words:?}: {text}");
        let says = text.contains("is a conversation of Codex, which rejoin only reads")
            && text.contains("rejoin --store")
            && text.contains(" import codex` copies");
        assert_eq!(says, code == 1, "{text}");
    }
}
