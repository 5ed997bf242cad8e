//! Commands of well-known agents: which agent a command starts, and what to run so that it speaks ACP.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use rejoin::engine::agent::AgentNames;
use rejoin::engine::known::{KnownAgent, known};
use rejoin::sys::program::is_program;

use super::programs::on_path;

/// The npm package with the program that speaks ACP for one that does not.
fn adapter(known: &KnownAgent) -> Option<&str> {
    let is_other = known
        .command
        .as_ref()
        .is_some_and(|own| !known.plain.contains(own));
    known.npx.as_deref().filter(|_| is_other)
}

/// A hint with the command that was probably meant, if this one is known not to speak ACP.
pub(super) fn meant(command: &[OsString]) -> Option<String> {
    let name = AgentNames::program(command);
    let is_plain = |known: &&KnownAgent| known.plain.contains(&name);
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

/// The message that a program is known not to speak ACP with these arguments.
pub(super) fn no_agent(program: &str) -> String {
    format!("{program} is not an ACP agent with these arguments")
}

/// How to install the program of this name, if it is known.
fn installation(name: &str) -> Option<String> {
    let is_its = |known: &&KnownAgent| known.command.as_deref() == Some(name);
    let package = known().iter().find(is_its)?.npx.as_ref()?;
    Some(format!("install it with `npm install --global {package}`"))
}

/// Why a program cannot be started, neither by its path nor from a folder of `path`, in place of ours,
/// with what to do; none if it can. Systems other than Unix have more rules, so there the answer is always none.
pub(super) fn cannot_start(program: &OsStr, path: Option<OsString>) -> Option<(String, String)> {
    if cfg!(not(unix)) {
        return None;
    }
    let shown = program.to_string_lossy();
    if program.as_encoded_bytes().contains(&b'/') {
        let path = Path::new(program);
        match path.metadata() {
            Err(_) => {}
            Ok(_) if is_program(path) => return None,
            Ok(file) if file.is_dir() => {
                let why = format!("`{shown}` is a folder, not a program");
                return Some((why, "name the agent's program".to_owned()));
            }
            Ok(file) if !file.is_file() => {
                let why = format!("`{shown}` is not a program");
                return Some((why, "name the agent's program".to_owned()));
            }
            Ok(_) => {
                let why = format!("the file `{shown}` is not executable");
                return Some((why, "make it executable with `chmod +x`".to_owned()));
            }
        }
    } else {
        // Without a `PATH` the system searches its default folders.
        let folders = path.or_else(|| std::env::var_os("PATH"))?;
        if std::env::split_paths(&folders).any(|folder| is_program(&folder.join(program))) {
            return None;
        }
    }
    let hint = installation(&AgentNames::program(&[program.to_owned()])).unwrap_or_else(|| {
        "check its name, or give its full path: an editor may search other folders than your shell"
            .to_owned()
    });
    Some((format!("there is no program `{shown}`"), hint))
}

/// The known agent that a command starts, perhaps by way of programs such as `npx` and `node`.
pub(super) fn started_by<'w>(words: impl Iterator<Item = &'w str>) -> Option<&'static KnownAgent> {
    let command: Vec<_> = words.map(OsString::from).collect();
    KnownAgent::called(AgentNames::of_command(&command).name())
}

/// The known agents that are installed, with their commands.
pub(super) fn installed() -> impl Iterator<Item = (&'static KnownAgent, Vec<String>)> {
    known()
        .iter()
        .filter_map(|known| Some((known, command_of(known)?)))
}

/// The command of an agent, if it is installed.
pub(super) fn command_of(known: &KnownAgent) -> Option<Vec<String>> {
    let command = known.installed(on_path)?.into_iter();
    command.map(|word| word.into_string().ok()).collect()
}

/// The command of an agent with `npx`, which installs it.
pub(super) fn with_npx(known: &KnownAgent) -> Option<Vec<String>> {
    let npx = on_path("npx")?;
    let words = [npx.to_str()?, "-y", known.npx.as_ref()?].map(str::to_owned);
    Some(
        words
            .into_iter()
            .chain(known.args.iter().cloned())
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meant_by(line: &str) -> Option<String> {
        let command: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let hint = meant(&command)?;
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
            assert_eq!(
                cannot_start(OsStr::new(none), None).is_some(),
                cfg!(unix),
                "{none}"
            );
        }
        assert_eq!(cannot_start(OsStr::new("sh"), None), None);
        let here = std::env::current_exe().unwrap();
        assert_eq!(cannot_start(here.as_os_str(), None), None);
    }

    #[cfg(unix)]
    #[test]
    fn what_is_no_program_is_named() {
        let why = |path: &str| cannot_start(OsStr::new(path), None).unwrap();
        assert_eq!(why("/").0, "`/` is a folder, not a program");
        assert_eq!(why("/dev/null").0, "`/dev/null` is not a program");
        let (why, hint) = why("./Cargo.toml");
        assert_eq!(why, "the file `./Cargo.toml` is not executable");
        assert_eq!(hint, "make it executable with `chmod +x`");
    }

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
