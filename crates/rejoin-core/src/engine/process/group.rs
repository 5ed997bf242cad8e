//! Starts, guards, waits for and ends a process group.

use std::io;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tokio::sync::watch;

use crate::sys::descriptors;

use super::guard::Guard;
use super::launch::Launch;
use super::signal::{Signal, is_there, signal};

/// How long a process may take to be gone after SIGKILL. It cannot ignore that, so only a busy machine
/// or a system call that hangs takes long.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// How the first process of a group ended, or why that is not known.
pub(super) type Status = Arc<io::Result<ExitStatus>>;

/// A process and all its children, as a process group. Dropping it kills the group, unless it was
/// left to its guard.
#[derive(Debug)]
pub(super) struct Group {
    id: u32,
    ended: watch::Receiver<Option<Status>>,
    guarded: bool,
    /// Whether the group was left to its guard.
    left: AtomicBool,
}

/// Starts a command in a process group of its own.
pub(super) fn spawn(command: &mut Command) -> io::Result<Child> {
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(command, 0);
    descriptors::spawn(command)
}

/// Starts the guard program, if there is one, for a process. The guard inherits `outputs`.
pub(super) fn start_guard(
    launch: &Launch,
    process: &Child,
    exit_timeout: Duration,
    outputs: [Stdio; 2],
) -> Option<Guard> {
    let program = launch.command(launch.guard.as_ref()?);
    let guard = Guard::start(program, process.id(), exit_timeout, outputs);
    guard
        .inspect_err(|error| tracing::warn!(%error, "a process has no guard"))
        .ok()
}

impl Group {
    /// Waits for the process on a thread, and reads its output by `read` on another one. `on_end` is
    /// called when the process has ended, with whether that was a success.
    pub(super) fn new(
        mut process: Child,
        guard: Option<Guard>,
        on_end: impl FnOnce(bool) + Send + 'static,
        read: impl FnOnce() + Send + 'static,
    ) -> io::Result<Self> {
        let (sender, ended) = watch::channel(None);
        let group = Self {
            id: process.id(),
            ended,
            // Outside of Unix, a guard cannot see that the process has ended.
            guarded: cfg!(unix) && guard.is_some(),
            left: AtomicBool::new(false),
        };
        let id = group.id;
        let reader = thread::Builder::new()
            .name("rejoin-child-output".to_owned())
            .spawn(read)?;
        thread::Builder::new()
            .name("rejoin-child-wait".to_owned())
            .spawn(move || {
                let status = process.wait();
                let is_success = status.as_ref().is_ok_and(ExitStatus::success);
                if is_success {
                    // What a launcher has started may be about to leave the group.
                    wait_briefly(|| !is_there(id));
                }
                // Its children must not outlive it or hold its pipes open.
                signal(id, Signal::Kill);
                on_end(is_success);
                // A process that has left the group may hold the pipe open.
                wait_briefly(|| reader.is_finished());
                drop(guard);
                sender.send_replace(Some(Arc::new(status)));
            })?;
        Ok(group)
    }

    /// Waits until the process has ended. `None` if that cannot be known.
    pub(super) async fn ended(&self) -> Option<Status> {
        let mut ended = self.ended.clone();
        ended.wait_for(Option::is_some).await.ok()?.clone()
    }

    /// How the process ended, if it has.
    pub(super) fn status(&self) -> Option<Status> {
        self.ended.borrow().clone()
    }

    /// Waits until the process has ended, but no longer than `time`. Returns whether it has.
    pub(super) async fn ends_within(&self, time: Duration) -> bool {
        tokio::time::timeout(time, self.ended()).await.is_ok()
    }

    /// Sends SIGTERM. Returns whether the process has ended within `time`.
    pub(super) async fn ask(&self, time: Duration) -> bool {
        signal(self.id, Signal::Ask);
        self.ends_within(time).await
    }

    /// Sends SIGTERM, and SIGKILL if the process has not ended within `time`.
    pub(super) async fn terminate(&self, time: Duration) {
        if self.status().is_none() && !self.ask(time).await {
            self.kill();
            self.ends_within(KILL_TIMEOUT).await;
        }
    }

    /// Leaves the group to its guard, which ends it after we have exited. Returns whether there is a
    /// guard.
    pub(super) fn leave(&self) -> bool {
        self.left.store(self.guarded, Ordering::Release);
        self.guarded
    }

    /// Kills the group at once.
    pub(super) fn kill(&self) {
        if self.status().is_none() {
            signal(self.id, Signal::Kill);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.left.load(Ordering::Acquire) {
            self.kill();
        }
    }
}

/// Waits until something is done, but not for long.
fn wait_briefly(is_done: impl Fn() -> bool) {
    for _ in 0..20 {
        if is_done() {
            return;
        }
        thread::sleep(Duration::from_millis(5));
    }
}
