//! What is made from the definition of the command line: `docs/cli.md`, completions, manual pages.
#![expect(clippy::disallowed_methods, reason = "a document is no store")]

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

#[cfg(unix)]
use crate::cli::widths;
use crate::support::command::{fails, runs};
use crate::support::env;

const HEAD: &str = "\
# Commands and options

This page is made from the help of each command: `UPDATE_FIXTURES=1 cargo test --test it cli_docs` \
writes it. `rejoin COMMAND --help` prints the same in the terminal, `rejoin man` as a manual page, \
and `rejoin completions SHELL` makes a shell complete it.

Output for people goes to stdout and contains no terminal control characters; `--json` escapes \
them. Messages go to stderr: that a list is empty, which store was searched and, on a terminal, \
which step takes more than a second.

A session is named by its ID or by an ID that its agent gave it, by at least four characters of the \
beginning or the end of these, as `last`, or by a part of its title. If several sessions have it, \
they are listed and nothing is done. `rejoin` or `rejoin sessions` alone, in a terminal, is a list to choose \
from; its commands are those for sessions by longer names: `rejoin sessions list` is `rejoin list`.

A length of time is written as `30s`, `12h` or `90d`.

On a terminal, lists are tables that fit its width (or that of `COLUMNS`), with local times and \
colours (`NO_COLOR` and `CLICOLOR_FORCE` decide about these). For programs, `list` prints a line \
for each session instead: ID, time in UTC, number of prompts, folder and title, with two spaces or \
more between them, and with `--sources` the tool before all; `--json` has everything. In both, the \
number of prompts of a conversation that another tool keeps may not be known yet: `-` and `null`. \
`bytes` is the length of a session's log, and `null` for such a conversation.

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
    lines.join("\n").replace("rejoin.exe", "rejoin")
}

/// The names of the commands below one, from its help.
fn below(help: &str) -> impl Iterator<Item = &str> {
    // Those of the whole program are in groups.
    let is_first = |line: &&str| ["Commands:", "Conversations:"].contains(line);
    let commands = help.lines().skip_while(move |line| !is_first(line));
    commands
        .take_while(|line| *line != "Options:")
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
}

/// A command with its help.
struct Documented {
    name: String,
    help: String,
}

/// A command and those below it, in the order of help.
fn commands(command: &[String], found: &mut Vec<Documented>) {
    let help = help(command);
    let name = [&["rejoin".to_owned()], command].concat().join(" ");
    let below: Vec<String> = below(&help).map(str::to_owned).collect();
    found.push(Documented { name, help });
    for next in below {
        commands(&[command, &[next]].concat(), found);
    }
}

fn all() -> Vec<Documented> {
    let mut found = Vec::new();
    commands(&[], &mut found);
    assert!(found.len() > 20, "{} commands", found.len());
    found
}

/// The help of a command without the options that all commands have.
fn own(help: &str) -> String {
    let (before, rest) = help
        .split_once("\n\nGlobal options:\n")
        .unwrap_or((help, ""));
    // Options that are explained at length have empty lines between them; they are indented.
    let after = rest
        .split_once("\n\n")
        .map(|_| {
            rest.lines()
                .skip_while(|line| line.is_empty() || line.starts_with(' '))
        })
        .map(|lines| lines.collect::<Vec<_>>().join("\n"))
        .unwrap_or_default();
    let help = format!("{before}\n\n{after}");
    help.trim_end().to_owned()
}

/// The names of all commands.
#[cfg(unix)]
pub(crate) fn names() -> impl Iterator<Item = String> {
    all().into_iter().map(|command| command.name)
}

