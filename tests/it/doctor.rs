//! `rejoin doctor` on stores, agents and settings that are in order, and on some that are not.
#![cfg(unix)]
#![expect(
    clippy::disallowed_methods,
    reason = "writes real files for the real binary"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::Value;

use crate::cli::widths::{IDS, plain, write};
use crate::setup::{Home, is_as_in};
use crate::support::logs::session;

/// An agent that answers `initialize` and waits for the end of its input.
const AGENT: &str = r#"#!/bin/sh
read -r line
echo 'Welcome to the agent!'
echo '{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1,"agentInfo":{"name":"gemini-cli","version":"0.61.0"}}}'
read -r line
"#;
const REFUSES: &str = r#"#!/bin/sh
read -r line
echo '{"jsonrpc":"2.0","id":0,"error":{"code":-32603,"message":"no licence"}}'
"#;

fn program(home: &Home, name: &str, script: &str) {
    fs::write(home.path("bin").join(name), script).unwrap();
    home.program(name);
    fs::write(home.path("bin").join(name), script).unwrap();
}

/// What the command prints, without what depends on the machine, and its exit code.
fn doctor(home: &Home, arguments: &[&str], columns: &str) -> (String, i32) {
    let mut command = home.command(&[&["doctor"], arguments].concat());
    let command = command.env("REJOIN_STORE", home.path("store"));
    let output = command.env("COLUMNS", columns).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let text = home.general(&String::from_utf8(output.stdout).unwrap());
    (text, output.status.code().unwrap())
}

/// The lines of checks whose results are the same on every machine.
pub(crate) fn stable(text: &str) -> String {
    let mut out = String::new();
    let mut is_stable = true;
    for line in text.lines() {
        let bare = plain(line);
        if !bare.starts_with("  ") {
            let of_machine = ["disk space", "file system"];
            is_stable = !of_machine.iter().any(|check| line.contains(check));
        }
        let is_summary = line.contains(" checks, ");
        if is_stable && !is_summary {
            out.extend([line, "\n"]);
        }
    }
    out.trim_end().to_owned() + "\n"
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

fn is_shown(name: &str, text: &str) {
    let text = stable(text).replace(VERSION, "<version>");
    is_as_in(
        Path::new(&format!("fixtures/setup/doctor-{name}.txt")),
        &text,
    );
}

/// A home in which everything is in order.
fn healthy() -> Home {
    let home = Home::new();
    fs::remove_file(home.path("bin/claude-agent-acp")).unwrap();
    program(&home, "gemini", AGENT);
    session(&home.path("store"), "hello");
    let settings =
        r#"{ "agent_servers": { "Gemini": { "command": "gemini", "args": ["--acp"] } } }"#;
    home.settings("zed", settings);
    home.runs(&["setup", "zed", "--yes"]);
    home
}

#[test]
fn all_is_in_order() {
    let home = healthy();
    for columns in ["60", "100"] {
        let (text, code) = doctor(&home, &[], columns);
        assert_eq!(code, 0, "{text}");
        is_shown(&format!("healthy-{columns}"), &text);
    }
    let (text, code) = doctor(&home, &["--json", "--no-agents"], "80");
    assert_eq!(code, 0, "{text}");
    let found: Vec<Value> = serde_json::from_str(&text).unwrap();
    for finding in &found {
        let names: Vec<_> = finding.as_object().unwrap().keys().collect();
        assert_eq!(names, ["check", "status", "message", "hint"]);
        let of_machine = ["disk space", "file system"].map(Value::from);
        assert!(
            finding["status"] == "ok" || of_machine.contains(&finding["check"]),
            "{text}"
        );
    }
    assert!(!text.contains("speaks ACP"), "{text}");
    assert!(
        text.contains("installed, not started: Gemini CLI"),
        "{text}"
    );
    // Nothing is left behind.
    let names = fs::read_dir(home.path("store")).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert!(names.into_iter().all(|name| !name.starts_with("doctor")));
}

#[test]
fn what_is_wrong_is_named_with_what_to_do() {
    let home = healthy();
    program(
        &home,
        "claude-agent-acp",
        "#!/bin/sh\necho 'no node' >&2\nexit 3\n",
    );
    program(&home, "qwen", REFUSES);
    let id = session(&home.path("store"), "second");
    let log = home.path("store/sessions").join(format!("{id}.jsonl"));
    fs::write(log, "damage\n").unwrap();
    home.settings("jetbrains", r#"{ "agent_servers": { "a": 1, } "#);
    let zed = home.settings(
        "zed",
        r#"{ "agent_servers": {
            "gone": { "command": "/opt/gone/rejoin", "args": ["wrap", "--", "gemini"] },
            "by name": { "command": "rejoin", "args": ["wrap", "--", "gemini"] },
            "no agent": { "command": "no-such-agent" },
            "claude-acp": { "type": "registry" }
        } }"#,
    );
    for columns in ["60", "100"] {
        let (text, code) = doctor(&home, &["--agents"], columns);
        assert_eq!(code, 1, "{text}");
        is_shown(&format!("broken-{columns}"), &text);
    }
    let store = home.path("store");
    let mut command = home.command(&["doctor", "--no-agents"]);
    let command = command.env("REJOIN_STORE", store).env("COLUMNS", "200");
    let output = command.env("CLICOLOR_FORCE", "1").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    for part in [
        "\u{1b}[32m✓\u{1b}[0m \u{1b}[1mrejoin\u{1b}[0m ",
        "\u{1b}[33m!\u{1b}[0m \u{1b}[1mZed, by name\u{1b}[0m ",
        "\u{1b}[31m✗\u{1b}[0m \u{1b}[1mJetBrains IDEs\u{1b}[0m ",
        "\u{1b}[2m                  → correct it in the editor\u{1b}[0m",
    ] {
        assert!(text.contains(part), "{text}");
    }
    // A path of rejoin that is gone is corrected.
    let said = home.runs(&["setup", "zed", "--yes"]);
    assert!(
        said.contains("gone: the path of rejoin is corrected"),
        "{said}"
    );
    assert!(!fs::read_to_string(zed).unwrap().contains("/opt/gone"));
}

