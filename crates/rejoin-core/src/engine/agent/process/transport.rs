//! The transport to an agent: the pipes of a subprocess, or the successor of a conductor.

use std::ffi::OsString;
use std::io::{self, Read};
use std::process::ChildStdout;
use std::sync::Mutex;
use std::time::Duration;

use crate::engine::process::{Child, Launch, ProcessInput, ProcessOutput};
use crate::engine::proxy::{Port, SuccessorConnection};
use crate::engine::upstream::Patience;
use crate::sys::{blocking, lock};
use crate::transport::message::{cancel_line, notification_line, request_line, response_line};
use crate::transport::{Outcome, Writer};

/// How much of a line of stderr is part of an error's message, in characters.
const LINE_SHOWN: usize = 200;

/// How an agent is started.
#[derive(Clone, Debug)]
pub struct Program {
    /// The command, then its arguments.
    pub command: Vec<OsString>,
    /// Further environment variables.
    pub env: Vec<(String, String)>,
    /// How processes are started.
    pub launch: Launch,
    /// How long it may take to exit after its input was closed.
    pub exit_timeout: Duration,
}

/// Where an agent comes from.
#[derive(Clone, Debug)]
pub(in crate::engine::agent) enum AgentSource {
    /// A subprocess that we start.
    Program(Program),
    /// The successor, which the conductor has started.
    Successor(Port),
}

/// The transport to a running agent.
#[derive(Debug)]
pub(in crate::engine::agent) enum AgentTransport {
    /// A subprocess, and the writer of its input; `None` once that was closed.
    Process(Child, Mutex<Option<Writer>>),
    /// The successor.
    Successor(SuccessorConnection),
}

/// The output of an agent.
pub(super) type Incoming = Box<dyn Read + Send>;

impl AgentSource {
    /// Opens a transport to the agent. Fails with a description.
    pub(in crate::engine::agent) fn open(&self) -> Result<(AgentTransport, Incoming), String> {
        match self {
            Self::Program(program) => {
                let message = |error: io::Error| error.to_string();
                let (child, input, output) = blocking(|| start(program)).map_err(message)?;
                let writer = Writer::start(input).map_err(message)?;
                Ok((
                    AgentTransport::Process(child, Mutex::new(Some(writer))),
                    Box::new(output),
                ))
            }
            Self::Successor(port) => {
                let (successor, output) = port.open().ok_or("the conductor has disconnected")?;
                Ok((AgentTransport::Successor(successor), Box::new(output)))
            }
        }
    }

