//! The connection with the successor: wraps messages to it, and keeps its pending requests.

use std::collections::HashSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::json::Object;
use crate::sys::lock;
use crate::transport::message::{cancel_line, notification_line, request_line, response_line};
use crate::transport::{Outcome, Writer};

use super::lane::{Lane, LaneReader, lane};

/// How many bytes the successor may be ahead of the reader.
const AHEAD: usize = 256 * 1024;

/// The connection with the successor. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Port(Arc<PortInner>);

#[derive(Debug, Default)]
struct PortInner {
    state: Mutex<PortState>,
    /// Notified when the writer is set.
    connected: Condvar,
}

#[derive(Debug, Default)]
struct PortState {
    writer: Option<Writer>,
    /// The input has ended.
    ended: bool,
    /// Writing has ended.
    left: bool,
    /// Whether the conductor uses the methods' names from before they were standardized.
    old_names: bool,
    /// The number of connections that were opened, and the lane of the last one.
    opened: u64,
    lane: Option<Lane>,
    /// Pending requests of the successor, by the JSON text of their ids.
    asked: HashSet<String>,
}

/// A connection with the successor.
#[derive(Debug)]
pub struct SuccessorConnection {
    port: Port,
    number: u64,
    lane: Lane,
}

impl Port {
    /// Sets the writer of lines to the conductor.
    pub fn connect(&self, writer: Writer) {
        self.lock().writer = Some(writer);
        self.0.connected.notify_all();
    }

    /// Opens a connection and ends the one before. `None` if the conductor has disconnected.
    pub fn open(&self) -> Option<(SuccessorConnection, LaneReader)> {
        let (lane, reader) = lane(AHEAD);
        let mut state = self.lock();
        if state.ended || state.left {
            return None;
        }
        if let Some(old) = state.lane.replace(lane.clone()) {
            old.end();
        }
        state.opened += 1;
        let number = state.opened;
        let port = self.clone();
        Some((SuccessorConnection { port, number, lane }, reader))
    }

    /// Stops writing.
    pub fn leave(&self) {
        let mut state = self.lock();
        state.left = true;
        state.writer = None;
        if let Some(lane) = &state.lane {
            lane.end();
        }
        self.0.connected.notify_all();
    }

    /// The conductor's input has ended.
    pub(super) fn end(&self) {
        let mut state = self.lock();
        state.ended = true;
        if let Some(lane) = &state.lane {
            lane.end();
        }
    }

    /// Uses `_proxy/successor` from now on.
    pub(super) fn use_old_names(&self) {
        self.lock().old_names = true;
    }

    /// The number and the lane of the open connection.
    pub(super) fn lane(&self) -> Option<(u64, Lane)> {
        let state = self.lock();
        state.lane.clone().map(|lane| (state.opened, lane))
    }

    /// Registers a request of the successor.
    pub(super) fn asked(&self, id: &str) {
        self.lock().asked.insert(id.to_owned());
    }

    /// Whether this is the id of a pending request of the successor.
    pub(super) fn has_asked(&self, id: &str) -> bool {
        self.lock().asked.contains(id)
    }

    /// Answers the conductor ourselves. Blocks the thread until there is room.
    pub(super) fn answer(&self, line: String) {
        let mut state = self.lock();
        while state.writer.is_none() && !state.left {
            let connected = self.0.connected.wait(state);
            state = connected.unwrap_or_else(PoisonError::into_inner);
        }
        let writer = state.writer.clone();
        drop(state);
        if let Some(writer) = writer {
            // A conductor that has disconnected needs no response.
            writer.bulk(&mut line.into_bytes()).ok();
        }
    }

    /// Writes a line, even if the conductor does not keep up: the number of requests is bounded
    /// elsewhere.
    fn put(&self, line: &str) {
        if let Some(writer) = &self.lock().writer {
            writer.put_line(line.trim_end_matches('\n').as_bytes()).ok();
        }
    }

    fn successor(&self) -> &'static str {
        if self.lock().old_names {
            "_proxy/successor"
        } else {
            "proxy/successor"
        }
    }

    fn lock(&self) -> MutexGuard<'_, PortState> {
        lock(&self.0.state)
    }
}

impl SuccessorConnection {
    /// Sends a request. `params` is the JSON text of an object.
    pub fn request(&self, id: u64, method: &str, params: &str) {
        let (id, outer) = (self.id(id), self.port.successor());
        self.port
            .put(&request_line(&id, outer, &wrapped(method, params)));
    }

    /// Sends a notification. `params` is the JSON text of an object.
    pub fn notify(&self, method: &str, params: &str) {
        let params = wrapped(method, params);
        self.port
            .put(&notification_line(self.port.successor(), &params));
    }

    /// Cancels a request. That is between the conductor and us, so it is not wrapped.
    pub fn cancel(&self, id: u64) {
        self.port.put(&cancel_line(&self.id(id)));
    }

    /// Responds to a request of the successor, whose id is given as JSON text.
    pub fn respond(&self, id: &str, outcome: &Outcome) {
        self.port.lock().asked.remove(id);
        self.port.put(&response_line(id, outcome));
    }

    /// The number of our request that has this id, given as JSON text.
    pub fn number(&self, id: &str) -> Option<u64> {
        let (number, id) = own_id(id)?;
        (number == self.number).then_some(id)
    }

    /// Ends the connection's lane: what the successor sends is discarded from now on.
    pub fn close(&self) {
        self.lane.end();
    }

    /// The id under which the conductor knows a request of ours. Requests to the client have
    /// numbers as ids, so their responses cannot be confused with these.
    fn id(&self, id: u64) -> String {
        format!(r#""s{}.{id}""#, self.number)
    }
}

/// The numbers of the connection and of the request in an id, given as JSON text.
pub(super) fn own_id(id: &str) -> Option<(u64, u64)> {
    let id = id.strip_prefix("\"s")?.strip_suffix('"')?;
    let (number, id) = id.split_once('.')?;
    Some((number.parse().ok()?, id.parse().ok()?))
}

fn wrapped(method: &str, params: &str) -> String {
    let outer = Object::new().string("method", method);
    outer.raw("params", params).end()
}
