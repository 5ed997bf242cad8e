//! `rejoin setup import`: `rejoin import --watch` as a service of the user, which the system starts at each
//! login.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::cli::exit::Failure;
use crate::cli::helper;
use crate::cli::programs::on_path;
use crate::cli::sources;
use crate::cli::term::{Output, STRONG, printable};

use super::secrets::SettingsSecrets;
use super::{EditorFolders, SettingsFile, Setup, path_shown, show};

/// The name of the unit of systemd.
const UNIT: &str = "rejoin-import.service";
/// How long a command of the program that runs services may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// The name of the agent of launchd.
const LABEL: &str = "rejoin.import";

/// The program that runs services of the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServiceManager {
    Systemd,
    Launchd,
}

impl ServiceManager {
    /// The one of this system, if it has one.
    fn here() -> Option<Self> {
        let manager = if cfg!(target_os = "macos") {
            Self::Launchd
        } else {
            Self::Systemd
        };
        on_path(manager.program()).map(|_| manager)
    }

    fn program(self) -> &'static str {
        match self {
            Self::Systemd => "systemctl",
            Self::Launchd => "launchctl",
        }
    }

    /// The file with the service.
    fn file(self, folders: &EditorFolders) -> PathBuf {
        match self {
            Self::Systemd => folders.config.join("systemd/user").join(UNIT),
            Self::Launchd => {
                let agents = folders.home.join("Library/LaunchAgents");
                agents.join(format!("{LABEL}.plist"))
            }
        }
    }

    /// The arguments of the commands that start the service, also if it runs with other settings.
    fn start(self, file: &Path) -> Vec<Vec<String>> {
        match self {
            Self::Systemd => vec![
                words(&["--user", "daemon-reload"]),
                words(&["--user", "enable", UNIT]),
                words(&["--user", "restart", UNIT]),
            ],
            Self::Launchd => vec![words(&["bootstrap", &domain(), &file.to_string_lossy()])],
        }
    }

    /// The arguments of the commands that end the service, which may not run.
    fn stop(self) -> Vec<Vec<String>> {
        match self {
            Self::Systemd => vec![words(&["--user", "disable", "--now", UNIT])],
            Self::Launchd => vec![words(&["bootout", &format!("{}/{LABEL}", domain())])],
        }
    }

    /// The text of a service that runs this command with these variables.
    fn service(self, command: &[String], variables: &[(&str, String)]) -> String {
        match self {
            Self::Systemd => unit(command, variables),
            Self::Launchd => property_list(command, variables),
        }
    }

    /// Runs a command of its program.
    fn run(self, arguments: &[String]) -> Result<(), Failure> {
        let line = format!("{} {}", self.program(), arguments.join(" "));
        let run = helper::run(Command::new(self.program()).args(arguments), PATIENCE);
        let end = run.map_err(|error| Failure::new(format!("cannot run `{line}`: {error}")))?;
        let Some(end) = end else {
            let seconds = PATIENCE.as_secs();
            let why = format!("`{line}` has not ended after {seconds} seconds, and was killed");
            return Err(Failure::new(why));
        };
        if end.status.success() {
            return Ok(());
        }
        let said = printable(end.said.trim());
        Err(Failure::new(format!("`{line}` has failed: {said}")))
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// What launchd runs for the user who is logged in.
fn domain() -> String {
    #[cfg(unix)]
    let user = rustix::process::getuid().as_raw();
    #[cfg(not(unix))]
    let user = 0;
    format!("gui/{user}")
}

fn unit(command: &[String], variables: &[(&str, String)]) -> String {
    let quoted = |text: &str| {
        let text = text.replace('\\', r"\\").replace('"', "\\\"");
        format!("\"{}\"", text.replace('\n', r"\n").replace('%', "%%"))
    };
    let command: Vec<_> = command
        .iter()
        .map(|word| quoted(&word.replace('$', "$$")))
        .collect();
    let mut text = format!(
        "[Unit]\nDescription=Copies conversations of other tools into rejoin's store\n\n\
         [Service]\nExecStart={}\n",
        command.join(" ")
    );
    for (name, value) in variables {
        writeln!(text, "Environment={}", quoted(&format!("{name}={value}"))).ok();
    }
    text + "Restart=on-failure\nNice=10\n\n[Install]\nWantedBy=default.target\n"
}

fn property_list(command: &[String], variables: &[(&str, String)]) -> String {
    let string = |text: &str| {
        let text = text.replace('&', "&amp;").replace('<', "&lt;");
        let text = text.replace('>', "&gt;");
        format!("<string>{text}</string>\n")
    };
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<plist version=\"1.0\">\n<dict>\n\
         <key>Label</key>\n{}<key>ProgramArguments</key>\n<array>\n",
        string(LABEL)
    );
    text.extend(command.iter().map(|word| string(word)));
    text += "</array>\n";
    if !variables.is_empty() {
        text += "<key>EnvironmentVariables</key>\n<dict>\n";
        for (name, value) in variables {
            write!(text, "<key>{name}</key>\n{}", string(value)).ok();
        }
        text += "</dict>\n";
    }
    text + "<key>RunAtLoad</key>\n<true/>\n<key>KeepAlive</key>\n<dict>\n\
            <key>SuccessfulExit</key>\n<false/>\n</dict>\n<key>LowPriorityIO</key>\n<true/>\n\
            </dict>\n</plist>\n"
}

