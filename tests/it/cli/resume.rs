//! `rejoin resume`: the command by which a session's own tool goes on with it.
#![cfg(unix)]
#![expect(
    clippy::disallowed_methods,
    reason = "writes real files for the real binary"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use rejoin::record::Kind;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::sources::home;
use crate::support::command::{command, fails, runs};
use crate::support::logs::{log, session};

/// A record of an agent that has a session.
fn agent(name: &str, id: Option<&str>) -> (Kind, Option<&'static str>, Value) {
    let mut payload = json!({ "agent": { "name": name, "version": "1" }, "how": "new" });
    if let Some(id) = id {
        payload["id"] = id.into();
    }
    (Kind::AgentSessionId, None, payload)
}

/// A session that was prompted with these words and then had these agents.
fn with_agents(store: &Path, words: &str, agents: &[(&str, Option<&str>)]) -> String {
    let prompt = json!({ "prompt": [{ "type": "text", "text": words }] });
    let end = json!({ "stopReason": "end_turn" });
    let said = [
        (Kind::Prompt, Some("msg_1"), prompt),
        (Kind::End, None, end),
    ];
    let agents = agents.iter().map(|(name, id)| agent(name, *id));
    log(store, &said.into_iter().chain(agents).collect::<Vec<_>>())
}

/// Moves a session to another folder.
fn with_folder(store: &Path, id: &str, folder: &Path) {
    let move_to = json!({ "cwd": folder, "additionalDirectories": [], "mcpServers": [] });
    let path = store.join(format!("sessions/{id}.jsonl"));
    let mut bytes = fs::read(&path).unwrap();
    let seq = String::from_utf8_lossy(&bytes).lines().count() as u64;
    let at = rejoin::sys::Sys::real().clock.now();
    rejoin::record::line::encode(
        &mut bytes,
        seq,
        at,
        Kind::Reopen,
        None,
        &move_to.to_string(),
    );
    fs::write(path, bytes).unwrap();
}

/// A folder with a program that prints its arguments and its folder, and ends with code 7.
fn program(name: &str) -> TempDir {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join(name);
    let script = "#!/bin/sh\nprintf '<%s>' \"$@\"\necho \" $PWD ${REJOIN_STORE-none}\"\nexit 7\n";
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    folder
}

#[test]
fn the_agent_that_has_it_now_goes_on() {
    let root = TempDir::new().unwrap();
    let store = root.path();
    let first = ("claude-agent-acp", Some("0f3c-1"));
    for (name, agents, expected) in [
        ("one", &[first][..], Some("claude --resume 0f3c-1")),
        (
            "two",
            &[first, ("codex-acp", Some("019a-2"))],
            Some("codex resume 019a-2"),
        ),
        (
            "back",
            &[first, ("codex-acp", Some("019a-3")), first],
            Some("claude --resume 0f3c-1"),
        ),
        (
            "goose",
            &[("goose", Some("20261127_1"))],
            Some("goose session --resume --session-id 20261127_1"),
        ),
        (
            "odd",
            &[("claude-agent-acp", Some("a'b c"))],
            Some(r"claude --resume 'a'\''b c'"),
        ),
        ("fork", &[("claude-agent-acp", None)], None),
        ("builtin", &[first, ("local", None)], None),
        ("unknown", &[("their-agent", Some("x"))], None),
        ("option", &[("claude-agent-acp", Some("--yolo"))], None),
    ] {
        let id = with_agents(store, name, agents);
        let Some(expected) = expected else {
            let why = match name {
                "fork" | "builtin" => "not known to any agent",
                _ => "no command by which",
            };
            fails(store, &["resume", name], 1, why);
            continue;
        };
        let line = runs(store, &["resume", name]);
        assert_eq!(line, format!("cd /w && {expected}\n"));
        let end = &id[id.len() - 8..];
        let json: Value = serde_json::from_str(&runs(store, &["resume", "--json", end])).unwrap();
        assert_eq!(json["sessionId"], id);
        let own = &json["agentSession"]["sessionId"];
        assert_eq!(*own, agents.last().unwrap().1.unwrap());
    }
    session(store, "plain");
    fails(store, &["resume", "plain"], 1, "wrap -- AGENT` gives");
    fails(
        store,
        &["resume", "nothing there"],
        3,
        "there is no session",
    );
    let none = "sess_019aa564-cd00-7b3c-9e41-5f2d8c6a1b07";
    fails(store, &["resume", none], 3, "there is no session");
}

