//! A store with its clients, the host and the agent behind them.

use std::path::PathBuf;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::peer::Peer;
use crate::support::command::{command, runs};
use crate::support::conductor;
use crate::support::sessions::random::Random;
use crate::support::systems::{is_running, kill};
use crate::support::wrapped::{self, Wrapped, until};

/// What an agent can do.
const AGENTS: [&[&str]; 5] = [
    &["--load"],
    &["--resume", "--message-ids"],
    &["--load", "--resume", "--version-2"],
    &["--version-2", "--resume"],
    &["--modes"],
];

/// The command that serves each client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// `rejoin serve`, which answers itself.
    Serve,
    /// `rejoin wrap`.
    Wrap,
    /// `rejoin agent`, which finds one agent.
    Choice,
    /// `rejoin proxy`, with a conductor and an agent for each client.
    Proxy,
}

/// A name that `rejoin agent` knows.
const CHOSEN: &str = "gemini";

/// What is the same for all clients of a session.
pub(super) struct Stage {
    folder: TempDir,
    kind: Kind,
    /// The agent, if it is not the built-in engine that answers.
    agent: Option<Wrapped>,
    /// Whether clients may have a host.
    pub(super) keeps: bool,
}

/// A client of the session.
pub(super) struct Member {
    pub(super) peer: Peer,
    /// Whether its sessions are in the host.
    pub(super) is_kept: bool,
}

impl Stage {
    /// One of all that there are.
    pub(super) fn of(seed: u64, random: &mut Random) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let flags = random.one_of(&AGENTS);
        let flags: Vec<_> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let kind = match seed % 8 {
            5 => Kind::Choice,
            7 => Kind::Proxy,
            odd if odd % 2 == 1 => Kind::Wrap,
            _ => Kind::Serve,
        };
        if kind == Kind::Choice {
            let words = [&[CHOSEN.to_owned()], &*flags].concat();
            wrapped::install(folder.path(), &words);
        }
        Self {
            agent: (kind != Kind::Serve).then(|| Wrapped::new(folder.path(), &flags)),
            // The sessions of a proxy end with its conductor.
            keeps: (seed / 2 + seed / 8) % 2 == 1 && kind != Kind::Proxy,
            kind,
            folder,
        }
    }

    pub(super) fn store(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    pub(super) fn wraps(&self) -> bool {
        self.agent.is_some()
    }

    /// A prompt that is answered with these words, or some with them.
    pub(super) fn words(&self, words: &'static str) -> &'static str {
        match (words, self.wraps()) {
            ("first", false) => "/echo first",
            ("last", false) => "/echo last",
            (words, _) => words,
        }
    }

    /// Starts a client of any kind.
    pub(super) fn any_member(&self, random: &mut Random) -> Member {
        let version = random.one_of(&[1, 2]);
        self.member(version, random)
    }

    /// Starts a client that speaks this version.
    pub(super) fn member(&self, version: u8, random: &mut Random) -> Member {
        let is_kept = self.keeps && !random.once_in(3);
        let mut options = vec!["--sources", "none"];
        if is_kept {
            options.push("--keep");
        }
        let agent = self.agent.as_ref().map(Wrapped::arguments);
        let agent = agent.unwrap_or_default();
        if self.kind == Kind::Proxy {
            let own = options.iter().map(|option| (*option).to_owned());
            let arguments: Vec<_> = own.chain(agent).collect();
            let peer = Peer::with(conductor::start(&self.store(), &arguments), version);
            return Member { peer, is_kept };
        }
        let name = match self.kind {
            Kind::Wrap => "wrap",
            Kind::Choice => wrapped::CHOICE,
            Kind::Serve | Kind::Proxy => "serve",
        };
        let mut command = command(&self.store(), &[name]);
        command.args(options);
        if self.kind == Kind::Choice {
            command.env("PATH", wrapped::programs(self.folder.path()));
        } else {
            command.args(agent);
        }
        let peer = Peer::of(command, version);
        Member { peer, is_kept }
    }

    /// Whether agents may end by themselves. A conductor ends with its agent, which is as if its client
    /// were killed.
    pub(super) fn agents_may_end(&self) -> bool {
        self.kind != Kind::Proxy
    }

    /// Kills one of the agents that run, if that is possible.
    pub(super) fn kill_agent(&self, random: &mut Random) {
        if !self.agents_may_end() {
            return;
        }
        let running = self.agent.as_ref().map(Wrapped::running);
        if let Some(running) = running.filter(|running| !running.is_empty()) {
            kill(random.one_of(&running));
        }
    }

    /// Kills the host. Whether there was one.
    pub(super) fn kill_host(&self) -> bool {
        let process = self.keeps.then(|| self.live()["hosts"][0]["pid"].as_u64());
        let Some(process) = process.flatten().and_then(|id| u32::try_from(id).ok()) else {
            return false;
        };
        kill(process);
        until(|| gone(process)).unwrap();
        true
    }

    /// What is live.
    fn live(&self) -> Value {
        serde_json::from_str(&runs(&self.store(), &["ps", "--json"])).unwrap()
    }

    /// Ends the host. No process is left then.
    pub(super) fn ends(&self) {
        if self.keeps {
            runs(&self.store(), &["stop", "--all"]);
        }
        let live = self.live();
        assert_eq!(live["sessions"], json!([]));
        assert_eq!(live["hosts"], json!([]));
        if let Some(agent) = &self.agent {
            agent.gone().unwrap();
        }
        until(|| self.processes().into_iter().try_for_each(gone)).unwrap();
    }

    /// The processes that name this store, where the system lists them.
    fn processes(&self) -> Vec<u32> {
        let store = self.store();
        let store = store.to_str().unwrap();
        let listed = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let names_it = |id: &u32| {
            let command = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&command).contains(store)
        };
        let ids = listed.filter_map(|file| file.file_name().to_str()?.parse().ok());
        ids.filter(names_it).collect()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        for process in self.processes() {
            kill(process);
        }
    }
}

fn gone(process: u32) -> Result<(), String> {
    if is_running(process) {
        return Err(format!("process {process} is still there"));
    }
    Ok(())
}
