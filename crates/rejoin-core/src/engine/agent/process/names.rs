//! The names of an agent: which one a command line starts, past programs that only start other ones, and
//! whether a name in a log is this agent's.

use std::borrow::Cow;
use std::ffi::OsString;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

/// The names of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentNames {
    /// The name, if it is known before the agent is initialized.
    name: Option<String>,
    /// The name if the agent has none in its `agentInfo`.
    fallback: String,
    /// Other names that only this agent has.
    aliases: Vec<String>,
    /// Names that logs may have for this agent, but also for others.
    shared: Vec<String>,
    /// Whether the user chose the name: then no other one counts.
    chosen: bool,
}

/// The names of an agent in logs: those that are given, and what the agent reports once it is started.
#[derive(Debug)]
pub(in crate::engine::agent) struct NamesInLogs {
    pub(in crate::engine::agent) given: AgentNames,
    /// The name that the store has for it.
    stored: OnceLock<String>,
    /// The name in its `agentInfo`.
    own: OnceLock<String>,
}

impl NamesInLogs {
    /// The names of an agent that has not reported its name yet.
    pub(in crate::engine::agent) fn new(given: AgentNames) -> Self {
        Self {
            stored: given.name.clone().map(OnceLock::from).unwrap_or_default(),
            given,
            own: OnceLock::new(),
        }
    }

    /// The name that the store has for it.
    pub(in crate::engine::agent) fn name(&self) -> &str {
        self.stored.get().unwrap_or(&self.given.fallback)
    }

    /// Whether a name in a log means this agent.
    pub(in crate::engine::agent) fn means(&self, recorded: &str) -> NameMatch {
        let own = self.own.get().map(String::as_str);
        self.given.means(recorded, self.name(), own)
    }

    /// All names by which logs may know it; the one that the store has is the last.
    pub(in crate::engine::agent) fn all(&self) -> Vec<String> {
        let own = self.own.get().map(String::as_str);
        let others = self.given.all(own).filter(|name| *name != self.name());
        others.chain([self.name()]).map(str::to_owned).collect()
    }

    /// The agent was started and has reported this name, if any. The first one is kept for good, since
    /// logs have it.
    pub(in crate::engine::agent) fn set_reported(&self, own: Option<String>) {
        if let Some(own) = &own {
            self.own.set(own.clone()).ok();
        }
        let name = own.unwrap_or_else(|| self.given.fallback.clone());
        self.stored.set(name).ok();
    }
}

/// Whether a name is this agent's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine::agent) enum NameMatch {
    This,
    /// This one's or another one's: only the agent knows whether a session is its own.
    Maybe,
    Other,
}

impl AgentNames {
    /// With the name that the user chose.
    pub fn chosen(name: String) -> Self {
        Self {
            name: Some(name),
            chosen: true,
            ..Self::asked("")
        }
    }

    /// With the names of a well-known agent: the first one is stored, the others are as good.
    pub(in crate::engine) fn known(names: &[String]) -> Self {
        Self {
            name: names.first().cloned(),
            aliases: names.iter().skip(1).cloned().collect(),
            ..Self::asked("")
        }
    }

    /// Whether a name in a log is this agent's, as far as that is known before it has started.
    pub(in crate::engine) fn include(&self, recorded: &str) -> bool {
        self.means(recorded, self.name(), None) == NameMatch::This
    }

