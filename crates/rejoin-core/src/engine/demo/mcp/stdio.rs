//! MCP servers as subprocesses: each message is a line on a pipe.

use std::io;
use std::path::Path;
use std::sync::Mutex;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::engine::process::{Child, LEAVES as EXITS, Launch};
use crate::engine::upstream::Patience;
use crate::sys::{blocking, lock};
use crate::transport::line::LineReader;

use super::config::ServerConfig;
use super::connection::LEAVES;
use super::peer::{LONGEST, McpPeer, RequestError};

/// How much is read at once, in bytes.
const BLOCK: usize = 16 * 1024;

/// How many of our messages may wait for the server to read them. While that many do, none of the server
/// is read.
const UNREAD: usize = 16;

/// A server that runs as a subprocess.
#[derive(Debug)]
pub(super) struct StdioTransport {
    child: Child,
    /// `None` once it is closed.
    input: Mutex<Option<ServerInput>>,
    peer: McpPeer,
}

/// The input of a server: our messages, and the task that writes them.
#[derive(Debug)]
struct ServerInput {
    lines: mpsc::Sender<String>,
    writing: JoinHandle<Option<()>>,
}

impl StdioTransport {
    /// Starts the command with `args` and `env` in the folder `cwd`. Must be called inside of a runtime.
    /// Fails with the reason, in words.
    pub(super) fn start(
        config: &ServerConfig,
        (command, args, env): (&str, &[String], &[(String, String)]),
        cwd: &str,
        launch: &Launch,
        peer: &McpPeer,
    ) -> Result<Self, String> {
        if !blocking(|| Path::new(cwd).is_dir()) {
            return Err(format!("there is no folder {cwd} to start it in"));
        }
        let mut process = launch.command(command);
        process
            .args(args)
            .envs(env.iter().map(|(name, value)| (name, value)))
            .current_dir(cwd);
        let (name, secrets) = (config.name.clone(), config.secrets());
        let log_line = move |line: &str| {
            let line = secrets.hide(line);
            tracing::debug!(target: "rejoin::mcp", server = name, "{}", line.escape_debug());
            line
        };
        let start = || -> io::Result<Self> {
            let (child, input, output) =
                blocking(|| Child::start(process, launch, EXITS, Box::new(log_line)))?;
            let input = ChildStdin::from_std(input.into_pipe())?;
            let output = ChildStdout::from_std(output.into_pipe())?;
            let (lines, unread) = mpsc::channel(UNREAD);
            let reading = read(output, peer.clone(), lines.downgrade());
            tokio::spawn(peer.ended.clone().run_until_cancelled_owned(reading));
            let ended = peer.ended.clone();
            let writing = tokio::spawn(ended.run_until_cancelled_owned(write(input, unread)));
            Ok(Self {
                child,
                input: Mutex::new(Some(ServerInput { lines, writing })),
                peer: peer.clone(),
            })
        };
        start().map_err(|error| format!("`{command}` cannot be started: {error}"))
    }

    /// Sends a message as soon as the server has read enough of those before.
    pub(super) async fn send(&self, line: String) -> Result<(), RequestError> {
        let input = lock(&self.input).as_ref().map(|input| input.lines.clone());
        let lines = input.ok_or(RequestError::Closed)?;
        lines.send(line).await.map_err(|_| RequestError::Closed)
    }

    /// Waits until the server has ended. What it has left behind may have its output.
    pub(super) async fn ended(&self) {
        tokio::select! {
            () = self.peer.ended.cancelled() => {}
            _ = self.child.ended() => sleep(LEAVES).await,
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.child.has_ended()
    }

    /// How the server ended, as far as that is known, and the end of its stderr. Waits a moment for one
    /// that is about to exit.
    pub(super) async fn exit_reason(&self) -> String {
        timeout(LEAVES, self.child.ended()).await.ok();
        let how = self.child.how();
        let how = how.unwrap_or_else(|| "it closed its output".to_owned());
        let lines = self.child.stderr_tail();
        if lines.is_empty() {
            return how;
        }
        format!("{how}; it said last: {}", lines.join(" | "))
    }

    /// Closes the server's input and ends the process.
    pub(super) async fn end(&self, patience: Patience) {
        let input = lock(&self.input).take();
        if let Some(input) = input {
            drop(input.lines);
            timeout(LEAVES, input.writing).await.ok();
        }
        self.peer.close();
        self.child.end(patience).await;
    }
}

/// Writes our messages. Closes the input after the last one.
async fn write(mut input: impl AsyncWrite + Unpin, mut lines: mpsc::Receiver<String>) {
    while let Some(line) = lines.recv().await {
        if input.write_all(line.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// Reads the server's messages, no faster than it reads the answers to them.
async fn read(output: impl AsyncRead + Unpin, peer: McpPeer, answers: mpsc::WeakSender<String>) {
    let output = BufReader::with_capacity(BLOCK, output);
    let mut lines = LineReader::new(output, LONGEST);
    while let Ok(Some(line)) = lines.line().await {
        if let Some(answer) = peer.receive(line)
            && let Some(answers) = answers.upgrade()
        {
            // Of a server that takes no more input, the output is still read.
            answers.send(answer).await.ok();
        }
    }
    peer.close();
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncBufReadExt, duplex};

    use super::*;

    #[tokio::test]
    async fn a_server_is_read_as_fast_as_it_reads() {
        let (mut server_output, output) = duplex(64);
        let (input, server_input) = duplex(64);
        let (sender, lines) = mpsc::channel(UNREAD);
        tokio::spawn(read(output, McpPeer::new(), sender.downgrade()));
        tokio::spawn(write(input, lines));
        let count = 10_000;
        let (written, mut most) = tokio::sync::watch::channel(0);
        tokio::spawn(async move {
            for id in 0..count {
                let ping = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"ping\"}}\n");
                server_output.write_all(ping.as_bytes()).await.unwrap();
                written.send_replace(id);
            }
        });
        // Nobody reads the answers: what is read stays within the bounds of pipes, buffers and queue.
        while timeout(Duration::from_millis(50), most.changed())
            .await
            .is_ok()
        {}
        assert!(*most.borrow_and_update() < 1000, "{}", *most.borrow());
        let mut answers = BufReader::new(server_input).lines();
        for id in 0..count {
            let answer = answers.next_line().await.unwrap().unwrap();
            assert!(answer.contains(&format!("\"id\":{id},")), "{answer}");
        }
        drop(sender);
        assert_eq!(answers.next_line().await.unwrap(), None);
    }
}
