//! The program as a child process, killed at a given byte or step.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tempfile::NamedTempFile;

use crate::support::sessions::client::{Client, lines};
use crate::support::sessions::random::Random;
use crate::support::sessions::seen::{Asked, Seen};

/// When to kill.
#[derive(Clone, Debug)]
pub(crate) enum Kill {
    /// When so many bytes more have come.
    Bytes(usize),
    /// As soon as this step's request is written.
    Step(usize),
}

impl Kill {
    /// Any moment: mostly an early one, sometimes in the middle of much.
    pub(crate) fn any(random: &mut Random) -> Self {
        if random.once_in(4) {
            Self::Step(random.below(16))
        } else {
            let bits = 4 + random.below(16);
            Self::Bytes(random.below(1 << bits))
        }
    }

    /// Whether it is to happen right behind this step.
    pub(crate) fn is_due(&self, step: usize) -> bool {
        matches!(self, Self::Step(at) if *at == step)
    }
}

/// How the program is started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Modes {
    durability: &'static str,
    replay: &'static str,
    /// How much is read at once.
    block: usize,
}

impl Modes {
    pub(crate) fn any(random: &mut Random) -> Self {
        Self {
            durability: random.one_of(&["os", "turn", "each"]),
            replay: random.one_of(&["merged", "exact"]),
            block: random.one_of(&[16, 500, 4096, 64 * 1024]),
        }
    }
}

/// The program at work.
pub(crate) struct Process {
    pub(crate) client: Client,
    child: Arc<Mutex<Child>>,
    /// What it says to people.
    said: NamedTempFile,
    /// Bytes received so far, and at how many of them the kill comes.
    received: Arc<AtomicUsize>,
    limit: Arc<AtomicUsize>,
}

impl Process {
    /// Starts the program and says hello.
    pub(crate) fn start(store: &Path, modes: Modes) -> Self {
        Self::wrapping(store, modes, &[])
    }

    /// The same, with an agent that is wrapped if there is one: its command and arguments.
    pub(crate) fn wrapping(store: &Path, modes: Modes, agent: &[String]) -> Self {
        let said = NamedTempFile::new().unwrap();
        let mut program = program(store, !agent.is_empty());
        program.args(["--durability", modes.durability, "--replay", modes.replay]);
        if !agent.is_empty() {
            program.arg("--").args(agent);
        }
        let mut child = program
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(said.reopen().unwrap())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let output = child.stdout.take().unwrap();
        let child = Arc::new(Mutex::new(child));
        let received = Arc::new(AtomicUsize::new(0));
        let limit = Arc::new(AtomicUsize::new(usize::MAX));
        let (victim, count, due) = (child.clone(), received.clone(), limit.clone());
        let lines = lines(output, modes.block, move |total| {
            count.store(total, Ordering::Relaxed);
            if total >= due.load(Ordering::Relaxed) {
                victim.lock().unwrap().kill().unwrap();
            }
        });
        let mut client = Client::new(input, lines);
        client.initialize().unwrap().unwrap();
        Self {
            client,
            child,
            said,
            received,
            limit,
        }
    }

    /// Asks for something that must be done.
    #[track_caller]
    pub(crate) fn ask(&mut self, session: &str, asked: Asked) -> Value {
        match self.client.ask(session, asked) {
            Some(answer) => answer.unwrap(),
            None => panic!("it ended without a kill: {}", self.end()),
        }
    }

    /// Waits for its end, and returns how it ended.
    fn end(&mut self) -> String {
        let status = self.child.lock().unwrap().wait().unwrap();
        let said = std::fs::read(self.said.path()).unwrap();
        let said = String::from_utf8_lossy(&said);
        assert!(!said.contains("panicked"), "{said}");
        format!("{status}, and it said {said:?}")
    }

    /// Sets the kill to so many further bytes.
    pub(crate) fn kill_after(&self, kill: &Kill) {
        if let Kill::Bytes(bytes) = kill {
            let limit = self.received.load(Ordering::Relaxed) + bytes;
            self.limit.store(limit, Ordering::Relaxed);
        }
    }

    /// Kills it, if that did not happen yet, and takes what had left it. Answers with what was
    /// seen of each session.
    pub(crate) fn kill(mut self) -> BTreeMap<String, Seen> {
        self.child.lock().unwrap().kill().unwrap();
        self.client.drain();
        self.end();
        self.client.seen
    }

    /// Waits for it to end on its own.
    pub(crate) fn leave(mut self) {
        self.client.leave();
        let end = self.end();
        // Windows calls it a code.
        let clean = ["exit status: 0,", "exit code: 0,"];
        assert!(clean.iter().any(|clean| end.starts_with(clean)), "{end}");
    }
}

/// The program as an agent on this store.
fn program(store: &Path, wraps: bool) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rejoin"));
    command.arg(if wraps { "wrap" } else { "serve" });
    command.arg("--store").arg(store);
    command
}
