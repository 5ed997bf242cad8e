//! What commands print for people in terminals of different widths, with and without colours:
//! `fixtures/cli`. `UPDATE_FIXTURES=1` writes it.
#![cfg(unix)]

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use rejoin::record::Kind;
use rejoin::sys::Timestamp;
use serde_json::json;
use tempfile::TempDir;

use crate::cli::docs;
use crate::doctor;
use crate::setup::{Home, is_as_in};
use crate::sources;
use crate::support::command::command;
use crate::support::logs::log_of;
use crate::support::terminal::{shown, shown_with_messages};

/// A terminal with so many columns, with or without colours.
fn in_terminal(mut command: Command, columns: usize, colour: bool) -> Command {
    command.env("TZ", "UTC").env("TERM", "xterm-256color");
    command.env("COLUMNS", columns.to_string());
    command.env(if colour { "CLICOLOR_FORCE" } else { "NO_COLOR" }, "1");
    command
}

/// What a command prints in such a terminal.
fn prints(home: &Path, store: &Path, arguments: &[&str], columns: usize, colour: bool) -> String {
    let mut command = command(store, arguments);
    command.env_clear().env("HOME", home);
    shown(in_terminal(command, columns, colour))
}

/// A text without its colours.
pub(crate) fn plain(text: &str) -> String {
    let mut parts = text.split('\u{1b}');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |shown, part| shown + part.split_once('m').unwrap().1)
}

#[track_caller]
fn fits(shown: &str, columns: usize) {
    for line in shown.lines() {
        let wide = line.chars().count();
        assert!(wide <= columns, "{wide} of {columns} columns: {line}");
    }
}

fn heading(command: &str, columns: usize, colour: bool) -> String {
    let how = if colour { ", in colour" } else { "" };
    format!("$ rejoin {command}    # {columns} columns{how}\n")
}

#[test]
fn commands_fit_into_terminals() {
    let home = sources::home();
    let mut text = String::new();
    for columns in [40, 60, 100, 200] {
        for colour in [false, true] {
            let store = TempDir::new().unwrap();
            for arguments in [
                &["import"][..],
                &["import", "claude-code", "codex"],
                &["sessions", "verify"],
                &["stats"],
            ] {
                let of = if arguments == ["stats"] {
                    let store = TempDir::new().unwrap();
                    let import = ["import", "codex", "claude-code"];
                    prints(home.path(), store.path(), &import, 80, false);
                    prints(home.path(), store.path(), arguments, columns, colour)
                } else {
                    prints(home.path(), store.path(), arguments, columns, colour)
                };
                fits(&plain(&of), columns);
                text += &heading(&arguments.join(" "), columns, colour);
                writeln!(text, "{}", of.replace('\u{1b}', "\\e")).unwrap();
            }
        }
    }
    is_as_in(Path::new("fixtures/cli/commands.txt"), &text);
}

/// When the sessions were used: it is always long ago.
const USED: &str = "2024-03-05T14:05:00.000Z";

pub(crate) const IDS: [&str; 2] = [
    "sess_01a1fd7e-723f-7441-b725-49b4fb5b0d01",
    "sess_01a1fd7e-723f-7441-b725-49b4fb5b0d02",
];

/// Writes a session with a question and an answer.
pub(crate) fn write(store: &Path, id: &str, words: &str, answer: &str) {
    let text = |text: &str| json!({ "type": "text", "text": text });
    let header = json!({ "format": 1, "sessionId": id, "cwd": "/home/ada-smith/projects/cache",
        "engine": { "name": "gemini" }, "protocolVersion": 1 });
    let update = json!({ "sessionUpdate": "agent_message_chunk", "content": text(answer) });
    let records = [
        (
            Kind::Prompt,
            Some("msg_1"),
            json!({ "prompt": [text(words)] }),
        ),
        (Kind::Update, None, update),
        (Kind::End, None, json!({ "stopReason": "end_turn" })),
    ];
    log_of(store, &header, Timestamp::parse(USED).unwrap(), &records);
}

/// Settings with an agent whose entry is longer than a narrow terminal is wide.
const SETTINGS: &str = r#"// Mine
{
  "agent_servers": {
    "Gemini": { "type": "custom", "command": "gemini", "args": ["--acp"], "env": {} }
  }
}
"#;

