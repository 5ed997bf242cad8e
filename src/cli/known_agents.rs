//! The commands of known agents, for settings and checks.

use std::ffi::OsString;

use crate::engine::agent::AgentNames;
use crate::engine::known::{Known, known};

use super::programs::on_path;

/// The known agent that a command starts, perhaps by way of programs such as `npx` and `node`.
pub(super) fn started_by<'w>(words: impl Iterator<Item = &'w str>) -> Option<&'static Known> {
    let command: Vec<_> = words.map(OsString::from).collect();
    Known::called(AgentNames::of_command(&command).name())
}

/// The known agents that are installed, with their commands.
pub(super) fn installed() -> impl Iterator<Item = (&'static Known, Vec<String>)> {
    known()
        .iter()
        .filter_map(|known| Some((known, command_of(known)?)))
}

/// The command of an agent, if it is installed.
pub(super) fn command_of(known: &Known) -> Option<Vec<String>> {
    let path = on_path(known.command.as_ref()?)?;
    Some(command(known, [path.to_str()?]))
}

/// The command of an agent with `npx`, which installs it.
pub(super) fn with_npx(known: &Known) -> Option<Vec<String>> {
    let npx = on_path("npx")?;
    Some(command(known, [npx.to_str()?, "-y", known.npx.as_ref()?]))
}

fn command<const N: usize>(known: &Known, program: [&str; N]) -> Vec<String> {
    let words = program.into_iter().map(str::to_owned);
    words.chain(known.args.iter().cloned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_known_by_its_command() {
        for (command, id) in [
            ("gemini --acp", Some("gemini")),
            ("/opt/bin/claude-agent-acp", Some("claude-acp")),
            (r"C:\npm\codex-acp.cmd -c x", Some("codex-acp")),
            (
                "npx -y @agentclientprotocol/claude-agent-acp@0.5.1",
                Some("claude-acp"),
            ),
            ("uvx fast-agent-acp", Some("fast-agent")),
            ("uvx --from tools fast-agent-acp", Some("fast-agent")),
            (
                "node /opt/node_modules/@zed/claude-agent-acp/dist/index.js",
                Some("claude-acp"),
            ),
            ("my-agent gemini", None),
            ("npx -y my-agent", None),
        ] {
            let found = started_by(command.split(' '));
            assert_eq!(found.map(|known| &*known.id), id, "{command}");
        }
    }
}
