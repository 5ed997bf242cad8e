//! `rejoin wrap`: an ACP agent on stdin and stdout whose prompts another agent answers.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use crate::engine::wrapped::{Program, WrappedEngine};

use super::exit::Failure;
use super::global::Global;
use super::{handing, serve};

/// Programs that run other programs: the first of their arguments that is no option is the agent.
const RUNNERS: [&str; 12] = [
    "npx", "bunx", "uvx", "pnpx", "node", "bun", "deno", "python", "python3", "env", "npm", "uv",
];

/// How to wrap an agent.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
#[group(id = "wrap")]
pub(super) struct Args {
    #[command(flatten)]
    handing: handing::Args,
    /// The name by which the agent's sessions are known. By default the command's.
    #[arg(long, value_name = "NAME", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    name: Option<String>,
    /// The agent's command and its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(super) fn run(global: &Global, args: &Args) -> Result<(), Failure> {
    let name = args.name.clone().unwrap_or_else(|| name_of(&args.command));
    let program = Program {
        command: args.command.clone(),
        guard: std::env::current_exe().ok(),
    };
    let engine = WrappedEngine::new(program, name, args.handing.policy());
    serve::with(global, &args.handing.serve, Arc::new(engine))
}

/// The agent's name, as its command tells it: the same however the agent is started.
fn name_of(command: &[OsString]) -> String {
    let mut words = command.iter().map(|word| word.to_string_lossy());
    let program = words.next().unwrap_or_default();
    let name = plain(&program);
    if !RUNNERS.contains(&name.as_str()) {
        return name;
    }
    let runs = |word: &str| matches!(word, "run" | "exec" | "x" | "tool");
    let passed = |word: &str| word.starts_with('-') || word.contains('=') || runs(word);
    let agent = words.find(|word| !passed(word));
    agent.map_or(name, |agent| plain(&agent))
}

/// The last part of a path or a package's name, without an extension or a version.
fn plain(word: &str) -> String {
    let last = word.rsplit(['/', '\\']).next().unwrap_or(word);
    let last = last
        .split('@')
        .find(|part| !part.is_empty())
        .unwrap_or(last);
    let stem = Path::new(last).file_stem();
    let script = [".js", ".mjs", ".cjs", ".ts", ".py", ".exe", ".cmd"];
    match stem {
        Some(stem) if script.iter().any(|end| last.ends_with(end)) => {
            stem.to_string_lossy().into_owned()
        }
        _ => last.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_has_one_name_however_it_is_started() {
        for (command, name) in [
            ("claude-agent-acp", "claude-agent-acp"),
            ("/usr/local/bin/gemini --acp", "gemini"),
            (
                "npx -y @agentclientprotocol/claude-agent-acp@0.100.0",
                "claude-agent-acp",
            ),
            ("npx @google/gemini-cli --acp", "gemini-cli"),
            ("node --no-warnings /opt/agent/index.mjs", "index"),
            ("uvx hermes-acp", "hermes-acp"),
            ("env A=b opencode acp", "opencode"),
            ("codex-acp.exe", "codex-acp"),
            ("npx", "npx"),
        ] {
            let command: Vec<_> = command.split(' ').map(OsString::from).collect();
            assert_eq!(name_of(&command), name);
        }
    }
}
