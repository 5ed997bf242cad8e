//! `rejoin search` and `prune`, as people and scripts meet them: the real binary, its
//! output and its exit codes.
#![expect(
    clippy::disallowed_methods,
    reason = "writes real files for the real binary"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use rejoin::record::{Kind, line};
use rejoin::sys::{SessionId, Sys, Timestamp};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::command::{command, fails, runs};
use crate::support::logs::log_of;
use crate::support::systems::FOLDER;

const DAY: i64 = 24 * 60 * 60 * 1000;

/// A session that was made so many days ago and prompted with these words, a minute apart.
fn session(store: &Path, days: i64, prompts: &[&str]) -> String {
    named_session(store, None, days, prompts)
}

/// The same, which the agent that made it knows by another id.
fn named_session(store: &Path, known_as: Option<&str>, days: i64, prompts: &[&str]) -> String {
    let sys = Sys::real();
    let id = known_as.map_or_else(
        || sys.ids.session(),
        |name| SessionId::of_foreign("local", name),
    );
    let id = id.to_string();
    let mut millis = sys.clock.now().as_millis() - days * DAY;
    let mut log = Vec::new();
    let mut seq = 0;
    let mut record = |kind, id: Option<&str>, payload: Value| {
        let at = Timestamp::from_millis(millis);
        line::encode(&mut log, seq, at, kind, id, &payload.to_string());
        millis += 60_000;
        seq += 1;
    };
    let mut header = json!({ "format": 1, "sessionId": id, "cwd": FOLDER,
        "engine": { "name": "local" }, "protocolVersion": 1 });
    if let Some(name) = known_as {
        header["knownAs"] = name.into();
    }
    record(Kind::Session, None, header);
    for words in prompts {
        let prompt = json!({ "prompt": [{ "type": "text", "text": words }] });
        record(Kind::Prompt, Some("msg_1"), prompt);
        record(Kind::End, None, json!({ "stopReason": "end_turn" }));
    }
    fs::create_dir_all(store.join("sessions")).unwrap();
    fs::write(path(store, &id), log).unwrap();
    id
}

fn path(store: &Path, id: &str) -> std::path::PathBuf {
    store.join("sessions").join(format!("{id}.jsonl"))
}

/// The ids at the beginnings of lines.
fn ids(shown: &str) -> Vec<&str> {
    let lines = shown.lines().filter(|line| line.starts_with("sess_"));
    lines.filter_map(|line| line.split(' ').next()).collect()
}

#[test]
fn a_snippet_is_where_the_words_are_together() {
    let root = TempDir::new().unwrap();
    let long = "package telemetry, ".repeat(20);
    let asked = "How do users opt out of telemetry?";
    session(
        root.path(),
        1,
        &[&format!("package telemetry\n{long}\n{asked}")],
    );
    session(root.path(), 2, &[&format!("{long}{asked}")]);
    let search = ["search", "telemetry opt out", "--json"];
    let found: Value = serde_json::from_str(&runs(root.path(), &search)).unwrap();
    for session in found.as_array().unwrap() {
        let snippet = session["hits"][0]["snippet"].as_str().unwrap();
        assert!(snippet.contains("opt out of telemetry?"), "{snippet}");
    }
    assert_eq!(found.as_array().unwrap().len(), 2);
}

