//! The agents that rejoin knows: those of the ACP registry, and some more. Those of them that are on this
//! machine are the ones whose command is in a folder of `PATH`, and those that `npx` or `uvx` can run.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::env::consts::EXE_SUFFIX;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::sys::program::find;

use super::agent::AgentNames;

/// The one list of agents; `packaging/agents/update` makes it.
const LIST: &str = include_str!("agents.json");

static KNOWN: LazyLock<Vec<KnownAgent>> =
    LazyLock::new(|| serde_json::from_str(LIST).unwrap_or_default());

/// An agent, and how it is started so that it speaks ACP.
#[derive(Debug, Deserialize)]
pub struct KnownAgent {
    /// Its id in the registry.
    pub id: String,
    /// Its name in the registry, as editors show it.
    pub name: String,
    /// The name of the tool that it is to people, if the registry's is that of a program between the two.
    #[serde(default)]
    tool: Option<String>,
    /// The name of its program, if it can be installed as one.
    pub command: Option<String>,
    /// Its package on npm.
    pub npx: Option<String>,
    /// Its package on PyPI.
    pub uvx: Option<String>,
    /// The arguments with which it speaks ACP.
    #[serde(default)]
    pub args: Vec<String>,
    /// Further environment variables of its process.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Programs that do not speak ACP without these arguments.
    #[serde(default)]
    pub plain: Vec<String>,
    /// The arguments each of which makes them speak ACP, if it is not only the last one of `args`.
    #[serde(default)]
    acp: Vec<String>,
    /// Other names of the agent.
    #[serde(default)]
    names: Vec<String>,
    /// The command with which its program for the terminal goes on with one of its sessions, with
    /// `ID` in the place of the agent's id of that session. Empty if there is no such program, or if
    /// that has sessions of its own.
    #[serde(default)]
    resume: Vec<String>,
}

/// All of them, the most widespread first.
pub fn known() -> &'static [KnownAgent] {
    &KNOWN
}

/// The name for people of the agent with this name, if it is known: logs and tools have several for
/// one agent.
pub fn title(name: &str) -> &str {
    KnownAgent::called(name).map_or(name, KnownAgent::title)
}

/// All names of these agents, each of which may be given by any of its names.
pub fn all_names(agents: &[String]) -> Vec<String> {
    let others = |name: &String| {
        KnownAgent::called(name)
            .into_iter()
            .flat_map(KnownAgent::all_names)
    };
    let names = agents
        .iter()
        .flat_map(|name| others(name).map(str::to_owned).chain([name.clone()]));
    names.collect()
}