#[test]
fn the_tool_runs_in_the_folder_of_the_session() {
    let (root, folder, bin) = (
        TempDir::new().unwrap(),
        TempDir::new().unwrap(),
        program("claude"),
    );
    let store = root.path();
    let id = with_agents(store, "words", &[("claude-agent-acp", Some("0f3c-1"))]);
    let folder = folder.path().canonicalize().unwrap().join("with space");
    with_folder(store, &id, &folder);
    let resume = |words: &[&str], path: &Path| {
        let mut resume = command(store, &[&["resume", "words"], words].concat());
        let output = resume.env("PATH", path).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let (printed, said) = (text(output.stdout), text(output.stderr));
        (printed, said, output.status.code())
    };
    let line = format!("cd '{}' && claude --resume 0f3c-1\n", folder.display());
    // The folder is gone: the command is printed all the same, and not run.
    let (printed, said, code) = resume(&[], bin.path());
    assert_eq!((printed.as_str(), code), (line.as_str(), Some(0)));
    assert!(said.contains("there is no folder"), "{said}");
    assert_eq!(resume(&["--exec"], bin.path()).2, Some(1));
    fs::create_dir(&folder).unwrap();
    let (printed, said, code) = resume(&[], store);
    assert_eq!((printed.as_str(), code), (line.as_str(), Some(0)));
    assert!(said.contains("claude is not in a folder of PATH"), "{said}");
    assert_eq!(resume(&["--exec"], store).2, Some(1));
    let (printed, said, code) = resume(&["--exec"], bin.path());
    let expected = format!("<--resume><0f3c-1> {} none\n", folder.display());
    assert_eq!((printed, code), (expected, Some(7)), "{said}");
    assert_eq!(resume(&[], bin.path()).1, "");

    // A shell runs what is printed.
    let shell = Command::new("/bin/sh")
        .args(["-c", &line])
        .env_clear()
        .env("PATH", bin.path())
        .output();
    let printed = String::from_utf8(shell.unwrap().stdout).unwrap();
    assert!(printed.starts_with("<--resume><0f3c-1>"), "{printed}");

    // While another process has the session, the tool would be a second writer.
    let log = store.join(format!("sessions/{id}.jsonl"));
    let holder = fs::OpenOptions::new().append(true).open(log).unwrap();
    holder.lock().unwrap();
    fs::create_dir_all(store.join("open")).unwrap();
    let hint = r#"{"pid":4711,"host":"elsewhere"}"#;
    fs::write(store.join(format!("open/{id}")), hint).unwrap();
    let (_, said, code) = resume(&["--exec"], bin.path());
    assert_eq!(code, Some(4), "{said}");
    let (printed, said, code) = resume(&[], bin.path());
    assert_eq!((printed, code), (line, Some(0)));
    assert!(said.contains("is in use"), "{said}");
}

