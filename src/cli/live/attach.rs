//! `rejoin attach`.

use std::io;

use crate::cli::exit::{Failure, IN_USE};
use crate::cli::global::Global;
use crate::cli::pipe;
use crate::cli::sessions::context::CommandContext;
use crate::cli::sessions::id::{find_open, given};
use crate::cli::sessions::named::SESSION_OR_LIST;
use crate::cli::socket::greet;
use crate::cli::term::Output;
use rejoin::sys::SessionId;
use rejoin::transport::stdio;

use super::follow;

/// What to attach to.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    #[arg(value_name = "ID", help = SESSION_OR_LIST)]
    pub(in crate::cli) id: Option<String>,
    /// Only look on: be asked for no permission. Always so in a terminal without `--answer`.
    #[arg(long)]
    observe: bool,
    /// In a terminal, answer requests for permission: with `y` or `n`, or the number of an answer.
    #[arg(long, conflicts_with = "observe")]
    answer: bool,
}

pub(in crate::cli) fn run(global: &Global, args: &Args) -> Result<(), Failure> {
    let context = CommandContext::of_existing(global)?;
    let id = find_open(&context, given(args.id.as_ref())?)?;
    let mut output = Output::standard();
    if output.is_terminal() {
        follow::run(&context, &id, args.answer, &mut output)?;
        return output.finish();
    }
    if args.answer {
        let why = "permission can be given only in a terminal";
        return Err(Failure::usage(why).hint("leave out `--answer`: an ACP client is asked itself"));
    }
    pipe(&context, &id, args.observe)
}

/// Connects the ACP client on stdin and stdout to the process that has the session open.
fn pipe(context: &CommandContext<'_>, id: &SessionId, observe: bool) -> Result<(), Failure> {
    let Some(holder) = context.store.holder(id) else {
        return Err(Failure::new(format!("no process has session {id} open")).hint(
            "let the client start `rejoin` with its agent and load the session; `rejoin ps` lists \
             what is open",
        ));
    };
    let connected = if let Some(socket) = holder.local_socket() {
        greet(&context.store, socket, holder.pid, observe)
    } else {
        let why = "it has no socket that can be used from here";
        Err(io::Error::new(io::ErrorKind::Unsupported, why))
    };
    let peer = connected.map_err(|error| {
        let pid = holder.pid;
        let text = format!("process {pid} has session {id} open and cannot be reached: {error}");
        let failure = Failure::with_code(IN_USE, text);
        if error.kind() == io::ErrorKind::TimedOut {
            failure.hint(format!("`rejoin stop {id} --force` ends that process"))
        } else {
            failure
        }
    })?;
    let input = stdio::input().map_err(Failure::cannot_start)?;
    pipe::pass(&context.store, input, peer, None)
}
