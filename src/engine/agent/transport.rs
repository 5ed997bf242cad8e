//! What an agent is to us: a process of ours, or the successor that a conductor has started.

use std::ffi::OsString;
use std::io::{self, Read};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use crate::engine::process::{Child, Pipes};
use crate::engine::proxy::{Port, SuccessorConnection};
use crate::engine::relay::Patience;
use crate::sys::{blocking, lock};
use crate::transport::message::{notification_line, request_line, response_line};
use crate::transport::{Outcome, Writer};

/// How an agent is started.
#[derive(Clone, Debug)]
pub struct Program {
    /// The command, then its arguments.
    pub command: Vec<OsString>,
    /// The program that [guards](crate::engine::process::guard) it, if one is to.
    pub guard: Option<PathBuf>,
    /// How long it may take to end when its input has ended.
    pub exit_timeout: Duration,
}

/// Where an agent comes from.
#[derive(Clone, Debug)]
pub(super) enum Source {
    /// We start it.
    Program(Program),
    /// It is there.
    Successor(Port),
}

/// The other end of a connection with an agent.
#[derive(Debug)]
pub(super) enum AgentTransport {
    /// A process, and where its input is written; `None` once that has ended.
    Process(Child, Mutex<Option<Writer>>),
    /// The successor.
    Successor(SuccessorConnection),
}

/// What an agent says.
pub(super) type Output = Box<dyn Read + Send>;

impl Source {
    /// Makes a connection with the agent. Fails with the reason, in words.
    pub(super) fn open(&self) -> Result<(AgentTransport, Output), String> {
        match self {
            Self::Program(program) => {
                let in_words = |error: std::io::Error| error.to_string();
                let (child, (input, output)) = blocking(|| start(program)).map_err(in_words)?;
                let writer = Writer::start(input).map_err(in_words)?;
                Ok((
                    AgentTransport::Process(child, Mutex::new(Some(writer))),
                    Box::new(output),
                ))
            }
            Self::Successor(port) => {
                let (seat, output) = port.open().ok_or("the conductor has left")?;
                Ok((AgentTransport::Successor(seat), Box::new(output)))
            }
        }
    }

    /// The command, as far as it can be told: arguments may hold secrets.
    pub(super) fn command(&self) -> Option<String> {
        match self {
            Self::Program(program) => {
                let command = program.command.first();
                command.map(|name| name.to_string_lossy().into_owned())
            }
            Self::Successor(_) => None,
        }
    }
}

impl AgentTransport {
    /// Sends a request. `params` is the JSON text of an object.
    pub(super) fn request(&self, id: u64, method: &str, params: &str) {
        match self {
            Self::Process(_, out) => put(out, &request_line(id, method, params)),
            Self::Successor(seat) => seat.request(id, method, params),
        }
    }

    /// Sends a notification. `params` is the JSON text of an object.
    pub(super) fn notify(&self, method: &str, params: &str) {
        match self {
            Self::Process(_, out) => put(out, &notification_line(method, params)),
            Self::Successor(seat) => seat.notify(method, params),
        }
    }

    /// Takes a request back.
    pub(super) fn cancel(&self, id: u64) {
        match self {
            Self::Process(_, out) => {
                let params = format!(r#"{{"requestId":{id}}}"#);
                put(out, &notification_line("$/cancel_request", &params));
            }
            Self::Successor(seat) => seat.cancel(id),
        }
    }

    /// Answers a request of the agent, whose id is given as JSON text.
    pub(super) fn respond(&self, id: &str, outcome: &Outcome) {
        match self {
            Self::Process(_, out) => put(out, &response_line(id, outcome)),
            Self::Successor(seat) => seat.respond(id, outcome),
        }
    }

    /// The number of the request of ours that the agent knows by this id, given as JSON text.
    pub(super) fn number(&self, id: &str) -> Option<u64> {
        match self {
            Self::Process(..) => id.parse().ok(),
            Self::Successor(seat) => seat.number(id),
        }
    }

    /// Ends a process of ours; the successor is the conductor's, and only not heard any more.
    pub(super) async fn end(&self, patience: Patience) {
        match self {
            Self::Process(child, out) => {
                lock(out).take();
                child.end(patience).await;
            }
            Self::Successor(seat) => seat.close(),
        }
    }

    /// The same when we end ourselves.
    pub(super) async fn leave(&self, patience: Patience) {
        match self {
            Self::Process(child, out) => {
                lock(out).take();
                child.leave(patience).await;
            }
            Self::Successor(seat) => seat.close(),
        }
    }

    /// The same, at once.
    pub(super) fn kill(&self) {
        match self {
            Self::Process(child, _) => child.kill(),
            Self::Successor(seat) => seat.close(),
        }
    }

    /// Why the agent is gone, in one line.
    pub(super) fn exit_reason(&self) -> String {
        let Self::Process(child, _) = self else {
            return "the conductor has closed the connection".to_owned();
        };
        let how = child.how();
        let how = how.unwrap_or_else(|| "it closed its output".to_owned());
        with_words(how, child)
    }

    /// How an agent has ended that did not answer `initialize`, in one line.
    pub(super) fn last_words(&self) -> String {
        let Self::Process(child, _) = self else {
            return "cannot be reached: the conductor has closed the connection".to_owned();
        };
        let ended = match child.how() {
            Some(how) => {
                let how = how.replacen("exit status: ", "exit status ", 1);
                format!("ended before it answered `initialize` ({how})")
            }
            None => "closed its output before it answered `initialize`".to_owned(),
        };
        with_words(ended, child)
    }

    /// Whether it may end by itself, which is worth a warning.
    pub(super) fn is_process(&self) -> bool {
        matches!(self, Self::Process(..))
    }
}

fn with_words(ended: String, child: &Child) -> String {
    match child.last_words() {
        Some(words) => format!("{ended}; it said last: {words}"),
        None => ended,
    }
}

/// Starts the agent's process, whose words go into our own log.
fn start(program: &Program) -> io::Result<(Child, Pipes)> {
    let Some((name, arguments)) = program.command.split_first() else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let mut command = Command::new(name);
    command.args(arguments);
    let heard = |line: &str| {
        tracing::info!(target: "rejoin::agent", "{}", line.escape_debug());
        line.to_owned()
    };
    let guard = program.guard.as_deref();
    Child::start(command, guard, program.exit_timeout, Box::new(heard))
}

/// Sends a line, even if the agent does not keep up: what a client asks for is bounded elsewhere.
fn put(out: &Mutex<Option<Writer>>, line: &str) {
    let line = line.trim_end_matches('\n');
    if let Some(out) = &*lock(out) {
        // An agent that no longer reads is about to end.
        out.put_line(line.as_bytes()).ok();
    }
}
