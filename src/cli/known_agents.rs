//! ACP agents that `rejoin setup` and `rejoin doctor` know how to start.

use super::programs::on_path;

/// An agent and its command.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct KnownAgent {
    /// Its name for people.
    pub(super) title: &'static str,
    /// How editors name it if they install it themselves.
    ids: &'static [&'static str],
    /// Its program.
    program: &'static str,
    /// The arguments with which it speaks ACP.
    arguments: &'static [&'static str],
    /// Its package for npm, with the same arguments.
    pub(super) package: Option<&'static str>,
}

const fn agent(
    title: &'static str,
    ids: &'static [&'static str],
    program: &'static str,
    arguments: &'static [&'static str],
    package: Option<&'static str>,
) -> KnownAgent {
    KnownAgent {
        title,
        ids,
        program,
        arguments,
        package,
    }
}

/// All of them, the most widespread first.
pub(super) const KNOWN_AGENTS: [KnownAgent; 11] = [
    agent(
        "Claude Agent",
        &["claude-acp", "claude-code-acp", "claude"],
        "claude-agent-acp",
        &[],
        Some("@agentclientprotocol/claude-agent-acp"),
    ),
    agent(
        "Codex",
        &["codex-acp", "codex"],
        "codex-acp",
        &[],
        Some("@agentclientprotocol/codex-acp"),
    ),
    agent(
        "Gemini CLI",
        &["gemini"],
        "gemini",
        &["--acp"],
        Some("@google/gemini-cli"),
    ),
    agent(
        "OpenCode",
        &["opencode"],
        "opencode",
        &["acp"],
        Some("opencode-ai"),
    ),
    agent(
        "Qwen Code",
        &["qwen-code"],
        "qwen",
        &["--acp"],
        Some("@qwen-code/qwen-code"),
    ),
    agent("Kimi Code", &["kimi"], "kimi", &["acp"], None),
    agent(
        "GitHub Copilot",
        &["github-copilot-cli"],
        "copilot",
        &["--acp"],
        Some("@github/copilot"),
    ),
    agent("Goose", &["goose"], "goose", &["acp"], None),
    agent(
        "Auggie",
        &["auggie"],
        "auggie",
        &["--acp"],
        Some("@augmentcode/auggie"),
    ),
    agent("Mistral Vibe", &["mistral-vibe"], "vibe-acp", &[], None),
    agent(
        "Factory Droid",
        &["factory-droid"],
        "droid",
        &["exec", "--output-format", "acp"],
        None,
    ),
];

impl KnownAgent {
    /// The agent that editors give this id.
    pub(super) fn of_id(id: &str) -> Option<&'static Self> {
        KNOWN_AGENTS.iter().find(|agent| agent.ids.contains(&id))
    }

    /// Its command, if it is installed.
    pub(super) fn installed(&self) -> Option<Vec<String>> {
        let path = on_path(self.program)?;
        Some(self.command([path.to_str()?]))
    }

    /// Its command with `npx`, which installs it.
    pub(super) fn with_npx(&self) -> Option<Vec<String>> {
        let npx = on_path("npx")?;
        Some(self.command([npx.to_str()?, "-y", self.package?]))
    }

    fn command<const N: usize>(&self, start: [&str; N]) -> Vec<String> {
        let words = start.iter().chain(self.arguments);
        words.map(|word| (*word).to_owned()).collect()
    }
}