    /// The agent's name, as far as it is known before it has started.
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.fallback)
    }

    /// With names from the agent's command.
    pub fn of_command(command: &[OsString]) -> Self {
        let words = words(command);
        let word = agent(&words);
        let name = plain(&word);
        // Earlier versions of rejoin derived it in a simpler way.
        let former = first_argument(&words);
        let mut shared = vec![former];
        shared.retain(|former| *former != name);
        if !is_generic(&name) {
            return Self {
                name: Some(name),
                shared,
                ..Self::asked("")
            };
        }
        shared.push(name.clone());
        let package = package(&word);
        Self {
            aliases: package.clone().into_iter().collect(),
            shared,
            ..Self::asked(&package.unwrap_or(name))
        }
    }

    /// Whether a command line starts the program of this name, perhaps by way of others.
    pub fn starts(command: &[OsString], program: &str) -> bool {
        plain(&agent(&words(command))) == program
    }

    /// The name of the program that a command line starts, for display.
    pub fn program(command: &[OsString]) -> String {
        first_argument(&words(command))
    }

    /// With the name that the agent reports, or else `fallback`.
    pub(in crate::engine::agent) fn asked(fallback: &str) -> Self {
        Self {
            name: None,
            fallback: fallback.to_owned(),
            aliases: Vec::new(),
            shared: Vec::new(),
            chosen: false,
        }
    }

    /// Whether `recorded` is a name of the agent that is stored as `name` and reports itself as `own`.
    fn means(&self, recorded: &str, name: &str, own: Option<&str>) -> NameMatch {
        if self.chosen {
            return if recorded == name {
                NameMatch::This
            } else {
                NameMatch::Other
            };
        }
        let shared = self.shared.iter().any(|shared| shared == recorded);
        let is_own = Some(recorded) == own || self.aliases.iter().any(|alias| alias == recorded);
        match recorded {
            _ if is_own => NameMatch::This,
            _ if shared => NameMatch::Maybe,
            _ if recorded == name => NameMatch::This,
            _ => NameMatch::Other,
        }
    }

    /// All names that logs may have for the agent.
    fn all<'a>(&'a self, own: Option<&'a str>) -> impl Iterator<Item = &'a str> {
        let known = self.aliases.iter().chain(&self.shared).map(String::as_str);
        known.chain(own.filter(|_| !self.chosen))
    }
}

fn words(command: &[OsString]) -> Vec<String> {
    let words = command.iter().map(|word| word.to_string_lossy());
    words.map(Cow::into_owned).collect()
}

/// The name that an agent reports, without the scope of a package; `None` if it is too generic.
pub(in crate::engine::agent) fn reported(name: &str) -> Option<String> {
    let name = plain(name.trim());
    (!is_generic(&name)).then_some(name)
}

/// A program that starts another one.
#[derive(Debug)]
struct Launcher {
    names: &'static [&'static str],
    /// Its options that are followed by a value.
    values: &'static [&'static str],
    /// Words that belong to it.
    commands: &'static [&'static str],
    /// How many of its arguments come before the program that it starts.
    arguments: usize,
}

/// Shells, which are given a whole command line.
const SHELLS: [&str; 6] = ["sh", "bash", "zsh", "dash", "fish", "ksh"];

/// Programs that run images.
const CONTAINERS: [&str; 3] = ["docker", "podman", "nerdctl"];

const LAUNCHERS: [Launcher; 9] = [
    Launcher {
        names: &[
            "env", "nohup", "setsid", "exec", "time", "cmd", "stdbuf", "ionice", "sudo", "doas",
        ],
        values: &["-u", "-C", "--unset", "--chdir", "-c", "-n", "-g", "--user"],
        commands: &["/c", "/C", "/d", "/s"],
        arguments: 0,
    },
    Launcher {
        names: &["nice"],
        values: &["-n", "--adjustment"],
        commands: &[],
        arguments: 0,
    },
    Launcher {
        names: &["timeout"],
        values: &["-k", "-s", "--kill-after", "--signal"],
        commands: &[],
        arguments: 1,
    },
    Launcher {
        names: &["npx", "bunx", "pnpx", "npm", "pnpm", "yarn"],
        values: &["-p", "--package", "--prefix", "-C", "--dir", "--cwd"],
        commands: &["exec", "x", "run", "dlx"],
        arguments: 0,
    },
    Launcher {
        names: &["node", "bun", "deno", "tsx"],
        values: &[
            "-r",
            "--require",
            "--import",
            "--loader",
            "--env-file",
            "--config",
        ],
        commands: &["run", "x"],
        arguments: 0,
    },
    Launcher {
        names: &["python", "python3", "pythonw"],
        values: &["-W", "-X"],
        commands: &[],
        arguments: 0,
    },
    Launcher {
        names: &["uv", "uvx", "pipx", "poetry", "rye"],
        values: &[
            "--directory",
            "--project",
            "--python",
            "-p",
            "--from",
            "--with",
            "--with-editable",
            "--env-file",
            "--package",
            "--spec",
        ],
        commands: &["run", "tool", "x"],
        arguments: 0,
    },
    Launcher {
        names: &["ssh"],
        values: &["-p", "-i", "-l", "-o", "-J", "-F"],
        commands: &[],
        arguments: 1,
    },
    Launcher {
        names: &["mise", "direnv"],
        values: &["-C", "--cd"],
        commands: &["exec", "x"],
        arguments: 0,
    },
];

