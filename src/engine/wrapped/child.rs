//! The agent's process: starts it, drains what it says to people, ends it with all its children.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tokio::sync::watch;

use crate::engine::process::{Guard, Signal, signal};
use crate::engine::relay::Patience;
use crate::sys::lock;

/// How long an agent may take to end by itself when its input has ended.
const LEAVES: Duration = Duration::from_millis(500);

/// How long it may take when it is asked to end, before it is killed.
const OBEYS: Duration = Duration::from_millis(250);

/// How much room the agent's pipe has, in bytes.
#[cfg(target_os = "linux")]
const ROOM: usize = 512 * 1024;

/// How much of one line of what it says to people is kept, in bytes.
const SAID_LINE: u64 = 4096;

/// How many lines of what it said last are shown with the error that it ended.
const SAID_LAST: usize = 5;

/// How an agent is started.
#[derive(Clone, Debug)]
pub struct Program {
    /// The command, then its arguments.
    pub command: Vec<OsString>,
    /// The program that [guards](crate::engine::process::guard) it, if one is to.
    pub guard: Option<PathBuf>,
}

/// An agent's process. Dropping it kills the process.
#[derive(Debug)]
pub(super) struct Child {
    id: u32,
    ended: watch::Receiver<Option<String>>,
    said: Arc<Said>,
}

/// The ends of an agent's pipes.
pub(super) type Pipes = (Box<dyn Write + Send>, Box<dyn Read + Send>);

/// What the agent said to people last.
#[derive(Debug, Default)]
struct Said(Mutex<Vec<String>>);

impl Child {
    /// Starts the program in a process group of its own.
    pub(super) fn start(program: &Program) -> io::Result<(Self, Pipes)> {
        let Some((name, arguments)) = program.command.split_first() else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let mut command = Command::new(name);
        command
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut process = command.spawn()?;
        let missing = || io::Error::from(io::ErrorKind::BrokenPipe);
        let input = process.stdin.take().ok_or_else(missing)?;
        let output = process.stdout.take().ok_or_else(missing)?;
        let errors = process.stderr.take().ok_or_else(missing)?;
        widen(&output);
        let said = Arc::new(Said::default());
        let id = process.id();
        let guard = program.guard.as_deref().and_then(|program| {
            let started = Guard::start(program, id);
            let told = |error: &io::Error| tracing::warn!(%error, "the agent has no guard");
            started.inspect_err(told).ok()
        });
        let (tell, ended) = watch::channel(None);
        let child = Self {
            id,
            ended,
            said: said.clone(),
        };
        let listener = thread::Builder::new()
            .name("rejoin-agent-stderr".to_owned())
            .spawn(move || drain(errors, &said))?;
        thread::Builder::new()
            .name("rejoin-agent-wait".to_owned())
            .spawn(move || {
                let status = process.wait();
                // What it has started must not outlive it, nor hold its pipes open.
                signal(id, Signal::Kill);
                wait_briefly(&listener);
                drop(guard);
                tell.send_replace(Some(in_words(status)));
            })?;
        Ok((child, (Box::new(input), Box::new(output))))
    }

    /// Waits until the process has ended, and says how.
    pub(super) async fn ended(&self) -> String {
        let mut ended = self.ended.clone();
        match ended.wait_for(Option::is_some).await {
            Ok(how) => how.clone().unwrap_or_default(),
            Err(_) => "it is gone".to_owned(),
        }
    }

    /// How the process ended, if it has.
    pub(super) fn how(&self) -> Option<String> {
        self.ended.borrow().clone()
    }

    /// Whether the process has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.borrow().is_some()
    }

    /// What it said to people last, in one line.
    pub(super) fn last_words(&self) -> Option<String> {
        let said = lock(&self.said.0);
        (!said.is_empty()).then(|| said.join(" | "))
    }

    /// Sees to it that the process ends, with all that it has started. Its input must have been
    /// closed before.
    pub(super) async fn end(&self, patience: Patience) {
        if patience == Patience::EndOfInput && self.ends_within(LEAVES).await {
            return;
        }
        signal(self.id, Signal::Ask);
        if self.ends_within(OBEYS).await {
            return;
        }
        signal(self.id, Signal::Kill);
        self.ends_within(OBEYS).await;
    }

    /// Kills the process at once.
    pub(super) fn kill(&self) {
        if !self.has_ended() {
            signal(self.id, Signal::Kill);
        }
    }

    async fn ends_within(&self, time: Duration) -> bool {
        tokio::time::timeout(time, self.ended()).await.is_ok()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Gives the agent's pipe more room than usual, where the system can: the fewer times it is emptied
/// the better for an agent that says much at once.
#[cfg(target_os = "linux")]
fn widen(output: &std::process::ChildStdout) {
    // A system that refuses has its reasons; the pipe works all the same.
    rustix::pipe::fcntl_setpipe_size(output, ROOM).ok();
}

#[cfg(not(target_os = "linux"))]
fn widen(_: &std::process::ChildStdout) {}

/// Reads what the agent says to people into our own log.
fn drain(errors: impl Read, said: &Said) {
    let mut errors = BufReader::new(errors);
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut errors).take(SAID_LINE).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end();
        if text.is_empty() {
            continue;
        }
        tracing::info!(target: "rejoin::agent", "{}", text.escape_debug());
        let mut said = lock(&said.0);
        if said.len() == SAID_LAST {
            said.remove(0);
        }
        said.push(text.chars().filter(|c| !c.is_control()).take(300).collect());
    }
}

/// Waits until a thread has ended; not for long, since a pipe may be held by somebody else.
fn wait_briefly(listener: &thread::JoinHandle<()>) {
    for _ in 0..20 {
        if listener.is_finished() {
            return;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

fn in_words(status: io::Result<ExitStatus>) -> String {
    match status {
        Ok(status) => status.to_string(),
        Err(error) => format!("it cannot be waited for: {error}"),
    }
}
