//! A shell command: starts it, keeps the end of its output, ends it with all its children.

use std::ffi::OsString;
use std::io::{self, PipeReader, Read, Write};
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::engine::terminal_text::Exit;
use crate::sys::lock;

use super::group::{Group, Status, spawn, start_guard};
use super::guard::LEAVES;
use super::launch::Launch;

/// How long a command may take to exit after SIGTERM, before it is killed.
const TERM_TIMEOUT: Duration = Duration::from_millis(250);

/// How much output is read at once, in bytes.
const BLOCK: usize = 16 * 1024;

/// A running or finished command. Dropping it kills it.
#[derive(Debug)]
pub(in crate::engine) struct Shell {
    group: Group,
    output: Arc<Mutex<TailBuffer>>,
}

impl Shell {
    /// Starts a command in a folder, in a process group of its own. It has no input, and its stdout
    /// and stderr are one stream, as on a terminal; the last `keep` bytes of it are kept.
    pub(in crate::engine) fn start(
        command: &str,
        folder: &Path,
        keep: usize,
        launch: &Launch,
    ) -> io::Result<Self> {
        let (output, input) = io::pipe()?;
        let (shell, arguments) = shell(command);
        let mut process = launch.command(shell);
        process
            .args(arguments)
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(input.try_clone()?)
            .stderr(input);
        let child = spawn(&mut process)?;
        // The builder holds the pipe's write end, which only the command may have.
        drop(process);
        let guard = start_guard(launch, &child, LEAVES, [Stdio::null(), Stdio::null()]);
        let tail = Arc::new(Mutex::new(TailBuffer::new(keep)));
        let kept = tail.clone();
        let group = Group::new(child, guard, |_| (), move || read_output(output, &kept))?;
        Ok(Self {
            group,
            output: tail,
        })
    }

    /// The total length of the output, in bytes.
    pub(in crate::engine) fn total(&self) -> u64 {
        lock(&self.output).total()
    }

    /// The end of the output, at most `most` bytes, and whether the beginning is left out.
    pub(in crate::engine) fn output(&self, most: usize) -> (String, bool) {
        lock(&self.output).text(most)
    }

    /// Waits until the command has ended, and returns how.
    pub(in crate::engine) async fn ended(&self) -> Exit {
        exit(self.group.ended().await)
    }

    /// Ends the command and its children, and returns how it ended.
    pub(in crate::engine) async fn end(&self) -> Exit {
        self.group.terminate(TERM_TIMEOUT).await;
        exit(self.group.status())
    }
}

/// The program and arguments that run a command in the system's shell.
pub(crate) fn shell(command: &str) -> (&'static str, [&str; 2]) {
    if cfg!(windows) {
        ("cmd", ["/C", command])
    } else {
        ("sh", ["-c", command])
    }
}