impl Setup<'_> {
    /// Installs the service, or removes it, if the user agrees.
    pub(super) fn import(&self, output: &mut Output) -> Result<(), Failure> {
        let manager = ServiceManager::here().ok_or_else(|| {
            Failure::new("there is neither systemd nor launchd here, which would run the service")
                .hint("let `rejoin import --watch` run in the background when you log in")
        })?;
        let file = SettingsFile::read(manager.file(self.folders))?;
        let shown = path_shown(file.path(), output);
        let title = output.look().paint(STRONG, "Service");
        output.line(format!("{title}  {shown}"))?;
        let old = file.text().unwrap_or_default();
        let new = if self.args.undo {
            String::new()
        } else {
            let import = ["import".to_owned()].into_iter();
            let options = self.options.iter().cloned();
            let command = [self.rejoin.path.clone()].into_iter().chain(import);
            let command: Vec<_> = command
                .chain(options)
                .chain(["--watch".to_owned()])
                .collect();
            manager.service(&command, &sources::folders("all"))
        };
        if self.args.undo && file.text().is_none() {
            return output.say("  it is not installed");
        }
        output.line("")?;
        show(old, &new, &SettingsSecrets::default(), output)?;
        let (stop, start) = (manager.stop(), manager.start(file.path()));
        let commands = if self.args.undo { &stop } else { &start };
        output.line("")?;
        for command in commands {
            let line = format!("{} {}", manager.program(), command.join(" "));
            output.line(format!("  {}", printable(&line)))?;
        }
        if !self.may_change(&shown, output)? {
            return Ok(());
        }
        if self.args.undo {
            let stopped = stop.iter().try_for_each(|command| manager.run(command));
            file.remove()?;
            if manager == ServiceManager::Systemd {
                manager.run(&words(&["--user", "daemon-reload"])).ok();
            }
            output.say(format!("Removed {shown}."))?;
            return stopped;
        }
        file.replace(&new)?;
        if manager == ServiceManager::Launchd {
            // A service that runs with other settings has to end first.
            stop.iter()
                .try_for_each(|command| manager.run(command))
                .ok();
        }
        if let Err(failure) = start.iter().try_for_each(|command| manager.run(command)) {
            // What does not run is not left behind.
            SettingsFile::read(file.path().to_owned())?.remove()?;
            return Err(failure.hint(
                "nothing is installed; let `rejoin import --watch` run in the background when you log in",
            ));
        }
        output.say("Conversations of other tools are copied into the store from now on.")?;
        output.say("`rejoin setup import --undo` ends this; the copies stay.")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn command() -> Vec<String> {
        words(&[
            "/opt/my tools/rejoin",
            "import",
            "--store",
            "/srv/50% \"a\"/$b",
            "--watch",
        ])
    }

    #[test]
    fn a_unit_of_systemd_quotes_what_means_something_there() {
        let variables = [("CODEX_HOME", "/srv/a b/100%".to_owned())];
        let text = unit(&command(), &variables);
        let has = |line: &str| assert!(text.lines().any(|found| found == line), "{text}");
        has(
            r#"ExecStart="/opt/my tools/rejoin" "import" "--store" "/srv/50%% \"a\"/$$b" "--watch""#,
        );
        has(r#"Environment="CODEX_HOME=/srv/a b/100%%""#);
        has("WantedBy=default.target");
    }

    /// The members of a dictionary of a property list, whose keys are before their values.
    fn members<'a>(dict: roxmltree::Node<'a, 'a>) -> BTreeMap<&'a str, roxmltree::Node<'a, 'a>> {
        assert_eq!(dict.tag_name().name(), "dict");
        let parts: Vec<_> = dict
            .children()
            .filter(roxmltree::Node::is_element)
            .collect();
        let pairs = parts.chunks(2).map(|pair| {
            assert_eq!(pair[0].tag_name().name(), "key");
            (pair[0].text().unwrap(), pair[1])
        });
        pairs.collect()
    }

    fn string<'a>(node: &roxmltree::Node<'a, 'a>) -> &'a str {
        assert_eq!(node.tag_name().name(), "string");
        node.text().unwrap()
    }

    #[test]
    fn a_property_list_of_launchd_has_the_service_as_its_parser_reads_it() {
        let command = words(&[
            "/opt/a&b ]]>/rejoin",
            "import",
            "--store",
            "/srv/<x>",
            "--watch",
        ]);
        let variables = [("CODEX_HOME", "/srv/\"50%\" & more".to_owned())];
        let text = property_list(&command, &variables);
        let parsed = roxmltree::Document::parse(&text).unwrap();
        let root = parsed.root_element();
        let name = (root.tag_name().name(), root.attribute("version"));
        assert_eq!(name, ("plist", Some("1.0")));
        let service = members(root.first_element_child().unwrap());
        assert_eq!(string(&service["Label"]), LABEL);
        let arguments = service["ProgramArguments"];
        assert_eq!(arguments.tag_name().name(), "array");
        let arguments = arguments.children().filter(roxmltree::Node::is_element);
        let arguments: Vec<_> = arguments.map(|word| string(&word).to_owned()).collect();
        assert_eq!(arguments, command);
        let environment = members(service["EnvironmentVariables"]);
        assert_eq!(string(&environment["CODEX_HOME"]), variables[0].1);
        for name in ["RunAtLoad", "LowPriorityIO"] {
            assert_eq!(service[name].tag_name().name(), "true", "{name}");
        }
        let kept = members(service["KeepAlive"]);
        assert_eq!(kept["SuccessfulExit"].tag_name().name(), "false");
        assert!(!property_list(&command, &[]).contains("EnvironmentVariables"));
    }
}
