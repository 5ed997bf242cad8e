//! The requests of an agent that are not answered, which have a bound: a client may never answer.

use std::collections::BTreeMap;

use tokio_util::sync::CancellationToken;

use crate::protocol::error::{INTERNAL_ERROR, error_json};

/// How many requests of an agent may be unanswered.
const MOST: usize = 1024;

/// How many bytes their parameters may have together, unless there is one request alone.
const BYTES: usize = 64 * 1024 * 1024;

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
