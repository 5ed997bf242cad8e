//! Requests that we send: assigns ids and delivers each response to its waiter.
//!
//! Parameters and results stay JSON text: what is forwarded between a client and an agent keeps its
//! numbers, its order and its duplicate names.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};

use tokio::sync::oneshot;

use super::message::Outcome;
use crate::sys::lock;

/// Requests that are waiting for their responses. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct OutgoingRequests(Arc<Mutex<OutgoingState>>);

#[derive(Debug, Default)]
struct OutgoingState {
    last: u64,
    closed: bool,
    waiting: BTreeMap<u64, oneshot::Sender<Outcome>>,
}

/// A pending request: resolves with its outcome, or with `None` if the other side is gone. Dropping
/// it stops waiting.
#[derive(Debug)]
pub struct OutgoingRequest {
    /// The request's id.
    pub id: u64,
    calls: OutgoingRequests,
    outcome: oneshot::Receiver<Outcome>,
}

impl OutgoingRequests {
    /// Assigns an id to a new request. If the other side is gone already, it resolves at once.
    pub fn begin(&self) -> OutgoingRequest {
        let (tell, outcome) = oneshot::channel();
        let mut state = self.lock();
        state.last += 1;
        let id = state.last;
        if !state.closed {
            state.waiting.insert(id, tell);
        }
        OutgoingRequest {
            id,
            calls: self.clone(),
            outcome,
        }
    }

    /// Delivers the response to the request with this id, given as JSON text, to its waiter. Returns
    /// false without a waiter.
    pub fn resolve(&self, id: &str, outcome: Outcome) -> bool {
        let waiting = id
            .parse()
            .ok()
            .and_then(|id: u64| self.lock().waiting.remove(&id));
        match waiting {
            Some(tell) => {
                tell.send(outcome).ok();
                true
            }
            None => false,
        }
    }

    /// Answers all pending requests with this error.
    pub fn fail_all(&self, error: &str) {
        let waiting = std::mem::take(&mut self.lock().waiting);
        for tell in waiting.into_values() {
            tell.send(Err(error.to_owned())).ok();
        }
    }

    /// Whether the response to the request with this id is awaited and can still come.
    pub fn is_waiting(&self, id: u64) -> bool {
        self.lock().waiting.contains_key(&id)
    }

    /// The number of pending requests.
    pub fn waiting(&self) -> usize {
        self.lock().waiting.len()
    }

    /// The other side is gone: resolves all pending and future requests with `None`.
    pub fn close(&self) {
        let waiting = {
            let mut state = self.lock();
            state.closed = true;
            std::mem::take(&mut state.waiting)
        };
        drop(waiting);
    }

    fn lock(&self) -> MutexGuard<'_, OutgoingState> {
        lock(&self.0)
    }
}

impl Future for OutgoingRequest {
    type Output = Option<Outcome>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.outcome).poll(cx).map(Result::ok)
    }
}

impl Drop for OutgoingRequest {
    fn drop(&mut self) {
        self.calls.lock().waiting.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_response_finds_its_request() {
        let requests = OutgoingRequests::default();
        let (first, second, third) = (requests.begin(), requests.begin(), requests.begin());
        let result = || Ok("{}".to_owned());
        assert!(!requests.resolve("\"1\"", result()));
        assert!(!requests.resolve("77", result()));
        assert!(requests.is_waiting(1) && !requests.is_waiting(77));
        assert!(requests.resolve("2", Err("{\"code\":-1}".to_owned())));
        assert!(requests.resolve("1", result()));
        assert_eq!(first.await, Some(result()));
        assert_eq!(second.await, Some(Err("{\"code\":-1}".to_owned())));
        assert!(!requests.is_waiting(1) && requests.is_waiting(3));
        requests.close();
        assert!(!requests.is_waiting(3));
        assert_eq!(third.await, None);
        assert_eq!(requests.begin().await, None);
    }

    #[test]
    fn a_request_that_is_dropped_waits_no_longer() {
        let requests = OutgoingRequests::default();
        drop(requests.begin());
        assert!(!requests.resolve("1", Ok("{}".to_owned())));
    }
}
