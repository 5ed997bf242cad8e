//! Finds the agents of this machine: those that are known whose command is in a folder of
//! `PATH`, and those that `npx` or `uvx` can run.

use std::borrow::Cow;
use std::env::consts::EXE_SUFFIX;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::engine::agent::AgentNames;
use crate::sys::program::find;

use crate::engine::known::{KnownAgent, known};

/// An agent that can be started on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundAgent {
    /// Its id in the registry.
    pub id: String,
    /// Its name for people.
    pub name: String,
    /// How it is started: the program's path, then the arguments.
    pub command: Vec<OsString>,
    /// Further environment variables of its process.
    pub env: Vec<(String, String)>,
    /// How it comes here.
    pub origin: AgentOrigin,
    /// The names that logs have for it. The first one is recorded.
    names: Vec<String>,
}

/// How an agent comes to this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AgentOrigin {
    /// The agent is installed.
    Installed,
    /// A runner of packages, `npx` or `uvx`, downloads it when it is first started.
    Runner(&'static str),
}

impl FoundAgent {
    /// The names that logs have for it.
    pub(super) fn names(&self) -> AgentNames {
        AgentNames::known(&self.names)
    }

    /// Whether the agent goes by this name.
    pub(super) fn is_called(&self, name: &str) -> bool {
        KnownAgent::called(name).is_some_and(|known| known.id == self.id)
    }

    /// The path of its program, for people.
    pub(super) fn program(&self) -> Cow<'_, str> {
        let program = self.command.first();
        program
            .map(|program| program.to_string_lossy())
            .unwrap_or_default()
    }

    /// An agent with this id and name.
    #[cfg(test)]
    pub(super) fn sample(id: &str, name: &str, origin: AgentOrigin) -> Self {
        Self {
            id: id.to_owned(),
            name: name.to_owned(),
            command: vec![id.into()],
            env: Vec::new(),
            origin,
            names: vec![id.to_owned()],
        }
    }

    /// The value of an option that chooses it.
    pub(super) fn choice(&self) -> Value {
        let description = match self.origin {
            AgentOrigin::Installed => format!("Installed as {}", self.program()),
            AgentOrigin::Runner(runner) => {
                format!("Not installed: {runner} downloads it when it is first started")
            }
        };
        json!({ "value": self.id, "name": self.name, "description": description })
    }
}

/// The agents that can be started with this `PATH`: the installed ones first, otherwise in the order
/// of the registry's list.
pub fn agents(path: &OsStr) -> Vec<FoundAgent> {
    let runners = ["npx", "uvx"].map(|runner| Some((runner, program(path, runner)?)));
    let [npx, uvx] = &runners;
    let mut found: Vec<FoundAgent> = known()
        .iter()
        .filter_map(|entry| {
            let own = entry.command.as_deref();
            let run = |runner: &Option<(&'static str, PathBuf)>, package: Option<&str>| {
                let (name, program) = runner.as_ref()?;
                Some((
                    AgentOrigin::Runner(name),
                    started_by(name, program, package?),
                ))
            };
            let (origin, mut command) = own
                .and_then(|own| program(path, own))
                .map(|own| (AgentOrigin::Installed, vec![own.into_os_string()]))
                .or_else(|| run(npx, entry.npx.as_deref()))
                .or_else(|| run(uvx, entry.uvx.as_deref()))?;
            command.extend(entry.args.iter().map(OsString::from));
            let packages = entry.packages().map(str::to_owned);
            let mut names: Vec<String> = entry.command.iter().cloned().chain(packages).collect();
            names.dedup();
            Some(FoundAgent {
                id: entry.id.clone(),
                name: entry.name.clone(),
                command,
                env: entry.env.clone().into_iter().collect(),
                origin,
                names,
            })
        })
        .collect();
    found.sort_by_key(|found| found.origin);
    found
}

/// The command with which a runner starts the newest version of a package.
fn started_by(name: &str, runner: &Path, package: &str) -> Vec<OsString> {
    let package = format!("{package}@latest");
    let confirmed = (name == "npx").then(|| "-y".to_owned());
    let words = confirmed.into_iter().chain([package]);
    let words = words.map(OsString::from);
    std::iter::once(runner.as_os_str().to_owned())
        .chain(words)
        .collect()
}

/// The path of a program in the folders of `path`.
fn program(path: &OsStr, name: &str) -> Option<PathBuf> {
    let endings: &[&str] = if EXE_SUFFIX.is_empty() {
        &[""]
    } else {
        &[EXE_SUFFIX, ".cmd", ".bat"]
    };
    let names = endings.iter().map(|ending| format!("{name}{ending}"));
    find(path, &names.collect::<Vec<_>>())
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A folder with these programs.
    fn folder(programs: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for name in programs {
            let file = std::fs::File::create(folder.path().join(name)).unwrap();
            file.set_permissions(PermissionsExt::from_mode(0o755))
                .unwrap();
        }
        folder
    }

    fn lines(path: &OsStr) -> Vec<String> {
        let found = agents(path).into_iter();
        let found = found.map(|found| {
            let words = found.command.iter().map(|word| word.to_string_lossy());
            let words: Vec<_> = words
                .map(|word| word.rsplit('/').next().unwrap().to_owned())
                .collect();
            format!("{}: {}", found.id, words.join(" "))
        });
        found.collect()
    }

    #[test]
    fn installed_agents_come_first() {
        let folder = folder(&["opencode", "gemini", "vibe-acp", "uvx"]);
        // The file is not executable.
        std::fs::File::create(folder.path().join("goose")).unwrap();
        let path = folder.path().as_os_str();
        assert_eq!(
            lines(path),
            [
                "gemini: gemini --acp",
                "opencode: opencode acp",
                "mistral-vibe: vibe-acp",
                "fast-agent: uvx fast-agent-acp@latest -x",
                "minion-code: uvx minion-code@latest acp",
            ]
        );
    }

    #[test]
    fn npx_runs_what_is_not_installed() {
        let folder = folder(&["npx", "codex-acp"]);
        let found = agents(folder.path().as_os_str());
        assert_eq!(found[0].id, "codex-acp");
        assert_eq!(found[0].origin, AgentOrigin::Installed);
        let claude = &found[1];
        assert_eq!(claude.origin, AgentOrigin::Runner("npx"));
        assert_eq!(
            claude.command[1..],
            ["-y", "@agentclientprotocol/claude-agent-acp@latest"]
        );
        let description = claude.choice()["description"].to_string();
        assert!(description.contains("npx downloads it"), "{description}");
        assert!(found.iter().all(|found| found.id != "kimi"));
    }

    #[test]
    fn an_agent_has_the_same_names_however_it_is_started() {
        let installed = folder(&["gemini"]);
        let run = folder(&["npx"]);
        for folder in [installed, run] {
            let found = agents(folder.path().as_os_str());
            let gemini = found.iter().find(|found| found.id == "gemini").unwrap();
            assert_eq!(gemini.names, ["gemini", "gemini-cli"]);
            for name in ["gemini", "Gemini CLI", "gemini-cli"] {
                assert!(gemini.is_called(name), "{name}");
            }
            assert!(!gemini.is_called("gem"));
        }
    }

    #[test]
    fn relative_folders_do_not_count() {
        assert!(agents(OsStr::new("bin:.")).is_empty());
        assert!(agents(OsStr::new("")).is_empty());
    }
}