/// Launchers that download what they run.
const DOWNLOADERS: [&str; 5] = ["npx", "bunx", "pnpx", "uvx", "pipx"];

/// How long an agent may take to start if it may have to be downloaded first.
pub const DOWNLOAD_TIMEOUT: Duration = Duration::from_mins(5);

/// Options of programs that run images that are followed by a value.
const IMAGE_VALUES: [&str; 22] = [
    "-v",
    "--volume",
    "-e",
    "--env",
    "--env-file",
    "--name",
    "-w",
    "--workdir",
    "-u",
    "--user",
    "--mount",
    "--network",
    "--net",
    "-p",
    "--publish",
    "--entrypoint",
    "--platform",
    "--pull",
    "-h",
    "--hostname",
    "-l",
    "--label",
];

/// Names of files, folders and programs that many agents share.
const COMMON: [&str; 31] = [
    "",
    "index",
    "main",
    "cli",
    "npm-loader",
    "loader",
    "server",
    "app",
    "run",
    "start",
    "agent",
    "acp",
    "bin",
    "dist",
    "build",
    "lib",
    "src",
    "out",
    "esm",
    "cjs",
    "entry",
    "entrypoint",
    "launcher",
    "bootstrap",
    "wrapper",
    "__main__",
    "mod",
    "program",
    "script",
    "release",
    "debug",
];

/// Folders that do not belong to one package.
const SHELVES: [&str; 18] = [
    "node_modules",
    ".bin",
    "home",
    "Users",
    "root",
    "opt",
    "usr",
    "local",
    "srv",
    "var",
    "tmp",
    "mnt",
    "work",
    "target",
    "site-packages",
    ".",
    "..",
    "current",
];

/// How deep commands may be nested.
const DEPTH: usize = 8;

/// Whether a name is too generic to identify an agent.
fn is_generic(name: &str) -> bool {
    let known = |names: &[&str]| names.contains(&name);
    let launcher = LAUNCHERS.iter().any(|launcher| known(launcher.names));
    let version = name.strip_prefix("python").is_some_and(is_version);
    // A name such as `cli-entry`.
    let mut words = name.split(['-', '_', '.']);
    let common = words.all(|word| COMMON.contains(&word));
    launcher || version || known(&COMMON) || common || known(&SHELLS) || known(&CONTAINERS)
}

/// Whether what a command starts may have to be downloaded first.
pub fn may_download(command: &[OsString]) -> bool {
    let program = command
        .first()
        .and_then(|program| Path::new(program).file_stem());
    program.is_some_and(|program| DOWNLOADERS.iter().any(|name| program == *name))
}

/// The word of a command line that names the agent.
fn agent(words: &[String]) -> String {
    started_by(words, DEPTH)
}

