//! A subprocess with pipes: starts it, drains its stderr, ends it with all its children.

use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tokio::sync::watch;

use crate::engine::relay::Patience;
use crate::sys::lock;

use super::guard::Guard;
use super::signal::{Signal, signal};

/// How long we wait for a process to exit after its input was closed. Then its guard waits in our
/// place, so that a client that waits for our own exit is not held up.
const LEAVES: Duration = Duration::from_millis(400);

/// How long it may take to exit after SIGTERM, before it is killed.
const OBEYS: Duration = Duration::from_millis(200);

/// The capacity of the process's output pipe, in bytes.
#[cfg(target_os = "linux")]
const ROOM: usize = 512 * 1024;

/// How much of one line of stderr is kept, in bytes.
const SAID_LINE: usize = 64 * 1024;

/// How much of the end of a longer line is left out, in bytes: a secret that is cut in two would
/// not be recognized there.
const SAID_END: usize = 8 * 1024;

/// How many of the last lines of stderr are shown with the error that the process ended.
const SAID_LAST: usize = 5;

/// A subprocess. Dropping it kills it, unless it was left to its guard.
#[derive(Debug)]
pub(in crate::engine) struct Child {
    id: u32,
    ended: watch::Receiver<Option<String>>,
    said: Arc<Said>,
    /// How long it may take to exit after its input was closed.
    exit_timeout: Duration,
    guarded: bool,
    /// Whether the process was left to its guard.
    left: AtomicBool,
}

/// The ends of a process's pipes.
pub(in crate::engine) type Pipes = (ChildStdin, ChildStdout);

/// Gets each line of the process's stderr and returns what may be kept of it.
pub(in crate::engine) type Heard = Box<dyn Fn(&str) -> String + Send>;

/// The last lines of a process's stderr.
#[derive(Debug, Default)]
struct Said(Mutex<Vec<String>>);

impl Child {
    /// Starts the command in a process group of its own, with `guard`, if given, as its guard
    /// program. `exit_timeout` is how long it may take to exit after its input was closed.
    pub(in crate::engine) fn start(
        mut command: Command,
        guard: Option<&Path>,
        exit_timeout: Duration,
        heard: Heard,
    ) -> io::Result<(Self, Pipes)> {
        command
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
        let guard = guard.and_then(|program| {
            let outputs = [shared(&output), shared(&errors)];
            let started = Guard::start(program, id, exit_timeout, outputs);
            let told = |error: &io::Error| tracing::warn!(%error, "a process has no guard");
            started.inspect_err(told).ok()
        });
        let (tell, ended) = watch::channel(None);
        let child = Self {
            id,
            ended,
            said: said.clone(),
            exit_timeout,
            // Outside of Unix, a guard cannot see that the process has ended.
            guarded: cfg!(unix) && guard.is_some(),
            left: AtomicBool::new(false),
        };
        let listener = thread::Builder::new()
            .name("rejoin-child-stderr".to_owned())
            .spawn(move || drain(errors, &said, &heard))?;
        thread::Builder::new()
            .name("rejoin-child-wait".to_owned())
            .spawn(move || {
                let status = process.wait();
                // Its children must not outlive it or hold its pipes open.
                signal(id, Signal::Kill);
                wait_briefly(&listener);
                drop(guard);
                tell.send_replace(Some(in_words(status)));
            })?;
        Ok((child, (input, output)))
    }

    /// Waits until the process has ended, and returns how.
    pub(in crate::engine) async fn ended(&self) -> String {
        let mut ended = self.ended.clone();
        match ended.wait_for(Option::is_some).await {
            Ok(how) => how.clone().unwrap_or_default(),
            Err(_) => "it is gone".to_owned(),
        }
    }

    /// How the process ended, if it has.
    pub(in crate::engine) fn how(&self) -> Option<String> {
        self.ended.borrow().clone()
    }

    pub(in crate::engine) fn has_ended(&self) -> bool {
        self.ended.borrow().is_some()
    }

    /// The last lines of its stderr, joined into one line.
    pub(in crate::engine) fn last_words(&self) -> Option<String> {
        let said = lock(&self.said.0);
        (!said.is_empty()).then(|| said.join(" | "))
    }

    /// Ends the process and its children. Its input must have been closed before.
    pub(in crate::engine) async fn end(&self, patience: Patience) {
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

    /// Ends the process, or leaves that to its guard, because our own process is about to exit. Its
    /// input must have been closed before.
    pub(in crate::engine) async fn leave(&self, patience: Patience) {
        if patience == Patience::EndOfInput && self.ends_within(LEAVES).await {
            return;
        }
        if patience == Patience::Hurry {
            signal(self.id, Signal::Ask);
            if self.ends_within(OBEYS).await {
                return;
            }
        }
        if self.guarded {
            return self.left.store(true, Ordering::Release);
        }
        if !self.ends_within(self.exit_timeout).await {
            self.end(Patience::Hurry).await;
        }
    }

    /// Kills the process at once.
    pub(in crate::engine) fn kill(&self) {
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
        if !self.left.load(Ordering::Acquire) {
            self.kill();
        }
    }
}

/// A duplicate of the pipe for the guard.
#[cfg(unix)]
fn shared(pipe: &impl std::os::fd::AsFd) -> Stdio {
    let pipe = pipe.as_fd().try_clone_to_owned();
    pipe.map_or_else(|_| Stdio::null(), Stdio::from)
}

#[cfg(not(unix))]
fn shared<T>(_: &T) -> Stdio {
    Stdio::null()
}

/// Enlarges the process's output pipe where the system supports it: fewer reads when there is much
/// output at once.
#[cfg(target_os = "linux")]
fn widen(output: &std::process::ChildStdout) {
    // If the system refuses, the pipe works with its usual capacity.
    rustix::pipe::fcntl_setpipe_size(output, ROOM).ok();
}

#[cfg(not(target_os = "linux"))]
fn widen(_: &std::process::ChildStdout) {}

/// Reads a process's stderr to its end.
fn drain(errors: impl Read, said: &Said, heard: &Heard) {
    let mut errors = BufReader::new(errors);
    let mut line = Vec::new();
    loop {
        line.clear();
        match take_line(&mut errors, &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end();
        if text.is_empty() {
            continue;
        }
        let text = heard(text);
        let mut said = lock(&said.0);
        if said.len() == SAID_LAST {
            said.remove(0);
        }
        said.push(text.chars().filter(|c| !c.is_control()).take(300).collect());
    }
}

/// Reads a line, or the beginning of one that is too long. Returns how many bytes were read.
fn take_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<usize> {
    let limit = SAID_LINE as u64;
    let mut read = input.by_ref().take(limit).read_until(b'\n', line)?;
    if read < SAID_LINE || line.last() == Some(&b'\n') {
        return Ok(read);
    }
    line.truncate(SAID_LINE - SAID_END);
    let mut rest = Vec::new();
    loop {
        rest.clear();
        let more = input.by_ref().take(limit).read_until(b'\n', &mut rest)?;
        read += more;
        if more == 0 || rest.last() == Some(&b'\n') {
            return Ok(read);
        }
    }
}

/// Waits until a thread has ended, but not for long: another process may hold the pipe open.
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
