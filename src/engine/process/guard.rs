//! A small process beside one that we have started, which ends that if we are killed.
//!
//! A wrapped agent is meant to end when its input does, and not every one does; a command that
//! runs has no input that could end. A process that is killed cannot see to it; the guard does,
//! since its own input ends with us.

use std::io::{self, Read};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::signal::{Signal, is_there, signal};

/// How long a process may take to end by itself.
const LEAVES: Duration = Duration::from_millis(1500);

/// How long it may take when it is asked to end.
const OBEYS: Duration = Duration::from_millis(500);

/// How often it is looked whether the process is gone.
const LOOK: Duration = Duration::from_millis(25);

/// A guard at work. Dropping it ends it.
#[derive(Debug)]
pub(in crate::engine) struct Guard {
    process: Child,
    input: Option<ChildStdin>,
}

impl Guard {
    /// Starts `program`, which is to call [`guard`] with the process group to be guarded.
    pub(in crate::engine) fn start(program: &Path, group: u32) -> io::Result<Self> {
        let mut command = Command::new(program);
        command
            .args(["guard", &group.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut process = command.spawn()?;
        let input = process.stdin.take();
        Ok(Self { process, input })
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.input.take());
        // It ends at once, since the process is gone.
        self.process.wait().ok();
    }
}

/// Waits until `input` ends, then sees to it that the process group ends.
pub fn guard(mut input: impl Read, group: u32) {
    let mut rest = [0; 64];
    loop {
        match input.read(&mut rest) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    if ends_within(group, LEAVES) {
        return;
    }
    signal(group, Signal::Ask);
    if !ends_within(group, OBEYS) {
        signal(group, Signal::Kill);
    }
}

fn ends_within(group: u32, time: Duration) -> bool {
    let end = Instant::now() + time;
    while is_there(group) {
        if Instant::now() >= end {
            return false;
        }
        sleep(LOOK);
    }
    true
}
