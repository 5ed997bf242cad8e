//! A small process that ends another one after we have exited.
//!
//! A wrapped agent should exit when its input ends. Not every agent does, and some take longer than
//! a client waits for us. A running shell command has no input that could end. The guard's own
//! input ends when we exit, for whatever reason. Then the guard waits for the process, and ends it.

use std::io::{self, Read};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::group::spawn;
use super::signal::{Signal, is_there, signal};

/// How long a process may take to exit by itself, unless the caller sets another time.
pub const LEAVES: Duration = Duration::from_millis(1500);

/// How long it may take to exit after SIGTERM.
const GUARD_PATIENCE: Duration = Duration::from_millis(500);

/// How often the guard checks whether the process has exited.
const POLL_INTERVAL: Duration = Duration::from_millis(25);

/// A running guard. Dropping it ends it.
#[derive(Debug)]
pub(in crate::engine) struct Guard {
    process: Child,
    input: Option<ChildStdin>,
}

impl Guard {
    /// Starts `program`, which is to call [`guard`] with the guarded process group and the time in
    /// which that may exit by itself. The guard inherits `outputs`, the read ends of the process's
    /// pipes, as its own stdout and stderr, so that the process can still write after we have
    /// exited.
    pub(in crate::engine) fn start(
        mut program: Command,
        group: u32,
        leaves: Duration,
        outputs: [Stdio; 2],
    ) -> io::Result<Self> {
        let [output, errors] = outputs;
        program
            .args(["guard", &group.to_string(), &leaves.as_millis().to_string()])
            .stdin(Stdio::piped())
            .stdout(output)
            .stderr(errors);
        let mut process = spawn(&mut program)?;
        let input = process.stdin.take();
        Ok(Self { process, input })
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.input.take());
        // The guard exits at once, since the process has ended.
        self.process.wait().ok();
    }
}

/// Waits until `input` ends, then ends the process group: waits `leaves` for it to exit by itself,
/// then sends signals. What the group writes to `outputs` meanwhile is discarded.
pub fn guard(
    mut input: impl Read,
    outputs: impl IntoIterator<Item = impl Read + Send + 'static>,
    group: u32,
    leaves: Duration,
) {
    let mut rest = [0; 64];
    loop {
        match input.read(&mut rest) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    drain(outputs);
    if ends_within(group, leaves) {
        return;
    }
    signal(group, Signal::Ask);
    if !ends_within(group, GUARD_PATIENCE) {
        signal(group, Signal::Kill);
    }
}

/// Discards what the process still writes: a full pipe would block it.
fn drain(outputs: impl IntoIterator<Item = impl Read + Send + 'static>) {
    for mut output in outputs {
        // A pipe that cannot be read cannot block the process.
        std::thread::spawn(move || io::copy(&mut output, &mut io::sink()));
    }
}

fn ends_within(group: u32, time: Duration) -> bool {
    let end = Instant::now() + time;
    while is_there(group) {
        if Instant::now() >= end {
            return false;
        }
        sleep(POLL_INTERVAL);
    }
    true
}