/// What people do one after the other.
const STEPS: &[&[&str]] = &[
    &["sessions", "list", "--cwd", "/nowhere"],
    &["sessions", "list"],
    &["sessions", "show", "eviction"],
    &["sessions", "show", "no such session"],
    &["export", "eviction"],
    &["open", "eviction"],
    &["ps"],
    &["stop", "eviction"],
    &["attach", "no such session"],
    &["stats"],
    &[
        "sessions",
        "rename",
        "docs",
        "Write the documents of the connection pool",
    ],
    &["sessions", "take-over", "documents"],
    &["sessions", "prune", "--older-than", "90d", "--dry-run"],
    &["sessions", "prune", "--older-than", "90"],
    &["sessions", "delete", "documents"],
    &["sessions", "trash"],
    &["sessions", "restore", "documents"],
    &["sessions", "delete", "documents", "--forever"],
    &["sessions", "delete", "documents", "--forever", "--yes"],
    &["sessions", "delete", "gone", "--yes"],
    &["sessions", "trash"],
    &["sessions", "trash", "empty", "--yes"],
    &["store", "check"],
    &["store", "migrate"],
    &[
        "store",
        "copy",
        "--from",
        "~/.local/share/rejoin",
        "--to",
        "other",
    ],
    &["setup", "zed", "--dry-run"],
    &["setup", "zed"],
    &["setup", "zed", "--yes"],
    &["setup"],
    &["setup", "zed", "--undo", "--yes"],
    &["setup", "neovim"],
    &["setup", "emacs"],
    &["doctor"],
    &["serve"],
    &["agent"],
    &["wrap", "--", "claude-agent-acp"],
    &["wrap", "--", "claude"],
    &["wrap", "--", "no-such-agent"],
    &["mcp"],
    &["sesions"],
    &["continue"],
    &["resume", "eviction"],
    &["import", "--source", "codex"],
    &["completions"],
];

/// Whether something is printed as it is in any terminal: what is for other programs, and what the
/// library for command lines says about a wrong one.
fn is_whole(arguments: &[&str], shown: &str) -> bool {
    let is_for_programs = matches!(
        arguments,
        ["setup", "neovim" | "emacs"] | ["export" | "open", ..]
    );
    is_for_programs || plain(shown).starts_with("error: ")
}

#[test]
fn people_can_read_what_commands_say() {
    let long = "Fix the cache eviction in the connection pool, and add a test that fails";
    let answer = "It **expires** too early.\n\n```rust\nlet ttl = Duration::from_secs(60);\n```\n";
    for columns in [60, 100, 200] {
        let mut text = String::new();
        let mut without = Vec::new();
        for colour in [false, true] {
            let home = Home::of_ada();
            let store = home.path(".local/share/rejoin");
            write(&store, IDS[0], long, answer);
            write(&store, IDS[1], "Write docs", "Done.");
            home.settings("zed", SETTINGS);
            for (at, arguments) in STEPS.iter().enumerate() {
                let mut command = home.command(arguments);
                command.current_dir(home.path(""));
                let (shown, code) = shown_with_messages(in_terminal(command, columns, colour));
                let mut shown = home.as_of_ada(&shown);
                if *arguments == ["doctor"] {
                    shown = doctor::stable(&shown);
                    shown = shown.replace(env!("CARGO_PKG_VERSION"), "<version>");
                }
                if !is_whole(arguments, &shown) {
                    fits(&plain(&shown), columns);
                }
                if colour {
                    assert_eq!(without[at], (plain(&shown), code), "{arguments:?}");
                } else {
                    assert!(!shown.contains('\u{1b}'), "{arguments:?}: {shown}");
                    without.push((shown.clone(), code));
                }
                // What has no colours is there already.
                if !colour || shown.contains('\u{1b}') {
                    text += &heading(&arguments.join(" "), columns, colour);
                    writeln!(text, "{}", shown.replace('\u{1b}', "\\e")).unwrap();
                }
            }
        }
        let path = format!("fixtures/cli/people-{columns}.txt");
        is_as_in(Path::new(&path), &text);
    }
}

#[test]
fn help_fits_into_terminals() {
    let mut text = String::new();
    let help = |name: &str, columns, colour| {
        let words = name.split(' ').skip(1);
        let mut command = Command::new(env!("CARGO_BIN_EXE_rejoin"));
        command.env_clear().args(words).arg("-h");
        shown(in_terminal(command, columns, colour))
    };
    for name in docs::names() {
        let [narrow, wide, wider] = [60, 100, 200].map(|columns| {
            let shown = help(&name, columns, false);
            // The line of the usage is one line.
            let others = shown.lines().filter(|line| !line.starts_with("Usage: "));
            fits(&others.collect::<Vec<_>>().join("\n"), columns);
            assert_eq!(plain(&help(&name, columns, true)), shown, "{name}");
            shown
        });
        assert_eq!(wide, wider, "{name}: longer lines are hard to read");
        writeln!(text, "$ {name} -h    # 60 columns\n{narrow}").unwrap();
    }
    is_as_in(Path::new("fixtures/cli/help.txt"), &text);
}

#[test]
fn the_demo_fits_into_a_terminal() {
    let (home, store) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    for columns in [60, 100] {
        let kept = store.path().join(columns.to_string());
        let mut demo = Command::new(env!("CARGO_BIN_EXE_rejoin"));
        demo.args(["demo", "--keep", kept.to_str().unwrap()]);
        demo.env_clear().env("HOME", home.path());
        fits(&shown(in_terminal(demo, columns, false)), columns);
    }
}