fn page() -> String {
    let commands = all();
    let mut page = format!("{HEAD}| command | what it does |\n|---|---|\n");
    for Documented { name, help } in &commands[1..] {
        let link = name.replace(' ', "-");
        let about = help.lines().next().unwrap_or_default().replace('|', r"\|");
        writeln!(page, "| [`{name}`](#{link}) | {about} |").expect("it is memory");
    }
    page.push_str(
        "\nThe options for the store and the log are those of all commands; they are listed for \
         `rejoin` only.\n",
    );
    for (at, Documented { name, help }) in commands.iter().enumerate() {
        let help = if at == 0 { help.clone() } else { own(help) };
        write!(page, "\n## `{name}`\n\n```text\n{}\n```\n", help.trim_end()).expect("it is memory");
    }
    page
}

#[test]
fn cli_docs_are_what_help_says() {
    let page = page();
    assert!(page.contains("\n## `rejoin trash empty`\n"), "{page}");
    let path = "docs/cli.md";
    if env::update_fixtures() {
        fs::write(path, &page).expect("it can be written");
    }
    let written = fs::read_to_string(path).expect("the page is there");
    assert!(
        written == page,
        "{path} is not what `--help` says: run this test with UPDATE_FIXTURES=1"
    );
}

#[test]
fn examples_are_understood() {
    let root = TempDir::new().expect("a folder");
    let page = page();
    let examples: Vec<_> = page
        .split("\nExample:\n  rejoin ")
        .skip(1)
        .map(|rest| rest.lines().next().unwrap_or_default())
        .collect();
    assert!(examples.len() > 20, "{examples:?}");
    for example in examples {
        let (options, command) = match example.split_once(" -- ") {
            Some((options, command)) => (options, Some(command)),
            None => (example, None),
        };
        // Every second part is between double quotes.
        let mut words = Vec::new();
        for (number, part) in options.split('"').enumerate() {
            match number % 2 {
                0 => words.extend(part.split_whitespace()),
                _ => words.push(part),
            }
        }
        // Help is printed only if what precedes it is right.
        words.push("--help");
        words.extend(command.iter().flat_map(|_| ["--", "agent"]));
        let output = Command::new(env!("CARGO_BIN_EXE_rejoin"))
            .args(&words)
            .env("REJOIN_STORE", root.path())
            .output()
            .expect("it runs");
        let text = String::from_utf8_lossy(&output.stderr);
        assert_ne!(output.status.code(), Some(2), "rejoin {example}: {text}");
    }
}

#[test]
fn scripts_for_shells_offer_what_help_lists() {
    let root = TempDir::new().expect("a folder");
    let commands = all();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = runs(root.path(), &["completions", shell]);
        assert!(script.contains("REJOIN_COMPLETE"), "{shell}: {script}");
        let offered = asked(root.path(), shell, &["rejoin", ""]);
        for Documented { name, .. } in &commands[1..] {
            let mut words = name.split(' ').skip(1);
            let (first, below) = (words.next().unwrap_or_default(), words.next());
            assert!(
                below.is_some() || offered.contains(first),
                "{shell}: {name}"
            );
        }
        // A command and an option.
        let options = asked(root.path(), shell, &["rejoin", "--"]);
        assert!(options.contains("--store"), "{options}");
        for hidden in ["guard", "--host"] {
            let is_there = offered.contains(hidden) || options.contains(hidden);
            assert!(!is_there, "{shell} offers {hidden}");
        }
    }
    fails(root.path(), &["completions", "cmd"], 2, "possible values");
}

/// What a script of this shell gets when it asks for the last of these words.
fn asked(store: &Path, shell: &str, words: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_rejoin"))
        .args(["--"])
        .args(words)
        .env("REJOIN_COMPLETE", shell)
        .env("REJOIN_STORE", store)
        .env("_CLAP_COMPLETE_INDEX", (words.len() - 1).to_string())
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{shell} {words:?}: {output:?}");
    String::from_utf8(output.stdout).expect("it is text")
}