#[test]
fn a_store_that_is_not_there_or_cannot_be_written() {
    let home = Home::new();
    let (text, code) = doctor(&home, &["--no-agents"], "80");
    assert_eq!(code, 0, "{text}");
    assert!(
        text.contains("~/store: the first session will create it"),
        "{text}"
    );
    let store = home.path("store");
    let named = ["--store", store.to_str().unwrap(), "doctor", "--no-agents"];
    let text = home.runs(&named);
    assert!(text.contains("there is no store at ~/store"), "{text}");
    assert!(!home.path("store").exists());
    session(&home.path("store"), "hello");
    let store = home.path("store");
    fs::set_permissions(&store, fs::Permissions::from_mode(0o500)).unwrap();
    // Root may write everywhere.
    let is_root = fs::write(store.join("x"), "").is_ok();
    let (text, code) = doctor(&home, &["--no-agents"], "80");
    assert_eq!(code, i32::from(!is_root), "{text}");
    assert_eq!(
        text.contains("the store cannot be written"),
        !is_root,
        "{text}"
    );
    fs::set_permissions(&store, fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn agents_that_nobody_uses_are_started_on_request() {
    let home = Home::new();
    fs::remove_file(home.path("bin/claude-agent-acp")).unwrap();
    program(&home, "gemini", AGENT);
    program(&home, "qwen", AGENT);
    let started = |arguments: &[&str]| {
        let (text, code) = doctor(&home, arguments, "100");
        assert_eq!(code, 0, "{text}");
        ["gemini", "qwen"].map(|name| text.contains(&format!("bin/{name} speaks ACP")))
    };
    assert_eq!(started(&[]), [false, false]);
    assert_eq!(started(&["--agents"]), [true, true]);
    assert_eq!(started(&["--no-agents"]), [false, false]);
    // A session was begun with one of them, an editor starts the other.
    write(&home.path("store"), IDS[0], "a question", "an answer");
    assert_eq!(started(&[]), [true, false]);
    let settings = r#"{ "agent_servers": { "mine": { "command": "npx", "args": ["-y", "@qwen-code/qwen-code@latest", "--acp"] } } }"#;
    home.settings("zed", settings);
    assert_eq!(started(&[]), [true, true]);
    assert_eq!(started(&["--no-agents"]), [false, false]);
}

#[test]
fn no_agent_is_installed() {
    let home = Home::new();
    for name in ["claude-agent-acp", "gemini", "npx"] {
        fs::remove_file(home.path("bin").join(name)).unwrap();
    }
    let (text, code) = doctor(&home, &[], "80");
    assert_eq!(code, 0, "{text}");
    assert!(
        text.contains("none of the known agents is on PATH"),
        "{text}"
    );
}

#[test]
fn conversations_that_their_tool_will_delete_are_counted() {
    let home = Home::new();
    let folder = home.path(".claude/projects/p");
    fs::create_dir_all(&folder).unwrap();
    let old = folder.join("00000000-0000-4000-8000-000000000001.jsonl");
    let prompt = r#"{"type":"user","uuid":"1","parentUuid":null,"cwd":"/srv","timestamp":"2026-01-01T00:00:00.000Z","message":{"role":"user","content":"hello"}}"#;
    fs::write(&old, format!("{prompt}\n")).unwrap();
    let file = fs::File::options().append(true).open(&old).unwrap();
    let age = std::time::Duration::from_hours(25 * 24);
    file.set_modified(std::time::SystemTime::now() - age)
        .unwrap();
    let found = || {
        let text = home.runs(&["doctor", "--no-agents"]);
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let warning = "Claude Code will delete 1 conversation in the next 7 days";
    let text = found();
    assert!(
        text.contains(warning) && text.contains("for 30 days"),
        "{text}"
    );
    assert!(text.contains("`rejoin import claude-code`"), "{text}");
    assert!(
        !home.path(".local/share/rejoin").exists(),
        "a check creates no store"
    );
    home.runs(&["import", "codex"]);
    let text = found();
    assert!(text.contains(warning), "{text}");
    home.runs(&["import", "claude-code"]);
    let text = found();
    assert!(text.contains("no other tool will delete one"), "{text}");
}

#[test]
fn prompts_of_conversations_that_are_gone_can_be_read() {
    let home = Home::new();
    fs::create_dir_all(home.path(".claude/projects/p")).unwrap();
    fs::create_dir_all(home.path(".codex")).unwrap();
    let there = home.path(".claude/projects/p/00000000-0000-4000-8000-000000000001.jsonl");
    let prompt = r#"{"type":"user","uuid":"1","parentUuid":null,"cwd":"/srv","timestamp":"2026-01-01T00:00:00.000Z","message":{"role":"user","content":"hello"}}"#;
    fs::write(&there, format!("{prompt}\n")).unwrap();
    let line = |id: u8, text: &str| {
        let id = format!("00000000-0000-4000-8000-0000000000{id:02}");
        format!(
            "{}\n",
            serde_json::json!({"display": text, "timestamp": 1_780_000_000_000_i64, "project": "/srv", "sessionId": id})
        )
    };
    let history = [
        line(1, "hello"),
        line(2, "Find the lost ship"),
        line(2, "And sail home"),
        line(3, "/clear"),
        "{\"display\": \"of an early version\"}\n".to_owned(),
    ];
    fs::write(home.path(".claude/history.jsonl"), history.concat()).unwrap();
    let codex = r#"{"session_id":"0190aaaa-0000-7000-8000-000000000009","ts":1780000000,"text":"Paint it blue"}"#;
    fs::write(home.path(".codex/history.jsonl"), format!("{codex}\n")).unwrap();
    home.runs(&["import", "gemini"]);
    let found = || {
        let text = home.runs(&["doctor", "--no-agents"]);
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let text = found();
    assert!(
        text.contains("Claude Code has deleted 1 conversation of which"),
        "{text}"
    );
    assert!(text.contains("`rejoin import --prompts codex`"), "{text}");
    let said = home.runs(&["import", "--prompts"]);
    assert!(
        said.contains("2 imported") && said.contains("1 imported"),
        "{said}"
    );
    let shown = home.runs(&["show", "lost ship"]);
    assert!(shown.contains("And sail home"), "{shown}");
    assert!(
        shown.contains("Only the prompts of this conversation are left"),
        "{shown}"
    );
    let text = found();
    assert!(!text.contains("has deleted"), "{text}");
    // Nothing comes twice, and what the user deletes does not come back.
    home.runs(&["delete", "lost ship"]);
    let said = home.runs(&["import", "--prompts", "claude-code"]);
    assert!(
        said.contains("1 already here") && !said.contains("imported"),
        "{said}"
    );
}
