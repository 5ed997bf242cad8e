//! Starts MCP servers as subprocesses, and connects to them over stdio.

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rmcp::service::RoleClient;
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::Notify;

use crate::engine::process::{Child, LEAVES, Launch};
use crate::sys::blocking;

use super::bounded::{Bounded, LONGEST};
use super::lean::lean;
use super::secrets::McpSecrets;

/// A transport for the library over the pipes of a subprocess.
pub(super) type StdioTransport = Bounded<AsyncRwTransport<RoleClient, LeanOutput, ChildStdin>>;

/// How a server's subprocess is started.
#[derive(Clone, Copy)]
pub(super) struct SubprocessStart<'a> {
    pub(super) name: &'a str,
    pub(super) command: &'a str,
    pub(super) args: &'a [String],
    pub(super) env: &'a [(String, String)],
    pub(super) cwd: &'a str,
    /// How it is started.
    pub(super) launch: &'a Launch,
    /// The secrets to hide in its stderr.
    pub(super) secrets: &'a McpSecrets,
}

/// Starts the subprocess. Must be called inside of a runtime. Fails with the reason, in words.
pub(super) fn start(what: SubprocessStart<'_>) -> Result<(Child, StdioTransport), String> {
    if !blocking(|| Path::new(what.cwd).is_dir()) {
        return Err(format!("there is no folder {} to start it in", what.cwd));
    }
    spawn(what).map_err(|error| format!("`{}` cannot be started: {error}", what.command))
}

fn spawn(what: SubprocessStart<'_>) -> io::Result<(Child, StdioTransport)> {
    let mut command = what.launch.command(what.command);
    command
        .args(what.args)
        .envs(what.env.iter().map(|(name, value)| (name, value)))
        .current_dir(what.cwd);
    let name = what.name.to_owned();
    let secrets = what.secrets.clone();
    let log_line = move |line: &str| {
        let line = secrets.hide(line);
        tracing::debug!(target: "rejoin::mcp", server = name, "{}", line.escape_debug());
        line
    };
    let (child, input, output) =
        blocking(|| Child::start(command, what.launch, LEAVES, Box::new(log_line)))?;
    let transport = transport(
        ChildStdout::from_std(output.into_pipe())?,
        ChildStdin::from_std(input.into_pipe())?,
    );
    Ok((child, transport))
}

fn transport(output: ChildStdout, input: ChildStdin) -> StdioTransport {
    let too_long = Arc::new(Notify::new());
    let output = LeanOutput::new(output, too_long.clone());
    let transport = AsyncRwTransport::new_client(output, input);
    Bounded::new(transport.with_max_line_length(LONGEST), too_long)
}

/// How much is read at once, in bytes.
const BLOCK: usize = 16 * 1024;

/// The output of a subprocess, line by line, with less in its lists of tools. A line that is too long is
/// left out: the library would discard it silently.
pub(super) struct LeanOutput {
    output: ChildStdout,
    block: Box<[u8]>,
    /// The line that is being read.
    line: Vec<u8>,
    /// Whether the rest of the line is left out.
    is_too_long: bool,
    /// Whole lines, of which the library has taken so many bytes.
    lines: Vec<u8>,
    taken: usize,
    too_long: Arc<Notify>,
}

impl LeanOutput {
    fn new(output: ChildStdout, too_long: Arc<Notify>) -> Self {
        Self {
            output,
            block: vec![0; BLOCK].into(),
            line: Vec::new(),
            is_too_long: false,
            lines: Vec::new(),
            taken: 0,
            too_long,
        }
    }

    /// Takes what was read.
    fn read(&mut self, read: usize) {
        let block = std::mem::take(&mut self.block);
        for part in block[..read].split_inclusive(|byte| *byte == b'\n') {
            if !self.is_too_long && self.line.len() + part.len() > LONGEST {
                self.is_too_long = true;
                self.line = Vec::new();
                self.too_long.notify_one();
            }
            if !self.is_too_long {
                self.line.extend_from_slice(part);
            }
            if part.ends_with(b"\n") {
                self.is_too_long = false;
                self.end_line();
            }
        }
        self.block = block;
    }

    /// The line is complete.
    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let lean = std::str::from_utf8(&line).ok().and_then(lean);
        let mut line = lean.map_or(line, String::into_bytes);
        if self.lines.is_empty() {
            self.lines = line;
        } else {
            self.lines.append(&mut line);
        }
    }
}

impl AsyncRead for LeanOutput {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let own = &mut *self;
        while own.taken == own.lines.len() {
            (own.lines, own.taken) = (Vec::new(), 0);
            let mut block = ReadBuf::new(&mut own.block);
            ready!(Pin::new(&mut own.output).poll_read(cx, &mut block))?;
            let read = block.filled().len();
            own.read(read);
            if read == 0 {
                // The last line may have no end.
                own.end_line();
                if own.lines.is_empty() {
                    return Poll::Ready(Ok(()));
                }
            }
        }
        let rest = &own.lines[own.taken..];
        let some = rest.len().min(buffer.remaining());
        buffer.put_slice(&rest[..some]);
        own.taken += some;
        Poll::Ready(Ok(()))
    }
}
