//! One shell command: starts it, keeps the end of its output, ends it with all its children.

use std::io::{self, PipeReader, Read};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tokio::sync::watch;

use crate::engine::captured::Exit;
use crate::sys::lock;

use super::guard::{Guard, LEAVES};
use super::signal::{Signal, signal};
use super::tail::Tail;

/// How long a command may take to exit after SIGTERM, before it is killed.
const OBEYS: Duration = Duration::from_millis(250);

/// How much output is read at once, in bytes.
const BLOCK: usize = 16 * 1024;

/// A running or finished command. Dropping it kills it.
#[derive(Debug)]
pub(in crate::engine) struct Shell {
    id: u32,
    ended: watch::Receiver<Option<Exit>>,
    said: Arc<Mutex<Tail>>,
}

impl Shell {
    /// Starts a command in a folder, in a process group of its own. It has no input, and its stdout
    /// and stderr are one stream, as on a terminal; the last `keep` bytes of it are kept. `guard`,
    /// if given, is the program that [guards](super::guard::guard) it.
    pub(in crate::engine) fn start(
        command: &str,
        folder: &Path,
        keep: usize,
        guard: Option<&Path>,
    ) -> io::Result<Self> {
        let (output, input) = io::pipe()?;
        let (shell, arguments) = shell(command);
        let mut process = Command::new(shell);
        process
            .args(arguments)
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(input.try_clone()?)
            .stderr(input);
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut process, 0);
        let mut child = process.spawn()?;
        // It holds the pipe's write end, which only the command may have.
        drop(process);
        let id = child.id();
        let guard = guard.and_then(|program| {
            let started = Guard::start(program, id, LEAVES, [Stdio::null(), Stdio::null()]);
            let told = |error: &io::Error| tracing::warn!(%error, "the command has no guard");
            started.inspect_err(told).ok()
        });
        let said = Arc::new(Mutex::new(Tail::new(keep)));
        let (tell, ended) = watch::channel(None);
        let shell = Self {
            id,
            ended,
            said: said.clone(),
        };
        let listener = thread::Builder::new()
            .name("rejoin-command-output".to_owned())
            .spawn(move || listen(output, &said))?;
        thread::Builder::new()
            .name("rejoin-command-wait".to_owned())
            .spawn(move || {
                let status = child.wait();
                // Its children must not outlive it or hold its output open.
                signal(id, Signal::Kill);
                wait_briefly(&listener);
                tell.send_replace(Some(exit(status)));
                drop(guard);
            })?;
        Ok(shell)
    }

    /// The total length of the output, in bytes.
    pub(in crate::engine) fn total(&self) -> u64 {
        lock(&self.said).total()
    }

    /// The end of the output, at most `most` bytes, and whether the beginning is left out.
    pub(in crate::engine) fn said(&self, most: usize) -> (String, bool) {
        lock(&self.said).text(most)
    }

    /// Waits until the command has ended, and returns how.
    pub(in crate::engine) async fn ended(&self) -> Exit {
        let mut ended = self.ended.clone();
        match ended.wait_for(Option::is_some).await {
            Ok(exit) => exit.clone().unwrap_or_default(),
            Err(_) => Exit::default(),
        }
    }

    /// Ends the command and its children, and returns how it ended.
    pub(in crate::engine) async fn end(&self) -> Exit {
        for how in [Signal::Ask, Signal::Kill] {
            if self.has_ended() {
                break;
            }
            signal(self.id, how);
            tokio::time::timeout(OBEYS, self.ended()).await.ok();
        }
        self.ended.borrow().clone().unwrap_or_default()
    }

    fn has_ended(&self) -> bool {
        self.ended.borrow().is_some()
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        if !self.has_ended() {
            signal(self.id, Signal::Kill);
        }
    }
}

/// The program and arguments that run a command in the system's shell.
pub(in crate::engine) fn shell(command: &str) -> (&'static str, [&str; 2]) {
    if cfg!(windows) {
        ("cmd", ["/C", command])
    } else {
        ("sh", ["-c", command])
    }
}

fn listen(mut output: PipeReader, said: &Mutex<Tail>) {
    let mut block = vec![0; BLOCK];
    loop {
        match output.read(&mut block) {
            Ok(0) => return,
            Ok(read) => lock(said).push(&block[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

/// Waits until a thread has ended, but not for long: a process that has left the group may hold the
/// pipe open.
fn wait_briefly(listener: &thread::JoinHandle<()>) {
    for _ in 0..20 {
        if listener.is_finished() {
            return;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

fn exit(status: io::Result<ExitStatus>) -> Exit {
    let Ok(status) = status else {
        return Exit::default();
    };
    Exit {
        code: status.code().and_then(|code| u32::try_from(code).ok()),
        signal: signal_of(status),
    }
}

#[cfg(unix)]
fn signal_of(status: ExitStatus) -> Option<String> {
    let number = std::os::unix::process::ExitStatusExt::signal(&status)?;
    let name = match number {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        6 => "SIGABRT",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        15 => "SIGTERM",
        _ => return Some(number.to_string()),
    };
    Some(name.to_owned())
}

#[cfg(not(unix))]
fn signal_of(_: ExitStatus) -> Option<String> {
    None
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn start(command: &str) -> Shell {
        Shell::start(command, Path::new("/"), 1000, None).expect("there is a shell")
    }

    #[tokio::test]
    async fn both_outputs_and_the_exit_code_are_told() {
        let shell = start("echo a; echo b >&2; cat; echo c; exit 3");
        let exit = shell.ended().await;
        assert_eq!((exit.code, exit.signal), (Some(3), None));
        assert_eq!(shell.said(1000), ("a\nb\nc\n".to_owned(), false));
    }

    #[tokio::test]
    async fn what_it_has_started_ends_with_it() {
        let shell = start("sleep 600 & echo $!");
        shell.ended().await;
        let (pid, _) = shell.said(100);
        let pid = pid.trim().parse().unwrap();
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        let gone = || rustix::process::test_kill_process(pid).is_err() || is_buried_late(pid);
        while !gone() {
            thread::yield_now();
        }
    }

    /// Whether it is a zombie: it was reparented, and its new parent may take a while to reap it.
    fn is_buried_late(pid: rustix::process::Pid) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
        stat.is_ok_and(|stat| stat.contains(") Z "))
    }

    #[tokio::test]
    async fn one_that_does_not_obey_is_killed() {
        let shell = start("trap '' TERM; echo ready; while :; do sleep 600; done");
        while shell.total() == 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(shell.end().await.signal.as_deref(), Some("SIGKILL"));
    }
}
