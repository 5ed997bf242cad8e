//! Reads a conductor's lines on a thread of its own, and dispatches each to its side.

use std::io::{self, Read};
use std::thread;

use crate::protocol::error::{INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST};
use crate::transport::message::Invalid;
use crate::transport::pump::{LineSink, pump};

use super::envelope::{self, DispatchSpans, Span};
use super::lane::{Lane, LaneReader, lane};
use super::port::{Port, own_id};

/// How much is read at once, in bytes.
const BLOCK: usize = 128 * 1024;

/// The smallest limit for lines, in bytes: that of an agent's lines and their wrapping.
const LINE: usize = 64 * 1024 * 1024 + WRAPPING;

/// The most bytes that `proxy/successor` adds to a line.
const WRAPPING: usize = 4096;

/// How many bytes a client may send ahead. If it sends more than this between `initialize` and the
/// response to it, nothing of the successor gets through, and we wait in vain for the successor's
/// response to `initialize`.
const CLIENT_AHEAD: usize = 16 * 1024 * 1024;

/// The state of the thread.
struct Demultiplexer {
    port: Port,
    client: Lane,
    line_limit: usize,
    /// Lines for either side, which are passed on together.
    to_client: Vec<u8>,
    to_successor: Vec<u8>,
}

/// Starts the thread. Returns the input of the client's side.
pub(super) fn start(
    input: impl Read + Send + 'static,
    line_limit: usize,
    port: Port,
) -> io::Result<LaneReader> {
    let (client, reader) = lane(CLIENT_AHEAD);
    let demultiplexer = Demultiplexer {
        port,
        client,
        line_limit: LINE.max(line_limit.saturating_add(WRAPPING)),
        to_client: Vec::new(),
        to_successor: Vec::new(),
    };
    thread::Builder::new()
        .name("rejoin-proxy-reader".to_owned())
        .spawn(move || demultiplexer.run(input))?;
    Ok(reader)
}

impl LineSink for Demultiplexer {
    fn line(&mut self, line: &[u8]) {
        self.dispatch(line);
    }

    /// Handles the start of a line that is too long. A request is answered with an error, and a
    /// response is replaced by one.
    fn too_long(&mut self, start: &[u8]) {
        let envelope = envelope::begin(start);
        let id = envelope.id.as_ref().map(|at| &start[at.clone()]);
        let own = id.and_then(|id| own_id(std::str::from_utf8(id).ok()?));
        let message = format!("line is longer than the limit of {}", self.line_limit);
        match (own, id, &envelope.method) {
            (Some((number, id)), _, None) => {
                if self.port.lane().is_some_and(|(open, _)| open == number) {
                    let error = Invalid {
                        id: id.to_string(),
                        code: INTERNAL_ERROR,
                        message,
                    };
                    self.successor_line(&[error.line().trim_end().as_bytes()]);
                    self.flush();
                }
            }
            (None, None, Some(_)) => tracing::warn!("ignoring a notification that is too long"),
            (_, id, _) => self.refuse(id.unwrap_or(b"null"), INVALID_REQUEST, &message),
        }
    }

    fn rest(&mut self) {
        self.flush();
    }
}

impl Demultiplexer {
    /// Reads until the input ends.
    fn run(mut self, input: impl Read) {
        let limit = self.line_limit;
        if let Err(error) = pump(input, BLOCK, limit, &mut self) {
            tracing::warn!(%error, "reading from the conductor failed; treating it as end of input");
        }
        self.port.end();
        self.client.end();
    }

    /// Passes on the collected lines, the successor's first: the client's side may have to wait for
    /// one of them.
    fn flush(&mut self) {
        if let Some((_, lane)) = self.port.lane() {
            lane.put(&mut self.to_successor);
        }
        self.to_successor.clear();
        self.client.put(&mut self.to_client);
    }

