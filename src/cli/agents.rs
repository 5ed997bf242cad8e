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
}

const KNOWN: [Known; 6] = [
    Known {
        names: &["claude", "claude-code"],
        with: &[],
        command: "claude-agent-acp",
    },
    Known {
        names: &["codex"],
        with: &[],
        command: "codex-acp",
    },
    Known {
        names: &["gemini", "gemini-cli"],
        with: &["--acp", "--experimental-acp"],
        command: "gemini --acp",
    },
    Known {
        names: &["qwen", "qwen-code"],
        with: &["--acp", "--experimental-acp"],
        command: "qwen --acp",
    },
    Known {
        names: &["opencode", "opencode-ai"],
        with: &["acp"],
        command: "opencode acp",
    },
    Known {
        names: &["kimi", "kimi-code"],
        with: &["acp"],
        command: "kimi acp",
    },
];

/// The command that was probably meant, if this one, whose agent has this name, is known not to
/// speak ACP.
pub(super) fn meant(name: &str, command: &[OsString]) -> Option<&'static str> {
    let known = KNOWN.iter().find(|known| known.names.contains(&name))?;
    let has = |word: &&str| command.iter().any(|given| given == *word);
    let speaks = known.with.iter().any(has);
    (!speaks).then_some(known.command)
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

    fn meant_by(line: &str) -> Option<&'static str> {
        let command: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let name = line.split(' ').next().unwrap();
        meant(name, &command)
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
            ("claude-agent-acp", None),
            ("my-agent", None),
        ] {
            assert_eq!(meant_by(line), command, "{line}");
        }
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
