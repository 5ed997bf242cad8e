//! The agents that rejoin knows: those of the ACP registry, and some more.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

/// The one list of agents; `packaging/agents/update` makes it.
const LIST: &str = include_str!("agents.json");

static KNOWN: LazyLock<Vec<KnownAgent>> =
    LazyLock::new(|| serde_json::from_str(LIST).unwrap_or_default());

/// An agent, and how it is started so that it speaks ACP.
#[derive(Debug, Deserialize)]
pub struct KnownAgent {
    /// Its id in the registry.
    pub id: String,
    /// Its name for people.
    pub name: String,
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
}

/// All of them, the most widespread first.
pub fn known() -> &'static [KnownAgent] {
    &KNOWN
}

/// The name for people of the agent with this name, if it is known: logs and tools have several for
/// one agent.
pub fn title(name: &str) -> &str {
    KnownAgent::called(name).map_or(name, |known| &known.name)
}

impl KnownAgent {
    /// The agent with this name.
    pub fn called(name: &str) -> Option<&'static Self> {
        known().iter().find(|known| known.is_called(name))
    }

    /// Whether the agent goes by this name.
    pub fn is_called(&self, name: &str) -> bool {
        self.all_names().any(|own| own.eq_ignore_ascii_case(name))
    }

    /// Its names: the id, that for people, those of its programs and packages, and others.
    pub fn all_names(&self) -> impl Iterator<Item = &str> {
        let own = [&self.id, &self.name].into_iter().chain(&self.command);
        let own = own.chain(&self.plain).chain(&self.names);
        own.map(String::as_str).chain(self.packages())
    }

    /// The names of its packages, without scopes, if they say something.
    pub(super) fn packages(&self) -> impl Iterator<Item = &str> {
        let packages = [&self.npx, &self.uvx].into_iter().flatten();
        let names = packages.filter_map(|package| package.rsplit('/').next());
        names.filter(|name| *name != "cli")
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
    fn an_agent_has_one_name_for_people() {
        for (names, shown) in [
            (
                &["kimi", "kimi-cli", "Kimi Code CLI", "kimi-code"][..],
                "Kimi CLI",
            ),
            (
                &["claude-agent-acp", "claude-code-acp", "claude-code"],
                "Claude Agent",
            ),
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
