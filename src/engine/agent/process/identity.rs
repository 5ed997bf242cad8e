//! The names of an agent, and whether a name in a log is one of this agent's.

use std::borrow::Cow;
use std::ffi::OsString;

use super::command::{self, is_generic};

/// The names of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentNames {
    /// The name, if it is known before the agent is initialized.
    pub(in crate::engine::agent) name: Option<String>,
    /// The name if the agent has none in its `agentInfo`.
    pub(in crate::engine::agent) fallback: String,
    /// Other names that only this agent has.
    aliases: Vec<String>,
    /// Names that logs may have for this agent, but also for others.
    shared: Vec<String>,
    /// Whether the user chose the name: then no other one counts.
    chosen: bool,
}

/// Whether a name is this agent's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine::agent) enum NameMatch {
    This,
    /// This one's or another one's: only the agent knows whether a session is its own.
    Maybe,
    Other,
}

impl AgentNames {
    /// With the name that the user chose.
    pub fn chosen(name: String) -> Self {
        Self {
            name: Some(name),
            chosen: true,
            ..Self::asked("")
        }
    }

    /// With the names of a well-known agent: the first one is stored, the others are as good.
    pub(in crate::engine) fn known(names: &[String]) -> Self {
        Self {
            name: names.first().cloned(),
            aliases: names.iter().skip(1).cloned().collect(),
            ..Self::asked("")
        }
    }

    /// Whether a name in a log is this agent's, as far as that is known before it has started.
    pub(in crate::engine) fn include(&self, recorded: &str) -> bool {
        self.means(recorded, self.name(), None) == NameMatch::This
    }

    /// The agent's name, as far as it is known before it has started.
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.fallback)
    }

    /// With names from the agent's command.
    pub fn of_command(command: &[OsString]) -> Self {
        let words = words(command);
        let word = command::agent(&words);
        let name = command::plain(&word);
        // Earlier versions of rejoin derived it in a simpler way.
        let former = command::first_argument(&words);
        let mut shared = vec![former];
        shared.retain(|former| *former != name);
        if !is_generic(&name) {
            return Self {
                name: Some(name),
                shared,
                ..Self::asked("")
            };
        }
        shared.push(name.clone());
        let package = command::package(&word);
        Self {
            aliases: package.clone().into_iter().collect(),
            shared,
            ..Self::asked(&package.unwrap_or(name))
        }
    }

    /// Whether a command line starts the program of this name, perhaps by way of others.
    pub fn starts(command: &[OsString], program: &str) -> bool {
        command::plain(&command::agent(&words(command))) == program
    }

    /// The name of the program that a command line starts, for display.
    pub fn program(command: &[OsString]) -> String {
        command::first_argument(&words(command))
    }

    /// With the name that the agent reports, or else `fallback`.
    pub(in crate::engine::agent) fn asked(fallback: &str) -> Self {
        Self {
            name: None,
            fallback: fallback.to_owned(),
            aliases: Vec::new(),
            shared: Vec::new(),
            chosen: false,
        }
    }

    /// Whether `recorded` is a name of the agent that is stored as `name` and reports itself as `own`.
    pub(in crate::engine::agent) fn means(
        &self,
        recorded: &str,
        name: &str,
        own: Option<&str>,
    ) -> NameMatch {
        if self.chosen {
            return if recorded == name {
                NameMatch::This
            } else {
                NameMatch::Other
            };
        }
        let shared = self.shared.iter().any(|shared| shared == recorded);
        let is_own = Some(recorded) == own || self.aliases.iter().any(|alias| alias == recorded);
        match recorded {
            _ if is_own => NameMatch::This,
            _ if shared => NameMatch::Maybe,
            _ if recorded == name => NameMatch::This,
            _ => NameMatch::Other,
        }
    }

    /// All names that logs may have for the agent.
    pub(in crate::engine::agent) fn all<'a>(
        &'a self,
        own: Option<&'a str>,
    ) -> impl Iterator<Item = &'a str> {
        let known = self.aliases.iter().chain(&self.shared).map(String::as_str);
        known.chain(own.filter(|_| !self.chosen))
    }
}

fn words(command: &[OsString]) -> Vec<String> {
    let words = command.iter().map(|word| word.to_string_lossy());
    words.map(Cow::into_owned).collect()
}

/// The name that an agent reports, without the scope of a package; `None` if it is too generic.
pub(in crate::engine::agent) fn reported(name: &str) -> Option<String> {
    let name = command::plain(name.trim());
    (!is_generic(&name)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(command: &str) -> AgentNames {
        let words: Vec<_> = command.split(' ').map(OsString::from).collect();
        AgentNames::of_command(&words)
    }

    #[test]
    fn a_name_that_says_something_is_the_agents() {
        let names = names("npx -y @google/gemini-cli --acp");
        assert_eq!(names.name.as_deref(), Some("gemini-cli"));
        let means = |recorded| names.means(recorded, "gemini-cli", Some("Gemini"));
        assert_eq!(means("gemini-cli"), NameMatch::This);
        assert_eq!(means("Gemini"), NameMatch::This);
        assert_eq!(means("index"), NameMatch::Other);
    }

    #[test]
    fn a_name_that_says_nothing_is_shared() {
        let names = names("node /opt/node_modules/@zed/claude-agent-acp/dist/index.js");
        assert_eq!(
            (names.name.as_deref(), &*names.fallback),
            (None, "claude-agent-acp")
        );
        let means = |recorded| names.means(recorded, "Claude", Some("Claude"));
        assert_eq!(means("Claude"), NameMatch::This);
        assert_eq!(means("claude-agent-acp"), NameMatch::This);
        assert_eq!(means("index"), NameMatch::Maybe);
        assert_eq!(means("codex-acp"), NameMatch::Other);
        let all: Vec<_> = names.all(Some("Claude")).collect();
        assert_eq!(all, ["claude-agent-acp", "index", "Claude"]);
    }

    #[test]
    fn names_of_earlier_versions_are_shared() {
        let names = names("uv run --directory /srv/agents opencode acp");
        let means = |recorded| names.means(recorded, "opencode", None);
        assert_eq!(means("opencode"), NameMatch::This);
        assert_eq!(means("agents"), NameMatch::Maybe);
    }

    #[test]
    fn a_chosen_name_is_the_only_one() {
        let names = AgentNames::chosen("index".to_owned());
        let means = |recorded| names.means(recorded, "index", Some("Claude"));
        assert_eq!(means("index"), NameMatch::This);
        assert_eq!(means("Claude"), NameMatch::Other);
        assert_eq!(names.all(Some("Claude")).count(), 0);
    }

    #[test]
    fn what_an_agent_calls_itself_is_plain() {
        assert_eq!(
            reported("@agentclientprotocol/codex-acp").as_deref(),
            Some("codex-acp")
        );
        assert_eq!(
            reported("GitHub Copilot").as_deref(),
            Some("GitHub Copilot")
        );
        assert_eq!((reported(" "), reported("index")), (None, None));
    }
}
