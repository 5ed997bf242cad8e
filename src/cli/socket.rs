//! Asks the processes of a store over their sockets: about themselves, to stop, to serve a client.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::num::NonZeroU64;
use std::panic::resume_unwind;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde_json::Value;

use rejoin::json::{string_member, text_member};
use rejoin::record::header::Implementation;
use rejoin::server::control::{
    ALIVE, ANSWER, CONNECT, Connect, Connected, DescribedClient, PROCESSES, ProcessDescription,
    STOP, StopRequest, Stopped,
};
use rejoin::session::Refusal;
use rejoin::session::link::message::{self as link, ATTACH, Attach, PASS, PROTOCOL, Passed, text};
use rejoin::store::{Holder, Store, StoreError};
use rejoin::sys::socket::{Closer, Stream};
use rejoin::sys::{SessionId, processes};
use rejoin::transport::message::request_line;

use super::exit::{Failure, IN_USE, OUT_OF_REACH};

/// How long a process may take to say what it has, before it is listed without that.
pub(super) const DESCRIBED: Duration = Duration::from_secs(2);
/// How long a process that is alive may take to stop what it does.
const STOPPED: Duration = Duration::from_secs(30);
/// How long it may take to end after that.
const ENDED: Duration = Duration::from_secs(10);

/// How long a process that gives no answer may take to end when it is asked to by a signal.
const TERMINATES: Duration = Duration::from_secs(3);

/// How often to try a socket that is not there: a process makes its own again within a few seconds.
const AGAIN: Duration = Duration::from_millis(50);

/// The longest answer, in bytes.
const LONGEST: u64 = 16 * 1024 * 1024;

/// The descriptions of processes, by the names of their sockets. All are asked at once. Fails with
/// [`io::ErrorKind::TimedOut`] for those that give no answer although they are there.
pub(super) fn describe<'a>(
    store: &Store,
    sockets: impl IntoIterator<Item = &'a str>,
    is_there: impl Fn(&str) -> bool + Sync,
) -> BTreeMap<String, io::Result<ProcessDescription>> {
    let ask = |socket: &str| {
        let stream = reach(store, socket, DESCRIBED, &|| is_there(socket))?;
        let (_, described) = ask_within(DESCRIBED, stream, PROCESSES, "{}")?;
        Ok(described)
    };
    let sockets: BTreeSet<_> = sockets.into_iter().collect();
    at_once(sockets, ask)
        .into_iter()
        .map(|(socket, described)| (socket.to_owned(), described))
        .collect()
}

/// Does the same with each of these, on threads of their own.
pub(super) fn at_once<K: Copy + Send, T: Send>(
    all: impl IntoIterator<Item = K>,
    work: impl Fn(K) -> T + Sync,
) -> Vec<(K, T)> {
    thread::scope(|scope| {
        let work = &work;
        let begun: Vec<_> = all
            .into_iter()
            .map(|one| scope.spawn(move || (one, work(one))))
            .collect();
        begun
            .into_iter()
            .map(|one| one.join().unwrap_or_else(|panic| resume_unwind(panic)))
            .collect()
    })
}

/// Connects to a process. If it has no socket, waits until there is one, for so long at most and while
/// the process `is_there`; then fails with [`io::ErrorKind::TimedOut`].
fn reach(
    store: &Store,
    socket: &str,
    limit: Duration,
    is_there: &dyn Fn() -> bool,
) -> io::Result<Stream> {
    let begun = Instant::now();
    loop {
        let error = match store.connect_to(socket) {
            Err(error) if is_missing(&error) && is_there() => error,
            connected => return connected,
        };
        if begun.elapsed() > limit {
            let limit = humantime::format_duration(limit);
            let why = format!("it gives no answer within {limit}: {error}");
            return Err(io::Error::new(io::ErrorKind::TimedOut, why));
        }
        thread::sleep(AGAIN);
    }
}

/// Whether a connection has failed because nobody listens.
fn is_missing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
    )
}

/// Fails with [`io::ErrorKind::TimedOut`] if a process that `is_there` gives no answer. One that can no
/// longer be reached is about to end.
pub(super) fn check(store: &Store, socket: &str, is_there: &dyn Fn() -> bool) -> io::Result<()> {
    let asked = reach(store, socket, ANSWER, is_there)
        .and_then(|stream| ask_within::<Value>(ANSWER, stream, ALIVE, "{}"));
    match asked {
        Err(error) if error.kind() == io::ErrorKind::TimedOut => Err(error),
        _ => Ok(()),
    }
}