#[test]
fn search_finds_sessions_and_places() {
    let root = TempDir::new().unwrap();
    let store = root.path();
    let redis = session(store, 2, &["Fix Redis", "thank you"]);
    let both = session(store, 1, &["what is Redis?", "thanks"]);
    session(store, 0, &["something else"]);
    let shown = runs(store, &["sessions", "search", "redis"]);
    let mut found = ids(&shown);
    found.sort_unstable();
    assert_eq!(found, [&redis, &both], "{shown}");
    assert!(
        shown.lines().all(|line| line.chars().count() <= 80),
        "{shown}"
    );
    assert!(shown.contains("  prompt      what is Redis?\n"), "{shown}");
    assert_eq!(
        ids(&runs(store, &["sessions", "search", "thank", "FIX"])),
        [&redis]
    );
    assert_eq!(
        ids(&runs(store, &["sessions", "search", "thank fix"])),
        [&redis]
    );
    for limit in [1, 2] {
        let shown = runs(
            store,
            &["sessions", "search", "redis", "-n", &limit.to_string()],
        );
        assert_eq!(ids(&shown).len(), limit);
    }
    for (more, expected) in [
        (&["--substring", "is Redis?"][..], &[&both][..]),
        (&["--substring", "is redis?"], &[]),
        (&["--regex", "(?i)thank.$|FIX r"], &[&both, &redis]),
        (&["redis", "--since", "36h"], &[&both]),
        (&["redis", "--until", "36h"], &[&redis]),
        (
            &["redis", "--since", "2000-01-01", "--until", "2001-01-01"],
            &[],
        ),
        (
            &[
                "redis", "--role", "user", "--agent", "rejoin", "--until", "36h",
            ],
            &[&redis],
        ),
        (&["redis", "--kind", "answer"], &[]),
        (&["redis", "--tool", "read"], &[]),
        (&["redis", "--agent", "other"], &[]),
    ] {
        let shown = runs(store, &[&["sessions", "search"], more].concat());
        assert_eq!(ids(&shown), expected, "{more:?}");
    }
    assert_eq!(
        runs(
            store,
            &["sessions", "search", "redis", "--cwd", "/elsewhere"]
        ),
        ""
    );
    assert_eq!(runs(store, &["sessions", "search", "\"OR"]), "");
    let json: Value =
        serde_json::from_str(&runs(store, &["sessions", "search", "fix", "--json"])).unwrap();
    assert_eq!(json[0]["sessionId"], *redis);
    assert_eq!(json[0]["source"], "rejoin");
    let snippet = json[0]["snippet"].as_str().unwrap().to_lowercase();
    assert!(snippet.contains("fix"), "{snippet}");
    assert_eq!(json.as_array().unwrap().len(), 1);
    let hits = json[0]["hits"].as_array().unwrap();
    assert_eq!(hits.len(), 1);
    assert_eq!(
        (&hits[0]["kind"], &hits[0]["role"]),
        (&json!("prompt"), &json!("user"))
    );
    assert_eq!(hits[0]["messageId"], "msg_1");
    fails(store, &["sessions", "search", " "], 2, "blank");
    fails(
        store,
        &["sessions", "search", "--substring", ""],
        2,
        "blank",
    );
    fails(
        store,
        &["sessions", "search", "--regex", "("],
        2,
        "not a valid regular expression",
    );
    fails(
        store,
        &["sessions", "search", "a", "--regex", "b"],
        2,
        "cannot be used with",
    );
    fails(
        store,
        &["sessions", "search", "a", "--since", "never"],
        2,
        "--since must be",
    );
    let both = [
        "sessions", "search", "a", "--role", "user", "--kind", "answer",
    ];
    fails(store, &both, 2, "no text has both");
    fails(store, &["sessions", "search"], 2, "<TEXT>");
}

#[test]
fn questions_find_what_they_ask_for_and_typing_errors_get_a_tip() {
    let root = TempDir::new().unwrap();
    let store = root.path();
    let id = session(
        store,
        1,
        &["The attribution of each pull request is decided"],
    );
    let search = |words: &str| {
        let output = command(store, &["search", words, "--json"])
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        let found = found.as_array().unwrap().iter();
        let found: Vec<_> = found.map(|found| found["sessionId"].clone()).collect();
        (found, String::from_utf8(output.stderr).unwrap())
    };
    let (found, said) = search("what did we do about attribution?");
    assert_eq!(found, [json!(id)]);
    assert!(said.contains("not in every question"), "{said}");
    for words in ["attribution", "the attribution is"] {
        assert_eq!(search(words), (vec![id.clone().into()], String::new()));
    }
    let (found, said) = search("Atribution pull");
    assert!(
        found.is_empty() && said.contains("did you mean `attribution pull`?"),
        "{said}"
    );
    // A word that is there, but not with the others, is none that was mistyped.
    session(store, 1, &["Another contribution"]);
    for words in ["contribution pull", "zzzzzz", "atr"] {
        let (found, said) = search(words);
        assert!(
            found.is_empty() && said.contains("use fewer words"),
            "{said}"
        );
    }
}

