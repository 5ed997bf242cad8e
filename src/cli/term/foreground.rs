//! A program that has the terminal until it ends, such as a pager. A signal that asks this process to end ends
//! it, too, and the terminal is as it was before.
#![expect(
    clippy::disallowed_methods,
    reason = "looks at the terminal, while no client is served"
)]

use std::io;
use std::process::{Child, ChildStdin, Command, ExitStatus};
use std::sync::Arc;

use rejoin::sys::descriptors;

use super::signals::EndSignals;

/// A program in the foreground.
pub(in crate::cli) struct Foreground {
    child: Child,
    signals: Arc<EndSignals>,
    #[cfg(unix)]
    ender: unix::Ender,
}

/// The end of a program in the foreground.
pub(in crate::cli) enum ForegroundEnd {
    /// The program has ended by itself, or by its user.
    Ended(ExitStatus),
    /// This process is asked to end, by the signal with this exit code.
    Signalled(u8),
}

impl Foreground {
    /// Starts the program. Ctrl-C is for it, and not for this process.
    pub(in crate::cli) fn start(command: &mut Command) -> io::Result<Self> {
        let signals = Arc::new(EndSignals::watch()?);
        #[cfg(unix)]
        let mode = unix::mode();
        let child = descriptors::spawn(command)?;
        Ok(Self {
            #[cfg(unix)]
            ender: unix::Ender::start(&child, signals.clone(), mode),
            child,
            signals,
        })
    }

    /// The program's input, if it is a pipe that was not taken before.
    pub(super) fn stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// Waits until the program ends.
    pub(in crate::cli) fn wait(mut self) -> io::Result<ForegroundEnd> {
        #[cfg(unix)]
        self.ender.wait(&self.child);
        let status = self.child.wait()?;
        let signalled = self.signals.end_wanted();
        Ok(signalled.map_or(ForegroundEnd::Ended(status), ForegroundEnd::Signalled))
    }
}

#[cfg(unix)]
mod unix {
    use std::io;
    use std::process::Child;
    use std::sync::Arc;
    use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
    use std::thread::{self, JoinHandle};
    use std::time::Duration;

    use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
    use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};

    use super::EndSignals;

    /// How often it is looked whether this process is asked to end.
    const STEP: Duration = Duration::from_millis(50);
    /// How long a program may take to end when it is asked to.
    const PATIENCE: Duration = Duration::from_secs(1);

    /// Ends a program when this process is asked to end, on a thread of its own: what writes to the program may
    /// be held up by it.
    pub(super) struct Ender {
        thread: Option<JoinHandle<()>>,
        done: Option<Sender<()>>,
    }

    impl Ender {
        pub(super) fn start(
            child: &Child,
            signals: Arc<EndSignals>,
            mode: Option<Termios>,
        ) -> Self {
            let (done, is_done) = channel();
            let pid = Pid::from_child(child);
            let ends = move || {
                if !ends(pid, &signals, &is_done) {
                    return;
                }
                if let Some(mode) = mode {
                    tcsetattr(io::stdin(), OptionalActions::Now, &mode).ok();
                }
            };
            Self {
                thread: Some(thread::spawn(ends)),
                done: Some(done),
            }
        }

        /// Waits until the program has ended. Its number is free for others only after that.
        pub(super) fn wait(&mut self, child: &Child) {
            let (id, how) = (
                WaitId::Pid(Pid::from_child(child)),
                WaitIdOptions::EXITED | WaitIdOptions::NOWAIT,
            );
            while let Err(rustix::io::Errno::INTR) = waitid(id.clone(), how) {}
            self.done = None;
            if let Some(thread) = self.thread.take() {
                thread.join().ok();
            }
        }
    }

    /// Waits until the program has ended or this process is to end, and then ends the program. Whether it did.
    fn ends(pid: Pid, signals: &EndSignals, is_done: &Receiver<()>) -> bool {
        while signals.end_wanted().is_none() {
            if is_done.recv_timeout(STEP) != Err(RecvTimeoutError::Timeout) {
                return signals.end_wanted().is_some();
            }
        }
        for signal in [Signal::TERM, Signal::KILL] {
            kill_process(pid, signal).ok();
            if is_done.recv_timeout(PATIENCE) != Err(RecvTimeoutError::Timeout) {
                break;
            }
        }
        true
    }

    /// How the terminal treats keys, if stdin is one.
    pub(super) fn mode() -> Option<Termios> {
        tcgetattr(io::stdin()).ok()
    }
}
