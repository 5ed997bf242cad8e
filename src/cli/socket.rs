//! Asks the processes of a store over their sockets: about themselves, to stop, to serve a client.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::json::{string_member, text_member};
use crate::server::control::{
    CONNECT, Connect, Connected, Described, PROCESSES, STOP, Stop, Stopped,
};
use crate::session::link::message::text;
use crate::store::{Holder, Store};
use crate::sys::SessionId;
use crate::sys::socket::Stream;
use crate::transport::message::request_line;

use super::exit::{Failure, IN_USE};

/// How long a process may take to say what it has.
const DESCRIBED: Duration = Duration::from_secs(2);
/// How long it may take to stop what it does, and to end.
const STOPPED: Duration = Duration::from_secs(30);

/// The longest answer, in bytes.
const LONGEST: u64 = 16 * 1024 * 1024;

/// What a process has.
pub(super) fn describe(store: &Store, socket: &str) -> io::Result<Described> {
    let mut stream = store.connect_to(socket)?;
    within(DESCRIBED, move || ask(&mut stream, PROCESSES, "{}"))
}

/// Stops a session, or all of a process. Waits until the process has ended, if it does.
pub(super) fn stop(store: &Store, socket: &str, stop: &Stop) -> io::Result<Stopped> {
    let mut stream = store.connect_to(socket)?;
    let params = text(stop);
    within(STOPPED, move || {
        let stopped = ask::<Stopped>(&mut stream, STOP, &params)?;
        if stopped.ends {
            // It closes the connection when it ends. How does not matter.
            io::copy(&mut stream.input, &mut io::sink()).ok();
        }
        Ok(stopped)
    })
}

/// Stops a session. `None` if no process has it open.
pub(super) fn stop_session(
    store: &Store,
    id: &SessionId,
) -> Result<Option<(Holder, Stopped)>, Failure> {
    let Some(holder) = store.holder(id) else {
        return Ok(None);
    };
    let Some(socket) = holder.local_socket() else {
        return Err(unreachable(
            &holder,
            "it has no socket that can be used from here",
        ));
    };
    let stop = Stop {
        session_id: Some(id.to_string()),
    };
    let stopped = self::stop(store, socket, &stop);
    let stopped = stopped.map_err(|error| unreachable(&holder, &error.to_string()))?;
    Ok(Some((holder, stopped)))
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
    .hint("end that process, or close the session in its client")
}

/// Begins the connection of a client, which only looks on if it `observes`. Returns the release of the
/// process, too.
pub(super) fn greet(store: &Store, socket: &str, observe: bool) -> io::Result<(Stream, String)> {
    let mut stream = store.connect_to(socket)?;
    let connect = Connect {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        observe,
    };
    let connected = ask::<Connected>(&mut stream, CONNECT, &text(&connect))?;
    Ok((stream, connected.version))
}

/// Sends the first request of a connection and waits for its result.
fn ask<T: DeserializeOwned>(stream: &mut Stream, method: &str, params: &str) -> io::Result<T> {
    let line = request_line("0", method, params);
    // One that has no descriptors left says so at once, and reads nothing.
    let sent = stream.output.write_all(line.as_bytes());
    let input = std::mem::replace(&mut stream.input, Box::new(io::empty()));
    let mut input = BufReader::new(input);
    let mut answer = String::new();
    let read = input.by_ref().take(LONGEST).read_line(&mut answer);
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

/// Does some work on a thread of its own, and waits so long for it.
fn within<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let (result, done) = mpsc::channel();
    thread::spawn(move || result.send(work()).ok());
    match done.recv_timeout(limit) {
        Ok(result) => result,
        Err(_) => Err(io::Error::new(
            io::ErrorKind::TimedOut,
            format!(
                "it gives no answer within {}",
                humantime::format_duration(limit)
            ),
        )),
    }
}
