//! Asks a process of the store about itself, over its socket.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::json::{string_member, text_member};
use crate::server::control::{Described, PROCESSES, STOP, Stop, Stopped};
use crate::store::Store;
use crate::sys::socket::Stream;
use crate::transport::message::request_line;

/// How long a process may take to say what it has.
const DESCRIBED: Duration = Duration::from_secs(2);
/// How long it may take to stop what it does, and to end.
const STOPPED: Duration = Duration::from_secs(30);

/// The longest answer, in bytes.
const LONGEST: u64 = 16 * 1024 * 1024;

/// What a process has.
pub(super) fn describe(store: &Store, socket: &str) -> io::Result<Described> {
    let stream = store.connect_to(socket)?;
    within(DESCRIBED, move || {
        ask(stream, PROCESSES, "{}").map(|(answer, _)| answer)
    })
}

/// Stops a session, or all of a process. Waits until the process has ended, if it does.
pub(super) fn stop(store: &Store, socket: &str, stop: &Stop) -> io::Result<Stopped> {
    let stream = store.connect_to(socket)?;
    let params = serde_json::to_string(stop)?;
    within(STOPPED, move || {
        let (stopped, mut rest) = ask::<Stopped>(stream, STOP, &params)?;
        if stopped.ends {
            // It closes the connection when it ends. How does not matter.
            io::copy(&mut rest, &mut io::sink()).ok();
        }
        Ok(stopped)
    })
}

/// Sends a request and waits for its result. Returns the rest of the connection, too.
fn ask<T: DeserializeOwned>(
    mut stream: Stream,
    method: &str,
    params: &str,
) -> io::Result<(T, impl Read)> {
    let line = request_line("1", method, params);
    stream.output.write_all(line.as_bytes())?;
    let mut input = BufReader::new(stream.input);
    let mut answer = String::new();
    input.by_ref().take(LONGEST).read_line(&mut answer)?;
    let Some(result) = text_member(&answer, "result") else {
        let error = text_member(&answer, "error").and_then(|error| string_member(error, "message"));
        let error = error.unwrap_or_else(|| "it gives no answer".to_owned());
        return Err(io::Error::other(error));
    };
    let result = serde_json::from_str(result)?;
    Ok((result, Connected(input, stream.closer, stream.output)))
}

/// A connection that ends when this is dropped.
struct Connected<R>(
    R,
    #[expect(dead_code, reason = "it is dropped with this")] crate::sys::socket::Closer,
    #[expect(dead_code, reason = "it is dropped with this")] Box<dyn Write + Send>,
);

impl<R: Read> Read for Connected<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
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