    /// The command without its arguments, which may hold secrets.
    pub(in crate::engine::agent) fn command(&self) -> Option<String> {
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
    pub(in crate::engine::agent) fn request(&self, id: u64, method: &str, params: &str) {
        match self {
            Self::Process(_, out) => put(out, &request_line(&id.to_string(), method, params)),
            Self::Successor(successor) => successor.request(id, method, params),
        }
    }

    /// Sends a notification. `params` is the JSON text of an object.
    pub(in crate::engine::agent) fn notify(&self, method: &str, params: &str) {
        match self {
            Self::Process(_, out) => put(out, &notification_line(method, params)),
            Self::Successor(successor) => successor.notify(method, params),
        }
    }

    /// Takes a request back.
    pub(in crate::engine::agent) fn cancel(&self, id: u64) {
        match self {
            Self::Process(_, out) => {
                put(out, &cancel_line(&id.to_string()));
            }
            Self::Successor(successor) => successor.cancel(id),
        }
    }

    /// Answers a request of the agent, whose id is given as JSON text.
    pub(in crate::engine::agent) fn respond(&self, id: &str, outcome: &Outcome) {
        match self {
            Self::Process(_, out) => put(out, &response_line(id, outcome)),
            Self::Successor(successor) => successor.respond(id, outcome),
        }
    }

    /// How many bytes a subprocess has not read yet.
    pub(in crate::engine::agent) fn unread(&self) -> usize {
        match self {
            Self::Process(_, out) => lock(out).as_ref().map_or(0, Writer::unread),
            // The conductor's, whose bound is that of our own output.
            Self::Successor(_) => 0,
        }
    }

    /// Takes note that the agent has answered.
    pub(in crate::engine::agent) fn note_first_answer(&self) {
        if let Self::Process(child, _) = self {
            child.note_first_answer();
        }
    }

    /// Resolves when a subprocess no longer takes its input; never, if that was closed before.
    pub(in crate::engine::agent) fn is_deaf(&self) -> impl Future<Output = ()> + Send + use<> {
        let broken = match self {
            Self::Process(_, out) => lock(out).as_ref().map(Writer::broken),
            Self::Successor(_) => None,
        };
        async move {
            match broken {
                Some(broken) => broken.await,
                None => std::future::pending().await,
            }
        }
    }

    /// The number of the request of ours that the agent knows by this id, given as JSON text.
    pub(in crate::engine::agent) fn number(&self, id: &str) -> Option<u64> {
        match self {
            Self::Process(..) => id.parse().ok(),
            Self::Successor(successor) => successor.number(id),
        }
    }

    /// Ends a subprocess. Messages of the successor are ignored from now on.
    pub(in crate::engine::agent) async fn end(&self, patience: Patience) {
        match self {
            Self::Process(child, out) => {
                lock(out).take();
                child.end(patience).await;
            }
            Self::Successor(successor) => successor.close(),
        }
    }

    /// Ends a subprocess because our own process is about to exit. Messages of the successor are
    /// ignored from now on.
    pub(in crate::engine::agent) async fn leave(&self, patience: Patience) {
        match self {
            Self::Process(child, out) => {
                lock(out).take();
                child.leave(patience).await;
            }
            Self::Successor(successor) => successor.close(),
        }
    }

    /// Kills a subprocess. Messages of the successor are ignored from now on.
    pub(in crate::engine::agent) fn kill(&self) {
        match self {
            Self::Process(child, _) => child.kill(),
            Self::Successor(successor) => successor.close(),
        }
    }

    /// Why the agent has ended, in one line; `is_deaf` if that is because it took no more input.
    pub(in crate::engine::agent) fn exit_reason(&self, is_deaf: bool) -> String {
        let Self::Process(child, _) = self else {
            return "the conductor has closed the connection".to_owned();
        };
        let how = match child.how() {
            _ if is_deaf => "it closed its input".to_owned(),
            Some(how) => how,
            None => "it closed its output".to_owned(),
        };
        match child.stderr_tail().last() {
            Some(line) => {
                let line = cut(line);
                format!("{how}; its last line on stderr: {line}")
            }
            None => how,
        }
    }

    /// The last lines of its stderr.
    pub(in crate::engine::agent) fn stderr_tail(&self) -> Vec<String> {
        match self {
            Self::Process(child, _) => child.stderr_tail(),
            Self::Successor(_) => Vec::new(),
        }
    }

    /// How an agent has ended that did not answer `initialize`, in one line.
    pub(in crate::engine::agent) fn startup_failure(&self) -> String {
        let Self::Process(child, _) = self else {
            return "cannot be reached: the conductor has closed the connection".to_owned();
        };
        let ended = match child.how() {
            Some(how) => {
                // Windows says "exit code" instead.
                let how = how.replacen("exit status: ", "exit status ", 1);
                let how = how.replacen("exit code: ", "exit code ", 1);
                format!("ended before it answered `initialize` ({how})")
            }
            None => "closed its output before it answered `initialize`".to_owned(),
        };
        with_stderr(ended, child)
    }

    /// Whether the agent is a subprocess, whose unexpected end is logged.
    pub(in crate::engine::agent) fn is_process(&self) -> bool {
        matches!(self, Self::Process(..))
    }
}

/// A description of the end of a process with the last lines of its stderr.
pub(super) fn with_stderr(ended: String, child: &Child) -> String {
    let lines = child.stderr_tail();
    if lines.is_empty() {
        return ended;
    }
    format!("{ended}; its last output on stderr: {}", lines.join(" | "))
}

/// The beginning of a line.
fn cut(line: &str) -> String {
    match line.char_indices().nth(LINE_SHOWN) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

/// Starts the agent's process. Its stderr goes into our own log.
pub(super) fn start(
    program: &Program,
) -> io::Result<(Child, ProcessInput, ProcessOutput<ChildStdout>)> {
    let Some((name, arguments)) = program.command.split_first() else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let mut command = program.launch.command(name);
    command.args(arguments).envs(program.env.iter().cloned());
    let log_line = |line: &str| {
        tracing::info!(target: "rejoin::agent", "{}", line.escape_debug());
        line.to_owned()
    };
    Child::start(
        command,
        &program.launch,
        program.exit_timeout,
        Box::new(log_line),
    )
}

/// Sends a line, even if the agent does not keep up: the client's requests are bounded elsewhere.
fn put(out: &Mutex<Option<Writer>>, line: &str) {
    let line = line.trim_end_matches('\n');
    if let Some(out) = &*lock(out) {
        // An agent that no longer reads is about to end.
        out.put_line(line.as_bytes()).ok();
    }
}
