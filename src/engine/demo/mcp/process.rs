//! Starts the subprocess of an MCP server and returns its pipes.

use std::io;
use std::path::Path;
use std::process::Command;

use tokio::process::{ChildStdin, ChildStdout};

use crate::engine::process::{Child, LEAVES};
use crate::sys::blocking;

use super::secrets::Secrets;

/// A server's subprocess and the ends of its pipes.
pub(super) type Started = (Child, ChildStdin, ChildStdout);

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
pub(super) fn start(what: Start<'_>) -> Result<Started, String> {
    if !blocking(|| Path::new(what.cwd).is_dir()) {
        return Err(format!("there is no folder {} to start it in", what.cwd));
    }
    spawn(what).map_err(|error| format!("`{}` cannot be started: {error}", what.command))
}

fn spawn(what: Start<'_>) -> io::Result<Started> {
    let mut command = Command::new(what.command);
    command
        .args(what.args)
        .envs(what.env.iter().map(|(name, value)| (name, value)))
        .current_dir(what.cwd);
    let name = what.name.to_owned();
    let secrets = what.secrets.clone();
    let heard = move |line: &str| {
        let line = secrets.hide(line);
        tracing::debug!(target: "rejoin::mcp", server = name, "{}", line.escape_debug());
        line
    };
    let (child, (input, output)) =
        blocking(|| Child::start(command, what.guard, LEAVES, Box::new(heard)))?;
    Ok((
        child,
        ChildStdin::from_std(input)?,
        ChildStdout::from_std(output)?,
    ))
}
