//! `rejoin mcp`: an MCP server on stdin and stdout.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rejoin::engine::agent::KEY;
use rejoin::mcp::{Scope, serve};
use rejoin::store::{Durability, Store};
use rejoin::sys::Sys;
use rejoin::sys::environment::variable;
use rejoin::transport::stdio;

use crate::cli::exit::Failure;
use crate::cli::global::Global;
use crate::cli::sessions::list;
use crate::cli::sources;
use crate::cli::store_path;
use crate::cli::term::{note, stdin_is_terminal};

/// Which conversations to serve.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// Only conversations with this working directory; by default the current folder.
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// The conversations of all working directories.
    #[arg(long, conflicts_with = "cwd")]
    all: bool,
    /// Socket of a process that lends its conversations to this one.
    #[arg(long, value_name = "SOCKET", hide = true, conflicts_with_all = ["cwd", "all"])]
    through: Option<PathBuf>,
    #[command(flatten)]
    sources: sources::Args,
}

pub(in crate::cli) fn run(global: &Global, args: &Args) -> Result<(), Failure> {
    if let Some(socket) = &args.through {
        return through(socket);
    }
    let cwd = args.cwd.as_deref().unwrap_or(Path::new("."));
    let folder = list::folder(Some(cwd).filter(|_| !args.all))?;
    let scope = folder.map_or(Scope::ALL, |folder| Scope::folder(&folder));
    if stdin_is_terminal() {
        let text = "waiting for an MCP client on stdin; press Ctrl-D to end";
        note(global, text, None);
    }
    // A store that does not exist has no conversations; reading does not create it.
    let store = Store::at(&store_path::root(global)?, Sys::real(), Durability::Turn);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_time()
        .build()
        .map_err(Failure::cannot_start)?;
    let served = runtime.block_on(serve(
        store,
        args.sources.live(global, true)?,
        scope,
        stdio::async_input(),
        stdio::async_output(),
    ));
    // Do not wait for a thread that still reads the client's input.
    runtime.shutdown_timeout(Duration::ZERO);
    served.map_err(|error| Failure::new(format!("cannot serve: {error}")))
}

/// Passes on what the client and the process with the socket write to each other, until one of them
/// ends.
fn through(socket: &Path) -> Result<(), Failure> {
    let cannot = |why: &dyn std::fmt::Display| {
        Failure::new(format!(
            "cannot reach the process that has offered this: {why}"
        ))
    };
    let key = variable(KEY).ok_or_else(|| cannot(&"its key is missing"))?;
    let folder = socket.parent().unwrap_or(Path::new("/"));
    let name = socket.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| cannot(&"the socket has no name"))?;
    let stream = Sys::real().sockets.connect(folder, name);
    let mut stream = stream.map_err(|error| cannot(&error))?;
    let mut input = stdio::input().map_err(Failure::cannot_start)?;
    let mut output = stdio::output().map_err(Failure::cannot_start)?;
    let sent = stream.output.write_all(format!("{key}\n").as_bytes());
    sent.map_err(|error| cannot(&error))?;
    std::thread::spawn(move || {
        // Its end, which the other process sees, is all that counts.
        io::copy(&mut input, &mut stream.output).ok();
    });
    let copied = io::copy(&mut stream.input, &mut output);
    copied.map(drop).map_err(|error| cannot(&error))
}
