//! `docs/cli.md` is what the program says about itself.

use std::fmt::Write as _;
use std::process::Command;

use crate::support::env;

const HEAD: &str = "\
# Commands and options

This page is made from `rejoin --help` and the help of each command: `UPDATE_FIXTURES=1 cargo test \
--test it cli_docs` writes it.

Output for people goes to stdout and contains no terminal control characters; `--json` escapes \
them. Messages go to stderr: that a list is empty, which store was searched and, on a terminal, \
which step takes more than a second.
";

fn help(command: &[String]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_rejoin"))
        .args(command)
        .arg("--help")
        .env_clear()
        .output()
        .expect("the program is there");
    assert!(output.status.success(), "{command:?}");
    let help = String::from_utf8(output.stdout).expect("help is text");
    let lines: Vec<_> = help.lines().map(str::trim_end).collect();
    lines.join("\n")
}

/// Appends the help of a command and of the commands below it.
fn document(command: &[String], out: &mut String) {
    let help = help(command);
    let name = [&["rejoin".to_owned()], command].concat().join(" ");
    writeln!(out, "\n## `{name}`\n\n```text\n{}\n```", help.trim_end()).expect("it is memory");
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let commands = commands
        .take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next());
    for next in commands.filter(|name| *name != "help") {
        document(&[command, &[next.to_owned()]].concat(), out);
    }
}

#[expect(clippy::disallowed_methods, reason = "a document is no store")]
#[test]
fn the_page_of_commands_is_what_help_says() {
    let mut page = HEAD.to_owned();
    document(&[], &mut page);
    assert!(page.contains("## `rejoin sessions trash empty`"), "{page}");
    let path = "docs/cli.md";
    if env::update_fixtures() {
        std::fs::write(path, &page).expect("it can be written");
    }
    let written = std::fs::read_to_string(path).expect("the page is there");
    assert!(
        written == page,
        "{path} is not what `--help` says: run this test with UPDATE_FIXTURES=1"
    );
}
