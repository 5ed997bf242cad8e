//! The agent that `rejoin wrap` wraps: how it is started, what it saw, whether it is gone.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::fixture::Saw;
use super::json::Json;
use super::pattern::Names;
use super::systems::{self, is_running, kill};

/// How long something may take to come true. Nothing depends on its length.
const PATIENCE: Duration = Duration::from_mins(2);
/// How long to wait before looking again.
const AGAIN: Duration = Duration::from_millis(2);

/// The fake agent of a transcript.
#[derive(Debug)]
pub(crate) struct Wrapped {
    folder: PathBuf,
    flags: Vec<String>,
    /// The path under which it is started.
    program: PathBuf,
}

impl Wrapped {
    /// An agent that keeps its files in a folder. `--as PATH` among its flags has it started under
    /// another name, by a link in that folder, or a copy where there are no links.
    pub(crate) fn new(folder: &Path, flags: &[String]) -> Self {
        let mut flags = flags.to_owned();
        let mut path = program();
        if let Some(at) = flags.iter().position(|flag| flag == "--as") {
            let link = folder.join(flags.drain(at..at + 2).next_back().expect("it has a path"));
            std::fs::create_dir_all(link.parent().expect("it is in the folder"))
                .expect("folders can be made");
            if !link.exists() {
                systems::link(&path, &link).expect("links can be made");
            }
            path = link;
        }
        Self {
            folder: folder.to_owned(),
            flags,
            program: path,
        }
    }

    /// The end of a command line of `rejoin wrap`. Each name that an agent goes by has a memory
    /// of its own; what they see is written to one file.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let name = self.flags.iter().position(|flag| flag == "--tag");
        let name = name.and_then(|at| self.flags.get(at + 1));
        let name = name.map_or("agent", String::as_str);
        let state = self.folder.join(format!("{name}.json"));
        let text = |path: &Path| path.to_str().expect("folders of tests are text").to_owned();
        let own = ["--".to_owned(), text(&self.program)];
        let files = ["--state".to_owned(), text(&state)];
        let record = ["--record".to_owned(), text(&self.record())];
        let all = own.into_iter().chain(files).chain(record);
        all.chain(self.flags.iter().cloned()).collect()
    }

    /// The file in which the programs of a transcript note what happens to them.
    pub(crate) fn record(&self) -> PathBuf {
        self.folder.join("agent.jsonl")
    }

    /// What the agents received so far, and what happened to them.
    pub(crate) fn lines(&self) -> Vec<Json> {
        let text = std::fs::read(self.record()).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        // A last line without its end is still being written.
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let lines = whole.lines();
        lines
            .map(|line| Json::parse(line).unwrap_or_else(|_| Json::Literal(line.to_owned())))
            .collect()
    }

    /// The processes of this kind, in the order they were started.
    fn processes(&self, kind: &str) -> Vec<u32> {
        let lines = self.lines();
        let ids = lines.iter().filter_map(|line| match line.get(kind) {
            Some(Json::Literal(id)) => id.parse().ok(),
            _ => None,
        });
        ids.collect()
    }

    /// The agents that run.
    #[cfg(unix)]
    pub(crate) fn running(&self) -> Vec<u32> {
        let mut started = self.processes("started");
        started.retain(|id| is_running(*id));
        started
    }

    /// Ends the agent at once; it has ended when this returns.
    pub(crate) fn kill(&self) -> Result<(), String> {
        let id = *self.processes("started").last().ok_or("there is none")?;
        kill(id);
        until(|| {
            if is_running(id) {
                Err("it is still there".to_owned())
            } else {
                Ok(())
            }
        })
    }

    /// Checks what the agents saw.
    pub(crate) fn check(&self, saw: &Saw, names: &mut Names) -> Result<(), String> {
        match saw {
            Saw::Lines(expected) => until(|| self.saw(expected, names)),
            Saw::Calls(method, count) => {
                let lines = self.lines();
                let is = |line: &&Json| line.get("method").and_then(Json::text) == Some(method);
                match lines.iter().filter(is).count() {
                    calls if calls == *count => Ok(()),
                    calls => Err(format!("{calls} of them")),
                }
            }
            Saw::Starts(count) => match self.processes("started").len() {
                started if started == *count => Ok(()),
                started => Err(format!("{started} were started")),
            },
            Saw::Gone => self.gone(),
        }
    }

    /// Each of these lines came, one after the other, perhaps with others between them.
    fn saw(&self, expected: &[Json], names: &mut Names) -> Result<(), String> {
        let lines = self.lines();
        let mut left = lines.iter();
        let mut all_names = names.clone();
        for line in expected {
            let pattern = super::pattern::partial(line);
            if !left.any(|found| all_names.check(&pattern, found).is_ok()) {
                let all: Vec<_> = lines.iter().map(|line| format!("\n    {line}")).collect();
                let all = all.concat();
                return Err(format!("{line} is not there, or not in its place, in{all}"));
            }
        }
        *names = all_names;
        Ok(())
    }

    /// Waits for all that was started to be gone.
    pub(crate) fn gone(&self) -> Result<(), String> {
        let all = ["started", "grandchild"].map(|kind| self.processes(kind));
        until(|| match all.iter().flatten().find(|id| is_running(**id)) {
            Some(id) => Err(format!("process {id} is still there")),
            None => Ok(()),
        })
    }
}