    fn dispatch(&mut self, line: &[u8]) {
        // An invalid line is answered on the client's side, as it is without a conductor.
        let Some(envelope) = envelope::read(line) else {
            return self.client_line(&[line]);
        };
        let Some(method) = &envelope.method else {
            return self.response(line, &envelope);
        };
        match &line[method.clone()] {
            br#""proxy/successor""# | br#""_proxy/successor""# => self.successor(line, &envelope),
            br#""proxy/initialize""# => self.renamed(line, method),
            br#""_proxy/initialize""# => {
                self.port.use_old_names();
                self.renamed(line, method);
            }
            br#""initialize""# => {
                let message = "a proxy is initialized with `proxy/initialize`; `rejoin wrap` and \
                               `rejoin serve` are agents";
                match &envelope.id {
                    Some(id) => self.refuse(&line[id.clone()], INVALID_REQUEST, message),
                    None => self.client_line(&[line]),
                }
            }
            br#""$/cancel_request""# => match cancelled(line, &envelope) {
                Some(id) if self.port.has_asked(id) => self.successor_line(&[line]),
                _ => self.client_line(&[line]),
            },
            _ => self.client_line(&[line]),
        }
    }

    /// Gives the client's `initialize` the name that it has without a conductor.
    fn renamed(&mut self, line: &[u8], method: &Span) {
        let (before, after) = (&line[..method.start], &line[method.end..]);
        self.client_line(&[before, br#""initialize""#, after]);
    }

    /// Dispatches a response to the side that sent the request.
    fn response(&mut self, line: &[u8], envelope: &DispatchSpans) {
        let own = envelope.id.as_ref().and_then(|at| {
            let id = std::str::from_utf8(&line[at.clone()]).ok()?;
            own_id(id).map(|id| (at.clone(), id))
        });
        let Some((at, (number, id))) = own else {
            return self.client_line(&[line]);
        };
        if self.port.lane().is_some_and(|(open, _)| open == number) && envelope::is_json(line) {
            let id = id.to_string();
            self.successor_line(&[&line[..at.start], id.as_bytes(), &line[at.end..]]);
        } else {
            tracing::debug!("ignoring a response without a pending request");
        }
    }

    /// Handles a message of the successor.
    fn successor(&mut self, line: &[u8], envelope: &DispatchSpans) {
        let params = envelope.params.as_ref();
        let wrapped = params.and_then(|params| envelope::unwrap(line, params));
        let Some(id) = &envelope.id else {
            let Some(wrapped) = wrapped else {
                return tracing::debug!("ignoring a malformed notification of the successor");
            };
            let params = wrapped.params.map_or(&b"{}"[..], |at| &line[at]);
            let method = &line[wrapped.method];
            let begin = br#"{"jsonrpc":"2.0","method":"#;
            return self.successor_line(&[begin, method, br#","params":"#, params, b"}"]);
        };
        let id = &line[id.clone()];
        // A line that is not a message at all is answered on the client's side.
        if !envelope::is_json(line) || id.starts_with(b"{") || id.starts_with(b"[") {
            return self.client_line(&[line]);
        }
        let Some(wrapped) = wrapped else {
            let message = "`params` must have a `method` that is a string and `params` that are \
                           an object";
            return self.refuse(id, INVALID_PARAMS, message);
        };
        if self.port.lane().is_none() {
            let message = "the connection is not initialized: send `proxy/initialize` first";
            return self.refuse(id, INVALID_REQUEST, message);
        }
        self.port.asked(&String::from_utf8_lossy(id));
        let params = wrapped.params.map_or(&b"{}"[..], |at| &line[at]);
        let method = &line[wrapped.method];
        let begin = br#"{"jsonrpc":"2.0","id":"#;
        self.successor_line(&[
            begin,
            id,
            br#","method":"#,
            method,
            br#","params":"#,
            params,
            b"}",
        ]);
    }

    /// Answers a request with an error before it is dispatched.
    fn refuse(&self, id: &[u8], code: i32, message: &str) {
        let invalid = Invalid {
            id: String::from_utf8_lossy(id).into_owned(),
            code,
            message: message.to_owned(),
        };
        self.port.answer(invalid.line());
    }

    fn client_line(&mut self, parts: &[&[u8]]) {
        for part in parts {
            self.to_client.extend_from_slice(part);
        }
        self.to_client.push(b'\n');
    }

    fn successor_line(&mut self, parts: &[&[u8]]) {
        for part in parts {
            self.to_successor.extend_from_slice(part);
        }
        self.to_successor.push(b'\n');
    }
}

/// The id, as JSON text, of the request that is cancelled.
fn cancelled<'a>(line: &'a [u8], envelope: &DispatchSpans) -> Option<&'a str> {
    let params = envelope.params.as_ref()?;
    let id = crate::json::member(line, params.start, "requestId")?;
    std::str::from_utf8(&line[id]).ok()
}

#[cfg(test)]
#[path = "demultiplexer_tests.rs"]
mod tests;
