//! The documents are true: their shell commands run, and there is one address of the project.

use crate::tidy::tree::{SourceFile, tracked_files};

/// Blocks of shell commands that are not run: document, how the block begins, and why not.
const NOT_RUN: &[(&str, &str, &str)] = &[
    ("README.md", "npx ", NOT_PUBLISHED),
    ("README.md", "cargo install", "it builds the program"),
    ("README.md", "cargo test", "it runs this test"),
    ("docs/agents.md", "acpx ", ACPX),
    (
        "docs/agents.md",
        "tests/interop/agents/run.sh",
        "it installs seven agents",
    ),
    ("docs/editors.md", "acpx ", ACPX),
    ("docs/editors.md", "rejoin doctor", DOCTOR),
    (
        "docs/editors.md",
        "rejoin setup ",
        "it asks; its own tests answer",
    ),
    (
        "docs/import.md",
        "rejoin import --watch",
        "it runs until Ctrl-C",
    ),
    (
        "docs/import.md",
        "rejoin setup import",
        "it starts a service; its own tests have another system",
    ),
    (
        "docs/import.md",
        "rejoin resume ID",
        "it needs a session of a tool; its own tests run it",
    ),
    ("docs/performance.md", "cargo bench", "it takes minutes"),
    ("docs/postgres.md", "rejoin ", DATABASE),
    ("docs/scaling.md", "rejoin ", DATABASE),
    (
        "docs/proxy.md",
        "agent-client-protocol-conductor",
        CONDUCTOR,
    ),
    (
        "docs/proxy.md",
        "rejoin wrap -- claude-agent-acp\nagent-client",
        CONDUCTOR,
    ),
    ("docs/sharing.md", "rejoin wrap --keep", KEPT),
    (
        "docs/sharing.md",
        "rejoin attach",
        "it needs an open session; the tests of `--keep` attach",
    ),
    ("docs/troubleshooting.md", "rejoin doctor", DOCTOR),
    (
        "packaging/agents/README.md",
        "git clone",
        "it needs the network",
    ),
    ("packaging/npm/README.md", "npx ", NOT_PUBLISHED),
    ("packaging/wheel/README.md", "uvx ", NOT_PUBLISHED),
];
const NOT_PUBLISHED: &str = "nothing is published; the tests of packages run them from files";
const DATABASE: &str = "the tests of stores in PostgreSQL run these commands";
const DOCTOR: &str = "what it finds depends on the machine; its own tests run it";
const ACPX: &str = "the interop tests drive acpx";
const KEPT: &str = "a process is left behind; the tests of `--keep` run it";
const CONDUCTOR: &str = "the tests of the proxy drive the conductor";

/// A block of shell commands in a document.
#[derive(Debug, PartialEq, Eq)]
struct Block<'a> {
    document: &'a str,
    commands: &'a str,
}

impl Block<'_> {
    fn is_listed(&self, (document, begins, _): (&str, &str, &str)) -> bool {
        self.document == document && self.commands.starts_with(begins)
    }

    #[cfg(unix)]
    fn is_run(&self) -> bool {
        !NOT_RUN.iter().any(|entry| self.is_listed(*entry))
    }
}

fn documents() -> Vec<SourceFile> {
    let mut files = tracked_files();
    files.retain(|file| {
        let here = !file.path.contains('/');
        let kept = here || file.path.starts_with("docs/") || file.path.starts_with("packaging/");
        kept && std::path::Path::new(&file.path)
            .extension()
            .is_some_and(|ext| ext == "md")
    });
    assert!(files.len() > 10, "the documents were not found");
    files
}

fn blocks(file: &SourceFile) -> impl Iterator<Item = Block<'_>> {
    // Every second part is in a block.
    let parts = file.text.split("\n```").skip(1).step_by(2);
    parts.filter_map(|part| {
        let (language, commands) = part.split_once('\n')?;
        let shell = ["sh", "bash", "shell", "console", "zsh"].contains(&language);
        let document = &file.path;
        shell.then_some(Block { document, commands })
    })
}

#[test]
fn blocks_are_found() {
    let file = SourceFile::new(
        "a.md",
        "x\n\n```sh\na\nb\n```\n\n```text\nc\n```\n\n```sh\nd\n```\n",
    );
    let found: Vec<_> = blocks(&file).map(|block| block.commands).collect();
    assert_eq!(found, ["a\nb", "d"]);
}

#[test]
fn what_is_not_run_is_there_and_has_a_reason() {
    let files = documents();
    let all: Vec<Block<'_>> = files.iter().flat_map(blocks).collect();
    for entry in NOT_RUN {
        assert!(all.iter().any(|block| block.is_listed(*entry)), "{entry:?}");
        assert!(!entry.2.is_empty(), "{entry:?}");
    }
}

