//! Live sessions and processes of the store: `rejoin ps`, `wait`, `stop` and `attach`.

pub(super) mod attach;
mod follow;
mod permission;
pub(super) mod ps;
pub(super) mod stop;
pub(super) mod wait;

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use crate::cli::exit::Failure;
use crate::cli::sessions::context::CommandContext;
use crate::cli::sessions::open_sessions::{ListedOpenSession, open_sessions};
use crate::cli::socket;
use rejoin::redact::command::masked_command;
use rejoin::server::control::ProcessDescription;
use rejoin::store::Host;

/// The live sessions and processes.
struct Live {
    sessions: Vec<ListedOpenSession>,
    /// The processes that have answered, by the names of their sockets.
    processes: BTreeMap<String, ProcessDescription>,
    /// The sockets of those that have not answered in time.
    silent: BTreeSet<String>,
    hosts: Vec<Host>,
}

impl Live {
    /// Looks for it, without asking the processes.
    fn find(context: &CommandContext<'_>) -> Result<Self, Failure> {
        Ok(Self {
            sessions: open_sessions(context)?,
            processes: BTreeMap::new(),
            silent: BTreeSet::new(),
            hosts: context.store.hosts(),
        })
    }

    /// Looks for it, and asks the processes what they have.
    fn read(context: &CommandContext<'_>) -> Result<Self, Failure> {
        let mut live = Self::find(context)?;
        for host in &mut live.hosts {
            // Hosts of earlier releases have written all of it.
            host.command = masked_command(host.command.iter().map(String::as_str));
        }
        let (sessions, hosts) = (&live.sessions, &live.hosts);
        let sockets = sessions.iter().filter_map(|session| session.socket());
        let sockets = sockets.chain(hosts.iter().map(|host| host.socket.as_str()));
        let is_there = |socket: &str| live.is_there(context, socket);
        for (socket, described) in socket::describe(&context.store, sockets, is_there) {
            match described {
                Ok(described) => {
                    live.processes.insert(socket, described);
                }
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                    live.silent.insert(socket);
                }
                // A process that is ending no longer has a socket.
                Err(_) => {}
            }
        }
        Ok(live)
    }

    /// Whether the process with this socket still holds a lock by which it was found, and is not about
    /// to end.
    fn is_there(&self, context: &CommandContext<'_>, socket: &str) -> bool {
        let store = &context.store;
        let mut held = self
            .sessions
            .iter()
            .filter(|session| session.socket() == Some(socket) && !session.holder.ending);
        let mut hosts = self.hosts.iter().filter(|host| host.socket == socket);
        held.any(|session| store.holder(session.id()).as_ref() == Some(&session.holder))
            || hosts.any(|host| store.hosts().iter().any(|now| now.socket == host.socket))
    }

    /// Whether a process answers, if it was asked: one that is not to be reached from here is not.
    fn answers(&self, socket: Option<&str>) -> Option<bool> {
        let socket = socket?;
        let is_silent = self.silent.contains(socket);
        (is_silent || self.processes.contains_key(socket)).then_some(!is_silent)
    }

    /// The process that has a session open, if it has answered.
    fn process_of(&self, session: &ListedOpenSession) -> Option<&ProcessDescription> {
        self.processes.get(session.socket()?)
    }
}