fn read_output(mut output: PipeReader, kept: &Mutex<TailBuffer>) {
    let mut block = vec![0; BLOCK];
    loop {
        match output.read(&mut block) {
            Ok(0) => return,
            Ok(read) => lock(kept).push(&block[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

fn exit(status: Option<Status>) -> Exit {
    let Some(Ok(status)) = status.as_deref() else {
        return Exit::default();
    };
    Exit {
        code: status.code().and_then(|code| u32::try_from(code).ok()),
        signal: signal_of(*status),
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

/// A byte buffer that keeps the last bytes.
#[derive(Debug)]
struct TailBuffer {
    kept: Vec<u8>,
    limit: usize,
    /// How many bytes were pushed.
    total: u64,
}

impl TailBuffer {
    /// Keeps at least `limit` bytes, and at most twice as many.
    fn new(limit: usize) -> Self {
        Self {
            kept: Vec::new(),
            limit,
            total: 0,
        }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        self.kept.extend_from_slice(bytes);
        if self.kept.len() > 2 * self.limit {
            self.kept.drain(..self.kept.len() - self.limit);
        }
    }

    /// How many bytes were pushed.
    fn total(&self) -> u64 {
        self.total
    }

    /// The last bytes as text, at most `most` of them, and whether anything is left out. Invalid
    /// UTF-8 becomes replacement characters.
    fn text(&self, most: usize) -> (String, bool) {
        let most = most.min(self.limit);
        let mut from = self.kept.len().saturating_sub(most);
        let cut = self.total > (self.kept.len() - from) as u64;
        if cut {
            // Starts at the boundary of a character, which has at most four bytes.
            let rest = self.kept[from..].iter().take(3);
            from += rest.take_while(|byte| **byte & 0xC0 == 0x80).count();
        }
        (
            String::from_utf8_lossy(&self.kept[from..]).into_owned(),
            cut,
        )
    }
}

/// How long a program that notifies the user may take; nothing waits for it.
const NOTICE: Duration = Duration::from_secs(30);

/// Runs a program that notifies the user of something until it has ended: it gets a text on stdin, and
/// its output is discarded. If it takes too long, it is ended with all its children, and the result is
/// false. If the result is dropped before, the program is killed.
pub(crate) async fn run_notice(
    launch: &Launch,
    program: &[OsString],
    input: String,
) -> io::Result<bool> {
    run_within(NOTICE, launch, program, input).await
}

async fn run_within(
    limit: Duration,
    launch: &Launch,
    program: &[OsString],
    input: String,
) -> io::Result<bool> {
    let Some((name, arguments)) = program.split_first() else {
        return Ok(true);
    };
    let mut command = launch.command(name);
    command.args(arguments).stdin(Stdio::piped());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut process = spawn(&mut command)?;
    let stdin = process.stdin.take();
    let write = move || {
        // Programs need not read it.
        if let Some(mut stdin) = stdin {
            stdin.write_all(input.as_bytes()).ok();
        }
    };
    let group = Group::new(process, None, |_| (), write)?;
    let has_ended = group.ends_within(limit).await;
    group.kill();
    Ok(has_ended)
}

#[cfg(all(test, unix))]
mod notice_tests {
    use super::*;

    fn shell(script: &str) -> Vec<OsString> {
        ["/bin/sh", "-c", script].map(OsString::from).into()
    }

    #[tokio::test]
    async fn a_program_that_hangs_is_ended_with_its_children() {
        let folder = tempfile::tempdir().unwrap();
        let pid = folder.path().join("pid");
        let script = format!(
            "sleep 1000 & echo $! > {0}.new; mv {0}.new {0}; wait",
            pid.display()
        );
        let limit = Duration::from_millis(400);
        let launch = Launch::default();
        // Its input is longer than a pipe, and is never read.
        let input = "x".repeat(1 << 20);
        let run = run_within(limit, &launch, &shell(&script), input).await;
        assert!(!run.unwrap());
        // A machine that is busy may not have come so far.
        if let Ok(pid) = std::fs::read_to_string(pid) {
            let pid = rustix::process::Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
            let is_there = || rustix::process::test_kill_process(pid).is_ok();
            while is_there() {
                tokio::task::yield_now().await;
            }
        }
    }

    #[tokio::test]
    async fn what_floods_and_what_fails_just_ends() {
        let launch = Launch::default();
        for script in [
            "head -c 30000000 /dev/zero; head -c 30000000 /dev/zero >&2",
            "exit 3",
            "kill -9 $$",
        ] {
            let run = run_notice(&launch, &shell(script), "{}".to_owned()).await;
            assert!(run.unwrap(), "{script}");
        }
        let none = [OsString::from("/no/such/program")];
        run_notice(&launch, &none, String::new()).await.unwrap_err();
        let read = shell("read -r line; test \"$line\" = '{\"a\":1}'");
        assert!(
            run_notice(&launch, &read, "{\"a\":1}\n".to_owned())
                .await
                .unwrap()
        );
    }
}

#[cfg(test)]
mod tail_tests {
    use super::*;

    #[test]
    fn the_end_is_kept() {
        let mut tail = TailBuffer::new(6);
        assert_eq!(tail.text(9), (String::new(), false));
        for (more, text, cut) in [
            ("abc", "abc", false),
            ("def", "abcdef", false),
            ("g", "bcdefg", true),
            ("hijklmnop", "klmnop", true),
            ("äöü", "äöü", true),
            ("x", "öüx", true),
        ] {
            tail.push(more.as_bytes());
            assert_eq!(tail.text(9), (text.to_owned(), cut), "{more}");
            assert!(tail.kept.len() <= 12);
        }
        assert_eq!(tail.text(2), ("x".to_owned(), true));
        assert_eq!(tail.total(), 23);
    }

    #[test]
    fn invalid_utf8_is_replaced() {
        let mut tail = TailBuffer::new(6);
        tail.push(b"a\xFFb");
        assert_eq!(tail.text(6), ("a\u{FFFD}b".to_owned(), false));
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn start(command: &str) -> Shell {
        Shell::start(command, Path::new("/"), 1000, &Launch::default()).expect("there is a shell")
    }

    #[tokio::test]
    async fn both_outputs_and_the_exit_code_are_captured() {
        let shell = start("echo a; echo b >&2; cat; echo c; exit 3");
        let exit = shell.ended().await;
        assert_eq!((exit.code, exit.signal), (Some(3), None));
        assert_eq!(shell.output(1000), ("a\nb\nc\n".to_owned(), false));
    }

    #[tokio::test]
    async fn children_of_a_command_end_with_it() {
        let shell = start("sleep 600 & echo $!");
        shell.ended().await;
        let (pid, _) = shell.output(100);
        let pid = pid.trim().parse().unwrap();
        while crate::sys::is_running(pid) {
            std::thread::yield_now();
        }
    }

    #[tokio::test]
    async fn a_command_that_ignores_sigterm_is_killed() {
        let shell = start("trap '' TERM; echo ready; while :; do sleep 600; done");
        while shell.total() == 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(shell.end().await.signal.as_deref(), Some("SIGKILL"));
    }
}
