//! Commands of well-known agents: what to run so that they speak ACP.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use super::known_agents::{
    AUGGIE, CLAUDE, CODEX, COPILOT, DROID, GEMINI, GOOSE, KIMI, OPENCODE, QWEN, Start, VIBE, start,
};

/// A program that speaks ACP only if it is run in another way.
struct Known {
    /// Its names.
    names: &'static [&'static str],
    /// What speaks ACP: this program if it is given the last argument, or another one.
    start: Start,
    /// Other arguments that make it speak ACP.
    others: &'static [&'static str],
}

const fn known(
    names: &'static [&'static str],
    start: Start,
    others: &'static [&'static str],
) -> Known {
    Known {
        names,
        start,
        others,
    }
}

const KNOWN: [Known; 18] = [
    known(&["claude", "claude-code"], CLAUDE, &[]),
    known(&["codex"], CODEX, &[]),
    known(&["pi"], start("pi-acp", &[], Some("pi-acp")), &[]),
    known(&["gemini", "gemini-cli"], GEMINI, &["--experimental-acp"]),
    known(&["qwen", "qwen-code"], QWEN, &["--experimental-acp"]),
    known(&["copilot"], COPILOT, &[]),
    known(&["auggie"], AUGGIE, &[]),
    known(&["cline"], start("cline", &["--acp"], None), &[]),
    known(&["opencode", "opencode-ai"], OPENCODE, &[]),
    known(&["kimi", "kimi-code"], KIMI, &["--acp"]),
    known(&["goose"], GOOSE, &[]),
    known(
        &["cursor-agent"],
        start("cursor-agent", &["acp"], None),
        &[],
    ),
    known(&["kilo"], start("kilo", &["acp"], None), &[]),
    known(&["kiro-cli"], start("kiro-cli", &["acp"], None), &[]),
    known(&["devin"], start("devin", &["acp"], None), &[]),
    known(&["vibe"], VIBE, &[]),
    known(&["hermes"], start("hermes-acp", &[], None), &["acp"]),
    known(&["droid"], DROID, &["acp-daemon"]),
];

impl Known {
    /// The npm package that has the program that speaks ACP, if that is another one.
    fn adapter(&self) -> Option<&'static str> {
        let is_other = !self.names.contains(&self.start.program);
        self.start.package.filter(|_| is_other)
    }
}

/// What was probably meant, as a hint, if this command, whose agent has this name, is known not to
/// speak ACP.
pub(super) fn meant(name: &str, command: &[OsString]) -> Option<String> {
    let known = KNOWN.iter().find(|known| known.names.contains(&name))?;
    let Start {
        program, arguments, ..
    } = known.start;
    let has = |word: &&str| command.iter().any(|given| given == *word);
    if arguments.last().into_iter().chain(known.others).any(has) {
        return None;
    }
    let words: Vec<_> = [program].iter().chain(arguments).copied().collect();
    let hint = format!("use `rejoin wrap -- {}`", words.join(" "));
    Some(match known.adapter() {
        Some(package) => format!("{hint}, which `npm install --global {package}` installs"),
        None => hint,
    })
}

/// How to install the program of this name, if it is known.
pub(super) fn installation(name: &str) -> Option<String> {
    let known = KNOWN.iter().find(|known| known.start.program == name)?;
    let package = known.adapter()?;
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
