//! The names by which an agent's sessions are known, and whether a name in a log means this agent.

use std::borrow::Cow;
use std::ffi::OsString;

use super::command::{self, says_nothing};

/// The names of an agent that is started by a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// The name, if it is known before the agent is asked.
    pub(super) name: Option<String>,
    /// The name of an agent that does not give itself one.
    pub(super) fallback: String,
    /// Other names that nobody but this agent has.
    aliases: Vec<String>,
    /// Names that logs may have for this agent and that others may have had, too.
    shared: Vec<String>,
    /// Whether the user has chosen the name: no other one counts then.
    chosen: bool,
}

/// Whether a name means this agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Means {
    This,
    /// This one or another one: only the agent can tell whether a session is its own.
    Perhaps,
    Another,
}

impl Names {
    /// The name that the user has chosen.
    pub fn chosen(name: String) -> Self {
        Self {
            name: Some(name),
            chosen: true,
            ..Self::asked("")
        }
    }

    /// What the command tells.
    pub fn of_command(command: &[OsString]) -> Self {
        let words = words(command);
        let word = command::agent(&words);
        let name = command::plain(&word);
        // Earlier versions took less care.
        let former = command::first_argument(&words);
        let mut shared = vec![former];
        shared.retain(|former| *former != name);
        if !says_nothing(&name) {
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

    /// The name of the program that a command line starts, as a person who types it sees it.
    pub fn program(command: &[OsString]) -> String {
        command::first_argument(&words(command))
    }

    /// Only the agent itself can tell.
    pub(super) fn asked(fallback: &str) -> Self {
        Self {
            name: None,
            fallback: fallback.to_owned(),
            aliases: Vec::new(),
            shared: Vec::new(),
            chosen: false,
        }
    }

    /// Whether `recorded` means the agent that goes by `name`, and that gave itself the name `own`.
    pub(super) fn means(&self, recorded: &str, name: &str, own: Option<&str>) -> Means {
        if self.chosen {
            return if recorded == name {
                Means::This
            } else {
                Means::Another
            };
        }
        let shared = self.shared.iter().any(|shared| shared == recorded);
        let is_own = Some(recorded) == own || self.aliases.iter().any(|alias| alias == recorded);
        match recorded {
            _ if is_own => Means::This,
            _ if shared => Means::Perhaps,
            _ if recorded == name => Means::This,
            _ => Means::Another,
        }
    }

    /// All names that logs may have for the agent.
    pub(super) fn all<'a>(&'a self, own: Option<&'a str>) -> impl Iterator<Item = &'a str> {
        let known = self.aliases.iter().chain(&self.shared).map(String::as_str);
        known.chain(own.filter(|_| !self.chosen))
    }
}

fn words(command: &[OsString]) -> Vec<String> {
    let words = command.iter().map(|word| word.to_string_lossy());
    words.map(Cow::into_owned).collect()
}

/// The name that an agent gives itself, if it says anything: without the scope of a package.
pub(super) fn given(name: &str) -> Option<String> {
    let name = command::plain(name.trim());
    (!says_nothing(&name)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(command: &str) -> Names {
        let words: Vec<_> = command.split(' ').map(OsString::from).collect();
        Names::of_command(&words)
    }

    #[test]
    fn a_name_that_says_something_is_the_agents() {
        let names = names("npx -y @google/gemini-cli --acp");
        assert_eq!(names.name.as_deref(), Some("gemini-cli"));
        let means = |recorded| names.means(recorded, "gemini-cli", Some("Gemini"));
        assert_eq!(means("gemini-cli"), Means::This);
        assert_eq!(means("Gemini"), Means::This);
        assert_eq!(means("index"), Means::Another);
    }

    #[test]
    fn a_name_that_says_nothing_is_shared() {
        let names = names("node /opt/node_modules/@zed/claude-agent-acp/dist/index.js");
        assert_eq!(
            (names.name.as_deref(), &*names.fallback),
            (None, "claude-agent-acp")
        );
        let means = |recorded| names.means(recorded, "Claude", Some("Claude"));
        assert_eq!(means("Claude"), Means::This);
        assert_eq!(means("claude-agent-acp"), Means::This);
        assert_eq!(means("index"), Means::Perhaps);
        assert_eq!(means("codex-acp"), Means::Another);
        let all: Vec<_> = names.all(Some("Claude")).collect();
        assert_eq!(all, ["claude-agent-acp", "index", "Claude"]);
    }

    #[test]
    fn names_of_earlier_versions_are_shared() {
        let names = names("uv run --directory /srv/agents opencode acp");
        let means = |recorded| names.means(recorded, "opencode", None);
        assert_eq!(means("opencode"), Means::This);
        assert_eq!(means("agents"), Means::Perhaps);
    }

    #[test]
    fn a_chosen_name_is_the_only_one() {
        let names = Names::chosen("index".to_owned());
        let means = |recorded| names.means(recorded, "index", Some("Claude"));
        assert_eq!(means("index"), Means::This);
        assert_eq!(means("Claude"), Means::Another);
        assert_eq!(names.all(Some("Claude")).count(), 0);
    }

    #[test]
    fn what_an_agent_calls_itself_is_plain() {
        assert_eq!(
            given("@agentclientprotocol/codex-acp").as_deref(),
            Some("codex-acp")
        );
        assert_eq!(given("GitHub Copilot").as_deref(), Some("GitHub Copilot"));
        assert_eq!((given(" "), given("index")), (None, None));
    }
}
