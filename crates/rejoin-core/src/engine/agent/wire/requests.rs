//! The requests that are not answered, in both directions. Those of an agent have a bound: a client may
//! never answer.

use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;

use tokio_util::sync::CancellationToken;

use crate::engine::Caller;
use crate::protocol::error::{INTERNAL_ERROR, error_json};
use crate::sys::lock;
use crate::transport::{Outcome, OutgoingRequest, OutgoingRequests};

use super::awaited::Awaited;

/// How many requests of an agent may be unanswered.
const MOST: usize = 1024;

/// How many bytes their parameters may have together, unless there is one request alone.
const BYTES: usize = 64 * 1024 * 1024;

/// Our requests to an agent that are not answered, by our ids.
#[derive(Debug, Default)]
pub(super) struct AgentCalls {
    calls: OutgoingRequests,
    /// The actions for the arrival of responses.
    awaited: Mutex<HashMap<u64, Awaited>>,
    /// The requests of clients that were forwarded.
    origins: Mutex<HashMap<u64, Caller>>,
}

impl AgentCalls {
    /// A new request.
    pub(super) fn begin(&self) -> OutgoingRequest {
        self.calls.begin()
    }

    /// Sets the action for the arrival of the response to a request that is not sent yet.
    pub(super) fn set_awaited(&self, id: u64, awaited: Awaited) {
        lock(&self.awaited).insert(id, awaited);
    }

    /// Takes the action for the arrival of a response.
    pub(super) fn take_awaited(&self, id: &str) -> Option<Awaited> {
        lock(&self.awaited).remove(&id.parse().ok()?)
    }

    /// Sets the client's request that is forwarded as the request with this id.
    pub(super) fn set_origin(&self, id: u64, origin: Caller) {
        lock(&self.origins).insert(id, origin);
    }

    /// The client's request that was forwarded as the request with this id.
    pub(super) fn origin(&self, id: u64) -> Option<Caller> {
        lock(&self.origins).get(&id).cloned()
    }

    /// Handles a response. Returns whether its request is still pending.
    pub(super) fn resolve(&self, id: &str, outcome: Outcome) -> bool {
        self.calls.resolve(id, outcome)
    }

    /// The request with this id is answered, or was given up.
    pub(super) fn forget(&self, id: u64) {
        lock(&self.origins).remove(&id);
        lock(&self.awaited).remove(&id);
    }

    /// How many requests are pending.
    pub(super) fn waiting(&self) -> usize {
        self.calls.waiting()
    }

    /// The agent has ended: pending requests fail.
    pub(super) fn close(&self) {
        self.calls.close();
    }
}

/// The requests of an agent that are not answered, by their id's JSON text.
#[derive(Debug, Default)]
pub(super) struct AgentRequests {
    pending: BTreeMap<String, AgentRequest>,
    /// The length of all parameters.
    bytes: usize,
}

#[derive(Debug)]
struct AgentRequest {
    cancel: CancellationToken,
    bytes: usize,
}

impl AgentRequests {
    /// Adds a request with parameters of this length. The token is cancelled when the agent withdraws it.
    /// `None` if there are too many.
    pub(super) fn begin(&mut self, id: &str, bytes: usize) -> Option<CancellationToken> {
        let is_full = self.pending.len() >= MOST || self.bytes + bytes > BYTES;
        if is_full && !self.pending.is_empty() {
            return None;
        }
        let cancel = CancellationToken::new();
        // With two requests of one id, a response would be ambiguous: the first is forgotten.
        self.end(id);
        self.bytes += bytes;
        let request = AgentRequest {
            cancel: cancel.clone(),
            bytes,
        };
        self.pending.insert(id.to_owned(), request);
        Some(cancel)
    }

    /// Removes a request, which is answered.
    pub(super) fn end(&mut self, id: &str) {
        if let Some(request) = self.pending.remove(id) {
            self.bytes -= request.bytes;
        }
    }

    /// The agent withdraws a request.
    pub(super) fn cancel(&self, id: &str) {
        if let Some(request) = self.pending.get(id) {
            request.cancel.cancel();
        }
    }

    /// The agent has ended, which withdraws all of them.
    pub(super) fn cancel_all(&mut self) {
        for request in std::mem::take(self).pending.into_values() {
            request.cancel.cancel();
        }
    }
}

/// The answer to a request beyond the bound.
pub(super) fn too_many() -> String {
    let message = format!(
        "{MOST} requests or {} MiB of requests are not answered: wait for an answer before you send \
         more",
        BYTES / (1024 * 1024)
    );
    error_json(INTERNAL_ERROR, &message)
}

/// The answer in place of one that is too long for an agent which does not read.
pub(super) fn unread() -> String {
    let message = "too many answers are unread: read some before you send more requests";
    error_json(INTERNAL_ERROR, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_have_a_bound_in_number_and_in_bytes() {
        let mut requests = AgentRequests::default();
        for id in 0..MOST {
            assert!(requests.begin(&id.to_string(), 1).is_some());
        }
        assert!(requests.begin("more", 1).is_none());
        requests.end("0");
        assert!(requests.begin("more", BYTES).is_none());
        let cancel = requests.begin("more", 1).expect("there is room");
        requests.cancel("more");
        assert!(cancel.is_cancelled());
        let other = requests.begin("1", 1);
        assert!(other.is_none(), "there are as many as before");
        requests.cancel_all();
        // A single request may be as long as a line.
        assert!(requests.begin("long", 2 * BYTES).is_some());
        assert!(requests.begin("short", 1).is_none());
        requests.end("long");
        assert!(requests.begin("short", 1).is_some());
        requests.end("short");
        assert_eq!(requests.bytes, 0);
    }
}
