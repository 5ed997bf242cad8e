//! `rejoin stop`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::io;
use std::num::NonZeroU64;

use crate::cli::exit::{Failure, IN_USE};
use crate::cli::global::Global;
use crate::cli::sessions::context::CommandContext;
use crate::cli::sessions::id::{find_open, given};
use crate::cli::sessions::named::SESSION_OR_LIST;
use crate::cli::socket;
use crate::cli::term::{Output, count};
use rejoin::server::control::{StopRequest, Stopped};
use rejoin::store::{Holder, Host};
use rejoin::sys::SessionId;

use super::Live;

/// What to stop.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    #[arg(value_name = "ID", help = SESSION_OR_LIST)]
    pub(in crate::cli) id: Option<String>,
    /// Stop all sessions, and the processes that keep sessions without a client.
    #[arg(long, conflicts_with = "id")]
    all: bool,
    /// End processes that give no answer, by SIGTERM and after 3 seconds by SIGKILL. Turns that run in
    /// them are interrupted. Without an ID and `--all`, nothing else is stopped.
    #[arg(long)]
    force: bool,
}

impl Args {
    /// Whether no single session is to be stopped.
    pub(in crate::cli) fn names_none(&self) -> bool {
        self.id.is_none() && (self.all || self.force)
    }
}

pub(in crate::cli) fn run(
    global: &Global,
    args: &Args,
    output: &mut Output,
) -> Result<(), Failure> {
    let context = CommandContext::of_existing(global)?;
    if args.names_none() {
        return stop_all(&context, args, output);
    }
    stop_session(&context, given(args.id.as_ref())?, args.force, output)
}

fn stop_session(
    context: &CommandContext<'_>,
    text: &str,
    by_force: bool,
    output: &mut Output,
) -> Result<(), Failure> {
    let id = find_open(context, text)?;
    let name = context.name(&id, output)?;
    let Some((holder, stopped)) = socket::stop_session(&context.store, &id, by_force)? else {
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

/// A process that is to stop what it does.
struct StopTarget<'a> {
    pid: u32,
    /// When it began, in the system's terms.
    started: Option<NonZeroU64>,
    /// The sessions that it has open.
    sessions: Vec<(&'a SessionId, &'a Holder)>,
    host: Option<&'a Host>,
}

impl StopTarget<'_> {
    /// Whether the process still holds the locks by which it is known.
    fn is_still(&self, context: &CommandContext<'_>) -> bool {
        let store = &context.store;
        let is_host = self.host.is_some_and(|host| store.hosts().contains(host));
        let has = |(id, holder): &(&SessionId, &Holder)| socket::is_held_by(store, id, holder);
        is_host || self.sessions.iter().any(has)
    }

    /// Ends it.
    fn end(&self, context: &CommandContext<'_>) -> Result<Stopped, Failure> {
        socket::end(self.pid, self.started, || self.is_still(context))?;
        let sessions = self.sessions.iter();
        Ok(Stopped {
            sessions: sessions.map(|(id, _)| id.to_string()).collect(),
            ends: true,
            ..Stopped::default()
        })
    }
}

/// The outcome for a process.
enum StopOutcome {
    Stopped(Stopped),
    /// The process with this id gives no answer.
    Silent(u32),
    Failed(Failure),
}

fn stop_all(context: &CommandContext<'_>, args: &Args, output: &mut Output) -> Result<(), Failure> {
    let live = Live::find(context)?;
    // By their ids, and their sockets if they have one.
    let mut targets: BTreeMap<(u32, Option<&str>), StopTarget<'_>> = BTreeMap::new();
    for host in &live.hosts {
        let target = StopTarget {
            pid: host.pid,
            started: host.started,
            sessions: Vec::new(),
            host: Some(host),
        };
        targets.insert((host.pid, Some(&host.socket)), target);
    }
    let mut failure = None;
    for session in &live.sessions {
        let holder = &session.holder;
        let socket = session.socket();
        // A process that has none may be alive, so it is ended only if all are to stop.
        if socket.is_none() && !(args.all && args.force && holder.is_on_this_host()) {
            failure = Some(socket::unreachable(holder, "it has no socket"));
            continue;
        }
        let key = (holder.pid, socket);
        let target = targets.entry(key).or_insert_with(|| StopTarget {
            pid: holder.pid,
            started: holder.started,
            sessions: Vec::new(),
            host: None,
        });
        target.sessions.push((session.id(), holder));
    }
    let stop = |key: (u32, Option<&str>)| {
        let target = &targets[&key];
        let is_there = || target.is_still(context);
        let stopped = match key.1 {
            Some(socket) if args.all => {
                let stop = StopRequest::default();
                socket::stop(&context.store, socket, &stop, &is_there)
            }
            Some(socket) => {
                let checked = socket::check(&context.store, socket, &is_there);
                checked.map(|()| Stopped::default())
            }
            None => Err(io::ErrorKind::TimedOut.into()),
        };
        match stopped {
            Ok(stopped) => StopOutcome::Stopped(stopped),
            Err(error) if error.kind() != io::ErrorKind::TimedOut => {
                let text = format!("process {} cannot be asked to stop: {error}", target.pid);
                StopOutcome::Failed(Failure::with_code(IN_USE, text))
            }
            Err(_) if args.force => match target.end(context) {
                Ok(stopped) => StopOutcome::Stopped(stopped),
                Err(failure) => StopOutcome::Failed(failure),
            },
            Err(_) => StopOutcome::Silent(target.pid),
        }
    };
    let (mut sessions, mut pending, mut processes, mut silent) = (0, 0, 0, Vec::new());
    for (_, outcome) in socket::at_once(targets.keys().copied(), stop) {
        match outcome {
            StopOutcome::Stopped(stopped) => {
                sessions += stopped.sessions.len();
                pending += stopped.pending.len();
                processes += usize::from(stopped.ends);
            }
            StopOutcome::Silent(pid) => silent.push(pid),
            StopOutcome::Failed(failed) => failure = Some(failed),
        }
    }
    let mut text = format!("stopped {}", count(sessions, "session"));
    if pending > 0 {
        let pending = count(pending, "other");
        // Text takes everything.
        write!(text, "; {pending} did not stop in time").ok();
    }
    if processes > 0 {
        write!(text, "; {} ended", count(processes, "process")).ok();
    }
    output.say(text)?;
    if let Some(silent) = no_answer(&silent) {
        failure = Some(silent.hint("`rejoin stop --force` ends what gives no answer"));
    }
    failure.map_or(Ok(()), Err)
}

/// The failure because of processes that give no answer.
fn no_answer(silent: &[u32]) -> Option<Failure> {
    let pids: Vec<_> = silent.iter().map(u32::to_string).collect();
    let text = match &pids[..] {
        [] => return None,
        [pid] => format!("process {pid} gives no answer"),
        [pids @ .., last] => {
            let pids = pids.join(", ");
            format!("processes {pids} and {last} give no answer")
        }
    };
    Some(Failure::with_code(IN_USE, text))
}
