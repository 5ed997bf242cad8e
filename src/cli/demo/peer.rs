//! The demo's side of the protocol: a real child process and the lines to and from it.

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::cli::exit::Failure;
use rejoin::conversation::Transcript;
use rejoin::sys::descriptors;

/// An agent that was started, with pipes to it.
pub(super) struct Peer {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    next_id: u64,
}

impl Peer {
    /// Starts this program as an agent on a store of its own.
    pub(super) fn start(folder: &Path) -> Result<Self, Failure> {
        let cannot =
            |error: std::io::Error| Failure::new(format!("cannot start the agent: {error}"));
        let program = std::env::current_exe().map_err(cannot)?;
        let mut command = Command::new(program);
        command.args(["serve", "--store"]).arg(folder);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = descriptors::spawn(&mut command).map_err(cannot)?;
        match (child.stdin.take(), child.stdout.take()) {
            (Some(input), Some(output)) => Ok(Self {
                child,
                input,
                output: BufReader::new(output).lines(),
                next_id: 0,
            }),
            _ => Err(Failure::new("cannot start the agent: it has no pipes")),
        }
    }

    /// The process id.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a request without waiting for its answer.
    pub(super) fn begin(&mut self, method: &str, params: Value) -> Result<u64, Failure> {
        let id = self.next_id;
        self.next_id += 1;
        let line = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        writeln!(self.input, "{line}")
            .map_err(|error| Failure::new(format!("the agent takes no requests: {error}")))?;
        Ok(id)
    }

    /// Sends a request and waits for its result; updates are skipped.
    pub(super) fn request(&mut self, method: &str, params: Value) -> Result<Value, Failure> {
        let id = self.begin(method, params)?;
        self.result(id, &mut Transcript::default())
            .map(|(result, _)| result)
    }

    /// Sends a request and folds the updates before its result; returns how many there were.
    pub(super) fn request_folding(
        &mut self,
        method: &str,
        params: Value,
        transcript: &mut Transcript,
    ) -> Result<usize, Failure> {
        let id = self.begin(method, params)?;
        self.result(id, transcript).map(|(_, count)| count)
    }

    /// Folds the next `count` updates.
    pub(super) fn fold_updates(
        &mut self,
        count: usize,
        transcript: &mut Transcript,
    ) -> Result<(), Failure> {
        for _ in 0..count {
            let line = self.line()?;
            transcript.notification(&line);
        }
        Ok(())
    }

    /// Kills the process without warning, then folds what it had sent before.
    pub(super) fn kill(mut self, transcript: &mut Transcript) -> Result<(), Failure> {
        let killed = self.child.kill().and_then(|()| self.child.wait());
        killed.map_err(|error| Failure::new(format!("cannot kill the agent: {error}")))?;
        // The last line may be incomplete; then the client has not seen it.
        for line in self.output.map_while(Result::ok) {
            transcript.notification(&line);
        }
        Ok(())
    }

    /// Closes the input and waits for the process to exit.
    pub(super) fn leave(mut self) -> Result<(), Failure> {
        drop((self.input, self.output));
        let status = self.child.wait();
        let status =
            status.map_err(|error| Failure::new(format!("cannot wait for the agent: {error}")))?;
        if status.success() {
            Ok(())
        } else {
            Err(Failure::new(format!("the agent: {status}")))
        }
    }

    fn result(&mut self, id: u64, transcript: &mut Transcript) -> Result<(Value, usize), Failure> {
        let mut count = 0;
        loop {
            let line = self.line()?;
            let message: Value = serde_json::from_str(&line)
                .map_err(|error| Failure::new(format!("the agent sent no JSON: {error}")))?;
            if message["method"] == "session/update" {
                transcript.notification(&line);
                count += 1;
            } else if message["id"] == id {
                return match message.get("result") {
                    Some(result) => Ok((result.clone(), count)),
                    None => Err(Failure::new(format!(
                        "the agent refused: {}",
                        message["error"]
                    ))),
                };
            }
        }
    }

    fn line(&mut self) -> Result<String, Failure> {
        match self.output.next() {
            Some(Ok(line)) => Ok(line),
            Some(Err(error)) => Err(Failure::new(format!("cannot read from the agent: {error}"))),
            None => Err(Failure::new("the agent ended unexpectedly")),
        }
    }
}
