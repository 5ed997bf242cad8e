//! Commands of well-known agents: what to run so that they speak ACP.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use crate::engine::choice::known::{Known, known};

/// The npm package with the program that speaks ACP for one that does not.
fn adapter(known: &Known) -> Option<&str> {
    let is_other = known
        .command
        .as_ref()
        .is_some_and(|own| !known.plain.contains(own));
    known.npx.as_deref().filter(|_| is_other)
}

/// What was probably meant, as a hint, if this command, whose agent has this name, is known not to
/// speak ACP.
pub(super) fn meant(name: &str, command: &[OsString]) -> Option<String> {
    let is_plain = |known: &&Known| known.plain.iter().any(|plain| plain == name);
    let known = known().iter().find(is_plain)?;
    if known.speaks(|word| command.iter().any(|given| given == word)) {
        return None;
    }
    let words: Vec<_> = known
        .command
        .iter()
        .chain(&known.args)
        .map(String::as_str)
        .collect();
    let hint = format!("use `rejoin wrap -- {}`", words.join(" "));
    Some(match adapter(known) {
        Some(package) => format!("{hint}, which `npm install --global {package}` installs"),
        None => hint,
    })
}

/// That a program is known not to speak ACP as it is started.
pub(super) fn no_agent(program: &str) -> String {
    format!("{program} is not an ACP agent with these arguments")
}

/// How to install the program of this name, if it is known.
pub(super) fn installation(name: &str) -> Option<String> {
    let is_its = |known: &&Known| known.command.as_deref() == Some(name);
    let package = known().iter().find(is_its)?.npx.as_ref()?;
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
            ("qwen", Some("qwen --acp --experimental-skills")),
            ("qwen --experimental-acp", None),
            ("opencode", Some("opencode acp")),
            ("opencode acp", None),
            ("kimi acp", None),
            ("goose", Some("goose acp")),
            ("copilot", Some("copilot --acp")),
            ("copilot --acp --stdio", None),
            ("droid exec --output-format acp", None),
            ("claude-agent-acp", None),
            ("claude-code-acp", None),
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
        // Elsewhere it is not known.
        for none in ["no-such-agent-anywhere", "/no/such/agent"] {
            assert_eq!(is_missing(OsStr::new(none)), cfg!(unix), "{none}");
        }
        assert!(!is_missing(OsStr::new("sh")));
        let here = std::env::current_exe().unwrap();
        assert!(!is_missing(here.as_os_str()));
    }
}
