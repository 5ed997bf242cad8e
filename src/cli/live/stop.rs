//! `rejoin stop`.

use std::collections::BTreeSet;

use crate::cli::count::count;
use crate::cli::exit::Failure;
use crate::cli::global::Global;
use crate::cli::output::Output;
use crate::cli::sessions::context::Context;
use crate::cli::sessions::id::find;
use crate::cli::sessions::named::SESSION;
use crate::cli::socket;
use crate::server::control::Stop;

use super::Live;

/// What to stop.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    #[arg(value_name = "ID", help = SESSION, required_unless_present = "all")]
    id: Option<String>,
    /// Stop all sessions, and the processes that keep sessions without a client.
    #[arg(long, conflicts_with = "id")]
    all: bool,
}

pub(in crate::cli) fn run(
    global: &Global,
    args: &Args,
    output: &mut Output,
) -> Result<(), Failure> {
    let context = Context::of_existing(global)?;
    match &args.id {
        Some(id) => stop_session(&context, id, output),
        None => stop_all(&context, output),
    }
}

fn stop_session(context: &Context<'_>, text: &str, output: &mut Output) -> Result<(), Failure> {
    let id = find(context, text)?;
    let name = context.name(&id, output)?;
    let Some((holder, stopped)) = socket::stop_session(&context.store, &id)? else {
        context.nothing(&format!("session {name} is not open"));
        return Ok(());
    };
    let ended = if stopped.ends {
        format!("; process {} has ended", holder.pid)
    } else {
        String::new()
    };
    output.say(format!("stopped {name}{ended}"))
}

fn stop_all(context: &Context<'_>, output: &mut Output) -> Result<(), Failure> {
    let live = Live::read(context)?;
    let mut sockets: BTreeSet<&str> = live.hosts.iter().map(|host| &*host.socket).collect();
    let mut failure = None;
    for session in &live.sessions {
        match session.socket() {
            Some(socket) => {
                sockets.insert(socket);
            }
            None => failure = Some(socket::unreachable(&session.holder, "it has no socket")),
        }
    }
    let (mut sessions, mut processes) = (0, 0);
    for socket in sockets {
        match socket::stop(&context.store, socket, &Stop::default()) {
            Ok(stopped) => {
                sessions += stopped.sessions.len();
                processes += usize::from(stopped.ends);
            }
            Err(error) => {
                let holder = live.sessions.iter().map(|session| &session.holder);
                let mut holder = holder.filter(|holder| holder.socket.as_deref() == Some(socket));
                let failed = match holder.next() {
                    Some(holder) => socket::unreachable(holder, &error.to_string()),
                    None => Failure::new(format!("cannot stop a process: {error}")),
                };
                failure = Some(failed);
            }
        }
    }
    let ended = match processes {
        0 => String::new(),
        _ => format!("; {} ended", count(processes, "process")),
    };
    output.say(format!("stopped {}{ended}", count(sessions, "session")))?;
    failure.map_or(Ok(()), Err)
}
