//! The agent as a process: the real binary on real pipes.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc;
use std::thread;

use super::agent::{Agent, GUARD};
use super::systems::ask_to_end;
use super::wrapped;

struct Process {
    child: Option<Child>,
    id: u32,
    input: Option<ChildStdin>,
    /// Its stderr; gone when this is dropped.
    log: tempfile::NamedTempFile,
}

/// Starts `rejoin serve` on a store, or `rejoin wrap` if the arguments name a command behind `--`, or
/// `rejoin agent` if they begin with its name.
pub(crate) fn start(store: &Path, args: &[String]) -> (Box<dyn Agent>, Box<dyn Read + Send>) {
    let wraps = args.iter().any(|argument| argument == "--");
    let (command, args) = match args {
        [first, args @ ..] if first == wrapped::CHOICE => (wrapped::CHOICE, args),
        args if wraps => ("wrap", args),
        args => ("serve", args),
    };
    let mut rejoin = Command::new(env!("CARGO_BIN_EXE_rejoin"));
    if command == wrapped::CHOICE {
        let folder = store.parent().expect("it lies in the test's folder");
        rejoin.env("PATH", wrapped::programs(folder));
    }
    rejoin
        .arg(command)
        .arg("--store")
        .arg(store)
        .args(args)
        .env_remove("REJOIN_STORE")
        .env_remove("REJOIN_SOURCES")
        .env_remove("REJOIN_LOG_FILE")
        .env_remove("REJOIN_LOG");
    spawn(rejoin)
}

/// Starts a process that serves a client on its stdin and stdout.
pub(crate) fn spawn(mut command: Command) -> (Box<dyn Agent>, Box<dyn Read + Send>) {
    let log = tempfile::NamedTempFile::new().expect("files can be made");
    let stderr: File = log.reopen().expect("it was just made");
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(stderr)
        .spawn()
        .expect("the binary was built");
    let output = child.stdout.take().expect("it was asked for");
    let process = Process {
        id: child.id(),
        input: child.stdin.take(),
        child: Some(child),
        log,
    };
    (Box::new(process), Box::new(output))
}

impl Agent for Process {
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.input {
            Some(input) => input.write_all(bytes),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn end_input(&mut self) {
        self.input = None;
    }

    fn stop(&mut self) {
        ask_to_end(self.id);
    }

    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("it is a child of ours");
            child.wait().expect("it is a child of ours");
        }
        self.input = None;
    }

    fn wait(&mut self) -> Result<(), String> {
        let Some(mut child) = self.child.take() else {
            return Ok(());
        };
        let (tell, ended) = mpsc::channel();
        thread::spawn(move || tell.send(child.wait()).ok());
        let status = ended.recv_timeout(GUARD);
        let status = status.map_err(|_| format!("it did not end within {GUARD:?}"))?;
        let status = status.map_err(|error| error.to_string())?;
        if self.said().contains("panicked at") {
            return Err("it panicked".to_owned());
        }
        if status.success() {
            Ok(())
        } else {
            Err(status.to_string())
        }
    }

    fn process(&self) -> u32 {
        self.id
    }

    fn said(&self) -> String {
        let text = std::fs::read(self.log.path()).unwrap_or_default();
        String::from_utf8_lossy(&text).into_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
