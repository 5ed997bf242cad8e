//! The client's end of the real binary: starts it, asks, and reads to the answer.

use std::fmt::Display;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use rejoin::sys::SessionId;

use crate::Result;

/// How much is read at once: what a pipe holds.
const BLOCK: usize = 64 * 1024;
/// How long a process may take to end, in milliseconds.
const PATIENCE: usize = 2000;
/// How much of a line is kept, to see what it is.
const HEAD: usize = 64;

/// The first request of every connection, as request 1.
pub(crate) const INITIALIZE: &str = concat!(
    r#"{"jsonrpc":"2.0","id":1,"method":"initialize","#,
    r#""params":{"protocolVersion":1,"clientCapabilities":{}}}"#,
    "\n"
);

/// The same for version 2 of the protocol.
pub(crate) const INITIALIZE_V2: &str = concat!(
    r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":2,"#,
    r#""info":{"name":"bench","version":"1"},"capabilities":{}}}"#,
    "\n"
);

/// A process that is talked to through pipes. When this is dropped, its input ends, and if it does
/// not go by itself then, it is killed.
#[derive(Debug)]
pub(crate) struct Client {
    child: Child,
    input: Option<ChildStdin>,
    pub(crate) output: Answers<ChildStdout>,
    next: u64,
}

impl Client {
    /// Starts `rejoin serve` over a store and asks for `initialize`, without reading the answer.
    pub(crate) fn start(store: &Path, options: &[&str]) -> Result<Self> {
        Self::start_with(store, options, INITIALIZE)
    }

    /// The same with version 2 of the protocol.
    pub(crate) fn start_v2(store: &Path, options: &[&str]) -> Result<Self> {
        Self::start_with(store, options, INITIALIZE_V2)
    }

    fn start_with(store: &Path, options: &[&str], initialize: &str) -> Result<Self> {
        let mut command = Command::new(crate::machine::program());
        command.arg("serve").arg("--store").arg(store).args(options);
        let mut client = Self::of(command)?;
        client.write(initialize)?;
        Ok(client)
    }

    /// The same, with the answer read.
    pub(crate) fn initialized(store: &Path, options: &[&str]) -> Result<Self> {
        let mut client = Self::start(store, options)?;
        client.output.until_answer(1)?;
        Ok(client)
    }

    /// Starts any program.
    pub(crate) fn of(mut command: Command) -> Result<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let input = child.stdin.take();
        let output = Answers::new(child.stdout.take().ok_or("no stdout")?);
        Ok(Self {
            child,
            input,
            output,
            next: 2,
        })
    }

    /// Writes text as it is.
    pub(crate) fn write(&mut self, text: &str) -> Result<()> {
        let input = self.input.as_mut().ok_or("no stdin")?;
        Ok(input.write_all(text.as_bytes())?)
    }

    /// Sends a request; returns its id.
    pub(crate) fn ask(&mut self, method: &str, params: &str) -> Result<u64> {
        let id = self.next;
        self.next += 1;
        self.write(&format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{params}}}\n"
        ))?;
        Ok(id)
    }

    /// Sends a notification.
    pub(crate) fn notify(&mut self, method: &str, params: &str) -> Result<()> {
        self.write(&format!(
            "{{\"jsonrpc\":\"2.0\",\"method\":\"{method}\",\"params\":{params}}}\n"
        ))
    }

    /// Sends a request and reads to its answer; returns how many bytes that were.
    pub(crate) fn call(&mut self, method: &str, params: &str) -> Result<u64> {
        let id = self.ask(method, params)?;
        self.output.until_answer(id)
    }

    /// Asks for a session's history.
    pub(crate) fn ask_load(&mut self, id: &SessionId) -> Result<u64> {
        self.ask("session/load", &load_params(id))
    }

    /// The same with version 2 of the protocol.
    pub(crate) fn ask_replay(&mut self, id: &SessionId) -> Result<u64> {
        let params =
            format!(r#"{{"sessionId":"{id}","cwd":"/w","replayFrom":{{"type":"start"}}}}"#);
        self.ask("session/resume", &params)
    }

    /// Makes a session and returns its id.
    pub(crate) fn new_session(&mut self) -> Result<String> {
        let id = self.ask("session/new", r#"{"cwd":"/w","mcpServers":[]}"#)?;
        let line = self.output.answer(id)?;
        let (_, behind) = line.split_once("\"sessionId\":\"").ok_or("no session")?;
        Ok(behind.split('"').next().unwrap_or_default().to_owned())
    }

    /// How long the process has been at work on a processor.
    pub(crate) fn cpu_time(&self) -> Result<Duration> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let (_, numbers) = stat.rsplit_once(')').ok_or("no stat")?;
        // In hundredths of a second: for the program, and for the system in its name.
        let ticks = numbers.split_whitespace().skip(11).take(2);
        let ticks: Vec<u64> = ticks
            .map(str::parse)
            .collect::<std::result::Result<_, _>>()?;
        Ok(Duration::from_millis(10 * ticks.iter().sum::<u64>()))
    }

    /// The most memory the process ever had resident, in bytes.
    pub(crate) fn peak_memory(&self) -> Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
        Ok(kib.ok_or("no VmHWM")?.trim().parse::<u64>()? * 1024)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        drop(self.input.take());
        let left = (0..PATIENCE).all(|_| {
            let running = matches!(self.child.try_wait(), Ok(None));
            if running {
                sleep(Duration::from_millis(1));
            }
            running
        });
        if left {
            // It may have gone this very moment.
            self.child.kill().ok();
        }
        self.child.wait().ok();
    }
}