impl Drop for Wrapped {
    fn drop(&mut self) {
        for kind in ["started", "grandchild"] {
            for id in self.processes(kind) {
                if is_running(id) && is_ours(id) {
                    kill(id);
                }
            }
        }
    }
}

/// The command whose client chooses an agent.
pub(crate) const CHOICE: &str = "agent";

/// The folder in which that command finds programs.
pub(crate) fn programs(folder: &Path) -> PathBuf {
    folder.join("programs")
}

/// Removes a program there.
#[expect(clippy::disallowed_methods, reason = "it is no store")]
pub(crate) fn uninstall(folder: &Path, name: &str) {
    std::fs::remove_file(programs(folder).join(name)).expect("it was installed");
}

/// Installs an agent: a program of the name that comes first, which starts the agent with the flags
/// behind it, whatever its own arguments are.
#[expect(clippy::disallowed_methods, reason = "it is no store")]
pub(crate) fn install(folder: &Path, words: &[String]) {
    let programs = programs(folder);
    std::fs::create_dir_all(&programs).expect("folders can be made");
    let Some((name, flags)) = words.split_first() else {
        return;
    };
    let tag = ["--tag", name].map(str::to_owned);
    let flags = [&tag, flags].concat();
    let words = Wrapped::new(folder, &flags).arguments();
    let words: Vec<_> = words[1..].iter().map(|word| format!("'{word}'")).collect();
    let file = programs.join(name);
    let script = format!("#!/bin/sh\nexec {}\n", words.join(" "));
    std::fs::write(&file, script).expect("files can be made");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&file, mode).expect("it is ours");
    }
}

/// The agent, which is built beside this test.
pub(crate) fn program() -> PathBuf {
    built("fake-agent")
}

/// The MCP server, which does, too.
pub(crate) fn mcp_server() -> PathBuf {
    built("mcp-server")
}

fn built(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("tests know where they are");
    let folder = test.parent().and_then(Path::parent);
    let folder = folder.expect("tests lie in a folder of the target folder");
    let file = format!("{name}{}", std::env::consts::EXE_SUFFIX);
    let program = folder.join("examples").join(file);
    assert!(
        program.exists(),
        "{} is missing: `cargo test` builds it, and so does `cargo build --example {name}`",
        program.display()
    );
    program
}

/// Tries until it is so; says at last why it is not.
pub(crate) fn until(mut so: impl FnMut() -> Result<(), String>) -> Result<(), String> {
    let begun = Instant::now();
    loop {
        match so() {
            Err(_) if begun.elapsed() < PATIENCE => std::thread::sleep(AGAIN),
            result => return result,
        }
    }
}

/// Whether a process is, as far as can be seen, a fake agent or was started by one.
fn is_ours(id: u32) -> bool {
    let command = std::fs::read_to_string(format!("/proc/{id}/cmdline"));
    command.is_ok_and(|command| {
        let program = command.split('\0').next().unwrap_or_default();
        program.ends_with("fake-agent")
            || program.ends_with("mcp-server")
            || program == "sleep"
            || program == "cat"
    })
}
