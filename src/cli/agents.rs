//! Commands of well-known agents: what to run so that they speak ACP.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// A program that speaks ACP only if it is run in another way.
struct Known {
    /// Its names.
    names: &'static [&'static str],
    /// Arguments; any one of them makes it speak ACP.
    with: &'static [&'static str],
    /// The command that speaks ACP.
    command: &'static str,
    /// The npm package that has this command, if the program itself has no such mode.
    package: Option<&'static str>,
}

/// A program that has to be given an argument: the last one of its command.
const fn needs(
    names: &'static [&'static str],
    with: &'static [&'static str],
    command: &'static str,
) -> Known {
    Known {
        names,
        with,
        command,
        package: None,
    }
}

/// A program for which another one speaks ACP.
const fn adapted(
    names: &'static [&'static str],
    command: &'static str,
    package: &'static str,
) -> Known {
    Known {
        names,
        with: &[],
        command,
        package: Some(package),
    }
}

const KNOWN: [Known; 18] = [
    adapted(
        &["claude", "claude-code"],
        "claude-agent-acp",
        "@agentclientprotocol/claude-agent-acp",
    ),
    adapted(&["codex"], "codex-acp", "@agentclientprotocol/codex-acp"),
    adapted(&["pi"], "pi-acp", "pi-acp"),
    needs(
        &["gemini", "gemini-cli"],
        &["--acp", "--experimental-acp"],
        "gemini --acp",
    ),
    needs(
        &["qwen", "qwen-code"],
        &["--acp", "--experimental-acp"],
        "qwen --acp",
    ),
    needs(&["copilot"], &["--acp"], "copilot --acp"),
    needs(&["auggie"], &["--acp"], "auggie --acp"),
    needs(&["cline"], &["--acp"], "cline --acp"),
    needs(&["opencode", "opencode-ai"], &["acp"], "opencode acp"),
    needs(&["kimi", "kimi-code"], &["acp", "--acp"], "kimi acp"),
    needs(&["goose"], &["acp"], "goose acp"),
    needs(&["cursor-agent"], &["acp"], "cursor-agent acp"),
    needs(&["kilo"], &["acp"], "kilo acp"),
    needs(&["kiro-cli"], &["acp"], "kiro-cli acp"),
    needs(&["devin"], &["acp"], "devin acp"),
    needs(&["vibe"], &[], "vibe-acp"),
    needs(&["hermes"], &["acp"], "hermes-acp"),
    needs(
        &["droid"],
        &["acp", "acp-daemon"],
        "droid exec --output-format acp",
    ),
];

/// What was probably meant, as a hint, if this command, whose agent has this name, is known not to
/// speak ACP.
pub(super) fn meant(name: &str, command: &[OsString]) -> Option<String> {
    let known = KNOWN.iter().find(|known| known.names.contains(&name))?;
    let has = |word: &&str| command.iter().any(|given| given == *word);
    if known.with.iter().any(has) {
        return None;
    }
    let right = known.command;
    let hint = format!("use `rejoin wrap -- {right}`");
    Some(match known.package {
        Some(package) => format!("{hint}, which `npm install --global {package}` installs"),
        None => hint,
    })
}

/// How to install the program of this name, if it is known.
pub(super) fn installation(name: &str) -> Option<String> {
    let known = KNOWN.iter().find(|known| known.command == name)?;
    let package = known.package?;
    Some(format!("install it with `npm install --global {package}`"))
}

/// Whether a program does not exist, neither at its path nor in a folder of `PATH`. Systems other
/// than Unix have more rules, so there the answer is always no.
pub(super) fn is_missing(program: &OsStr) -> bool {
    if cfg!(not(unix)) {
        return false;
    }
    if program.as_encoded_bytes().contains(&b'/') {
        return !Path::new(program).exists();
    }
    // Without a `PATH` the system searches its default folders.
    std::env::var_os("PATH").is_some_and(|folders| {
        !std::env::split_paths(&folders).any(|folder| folder.join(program).is_file())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meant_by(line: &str) -> Option<String> {
        let command: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let name = line.split(' ').next().unwrap();
        let hint = meant(name, &command)?;
        let (_, rest) = hint.split_once("`rejoin wrap -- ").unwrap();
        Some(rest.split_once('`').unwrap().0.to_owned())
    }

    #[test]
    fn what_speaks_no_acp_is_known() {
        for (line, command) in [
            ("claude", Some("claude-agent-acp")),
            ("claude --acp", Some("claude-agent-acp")),
            ("codex", Some("codex-acp")),
            ("gemini -m pro", Some("gemini --acp")),
            ("gemini --acp", None),
            ("gemini --experimental-acp", None),
            ("qwen", Some("qwen --acp")),
            ("opencode", Some("opencode acp")),
            ("opencode acp", None),
            ("kimi acp", None),
            ("goose", Some("goose acp")),
            ("copilot", Some("copilot --acp")),
            ("copilot --acp --stdio", None),
            ("droid exec --output-format acp", None),
            ("claude-agent-acp", None),
            ("my-agent", None),
        ] {
            assert_eq!(meant_by(line).as_deref(), command, "{line}");
        }
    }

    #[test]
    fn adapters_come_from_npm() {
        let hint = installation("codex-acp").unwrap();
        assert!(hint.contains("npm install --global @agentclientprotocol/codex-acp"));
        assert_eq!(installation("gemini --acp"), None);
        assert_eq!(installation("my-agent"), None);
    }

    #[test]
    fn programs_are_looked_for_where_the_system_does() {
        assert!(is_missing(OsStr::new("no-such-agent-anywhere")));
        assert!(is_missing(OsStr::new("/no/such/agent")));
        assert!(!is_missing(OsStr::new("sh")) || cfg!(windows));
        let here = std::env::current_exe().unwrap();
        assert!(!is_missing(here.as_os_str()));
    }
}
