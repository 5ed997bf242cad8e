//! The table of the client's requests that are not answered yet.
//!
//! A response is JSON text. It goes into the same queue as the updates, at once, so it follows
//! everything that was sent before it and precedes everything that is sent after it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::flow::{FlowPermit, Room};
use super::message::Outcome;
use super::writer::Writer;
use crate::protocol::error::{INTERNAL_ERROR, REQUEST_CANCELLED, error_json};
use crate::sys::lock;

/// Requests that are not answered, and how they are answered.
#[derive(Debug)]
pub struct Requests {
    table: Arc<RequestTable>,
    writer: Writer,
}

#[derive(Debug, Default)]
struct RequestTable {
    entries: Mutex<Entries>,
    closed: AtomicBool,
}

#[derive(Debug, Default)]
struct Entries {
    last: u64,
    /// By id in its canonical form, and by a number, since a client may use an id twice.
    pending: BTreeMap<(String, u64), RequestEntry>,
}

#[derive(Debug, Default)]
struct RequestEntry {
    cancellation: CancellationToken,
    on_cancel: Option<OnCancel>,
}

struct OnCancel(Box<dyn FnOnce() + Send>);

impl fmt::Debug for OnCancel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnCancel")
    }
}

/// A request of the client.
#[derive(Debug)]
pub struct IncomingRequest {
    /// The method's name.
    pub method: String,
    /// The parameters' JSON text.
    pub params: String,
    /// Answers it.
    pub responder: Responder,
}

/// Answers one request. If it is dropped without an answer, the client gets an error, unless the
/// connection has been closed.
#[derive(Debug)]
pub struct Responder {
    /// The id's JSON text, as the client wrote it.
    id: String,
    cancellation: CancellationToken,
    /// `None` once it is answered.
    pending: Option<PendingRequest>,
    writer: Writer,
}

/// A request that counts as pending until this is dropped.
#[derive(Debug)]
pub struct PendingRequest {
    key: (String, u64),
    table: Arc<RequestTable>,
    held: FlowPermit,
    room: Option<Room>,
}

impl Requests {
    /// No requests. Responses go to `writer`.
    pub(super) fn new(writer: Writer) -> Self {
        Self {
            table: Arc::default(),
            writer,
        }
    }

    /// Enters a request. `id` is the id's JSON text, and `held` what the request takes of the
    /// connection's limits.
    pub fn begin(&self, id: String, held: FlowPermit) -> Responder {
        let entry = RequestEntry::default();
        let cancellation = entry.cancellation.clone();
        let mut entries = lock(&self.table.entries);
        entries.last += 1;
        let key = (canonical(&id), entries.last);
        entries.pending.insert(key.clone(), entry);
        Responder {
            id,
            cancellation,
            pending: Some(PendingRequest {
                key,
                table: self.table.clone(),
                held,
                room: None,
            }),
            writer: self.writer.clone(),
        }
    }

    /// The client has cancelled the request with this id, given as JSON text.
    pub fn cancel(&self, id: &str) {
        let id = canonical(id);
        let mut called = Vec::new();
        {
            let mut entries = lock(&self.table.entries);
            let same = (id.clone(), 0)..=(id, u64::MAX);
            for (_, entry) in entries.pending.range_mut(same) {
                entry.cancellation.cancel();
                called.extend(entry.on_cancel.take());
            }
        }
        for OnCancel(call) in called {
            call();
        }
    }

    /// The other side is gone, and waits for no answer: cancels all requests.
    pub fn cancel_all(&self) {
        let called: Vec<_> = {
            let mut entries = lock(&self.table.entries);
            let pending = entries.pending.values_mut();
            pending
                .filter_map(|entry| {
                    entry.cancellation.cancel();
                    entry.on_cancel.take()
                })
                .collect()
        };
        for OnCancel(call) in called {
            call();
        }
    }

    /// The connection ends: requests that are dropped without an answer stay unanswered.
    pub fn close(&self) {
        self.table.closed.store(true, Ordering::Release);
    }
}

impl Responder {
    /// The request's id, as JSON text.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Cancelled when the client cancels the request.
    pub fn cancellation(&self) -> CancellationToken {
        self.cancellation.clone()
    }

    /// Calls this at once when the client cancels the request, before its next message is handled.
    pub fn on_cancel(&self, call: impl FnOnce() + Send + 'static) {
        if let Some(pending) = &self.pending
            && let Some(entry) = lock(&pending.table.entries).pending.get_mut(&pending.key)
        {
            entry.on_cancel = Some(OnCancel(Box::new(call)));
        }
    }