#[test]
fn equal_titles_are_distinguished_by_what_differs() {
    let root = TempDir::new().unwrap();
    let store = root.path();
    let review = |what: &str| format!("Review this change\n\n{what}");
    let titles = || {
        let listed = runs(store, &["sessions", "list", "--json"]);
        let listed: Value = serde_json::from_str(&listed).unwrap();
        let listed = listed.as_array().unwrap().iter().rev();
        let titles = listed.map(|session| session["title"].as_str().unwrap().to_owned());
        titles.collect::<Vec<_>>()
    };
    let first = session(store, 9, &[&review("It adds a cache to the parser.")]);
    session(store, 8, &[&review("It adds a colour to the list.")]);
    session(store, 7, &[&review("It adds a cache to the parser.")]);
    let expected = [
        "Review this change",
        "Review this change · colour to the list.",
        "Review this change (2)",
    ];
    assert_eq!(titles(), expected);
    let last = session(store, 6, &["Review this change"]);
    assert_eq!(
        titles(),
        [&expected[..], &["Review this change (3)"]].concat()
    );
    let shown = runs(store, &["sessions", "show", "Review this change (3)"]);
    assert!(shown.contains(&last[last.len() - 6..]), "{shown}");
    // A title that somebody has given is as good as one from a prompt.
    runs(store, &["rename", &last, "Mine"]);
    assert_eq!(titles().last().unwrap(), "Mine");
    runs(store, &["delete", &first]);
    assert_eq!(titles()[0], "Review this change");
}

#[test]
fn prune_moves_old_sessions_to_the_trash() {
    let root = TempDir::new().unwrap();
    let store = root.path();
    let ancient = session(store, 100, &["a"]);
    let old = session(store, 31, &["b"]);
    let recent = session(store, 29, &["c"]);
    let unprompted = session(store, 40, &[]);
    let logs = || fs::read_dir(store.join("sessions")).unwrap().count();

    let older = ["sessions", "prune", "--older-than", "30d"];
    let shown = runs(store, &[&older[..], &["--dry-run"]].concat());
    assert_eq!(ids(&shown), [&ancient, &unprompted, &old]);
    assert!(
        shown.ends_with("3 sessions would go to the trash\n"),
        "{shown}"
    );
    assert_eq!(logs(), 4);

    let shown = runs(store, &[&older[..], &["--keep", "2", "--dry-run"]].concat());
    assert_eq!(ids(&shown), [&ancient, &unprompted]);

    let holder = fs::OpenOptions::new().append(true).open(path(store, &old));
    let holder = holder.unwrap();
    holder.lock().unwrap();
    let shown = runs(store, &older);
    assert_eq!(ids(&shown), [&ancient, &unprompted, &old]);
    assert!(
        shown.contains(&format!("{old} is in use and was not moved")),
        "{shown}"
    );
    assert!(
        shown.contains("\n2 sessions moved to the trash; "),
        "{shown}"
    );
    drop(holder);

    assert_eq!(logs(), 2);
    assert_eq!(ids(&runs(store, &["sessions", "list"])), [&recent, &old]);
    assert_eq!(ids(&runs(store, &["sessions", "restore"])).len(), 2);
    runs(store, &["sessions", "restore", &ancient]);
    assert_eq!(
        ids(&runs(store, &["sessions", "list"])),
        [&recent, &old, &ancient]
    );
    assert_eq!(
        ids(&runs(store, &["sessions", "prune", "--keep", "1"])),
        [&ancient, &old]
    );
    assert_eq!(runs(store, &older), "0 sessions moved to the trash\n");
}