impl KnownAgent {
    /// The agent with this name.
    pub fn called(name: &str) -> Option<&'static Self> {
        known().iter().find(|known| known.is_called(name))
    }

    /// Its name for people, wherever conversations are meant: that of its tool.
    pub fn title(&self) -> &str {
        self.tool.as_ref().unwrap_or(&self.name)
    }

    /// Whether the agent goes by this name.
    pub fn is_called(&self, name: &str) -> bool {
        self.all_names().any(|own| own.eq_ignore_ascii_case(name))
    }

    /// Its names: the id, those for people, those of its programs and packages, and others.
    pub fn all_names(&self) -> impl Iterator<Item = &str> {
        let own = [&self.id, &self.name].into_iter().chain(&self.tool);
        let own = own.chain(&self.command);
        let own = own.chain(&self.plain).chain(&self.names);
        own.map(String::as_str).chain(self.packages())
    }

    /// The names of its packages, without scopes, if they say something.
    fn packages(&self) -> impl Iterator<Item = &str> {
        let packages = [&self.npx, &self.uvx].into_iter().flatten();
        let names = packages.filter_map(|package| package.rsplit('/').next());
        names.filter(|name| *name != "cli")
    }

    /// The command with which it is started, if `locate` finds its program.
    pub fn installed(&self, locate: impl FnOnce(&str) -> Option<PathBuf>) -> Option<Vec<OsString>> {
        let program = locate(self.command.as_deref()?)?.into_os_string();
        let arguments = self.args.iter().map(OsString::from);
        Some(std::iter::once(program).chain(arguments).collect())
    }

    /// The command that goes on with the agent's session of this id in a terminal, if there is one.
    /// Whatever is in the id, it is one argument and no option: none for an id that begins like one.
    pub fn resume(&self, id: &str) -> Option<Vec<String>> {
        let is_safe = !id.is_empty() && !id.starts_with('-') && !id.contains(char::is_control);
        let words = self.resume.iter().map(|word| match word.as_str() {
            "ID" => id.to_owned(),
            word => word.to_owned(),
        });
        (is_safe && !self.resume.is_empty()).then(|| words.collect())
    }

    /// Whether a command with these words speaks ACP.
    pub fn speaks(&self, mut has: impl FnMut(&str) -> bool) -> bool {
        let words = if self.acp.is_empty() {
            self.args.last().map_or(&[][..], std::slice::from_ref)
        } else {
            &self.acp
        };
        words.iter().any(|word| has(word))
    }
}

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
    pub(in crate::engine) fn names(&self) -> AgentNames {
        AgentNames::known(&self.names)
    }

    /// Whether the agent goes by this name.
    pub(in crate::engine) fn is_called(&self, name: &str) -> bool {
        KnownAgent::called(name).is_some_and(|known| known.id == self.id)
    }

    /// The path of its program, for people.
    pub(in crate::engine) fn program(&self) -> Cow<'_, str> {
        let program = self.command.first();
        program
            .map(|program| program.to_string_lossy())
            .unwrap_or_default()
    }

    /// An agent with this id and name.
    #[cfg(test)]
    pub(in crate::engine) fn sample(id: &str, name: &str, origin: AgentOrigin) -> Self {
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
    pub(in crate::engine) fn choice(&self) -> Value {
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
pub fn on_this_machine(path: &OsStr) -> Vec<FoundAgent> {
    let runners = ["npx", "uvx"].map(|runner| Some((runner, program(path, runner)?)));
    let [npx, uvx] = &runners;
    let mut found: Vec<FoundAgent> = known()
        .iter()
        .filter_map(|entry| {
            let run = |runner: &Option<(&'static str, PathBuf)>, package: Option<&str>| {
                let (name, program) = runner.as_ref()?;
                let mut command = started_by(name, program, package?);
                command.extend(entry.args.iter().map(OsString::from));
                Some((AgentOrigin::Runner(name), command))
            };
            let installed = entry.installed(|name| program(path, name));
            let (origin, command) = installed
                .map(|command| (AgentOrigin::Installed, command))
                .or_else(|| run(npx, entry.npx.as_deref()))
                .or_else(|| run(uvx, entry.uvx.as_deref()))?;
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
mod tests {
    use super::*;

    #[test]
    fn the_whole_list_can_be_read() {
        assert!(known().len() > 20);
        for agent in known() {
            let can_start = agent.command.is_some() || agent.npx.is_some() || agent.uvx.is_some();
            assert!(can_start, "{agent:?}");
            for name in agent.all_names() {
                let others = known().iter().filter(|other| other.is_called(name));
                assert_eq!(others.count(), 1, "{name}");
            }
        }
    }

    #[test]
    fn an_id_is_one_argument_of_the_command_that_resumes() {
        for agent in known() {
            assert_eq!(agent.resume.is_empty(), agent.resume("id").is_none());
            let ids = agent.resume.iter().filter(|word| *word == "ID").count();
            assert_eq!(ids, usize::from(!agent.resume.is_empty()), "{}", agent.id);
        }
        let claude = KnownAgent::called("Claude Code").unwrap();
        assert_eq!(
            claude.resume("a b"),
            Some(["claude", "--resume", "a b"].map(str::to_owned).into())
        );
        for id in ["", "--dangerous", "a\u{1b}[2J", "a\nb"] {
            assert_eq!(claude.resume(id), None, "{id:?}");
        }
    }

    #[test]
    fn an_agent_has_one_name_for_people() {
        for (names, shown) in [
            (
                &["kimi", "kimi-cli", "Kimi Code CLI", "kimi-code"][..],
                "Kimi CLI",
            ),
            (
                &[
                    "claude-agent-acp",
                    "claude-code-acp",
                    "claude-code",
                    "Claude Agent",
                ],
                "Claude Code",
            ),
            (&["pi-acp", "pi", "pi ACP"], "pi"),
            (&["codex-acp", "codex"], "Codex"),
            (&["gemini-cli", "gemini"], "Gemini CLI"),
            (&["OpenCode", "opencode"], "OpenCode"),
            (&["Copilot", "copilot"], "GitHub Copilot"),
            (&["qwen-code", "qwen"], "Qwen Code"),
            (&["another one"], "another one"),
        ] {
            for name in names {
                assert_eq!(title(name), shown, "{name}");
            }
        }
    }
}

#[cfg(test)]
#[cfg(unix)]
mod path_tests {
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
        let found = on_this_machine(path).into_iter();
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
        let found = on_this_machine(folder.path().as_os_str());
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
            let found = on_this_machine(folder.path().as_os_str());
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
        assert!(on_this_machine(OsStr::new("bin:.")).is_empty());
        assert!(on_this_machine(OsStr::new("")).is_empty());
    }
}