    /// The answer has this room, until it is written.
    pub fn hold(&mut self, room: Option<Room>) {
        if let Some(pending) = &mut self.pending {
            pending.room = room;
        }
    }

    /// Answers the request.
    pub fn answer(mut self, outcome: Outcome) {
        self.send(outcome);
    }

    /// Leaves the request without an answer, since the client has gone.
    pub fn abandon(mut self) {
        self.pending = None;
    }

    fn send(&mut self, outcome: Outcome) {
        if let Some(mut pending) = self.pending.take() {
            if let Some(room) = &mut pending.room {
                let (Ok(body) | Err(body)) = &outcome;
                room.fit(body.len());
            }
            self.writer.respond(&self.id, outcome, pending);
        }
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        let Some(pending) = &self.pending else { return };
        if pending.table.closed.load(Ordering::Acquire) {
            return;
        }
        let error = if self.cancellation.is_cancelled() {
            error_json(REQUEST_CANCELLED, "Request cancelled")
        } else {
            tracing::warn!(id = self.id, "a request was dropped without an answer");
            error_json(INTERNAL_ERROR, "the request was dropped without an answer")
        };
        self.send(Err(error));
    }
}

impl PendingRequest {
    /// Counts the response, which the client does not read, until this is dropped.
    pub(super) fn count_response(&mut self, bytes: usize) {
        self.held.count_response(bytes);
    }
}

impl Drop for PendingRequest {
    fn drop(&mut self) {
        let entry = lock(&self.table.entries).pending.remove(&self.key);
        // Without the lock: what it would call may hold other requests.
        drop(entry);
    }
}

/// An id in the form by which ids are compared: a string may be written with escapes.
fn canonical(id: &str) -> String {
    match serde_json::from_str(id) {
        Ok(Value::String(text)) => Value::String(text).to_string(),
        _ => id.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::flow::Flow;
    use std::io::{BufRead, BufReader};

    /// Answers what `serve` does as lines.
    fn lines(serve: impl FnOnce(&Requests, &Flow)) -> Vec<String> {
        let (reader, output) = std::io::pipe().unwrap();
        let requests = Requests::new(Writer::start(output).unwrap());
        serve(&requests, &Flow::default());
        drop(requests);
        BufReader::new(reader).lines().map(Result::unwrap).collect()
    }

    fn begin(requests: &Requests, flow: &Flow, id: &str) -> Responder {
        requests.begin(id.to_owned(), flow.request("m", 2))
    }

    #[test]
    fn a_response_has_the_id_and_the_result_of_its_request_verbatim() {
        let lines = lines(|requests, flow| {
            for id in ["-0", "1.5", r#""\u0061""#, "null", "18446744073709551616"] {
                let result = r#"{"n":1e400, "n":2}"#.to_owned();
                begin(requests, flow, id).answer(Ok(result));
            }
            begin(requests, flow, "1").answer(Err("{}".to_owned()));
        });
        let result = r#""result":{"n":1e400, "n":2}"#;
        for (line, id) in lines.iter().zip(["-0", "1.5", r#""\u0061""#, "null"]) {
            assert_eq!(*line, format!(r#"{{"jsonrpc":"2.0","id":{id},{result}}}"#));
        }
        assert_eq!(lines[5], r#"{"jsonrpc":"2.0","id":1,"error":{}}"#);
    }

    #[test]
    fn cancelling_reaches_each_request_with_the_id_and_no_other() {
        lines(|requests, flow| {
            let (tx, rx) = std::sync::mpsc::channel();
            let first = begin(requests, flow, r#""\u0061""#);
            let second = begin(requests, flow, r#""a""#);
            let other = begin(requests, flow, "1");
            first.on_cancel(move || tx.send("cancelled").unwrap());
            requests.cancel(r#""a""#);
            requests.cancel(r#""a""#);
            assert_eq!(rx.iter().collect::<Vec<_>>(), ["cancelled"]);
            assert!(first.cancellation().is_cancelled() && second.cancellation().is_cancelled());
            requests.cancel("\"1\"");
            assert!(!other.cancellation().is_cancelled());
            requests.close();
        });
    }

    #[test]
    fn a_request_that_is_dropped_is_answered_unless_the_connection_is_closed() {
        let lines = lines(|requests, flow| {
            drop(begin(requests, flow, "1"));
            let cancelled = begin(requests, flow, "2");
            requests.cancel("2");
            drop(cancelled);
            requests.close();
            drop(begin(requests, flow, "3"));
        });
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(
            lines[0].contains("-32603") && lines[1].contains("-32800"),
            "{lines:?}"
        );
    }
}
