//! What commands print for people in terminals of different widths, with and without colours:
//! `fixtures/cli/commands.txt`. `UPDATE_FIXTURES=1` writes it.
#![cfg(unix)]

use std::fmt::Write as _;
use std::path::Path;

use tempfile::TempDir;

use crate::setup::is_as_in;
use crate::sources::home;
use crate::support::command::command;
use crate::support::terminal::shown;

/// What a command prints in a terminal with so many columns.
fn prints(home: &Path, store: &Path, arguments: &[&str], columns: usize, colour: bool) -> String {
    let mut command = command(store, arguments);
    command.env_clear().env("HOME", home).env("TZ", "UTC");
    command.env("TERM", "xterm-256color");
    command.env("COLUMNS", columns.to_string());
    command.env(if colour { "CLICOLOR_FORCE" } else { "NO_COLOR" }, "1");
    shown(command)
}

/// A line without its colours.
fn plain(line: &str) -> String {
    let mut parts = line.split('\u{1b}');
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

#[test]
fn commands_fit_into_terminals() {
    let home = home();
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
                    prints(
                        home.path(),
                        store.path(),
                        &["import", "codex", "claude-code"],
                        80,
                        false,
                    );
                    prints(home.path(), store.path(), arguments, columns, colour)
                } else {
                    prints(home.path(), store.path(), arguments, columns, colour)
                };
                let lines: Vec<_> = of.lines().map(plain).collect();
                fits(&lines.join("\n"), columns);
                let (command, how) = (arguments.join(" "), if colour { ", in colour" } else { "" });
                let shown = of.replace('\u{1b}', "\\e");
                writeln!(
                    text,
                    "$ rejoin {command}    # {columns} columns{how}\n{shown}"
                )
                .unwrap();
            }
        }
    }
    is_as_in(Path::new("fixtures/cli/commands.txt"), &text);
}

#[test]
fn the_demo_fits_into_a_terminal() {
    let (home, store) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    for columns in [60, 100] {
        let kept = store.path().join(columns.to_string());
        let mut demo = std::process::Command::new(env!("CARGO_BIN_EXE_rejoin"));
        demo.args(["demo", "--keep", kept.to_str().unwrap()]);
        demo.env_clear()
            .env("HOME", home.path())
            .env("NO_COLOR", "1");
        demo.env("COLUMNS", columns.to_string());
        fits(&shown(demo), columns);
    }
}
