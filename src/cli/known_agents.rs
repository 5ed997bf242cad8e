//! Well-known agents: how they are started, and those that `rejoin setup` and `rejoin doctor` offer.

use super::programs::on_path;

/// How an agent is started so that it speaks ACP.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Start {
    /// Its program.
    pub(super) program: &'static str,
    /// The arguments with which it speaks ACP.
    pub(super) arguments: &'static [&'static str],
    /// Its package for npm, with the same arguments.
    pub(super) package: Option<&'static str>,
}

/// How an agent is started, with its package for npm if it has one.
pub(super) const fn start(
    program: &'static str,
    arguments: &'static [&'static str],
    package: Option<&'static str>,
) -> Start {
    Start {
        program,
        arguments,
        package,
    }
}

pub(super) const CLAUDE: Start = start(
    "claude-agent-acp",
    &[],
    Some("@agentclientprotocol/claude-agent-acp"),
);
pub(super) const CODEX: Start = start("codex-acp", &[], Some("@agentclientprotocol/codex-acp"));
pub(super) const GEMINI: Start = start("gemini", &["--acp"], Some("@google/gemini-cli"));
pub(super) const OPENCODE: Start = start("opencode", &["acp"], Some("opencode-ai"));
pub(super) const QWEN: Start = start("qwen", &["--acp"], Some("@qwen-code/qwen-code"));
pub(super) const KIMI: Start = start("kimi", &["acp"], None);
pub(super) const COPILOT: Start = start("copilot", &["--acp"], Some("@github/copilot"));
pub(super) const GOOSE: Start = start("goose", &["acp"], None);
pub(super) const AUGGIE: Start = start("auggie", &["--acp"], Some("@augmentcode/auggie"));
pub(super) const VIBE: Start = start("vibe-acp", &[], None);
pub(super) const DROID: Start = start("droid", &["exec", "--output-format", "acp"], None);

/// An agent that is offered.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct KnownAgent {
    /// Its name for people.
    pub(super) title: &'static str,
    /// How editors name it if they install it themselves.
    ids: &'static [&'static str],
    start: Start,
}

const fn agent(title: &'static str, ids: &'static [&'static str], start: Start) -> KnownAgent {
    KnownAgent { title, ids, start }
}

/// All of them, the most widespread first.
pub(super) const KNOWN_AGENTS: [KnownAgent; 11] = [
    agent(
        "Claude Agent",
        &["claude-acp", "claude-code-acp", "claude"],
        CLAUDE,
    ),
    agent("Codex", &["codex-acp", "codex"], CODEX),
    agent("Gemini CLI", &["gemini"], GEMINI),
    agent("OpenCode", &["opencode"], OPENCODE),
    agent("Qwen Code", &["qwen-code"], QWEN),
    agent("Kimi Code", &["kimi"], KIMI),
    agent("GitHub Copilot", &["github-copilot-cli"], COPILOT),
    agent("Goose", &["goose"], GOOSE),
    agent("Auggie", &["auggie"], AUGGIE),
    agent("Mistral Vibe", &["mistral-vibe"], VIBE),
    agent("Factory Droid", &["factory-droid"], DROID),
];

impl KnownAgent {
    /// The agent that editors give this id.
    pub(super) fn of_id(id: &str) -> Option<&'static Self> {
        KNOWN_AGENTS.iter().find(|agent| agent.ids.contains(&id))
    }

    /// Its command, if it is installed.
    pub(super) fn installed(&self) -> Option<Vec<String>> {
        let path = on_path(self.start.program)?;
        Some(self.command([path.to_str()?]))
    }

    /// Its command with `npx`, which installs it.
    pub(super) fn with_npx(&self) -> Option<Vec<String>> {
        let npx = on_path("npx")?;
        Some(self.command([npx.to_str()?, "-y", self.start.package?]))
    }

    fn command<const N: usize>(&self, program: [&str; N]) -> Vec<String> {
        let words = program.iter().chain(self.start.arguments);
        words.map(|word| (*word).to_owned()).collect()
    }
}