/// Stops a session, or all of a process. Waits until the process has ended, if it does. If it gives no
/// answer and still `is_there`, fails with [`io::ErrorKind::TimedOut`].
pub(super) fn stop(
    store: &Store,
    socket: &str,
    stop: &StopRequest,
    is_there: &dyn Fn() -> bool,
) -> io::Result<Stopped> {
    let stream = match reach(store, socket, ANSWER, is_there) {
        // The process has ended meanwhile.
        Err(error) if is_missing(&error) && !is_there() => {
            return Ok(Stopped {
                ends: true,
                ..Stopped::default()
            });
        }
        reached => reached?,
    };
    // What it has to stop takes time, and this does not.
    let (stream, _) = ask_within::<Value>(ANSWER, stream, ALIVE, "{}").or_else(|error| {
        // An earlier release does not know the request, and is alive.
        if error.kind() == io::ErrorKind::TimedOut {
            return Err(error);
        }
        Ok((store.connect_to(socket)?, Value::Null))
    })?;
    let (mut stream, stopped) = ask_within::<Stopped>(STOPPED, stream, STOP, &text(stop))?;
    if stopped.ends {
        let closer = stream.closer.clone();
        // The process closes the connection when it ends. How does not matter.
        let ended = move || {
            io::copy(&mut stream.input, &mut io::sink()).ok();
            Ok(())
        };
        within(ENDED, &closer, ended)?;
    }
    Ok(stopped)
}

/// Stops a session. `None` if no process has it open. A process that gives no answer is ended if
/// `by_force`.
pub(super) fn stop_session(
    store: &Store,
    id: &SessionId,
    by_force: bool,
) -> Result<Option<(Holder, Stopped)>, Failure> {
    let Some(holder) = store.holder(id) else {
        return Ok(None);
    };
    // As long as the log is locked by it, it is the process that is meant.
    let is_there = || is_held_by(store, id, &holder);
    let stop = StopRequest {
        session_id: Some(id.to_string()),
    };
    let asked = if let Some(socket) = holder.local_socket() {
        self::stop(store, socket, &stop, &is_there)
    } else {
        let why = "it has no socket that can be used from here";
        let kind = if holder.is_on_this_host() {
            io::ErrorKind::TimedOut
        } else {
            io::ErrorKind::Unsupported
        };
        Err(io::Error::new(kind, why))
    };
    let stopped = match asked {
        Err(error) if error.kind() == io::ErrorKind::TimedOut => {
            if !by_force {
                let failure = unreachable(&holder, &error.to_string());
                return Err(failure.hint(format!("`rejoin stop {id} --force` ends that process")));
            }
            end(holder.pid, holder.started, is_there)?;
            Stopped {
                sessions: vec![id.to_string()],
                ends: true,
                ..Stopped::default()
            }
        }
        stopped => stopped.map_err(|error| unreachable(&holder, &error.to_string()))?,
    };
    Ok(Some((holder, stopped)))
}

/// Whether this process has the session open. It may be ending by now.
pub(super) fn is_held_by(store: &Store, id: &SessionId, holder: &Holder) -> bool {
    let now = store.holder(id);
    now.is_some_and(|now| {
        (now.pid, now.started, &now.host) == (holder.pid, holder.started, &holder.host)
    })
}

/// Ends a process that gives no answer: the one that began then, and only if it still holds what it is
/// known by.
pub(super) fn end(
    pid: u32,
    started: Option<NonZeroU64>,
    is_still: impl Fn() -> bool,
) -> Result<(), Failure> {
    let failed = |why: &str| {
        Failure::with_code(IN_USE, format!("process {pid} cannot be ended: {why}"))
            .hint(format!("if it is still there, `kill -KILL {pid}` ends it"))
    };
    let Some(started) = started else {
        return Err(failed("it has not noted when it began"));
    };
    if !is_still() {
        return Ok(());
    }
    processes::end(pid, started, TERMINATES).map_err(|error| failed(&error.to_string()))
}

/// The process that has a session cannot be asked to stop it.
pub(super) fn unreachable(holder: &Holder, why: &str) -> Failure {
    let Holder { pid, host, .. } = holder;
    Failure::with_code(
        IN_USE,
        format!(
            "process {pid} on {host} has the session open and cannot be asked to stop it: {why}"
        ),
    )
    .hint(if holder.can_be_reached() {
        "end that process, or close the session in its client"
    } else {
        OUT_OF_REACH
    })
}

/// A process that serves a client.
pub(super) struct HostConnection {
    pub(super) pid: u32,
    /// Its release.
    pub(super) version: String,
    /// The name of its socket.
    pub(super) socket: String,
    pub(super) stream: Stream,
}