/// The parameters of a load.
pub(crate) fn load_params(id: impl Display) -> String {
    format!(r#"{{"sessionId":"{id}","cwd":"/w","mcpServers":[]}}"#)
}

/// The parameters of a prompt.
pub(crate) fn prompt_params(id: impl Display, text: &str) -> String {
    format!(r#"{{"sessionId":"{id}","prompt":[{{"type":"text","text":"{text}"}}]}}"#)
}

/// Reads what a process sends, looking for answers.
#[derive(Debug)]
pub(crate) struct Answers<R> {
    from: R,
    block: Vec<u8>,
    /// The first bytes of the line that is being read.
    head: Vec<u8>,
}

impl<R: Read> Answers<R> {
    /// Nothing is read yet.
    pub(crate) fn new(from: R) -> Self {
        Self {
            from,
            block: vec![0; BLOCK],
            head: Vec::new(),
        }
    }

    /// Reads until the last line is the answer to a request; returns how many bytes that were.
    pub(crate) fn until_answer(&mut self, id: u64) -> Result<u64> {
        self.until_answer_with(id, |_| {})
    }

    /// The same, showing all that is read.
    pub(crate) fn until_answer_with(
        &mut self,
        id: u64,
        mut show: impl FnMut(&[u8]),
    ) -> Result<u64> {
        let mut total = 0;
        loop {
            let (read, done) = self.step(BLOCK, id)?;
            show(&self.block[..read]);
            total += read as u64;
            if done {
                return Ok(total);
            }
        }
    }

    /// Shows all that is read, until that says that it has seen enough.
    pub(crate) fn until(&mut self, mut has_seen_enough: impl FnMut(&[u8]) -> bool) -> Result<()> {
        loop {
            match self.from.read(&mut self.block)? {
                0 => return Err("the output ended too early".into()),
                read if has_seen_enough(&self.block[..read]) => return Ok(()),
                _ => {}
            }
        }
    }

    /// Reads until a text has come, which is shorter than [`HEAD`]; more may follow it.
    pub(crate) fn until_text(&mut self, text: &str) -> Result<()> {
        let mut end: Vec<u8> = Vec::new();
        loop {
            let read = self.from.read(&mut self.block)?;
            if read == 0 {
                return Err(format!("no {text}").into());
            }
            end.extend_from_slice(&self.block[..read]);
            if memchr::memmem::find(&end, text.as_bytes()).is_some() {
                return Ok(());
            }
            // It may be in two blocks.
            end.drain(..end.len().saturating_sub(HEAD));
        }
    }

    /// Reads at most `most` bytes once; returns how many that were, and whether they end with the
    /// answer to a request.
    pub(crate) fn step(&mut self, most: usize, id: u64) -> Result<(usize, bool)> {
        let read = self.read(most, id)?;
        let new = &self.block[..read];
        let body = new.strip_suffix(b"\n");
        let line = body.unwrap_or(new);
        let line = match memchr::memrchr(b'\n', line) {
            Some(at) => {
                self.head.clear();
                &line[at + 1..]
            }
            None => line,
        };
        let room = HEAD - self.head.len();
        self.head.extend_from_slice(&line[..line.len().min(room)]);
        let done = body.is_some() && self.head.starts_with(beginning(id).as_bytes());
        if body.is_some() {
            self.head.clear();
        }
        Ok((read, done))
    }

    /// Reads little until the line of the answer to a request is there. Others may follow it.
    pub(crate) fn answer(&mut self, id: u64) -> Result<String> {
        let begins = beginning(id);
        let mut all = String::new();
        loop {
            let read = self.read(BLOCK, id)?;
            all.push_str(&String::from_utf8_lossy(&self.block[..read]));
            let mut whole = all
                .split_inclusive('\n')
                .filter(|line| line.ends_with('\n'));
            if let Some(line) = whole.find(|line| line.starts_with(&begins)) {
                return Ok(line.trim_end().to_owned());
            }
        }
    }

    fn read(&mut self, most: usize, id: u64) -> Result<usize> {
        match self.from.read(&mut self.block[..most])? {
            0 => Err(format!("the output ended before the answer to {id}").into()),
            read => Ok(read),
        }
    }
}

/// What the line of an answer begins with.
fn beginning(id: u64) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},")
}

/// How long something takes.
pub(crate) fn timed(work: impl FnOnce() -> Result<()>) -> Result<Duration> {
    let start = std::time::Instant::now();
    work()?;
    Ok(start.elapsed())
}