fn started_by(words: &[String], depth: usize) -> String {
    let Some((program, arguments)) = words.split_first() else {
        return String::new();
    };
    let name = plain(program);
    let next = if depth == 0 {
        None
    } else if SHELLS.contains(&&*name) {
        return shell(program, arguments, depth);
    } else if CONTAINERS.contains(&&*name) {
        return image(arguments).unwrap_or_else(|| program.clone());
    } else {
        let launcher = LAUNCHERS.iter().find(|launcher| {
            let python = launcher.names.contains(&"python");
            let version = name.strip_prefix("python").is_some_and(is_version);
            launcher.names.contains(&&*name) || python && version
        });
        launcher.and_then(|launcher| launcher.starts(arguments))
    };
    match next {
        Some(next) => started_by(next, depth - 1),
        None => program.clone(),
    }
}

impl Launcher {
    /// The command that it starts, if there is one.
    fn starts<'a>(&self, arguments: &'a [String]) -> Option<&'a [String]> {
        let mut left = positional(arguments, self.values);
        let mut skipped = 0;
        while let Some((word, rest)) = left.split_first() {
            let belongs = self.commands.contains(&&**word) || is_assignment(word);
            if !belongs {
                if skipped == self.arguments {
                    return Some(left);
                }
                skipped += 1;
            }
            left = positional(rest, self.values);
        }
        None
    }
}

/// The arguments without the options at their beginning.
fn positional<'a>(mut arguments: &'a [String], values: &[&str]) -> &'a [String] {
    while let Some((word, rest)) = arguments.split_first() {
        if word == "--" {
            return rest;
        }
        if !word.starts_with('-') {
            break;
        }
        let skipped = usize::from(values.contains(&&**word)).min(rest.len());
        arguments = &rest[skipped..];
    }
    arguments
}

/// The agent that a shell starts: by a command line or a script.
fn shell(program: &str, arguments: &[String], depth: usize) -> String {
    let script = positional(arguments, &[]);
    let is_line = arguments
        .iter()
        .take_while(|word| word.starts_with('-'))
        .any(|word| !word.starts_with("--") && word.ends_with('c'));
    let Some(first) = script.first() else {
        return program.to_owned();
    };
    if !is_line {
        return first.clone();
    }
    // Earlier commands of the line only prepare for the last one.
    let line = first.replace("&&", ";");
    let mut parts = line.rsplit(['\n', ';']);
    let last = parts.find(|part| !part.trim().is_empty());
    let words = last.unwrap_or_default().split_whitespace();
    let words: Vec<_> = words
        .map(|word| word.trim_matches(['"', '\'']).to_owned())
        .skip_while(|word| is_assignment(word))
        .collect();
    if words.is_empty() {
        return program.to_owned();
    }
    started_by(&words, depth - 1)
}

/// The image that is run, or the program that is started in a container.
fn image(arguments: &[String]) -> Option<String> {
    let mut left = positional(arguments, &IMAGE_VALUES);
    let mut inside = false;
    while let Some((word, rest)) = left.split_first() {
        match word.as_str() {
            "run" | "compose" | "container" => {}
            "exec" => {
                // The container comes first.
                left = positional(rest, &IMAGE_VALUES);
                left = left.get(1..)?;
                inside = true;
                continue;
            }
            _ if inside => return Some(started_by(left, DEPTH - 1)),
            _ => {
                let last = word.rsplit('/').next().unwrap_or(word);
                let name = last.split([':', '@']).next().unwrap_or(last);
                return Some(name.to_owned());
            }
        }
        left = positional(rest, &IMAGE_VALUES);
    }
    None
}

/// The package that a path leads into: the innermost folder with a specific name.
fn package(path: &str) -> Option<String> {
    let mut folders: Vec<_> = path.split(['/', '\\']).collect();
    folders.pop();
    while let Some(folder) = folders.pop() {
        let person = folders
            .last()
            .is_some_and(|above| matches!(*above, "home" | "Users"));
        if person || folder.starts_with('@') {
            return None;
        }
        let name = plain(folder);
        let known = is_generic(&name) || SHELVES.contains(&folder) || is_version(&name);
        if !known {
            return Some(name);
        }
    }
    None
}

