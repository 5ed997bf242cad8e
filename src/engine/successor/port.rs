//! The way to the successor: wraps what is said to it, and knows what it has asked.

use std::collections::HashSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::sys::lock;
use crate::wire::calls::{notification_line, response_line};
use crate::wire::{Outcome, Writer};

use super::lane::{Lane, LaneReader, lane};

/// How much the successor may be ahead of whoever hears it, in bytes.
const AHEAD: usize = 256 * 1024;

/// The way to the successor. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Port(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Told when the writer is there.
    connected: Condvar,
}

#[derive(Debug, Default)]
struct State {
    writer: Option<Writer>,
    /// The input has ended.
    ended: bool,
    /// Nobody writes any more.
    left: bool,
    /// Whether the conductor knows the methods by the names they had before they were agreed on.
    old_names: bool,
    /// How many connections were opened, and the lane of the last one.
    opened: u64,
    lane: Option<Lane>,
    /// Requests of the successor that are under way, by their id's JSON text.
    asked: HashSet<String>,
}

/// One connection with the successor.
#[derive(Debug)]
pub struct Seat {
    port: Port,
    number: u64,
    lane: Lane,
}

impl Port {
    /// Says where lines to the conductor go.
    pub fn connect(&self, writer: Writer) {
        self.lock().writer = Some(writer);
        self.0.connected.notify_all();
    }

    /// Opens a connection; what was open before is not heard any more. `None` if the conductor has
    /// left.
    pub fn open(&self) -> Option<(Seat, LaneReader)> {
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
        Some((Seat { port, number, lane }, reader))
    }

    /// Nothing is written any more.
    pub fn leave(&self) {
        let mut state = self.lock();
        state.left = true;
        state.writer = None;
        if let Some(lane) = &state.lane {
            lane.end();
        }
        self.0.connected.notify_all();
    }

    /// The conductor says nothing any more.
    pub(super) fn end(&self) {
        let mut state = self.lock();
        state.ended = true;
        if let Some(lane) = &state.lane {
            lane.end();
        }
    }

    /// Speaks of `_proxy/successor` from now on.
    pub(super) fn use_old_names(&self) {
        self.lock().old_names = true;
    }

    /// The lane of the connection that is open, and its number.
    pub(super) fn lane(&self) -> Option<(u64, Lane)> {
        let state = self.lock();
        state.lane.clone().map(|lane| (state.opened, lane))
    }

    /// The successor has asked something.
    pub(super) fn asked(&self, id: &str) {
        self.lock().asked.insert(id.to_owned());
    }

    /// Whether a request with this id is the successor's and under way.
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
            // A conductor that is gone needs no answer.
            writer.bulk(&mut line.into_bytes()).ok();
        }
    }

    /// Writes a line, even if the conductor does not keep up: what is asked for is bounded
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

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.0.state)
    }
}

impl Seat {
    /// Sends a request. `params` is the JSON text of an object.
    pub fn request(&self, id: u64, method: &str, params: &str) {
        let (id, outer) = (self.id(id), self.port.successor());
        let params = wrapped(method, params);
        self.port.put(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"{outer}","params":{params}}}"#
        ));
    }

    /// Sends a notification. `params` is the JSON text of an object.
    pub fn notify(&self, method: &str, params: &str) {
        let params = wrapped(method, params);
        self.port
            .put(&notification_line(self.port.successor(), &params));
    }

    /// Takes a request back. That is between the conductor and us, so it is not wrapped.
    pub fn cancel(&self, id: u64) {
        let params = format!(r#"{{"requestId":{}}}"#, self.id(id));
        self.port
            .put(&notification_line("$/cancel_request", &params));
    }

    /// Answers a request of the successor, whose id is given as JSON text.
    pub fn respond(&self, id: &str, outcome: &Outcome) {
        self.port.lock().asked.remove(id);
        self.port.put(&response_line(id, outcome));
    }

    /// The number of the request of ours that has this id, given as JSON text.
    pub fn number(&self, id: &str) -> Option<u64> {
        let (number, id) = own_id(id)?;
        (number == self.number).then_some(id)
    }

    /// Nothing that comes is heard any more.
    pub fn close(&self) {
        self.lane.end();
    }

    /// The id under which the conductor knows a request of ours. The client is asked under numbers,
    /// so answers can be told from each other.
    fn id(&self, id: u64) -> String {
        format!(r#""s{}.{id}""#, self.number)
    }
}

/// The number of the connection and of the request that an id, given as JSON text, is made of.
pub(super) fn own_id(id: &str) -> Option<(u64, u64)> {
    let id = id.strip_prefix("\"s")?.strip_suffix('"')?;
    let (number, id) = id.split_once('.')?;
    Some((number.parse().ok()?, id.parse().ok()?))
}

fn wrapped(method: &str, params: &str) -> String {
    let method = serde_json::Value::from(method);
    format!(r#"{{"method":{method},"params":{params}}}"#)
}