/// The conversations of other tools, as their files have them.
#[test]
fn each_tool_goes_on_with_its_own_conversations() {
    let home = home();
    let rejoin = |words: &[&str]| {
        let mut rejoin = Command::new(env!("CARGO_BIN_EXE_rejoin"));
        rejoin.args(words).env_clear().env("HOME", home.path());
        rejoin.output().unwrap()
    };
    let prints = |words: &[&str]| {
        let output = rejoin(words);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{words:?}: {text}");
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let listed = prints(&["list", "--source", "all", "--json"]);
    let without = [
        "Amp",
        "Antigravity CLI",
        "cline",
        "Copilot Chat",
        "Crush",
        "Kilo Code",
        "OpenClaude",
        "OpenHands",
        "Roo Code",
        "Zed",
    ];
    let mut programs = std::collections::BTreeSet::new();
    for one in listed.as_array().unwrap() {
        let id = one["sessionId"].as_str().unwrap();
        let own = &one["agentSessions"][0];
        assert_eq!(own["agent"], one["source"]);
        let name = own["sessionId"].as_str().unwrap();
        let exported = prints(&["export", id, "--format", "json"]);
        assert_eq!(exported["session"]["agentSession"], *own);
        if without.contains(&own["agent"].as_str().unwrap()) {
            let refused = rejoin(&["resume", id]);
            let text = String::from_utf8_lossy(&refused.stderr);
            assert!(text.contains("no command by which"), "{text}");
            continue;
        }
        let resumed = prints(&["resume", "--json", id]);
        assert_eq!(resumed["agentSession"], *own);
        assert_eq!(resumed["cwd"], one["cwd"]);
        let words = resumed["command"].as_array().unwrap();
        assert!(words.iter().any(|word| word == name), "{resumed}");
        programs.insert(words[0].as_str().unwrap().to_owned());
    }
    let all = [
        "claude",
        "codex",
        "copilot",
        "cursor-agent",
        "droid",
        "gemini",
        "goose",
        "grok",
        "hermes",
        "kilo",
        "kimi",
        "kiro-cli",
        "omp",
        "opencode",
        "pi",
        "qwen",
        "vibe",
    ];
    assert_eq!(programs.iter().collect::<Vec<_>>(), all);
    let found = prints(&["search", "--json", "--agent", "codex", "early"]);
    assert_eq!(found[0]["agentSessions"][0]["agent"], "codex-acp");
    // A copy in the store goes on like its original.
    assert!(rejoin(&["import", "codex"]).status.success());
    let listed = prints(&["list", "--sources", "none", "--json"]);
    let one = listed.as_array().unwrap().first().unwrap();
    let id = one["sessionId"].as_str().unwrap();
    let resumed = prints(&["resume", "--json", id]);
    assert_eq!(resumed["agentSession"], one["agentSessions"][0]);
    assert_eq!(resumed["command"][1], "resume");
    // What its tool has deleted is not looked for there.
    let notes = |id: &str| String::from_utf8_lossy(&rejoin(&["resume", id]).stderr).into_owned();
    let lost = "Codex no longer has this conversation";
    assert!(!notes(id).contains(lost), "{}", notes(id));
    let (sessions, away) = (
        home.path().join(".codex/sessions"),
        home.path().join("away"),
    );
    fs::rename(&sessions, &away).unwrap();
    assert!(notes(id).contains(lost), "{}", notes(id));
    assert_eq!(rejoin(&["resume", id, "--exec"]).status.code(), Some(1));
    fs::rename(&away, &sessions).unwrap();
    // The tool has what was undone, and nothing else when that is brought back.
    assert!(rejoin(&["rewind", id, "--to", "0"]).status.success());
    let refused = rejoin(&["resume", id]);
    let text = String::from_utf8_lossy(&refused.stderr);
    assert!(text.contains("not known to any agent"), "{text}");
    let mut states = Vec::new();
    for _ in 0..2 {
        assert!(rejoin(&["rewind", id, "--undo"]).status.success());
        let again = rejoin(&["resume", "--json", id]);
        let is_back = again.status.success();
        if is_back {
            let again: Value = serde_json::from_slice(&again.stdout).unwrap();
            assert_eq!(again["agentSession"], resumed["agentSession"]);
        }
        states.push(is_back);
    }
    assert_eq!(states, [true, false]);
}