#[test]
fn prune_requires_an_argument() {
    let root = TempDir::new().unwrap();
    fails(root.path(), &["sessions", "prune"], 2, "--older-than");
    fails(
        root.path(),
        &["sessions", "prune", "--dry-run"],
        2,
        "--older-than",
    );
    fails(
        root.path(),
        &["sessions", "prune", "--older-than", "30"],
        2,
        "write a time as",
    );
    fails(
        root.path(),
        &["sessions", "prune", "--older-than", "-1d"],
        2,
        "unexpected",
    );
    let nothing = runs(root.path(), &["sessions", "prune", "--keep", "0"]);
    assert_eq!(nothing, "0 sessions moved to the trash\n");
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
}

#[test]
fn session_is_found_by_agent_session_id() {
    let root = TempDir::new().unwrap();
    let store = root.path();
    let id = named_session(store, Some("agent's own"), 1, &["fix it"]);
    let sessions = |verb: &str| runs(store, &["sessions", verb, "agent's own"]);
    assert!(sessions("show").contains("You\nfix it"));
    assert_eq!(sessions("verify"), "1 session, 1 sound, 0 damaged\n");
    assert!(sessions("delete").starts_with(&id));
    let trash = runs(store, &["sessions", "restore"]);
    assert!(
        trash.starts_with(&id) && trash.ends_with("  fix it\n"),
        "{trash}"
    );
    let why = "there is no session";
    fails(store, &["sessions", "show", "agent's own"], 3, why);
    assert_eq!(sessions("restore"), format!("{id} is back\n"));
    assert_eq!(ids(&runs(store, &["sessions", "list"])), [&id]);
    let why = "is not in the trash";
    fails(store, &["sessions", "restore", "agent's own"], 3, why);
}

/// Any log can name any session as its agent's, such as one that came from another store.
#[test]
fn a_log_from_elsewhere_hides_no_session() {
    let root = TempDir::new().unwrap();
    let ours = "sess_01b00000-0000-7000-8000-0000000000aa";
    let add = |id: &str, name: Value, minute: i64, inner: Option<&str>| {
        let header = json!({ "format": 1, "sessionId": id, "cwd": FOLDER, "protocolVersion": 1,
            "engine": { "name": "rejoin" }, "knownAs": name });
        let at = Timestamp::from_millis(1_800_000_000_000 + minute * 60_000);
        let inner = inner.map(|id| json!({ "id": id, "agent": { "name": "rejoin" } }));
        let prompt = json!({ "prompt": [{ "type": "text", "text": "water the beans" }] });
        let end = json!({ "stopReason": "end_turn" });
        let inner = inner.map(|payload| (Kind::AgentSessionId, None, payload));
        let turn = [
            (Kind::Prompt, Some("msg_1"), prompt),
            (Kind::End, None, end),
        ];
        let records: Vec<_> = inner.into_iter().chain(turn).collect();
        log_of(root.path(), &header, at, &records);
        id.to_owned()
    };
    let other = |end: &str| format!("sess_01b00000-0000-7000-8000-0000000000{end}");
    let expected = BTreeSet::from([
        add(ours, Value::Null, 1, None),
        add(&other("01"), ours.into(), 2, None),
        add(&other("02"), Value::Null, 0, Some(ours)),
        add(&other("03"), Value::Null, 2, Some(ours)),
    ]);
    let listed = || {
        let listed = runs(root.path(), &["sessions", "list"]);
        ids(&listed)
            .into_iter()
            .map(str::to_owned)
            .collect::<BTreeSet<_>>()
    };
    assert_eq!(listed(), expected);
    let report = runs(root.path(), &["sessions", "verify"]);
    assert_eq!(report, "4 sessions, 4 sound, 0 damaged\n");
    // Two that are of the same conversation: one has its id from ours, one has passed it the prompt.
    let derived = SessionId::of_foreign("rejoin", ours).to_string();
    add(&derived, ours.into(), 5, None);
    let outer = add(&other("04"), Value::Null, 2, Some(&other("03")));
    let mut expected = expected;
    assert!(expected.remove(ours) && expected.remove(&other("03")));
    expected.extend([derived, outer]);
    assert_eq!(listed(), expected);
}