/// Begins the connection of a client, which only looks on if it `observes`, to the process with this id.
pub(super) fn greet(
    store: &Store,
    socket: &str,
    pid: u32,
    observe: bool,
) -> io::Result<HostConnection> {
    let stream = store.connect_to(socket)?;
    let connect = Connect {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        observe,
    };
    let (stream, connected) = ask_within::<Connected>(ANSWER, stream, CONNECT, &text(&connect))?;
    Ok(HostConnection {
        pid,
        version: connected.version,
        socket: socket.to_owned(),
        stream,
    })
}

/// Has the process that has a session open change it, as a client of it would. Fails if that process cannot
/// be reached; the answer says whether it has refused.
pub(super) fn pass(
    store: &Store,
    holder: Holder,
    id: &SessionId,
    request: &Passed,
) -> Result<Result<(), Refusal>, Failure> {
    let Some(socket) = holder.local_socket() else {
        let (holder, id) = (Some(holder), id.clone());
        return Err(StoreError::InUse { holder, id }.into());
    };
    let passed = pass_to(store, socket, id, request);
    passed.map_err(|error| unreachable(&holder, &error.to_string()))
}

/// Passes a request to the process with this socket.
fn pass_to(
    store: &Store,
    socket: &str,
    id: &SessionId,
    request: &Passed,
) -> io::Result<Result<(), Refusal>> {
    let client = Implementation {
        name: rejoin::NAME.to_owned(),
        version: None,
    };
    let attach = Attach {
        protocol: PROTOCOL,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        session_id: id.to_string(),
        name: id.to_string(),
        client: Some(client),
        observe: false,
        pid: std::process::id(),
        abilities: None,
    };
    let stream = store.connect_to(socket)?;
    let (stream, _) = ask_within::<Value>(ANSWER, stream, ATTACH, &text(&attach))?;
    let (_, answer) = ask_within::<link::Answer>(STOPPED, stream, PASS, &text(request))?;
    Ok(answer.map(drop))
}

/// The failure because a session is in use. A process may have the session without a client.
pub(super) fn in_use(store: &Store, error: StoreError) -> Failure {
    let StoreError::InUse {
        holder: Some(holder),
        id,
    } = &error
    else {
        return error.into();
    };
    let Some(socket) = holder.local_socket() else {
        return error.into();
    };
    let described = describe(store, [socket], |_| is_held_by(store, id, holder)).remove(socket);
    let has_it = |client: &DescribedClient| client.sessions.iter().any(|has| has == id.as_str());
    match described {
        Some(Ok(process)) if !process.clients.iter().any(has_it) => {
            let text = format!(
                "process {} keeps session {id}, without a client",
                process.pid
            );
            Failure::with_code(IN_USE, text).hint(format!("`rejoin stop {id}` ends that"))
        }
        _ => error.into(),
    }
}

/// Sends a request on a connection on which nothing else is under way, and waits so long for its
/// result.
fn ask_within<T: DeserializeOwned + Send + 'static>(
    limit: Duration,
    mut stream: Stream,
    method: &'static str,
    params: &str,
) -> io::Result<(Stream, T)> {
    let (closer, params) = (stream.closer.clone(), params.to_owned());
    within(limit, &closer, move || {
        let result = ask(&mut stream, method, &params)?;
        Ok((stream, result))
    })
}

/// Sends a request and waits for its result.
fn ask<T: DeserializeOwned>(stream: &mut Stream, method: &str, params: &str) -> io::Result<T> {
    let line = request_line("0", method, params);
    // A process that has no descriptors left says so at once, and reads nothing.
    let sent = stream.output.write_all(line.as_bytes());
    let input = std::mem::replace(&mut stream.input, Box::new(io::empty()));
    let mut input = BufReader::new(input);
    let mut answer = String::new();
    // Whatever the process says meanwhile is for clients.
    let read = loop {
        answer.clear();
        let read = input.by_ref().take(LONGEST).read_line(&mut answer);
        if text_member(&answer, "method").is_none() {
            break read;
        }
    };
    stream.input = Box::new(input);
    let Some(result) = text_member(&answer, "result") else {
        let error = text_member(&answer, "error").and_then(|error| string_member(error, "message"));
        if error.is_none() {
            sent.and(read)?;
        }
        let error = error.unwrap_or_else(|| "it gives no answer".to_owned());
        return Err(io::Error::other(error));
    };
    Ok(serde_json::from_str(result)?)
}

/// Does some work with a connection on a thread of its own, and waits so long for it. Closes the
/// connection after that, which ends the thread.
fn within<T: Send + 'static>(
    limit: Duration,
    closer: &Closer,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let (result, done) = mpsc::channel();
    thread::spawn(move || result.send(work()).ok());
    if let Ok(result) = done.recv_timeout(limit) {
        return result;
    }
    closer.close();
    let limit = humantime::format_duration(limit);
    let why = format!("it gives no answer within {limit}");
    Err(io::Error::new(io::ErrorKind::TimedOut, why))
}