/// The commands with which somebody begins who has just got the sources: the one that shows what the
/// program is for, and the one that runs the tests.
#[test]
fn the_readme_has_both_commands_of_a_newcomer_and_ci_runs_them() {
    let files = tracked_files();
    let text = |path| {
        let file = files.iter().find(|file| file.path == path);
        &file.expect("it is tracked").text
    };
    let (readme, steps) = (text("README.md"), text(".ci/run"));
    for command in ["cargo run --release -- demo", "cargo test"] {
        let block = format!("\n```sh\n{command}\n```\n");
        let (_, behind) = readme.split_once(&block).expect("README has the command");
        let takes = behind.split("\n```").next().unwrap_or_default();
        for unit in ["fresh machine", "minutes", "GB"] {
            assert!(takes.contains(unit), "{command}: what it takes, in {unit}");
        }
        let mut lines = steps.lines().map(str::trim);
        let is_it = |line: &str| line == command || line.ends_with(&format!(" {command}"));
        assert!(lines.any(is_it), ".ci/run calls `{command}`");
    }
}

/// Who has never heard of the program reads README to its end only if it is short.
#[test]
fn the_readme_is_short() {
    let files = tracked_files();
    let readme = files.iter().find(|file| file.path == "README.md");
    let words = readme
        .expect("it is tracked")
        .text
        .split_whitespace()
        .count();
    assert!(
        words <= 1300,
        "{words} words: move what is not for everybody into `docs`"
    );
}

/// The commands of the documents, run by a shell in a folder of their own.
#[cfg(unix)]
mod run {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;
    use std::process::{Command, Stdio};

    use tempfile::TempDir;

    use super::{Block, SourceFile, blocks, documents};
    use crate::support::logs::session;
    use crate::support::wrapped::program;

    /// Runs the blocks of a document one after the other in one shell. `ID` in them is a session
    /// with "token bucket" in it.
    fn run(file: &SourceFile, home: &Path) -> Result<(), String> {
        let id = session(&home.join("store"), "a token bucket for the limiter");
        let run: Vec<_> = blocks(file).filter(Block::is_run).collect();
        let words = run
            .iter()
            .flat_map(|block| block.commands.lines().chain([""]));
        let words = words.map(|line| {
            let words = line.split(' ');
            let filled = words.map(|word| if word == "ID" { &*id } else { word });
            filled.collect::<Vec<_>>().join(" ")
        });
        let commands = words.collect::<Vec<_>>().join("\n");
        let commands = commands
            .replace("cargo run --release --", "rejoin")
            // They ask, and there is nobody to answer.
            .replace("--forever", "--forever --yes")
            .replace("trash empty", "trash empty --yes");
        let bin = home.join("bin");
        let output = Command::new("bash")
            .args(["-euo", "pipefail", "-c", &commands])
            .env_clear()
            .envs([("HOME", home), ("REJOIN_STORE", &home.join("store"))])
            .env("PATH", format!("{}:/usr/bin:/bin", bin.display()))
            .current_dir(home)
            .stdin(Stdio::null())
            .output()
            .expect("there is a bash");
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(format!("{}:\n{commands}\n{said}", file.path))
    }

    #[test]
    fn commands_of_documents_succeed() {
        let mut wrong = Vec::new();
        let files = documents();
        let run = files
            .iter()
            .filter(|file| blocks(file).any(|block| block.is_run()));
        let run: Vec<_> = run.collect();
        assert!(run.len() > 5, "{run:?}");
        for file in run {
            let root = TempDir::new().expect("a folder");
            let bin = root.path().join("bin");
            fs::create_dir(&bin).expect("a folder");
            symlink(env!("CARGO_BIN_EXE_rejoin"), bin.join("rejoin")).expect("a link");
            for agent in ["claude-agent-acp", "opencode", "npx"] {
                symlink(program(), bin.join(agent)).expect("a link");
            }
            wrong.extend(self::run(file, root.path()).err());
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}

#[test]
fn the_project_has_one_address() {
    let files = tracked_files();
    let manifest = files.iter().find(|file| file.path == "Cargo.toml");
    let manifest = manifest.expect("the manifest is there");
    let line = manifest
        .text
        .lines()
        .find_map(|line| line.strip_prefix("repository = \""));
    let address = line
        .and_then(|line| line.strip_suffix('"'))
        .expect("it has an address");
    let owner = address
        .strip_prefix("https://github.com/")
        .and_then(|rest| rest.strip_suffix("/rejoin"))
        .expect("it is on GitHub");
    let kinds = [".md", ".toml", ".json", ".yml"];
    for file in files
        .iter()
        .filter(|file| kinds.iter().any(|kind| file.path.ends_with(kind)))
    {
        for (before, after) in [
            ("https://github.com/", "/rejoin"),
            ("brew install ", "/tap/rejoin"),
            ("--repo ", "/rejoin"),
            ("tap = \"", "/homebrew-tap\""),
        ] {
            for part in file.text.split(before).skip(1) {
                let name = part.split(['/', ' ', '\n']).next().unwrap_or_default();
                let named = part[name.len()..].starts_with(after);
                assert!(
                    !named || name == owner,
                    "{}: {before}{name}{after}",
                    file.path
                );
            }
        }
        let other = file.text.contains("OWNER") && owner != "OWNER";
        assert!(
            !other || file.path == "docs/releasing.md",
            "{}: names OWNER",
            file.path
        );
    }
}