/// The name that earlier versions derived from a command; their logs have it.
fn first_argument(words: &[String]) -> String {
    const RUNNERS: [&str; 12] = [
        "npx", "bunx", "uvx", "pnpx", "node", "bun", "deno", "python", "python3", "env", "npm",
        "uv",
    ];
    let mut words = words.iter();
    let name = words.next().map(|word| plain(word)).unwrap_or_default();
    if !RUNNERS.contains(&name.as_str()) {
        return name;
    }
    let runs = |word: &str| matches!(word, "run" | "exec" | "x" | "tool");
    let passed = |word: &str| word.starts_with('-') || word.contains('=') || runs(word);
    let agent = words.find(|word| !passed(word));
    agent.map_or(name, |agent| plain(agent))
}

/// The last part of a path or a package's name, without an extension or a version.
fn plain(word: &str) -> String {
    let last = word.rsplit(['/', '\\']).next().unwrap_or(word);
    let last = last
        .split('@')
        .find(|part| !part.is_empty())
        .unwrap_or(last);
    let stem = Path::new(last).file_stem();
    let script = [".js", ".mjs", ".cjs", ".ts", ".py", ".sh", ".exe", ".cmd"];
    match stem {
        Some(stem) if script.iter().any(|end| last.ends_with(end)) => {
            stem.to_string_lossy().into_owned()
        }
        _ => last.to_owned(),
    }
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}

