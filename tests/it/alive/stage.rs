//! A store whose processes have less of something than they need.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::keep::Served;
use crate::support::command::{command, runs};
use crate::support::wrapped::{self, Wrapped};

/// A name that `rejoin agent` knows.
const CHOSEN: &str = "gemini";

/// The command that serves a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// `rejoin serve`, which answers itself.
    Serve,
    /// `rejoin wrap`.
    Wrap,
    /// `rejoin agent`, which finds one agent.
    Choice,
}

pub(super) const KINDS: [Kind; 3] = [Kind::Serve, Kind::Wrap, Kind::Choice];

/// A store and what serves its clients. No process of it outlives a test.
pub(super) struct Stage {
    pub(super) folder: TempDir,
    pub(super) kind: Kind,
    pub(super) store: PathBuf,
    agent: Wrapped,
}

impl Stage {
    /// A store in a folder of the test.
    pub(super) fn new(kind: Kind) -> Self {
        let folder = tempfile::tempdir().expect("folders can be made");
        let store = folder.path().join("store");
        Self::at(kind, folder, store)
    }

    /// A store in this place, which may be outside of the folder with everything else.
    pub(super) fn at(kind: Kind, folder: TempDir, store: PathBuf) -> Self {
        if kind == Kind::Choice {
            wrapped::install(folder.path(), &[CHOSEN.to_owned()]);
        }
        let agent = Wrapped::new(folder.path(), &[]);
        Self {
            folder,
            kind,
            store,
            agent,
        }
    }

    /// The command that serves a client, with these options and within these limits of the shell's
    /// command `ulimit`, if there are any.
    pub(super) fn command(&self, options: &[&str], limits: &str) -> Command {
        let name = match self.kind {
            Kind::Serve => "serve",
            Kind::Wrap => "wrap",
            Kind::Choice => wrapped::CHOICE,
        };
        let mut serving = command(&self.store, &[name, "--sources", "none"]);
        serving.args(options);
        match self.kind {
            Kind::Serve => {}
            Kind::Wrap => {
                serving.args(self.agent.arguments());
            }
            Kind::Choice => {
                let programs = wrapped::programs(self.folder.path());
                let programs = programs.to_str().expect("folders of tests are text");
                serving.env("PATH", format!("{programs}:/bin:/usr/bin"));
            }
        }
        limited(serving, limits)
    }

    /// A client with these options, whose process has nothing to say.
    pub(super) fn client(&self, options: &[&str]) -> Served {
        let mut command = self.command(options, "");
        command.stderr(Stdio::null());
        Served::start(command, 1)
    }

    /// A prompt that is answered with these words.
    pub(super) fn say(&self, words: &str) -> String {
        match self.kind {
            Kind::Serve => format!("/echo {words}"),
            Kind::Wrap | Kind::Choice => format!("say {words}"),
        }
    }

    /// A prompt that is answered with so many updates of so many bytes.
    pub(super) fn flood(&self, updates: u32, bytes: u32) -> String {
        let slash = if self.kind == Kind::Serve { "/" } else { "" };
        format!("{slash}flood {updates} {bytes}")
    }

    /// The agents that run.
    #[cfg(target_os = "linux")]
    pub(super) fn agents(&self) -> Vec<u32> {
        self.agent.running()
    }

    /// What is live, as `rejoin ps --json` says it.
    pub(super) fn live(&self) -> Value {
        serde_json::from_str(&runs(&self.store, &["ps", "--json"])).expect("JSON")
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if self.store.exists() {
            let stopped = command(&self.store, &["stop", "--all"]).output();
            stopped.expect("the binary was built");
        }
    }
}

/// A command that runs another one within these limits.
fn limited(command: Command, limits: &str) -> Command {
    if limits.is_empty() {
        return command;
    }
    let script = format!("{limits} && exec \"$@\"");
    let mut shell = Command::new("sh");
    shell.args(["-c", &script, "sh"]);
    shell.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell
}

/// Prompts and waits for the answer.
#[track_caller]
pub(super) fn answer(client: &mut Served, session: &str, text: &str) -> Value {
    let asked = client.prompt(session, text);
    client.client.take(asked).1
}

/// Prompts, and has an answer at the end of the turn.
#[track_caller]
pub(super) fn ends(client: &mut Served, session: &str, text: &str) {
    let answer = answer(client, session, text);
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
}
