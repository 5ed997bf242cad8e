//! Starts MCP servers as subprocesses, and connects to them over stdio.

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::process::Command;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rmcp::service::RoleClient;
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::Notify;

use crate::engine::process::{Child, LEAVES};
use crate::sys::blocking;

use super::bounded::{Bounded, LONGEST};
use super::secrets::Secrets;

/// A transport for the library over the pipes of a subprocess.
pub(super) type StdioTransport = Bounded<AsyncRwTransport<RoleClient, MeasuredOutput, ChildStdin>>;

/// How a server's subprocess is started.
#[derive(Clone, Copy)]
pub(super) struct Start<'a> {
    pub(super) name: &'a str,
    pub(super) command: &'a str,
    pub(super) args: &'a [String],
    pub(super) env: &'a [(String, String)],
    pub(super) cwd: &'a str,
    /// The program that ends it if we are killed.
    pub(super) guard: Option<&'a Path>,
    /// The secrets to hide in its stderr.
    pub(super) secrets: &'a Secrets,
}

/// Starts the subprocess. Must be called inside of a runtime. Fails with the reason, in words.
pub(super) fn start(what: Start<'_>) -> Result<(Child, StdioTransport), String> {
    if !blocking(|| Path::new(what.cwd).is_dir()) {
        return Err(format!("there is no folder {} to start it in", what.cwd));
    }
    spawn(what).map_err(|error| format!("`{}` cannot be started: {error}", what.command))
}

fn spawn(what: Start<'_>) -> io::Result<(Child, StdioTransport)> {
    let mut command = Command::new(what.command);
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
        blocking(|| Child::start(command, what.guard, LEAVES, Box::new(log_line)))?;
    let transport = transport(
        ChildStdout::from_std(output.into_pipe())?,
        ChildStdin::from_std(input.into_pipe())?,
    );
    Ok((child, transport))
}

fn transport(output: ChildStdout, input: ChildStdin) -> StdioTransport {
    let too_long = Arc::new(Notify::new());
    let output = MeasuredOutput {
        output,
        line: 0,
        too_long: too_long.clone(),
    };
    let transport = AsyncRwTransport::new_client(output, input);
    Bounded::new(transport.with_max_line_length(LONGEST), too_long)
}

/// The output of a subprocess. It measures lines as the library does, because the library discards
/// long ones silently.
pub(super) struct MeasuredOutput {
    output: ChildStdout,
    line: usize,
    too_long: Arc<Notify>,
}

impl AsyncRead for MeasuredOutput {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.output).poll_read(cx, buffer))?;
        let read = buffer.filled().get(before..).unwrap_or_default();
        for part in read.split_inclusive(|byte| *byte == b'\n') {
            let was = self.line;
            self.line = was.saturating_add(part.len());
            if was <= LONGEST && self.line > LONGEST {
                self.too_long.notify_one();
            }
            if part.ends_with(b"\n") {
                self.line = 0;
            }
        }
        Poll::Ready(Ok(()))
    }
}