fn is_version(name: &str) -> bool {
    let name = name.strip_prefix('v').unwrap_or(name);
    name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_digit() || c == '.')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(command: &str) -> AgentNames {
        let words: Vec<_> = command.split(' ').map(OsString::from).collect();
        AgentNames::of_command(&words)
    }

    #[test]
    fn a_name_that_says_something_is_the_agents() {
        let names = names("npx -y @google/gemini-cli --acp");
        assert_eq!(names.name.as_deref(), Some("gemini-cli"));
        let means = |recorded| names.means(recorded, "gemini-cli", Some("Gemini"));
        assert_eq!(means("gemini-cli"), NameMatch::This);
        assert_eq!(means("Gemini"), NameMatch::This);
        assert_eq!(means("index"), NameMatch::Other);
    }

    #[test]
    fn a_name_that_says_nothing_is_shared() {
        let names = names("node /opt/node_modules/@zed/claude-agent-acp/dist/index.js");
        assert_eq!(
            (names.name.as_deref(), &*names.fallback),
            (None, "claude-agent-acp")
        );
        let means = |recorded| names.means(recorded, "Claude", Some("Claude"));
        assert_eq!(means("Claude"), NameMatch::This);
        assert_eq!(means("claude-agent-acp"), NameMatch::This);
        assert_eq!(means("index"), NameMatch::Maybe);
        assert_eq!(means("codex-acp"), NameMatch::Other);
        let all: Vec<_> = names.all(Some("Claude")).collect();
        assert_eq!(all, ["claude-agent-acp", "index", "Claude"]);
    }

    #[test]
    fn names_of_earlier_versions_are_shared() {
        let names = names("uv run --directory /srv/agents opencode acp");
        let means = |recorded| names.means(recorded, "opencode", None);
        assert_eq!(means("opencode"), NameMatch::This);
        assert_eq!(means("agents"), NameMatch::Maybe);
    }

    #[test]
    fn a_chosen_name_is_the_only_one() {
        let names = AgentNames::chosen("index".to_owned());
        let means = |recorded| names.means(recorded, "index", Some("Claude"));
        assert_eq!(means("index"), NameMatch::This);
        assert_eq!(means("Claude"), NameMatch::Other);
        assert_eq!(names.all(Some("Claude")).count(), 0);
    }

    #[test]
    fn what_an_agent_calls_itself_is_plain() {
        assert_eq!(
            reported("@agentclientprotocol/codex-acp").as_deref(),
            Some("codex-acp")
        );
        assert_eq!(
            reported("GitHub Copilot").as_deref(),
            Some("GitHub Copilot")
        );
        assert_eq!((reported(" "), reported("index")), (None, None));
    }

    fn split(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn an_agent_has_one_name_however_it_is_started() {
        for (line, name) in [
            ("claude-agent-acp", "claude-agent-acp"),
            ("/usr/local/bin/gemini --acp", "gemini"),
            (
                "npx -y @agentclientprotocol/claude-agent-acp@0.100.0",
                "claude-agent-acp",
            ),
            ("npx @google/gemini-cli --acp", "gemini-cli"),
            ("npx --package=@x/tools -p y gemini --acp", "gemini"),
            ("npm exec -- @google/gemini-cli", "gemini-cli"),
            ("node --no-warnings /opt/agent/index.mjs", "index"),
            ("node -r ./hook.js pi-acp.js", "pi-acp"),
            ("uvx hermes-acp", "hermes-acp"),
            ("uvx --from hermes-agent[acp] hermes-acp", "hermes-acp"),
            ("uv run --directory /srv/x vibe-acp", "vibe-acp"),
            ("uv tool run vibe-acp", "vibe-acp"),
            ("env -u HOME A=b opencode acp", "opencode"),
            ("env A=b nice -n 5 npx opencode-ai acp", "opencode-ai"),
            ("timeout -k 5 2h codex-acp", "codex-acp"),
            ("python3.12 -m hermes_acp", "hermes_acp"),
            (
                "docker run --rm -i -v /a:/b ghcr.io/x/goose:1.2 acp",
                "goose",
            ),
            ("docker exec -i box codex-acp", "codex-acp"),
            ("podman run --env=A image@sha256:0", "image"),
            ("ssh -p 22 host codex-acp", "codex-acp"),
            ("cmd /c npx codex-acp", "codex-acp"),
            ("codex-acp.exe", "codex-acp"),
            ("npx", "npx"),
            ("bash run-agent.sh", "run-agent"),
            ("bash -lc", "bash"),
        ] {
            assert_eq!(plain(&agent(&split(line))), name, "{line}");
        }
        for (line, name) in [
            ("cd /x && A=b exec \"codex-acp\" --flag", "codex-acp"),
            ("opencode acp 2>&1", "opencode"),
            ("nvm use 24; npx @google/gemini-cli;", "gemini-cli"),
            (" ", "bash"),
        ] {
            let words = ["bash", "-lc", line].map(str::to_owned);
            assert_eq!(plain(&agent(&words)), name, "{line}");
        }
        let mut nested = vec!["env".to_owned(); 50];
        nested.push("agent".to_owned());
        assert_eq!(agent(&nested), "env");
        assert_eq!(agent(&[]), "");
    }

    #[test]
    fn a_package_is_known_by_its_folder() {
        for (path, name) in [
            (
                "/a/node_modules/@zed/claude-agent-acp/dist/index.js",
                Some("claude-agent-acp"),
            ),
            ("/a/pi-acp@0.0.34/dist/esm/main.js", Some("pi-acp")),
            ("/opt/copilot/1.2.3/npm-loader.js", Some("copilot")),
            ("C:\\agents\\codex-acp\\dist\\index.js", Some("codex-acp")),
            ("/home/ada/index.js", None),
            ("/opt/index.js", None),
            ("index.js", None),
        ] {
            assert_eq!(package(path).as_deref(), name, "{path}");
        }
    }

    #[test]
    fn common_names_are_generic() {
        for name in [
            "index",
            "npm-loader",
            "node",
            "docker",
            "bash",
            "python3.12",
            "",
            "cli-entry",
            "acp_server.main",
        ] {
            assert!(is_generic(name), "{name}");
        }
        for name in [
            "claude-agent-acp",
            "gemini",
            "pythonista",
            "fake-agent",
            "qwen-cli",
        ] {
            assert!(!is_generic(name), "{name}");
        }
    }
}
