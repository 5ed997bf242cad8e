//! A subprocess with pipes: starts it, drains its stderr, ends it with all its children.

use std::io::{self, BufRead, BufReader, Read};
use std::process::{ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::engine::upstream::Patience;
use crate::sys::lock;

use super::group::{Group, Status, spawn, start_guard};
use super::launch::Launch;
use super::output::{FirstAnswer, ProcessInput, ProcessOutput, end};

/// How long we wait for a process to exit after its input was closed. Then its guard waits in our
/// place, so that a client that waits for our own exit is not held up.
const EXIT_GRACE: Duration = Duration::from_millis(400);

/// How long it may take to exit after SIGTERM, before it is killed.
const TERM_TIMEOUT: Duration = Duration::from_millis(200);

/// The capacity of the process's output pipe, in bytes.
#[cfg(target_os = "linux")]
const PIPE_CAPACITY: usize = 512 * 1024;

/// How much of one line of stderr is kept, in bytes.
const STDERR_LINE: usize = 64 * 1024;

/// How much of the end of a longer line is left out, in bytes: a secret that is cut in two would
/// not be recognized there.
const STDERR_LINE_END: usize = 8 * 1024;

/// How many of the last lines of stderr are shown with the error that the process ended.
const STDERR_LINES: usize = 10;

/// A subprocess. Dropping it kills it, unless it was left to its guard.
#[derive(Debug)]
pub(in crate::engine) struct Child {
    group: Group,
    first_answer: FirstAnswer,
    stderr: Arc<Stderr>,
    /// How long it may take to exit after its input was closed.
    exit_timeout: Duration,
}

/// Gets each line of the process's stderr and returns the part that may be kept.
pub(in crate::engine) type StderrFilter = Box<dyn Fn(&str) -> String + Send>;

/// The last lines of a process's stderr.
#[derive(Debug, Default)]
struct Stderr(Mutex<Vec<String>>);

impl Child {
    /// Starts a command of `launch` in a process group of its own. `exit_timeout` is how long it may take to
    /// exit after its input was closed.
    pub(in crate::engine) fn start(
        mut command: Command,
        launch: &Launch,
        exit_timeout: Duration,
        filter: StderrFilter,
    ) -> io::Result<(Self, ProcessInput, ProcessOutput<ChildStdout>)> {
        // First, since nothing would end a process that was started.
        let (end, ending) = end()?;
        let end_for_errors = end.try_clone()?;
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut process = spawn(&mut command)?;
        let missing = || io::Error::from(io::ErrorKind::BrokenPipe);
        let input = ProcessInput::new(process.stdin.take().ok_or_else(missing)?);
        let output = process.stdout.take().ok_or_else(missing)?;
        let errors = process.stderr.take().ok_or_else(missing)?;
        widen(&output);
        let outputs = [shared(&output), shared(&errors)];
        let guard = start_guard(launch, &process, exit_timeout, outputs);
        let errors = ProcessOutput::new(errors, input.watch(end_for_errors));
        let stderr = Arc::new(Stderr::default());
        let lines = stderr.clone();
        let group = Group::new(
            process,
            guard,
            move |is_success| ending.report(is_success),
            move || drain(errors, &lines, &filter),
        )?;
        let child = Self {
            group,
            first_answer: input.first_answer(),
            stderr,
            exit_timeout,
        };
        let output = ProcessOutput::new(output, input.watch(end));
        Ok((child, input, output))
    }

    /// Waits until the process has ended, and returns how.
    pub(in crate::engine) async fn ended(&self) -> String {
        let status = self.group.ended().await;
        status.map_or_else(|| "it is gone".to_owned(), |status| in_words(&status))
    }

    /// How the process ended, if it has.
    pub(in crate::engine) fn how(&self) -> Option<String> {
        self.group.status().map(|status| in_words(&status))
    }

    /// Takes note that the process, or what it has started in its place, has answered.
    pub(in crate::engine) fn note_first_answer(&self) {
        self.first_answer.came();
    }

    pub(in crate::engine) fn has_ended(&self) -> bool {
        self.group.status().is_some()
    }

    /// The last lines of its stderr.
    pub(in crate::engine) fn stderr_tail(&self) -> Vec<String> {
        lock(&self.stderr.0).clone()
    }

    /// Ends the process and its children. Its input must have been closed before.
    pub(in crate::engine) async fn end(&self, patience: Patience) {
        if patience == Patience::EndOfInput && self.group.ends_within(EXIT_GRACE).await {
            return;
        }
        self.group.terminate(TERM_TIMEOUT).await;
    }

    /// Ends the process, or leaves that to its guard, because our own process is about to exit. Its
    /// input must have been closed before.
    pub(in crate::engine) async fn leave(&self, patience: Patience) {
        if patience == Patience::EndOfInput && self.group.ends_within(EXIT_GRACE).await {
            return;
        }
        if patience == Patience::Hurry && self.group.ask(TERM_TIMEOUT).await {
            return;
        }
        if self.group.leave() || self.group.ends_within(self.exit_timeout).await {
            return;
        }
        self.end(Patience::Hurry).await;
    }

    /// Kills the process at once.
    pub(in crate::engine) fn kill(&self) {
        self.group.kill();
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
    rustix::pipe::fcntl_setpipe_size(output, PIPE_CAPACITY).ok();
}

#[cfg(not(target_os = "linux"))]
fn widen(_: &std::process::ChildStdout) {}

/// Reads a process's stderr to its end.
fn drain(errors: impl Read, lines: &Stderr, filter: &StderrFilter) {
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
        let text = filter(text);
        let mut lines = lock(&lines.0);
        if lines.len() == STDERR_LINES {
            lines.remove(0);
        }
        lines.push(text.chars().filter(|c| !c.is_control()).take(300).collect());
    }
}

/// Reads a line, or the beginning of one that is too long. Returns how many bytes were read.
fn take_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<usize> {
    let limit = STDERR_LINE as u64;
    let mut read = input.by_ref().take(limit).read_until(b'\n', line)?;
    if read < STDERR_LINE || line.last() == Some(&b'\n') {
        return Ok(read);
    }
    line.truncate(STDERR_LINE - STDERR_LINE_END);
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

fn in_words(status: &Status) -> String {
    match &**status {
        Ok(status) => status.to_string(),
        Err(error) => format!("it cannot be waited for: {error}"),
    }
}