/// What bash offers behind these words.
#[cfg(unix)]
fn completed(script: &Path, store: &Path, words: &[&str]) -> Vec<String> {
    let source = "source \"$1\"; shift; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); \
                  _clap_complete_rejoin rejoin \"${@: -1}\" \"${@: -2:1}\"; \
                  printf '%s\\n' \"${COMPREPLY[@]}\"";
    let program = Path::new(env!("CARGO_BIN_EXE_rejoin"));
    let folders = [
        program.parent().expect("a folder"),
        Path::new("/usr/bin"),
        Path::new("/bin"),
    ];
    let output = Command::new("bash")
        .args(["--norc", "-c", source, "bash"])
        .arg(script)
        .args(words)
        .env("PATH", std::env::join_paths(folders).expect("paths"))
        .env("REJOIN_STORE", store)
        .output()
        .expect("there is a bash");
    let text = String::from_utf8(output.stdout).expect("it is text");
    text.lines().map(str::to_owned).collect()
}

#[cfg(unix)]
#[test]
fn bash_completes_commands_and_options() {
    let root = TempDir::new().expect("a folder");
    let script = root.path().join("rejoin.bash");
    fs::write(&script, runs(root.path(), &["completions", "bash"])).expect("it can be written");
    let store = root.path().join("store");
    let completed = |words: &[&str]| completed(&script, &store, words);
    assert_eq!(
        completed(&["rejoin", "se"]),
        ["search", "serve", "secrets", "setup"]
    );
    assert_eq!(completed(&["rejoin", "trash", "em"]), ["empty"]);
    let options = completed(&["rejoin", "wrap", "--start"]);
    assert_eq!(options, ["--start-timeout"]);
    let values = completed(&["rejoin", "export", "--format", ""]);
    assert_eq!(values, ["md", "html", "json"]);
    assert_eq!(completed(&["rejoin", "list", "--sources", "vi"]), ["vibe"]);
    // Without a store, there is nothing to complete.
    assert_eq!(completed(&["rejoin", "show", "la"]), [""]);
    widths::write(&store, widths::IDS[0], "Fix the cache", "Done.");
    widths::write(&store, widths::IDS[1], "Write docs", "Done.");
    let named = |words: &[&str]| {
        let mut found = completed(words);
        found.retain(|word| !word.starts_with('-'));
        found.sort();
        found
    };
    assert_eq!(
        named(&["rejoin", "show", ""]),
        ["fb5b0d01", "fb5b0d02", "last"]
    );
    assert_eq!(
        named(&["rejoin", "delete", "fb5b0d01", ""]),
        ["fb5b0d01", "fb5b0d02", "last"]
    );
    // No process has one open, and the trash is empty.
    assert!(named(&["rejoin", "stop", ""]).is_empty());
    assert!(named(&["rejoin", "restore", ""]).is_empty());
    let other = TempDir::new().expect("a folder");
    let there = other.path().to_str().expect("it is text");
    assert!(named(&["rejoin", "show", "--store", there, ""]).is_empty());
    let titles = asked(&store, "fish", &["rejoin", "show", ""]);
    assert!(titles.contains("fb5b0d01\tFix the cache\n"), "{titles}");
}

#[test]
fn each_command_has_a_manual_page() {
    let root = TempDir::new().expect("a folder");
    let folder = root.path().join("man").join("man1");
    let out = folder.to_str().expect("it is text");
    assert_eq!(runs(root.path(), &["man", "--out", out]), "");
    let mut expected: Vec<String> = all()
        .iter()
        .map(|command| format!("{}.1", command.name.replace(' ', "-")))
        .collect();
    expected.sort();
    let written = fs::read_dir(&folder).expect("the folder is there");
    let mut names: Vec<String> = written
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .into_string()
                .expect("text")
        })
        .collect();
    names.sort();
    assert_eq!(names, expected);
    let page = runs(root.path(), &["man"]);
    let first = fs::read_to_string(folder.join("rejoin.1")).expect("a page");
    assert_eq!(page, first);
    assert!(page.contains("\n.TH rejoin 1 "), "{page}");
    let file = folder.join("rejoin.1").join("below-a-file");
    let file = file.to_str().expect("it is text");
    fails(root.path(), &["man", "--out", file], 1, "cannot write to ");
}
