//! Requests that we send: assigns ids and delivers each response to its waiter.
//!
//! Parameters and results stay JSON text: what is forwarded between a client and an agent keeps its
//! numbers, its order and its duplicate names.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::oneshot;

use crate::sys::lock;

/// The response to a request, as JSON text: its result, or its error object.
pub type Outcome = Result<String, String>;

/// Requests that are waiting for their responses. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct OutgoingRequests(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    last: u64,
    closed: bool,
    waiting: HashMap<u64, oneshot::Sender<Outcome>>,
}

/// A pending request: resolves with its outcome, or with `None` if the other side is gone. Dropping
/// it stops waiting.
#[derive(Debug)]
pub struct Call {
    /// The request's id.
    pub id: u64,
    calls: OutgoingRequests,
    outcome: oneshot::Receiver<Outcome>,
}

#[derive(Deserialize)]
struct Response<'a> {
    #[serde(borrow)]
    id: &'a RawValue,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

impl OutgoingRequests {
    /// Assigns an id to a new request. If the other side is gone already, it resolves at once.
    pub fn begin(&self) -> Call {
        let (tell, outcome) = oneshot::channel();
        let mut state = self.lock();
        state.last += 1;
        let id = state.last;
        if !state.closed {
            state.waiting.insert(id, tell);
        }
        Call {
            id,
            calls: self.clone(),
            outcome,
        }
    }

    /// Delivers a response, a whole line, to its waiter. Returns false without a waiter.
    pub fn settle(&self, line: &str) -> bool {
        let Ok(response) = serde_json::from_str::<Response<'_>>(line) else {
            return false;
        };
        match (response.result, response.error) {
            (_, Some(error)) if error.get() != "null" => {
                self.resolve(response.id.get(), Err(error.get().to_owned()))
            }
            (result, _) => {
                let result = result.map_or("null", RawValue::get);
                self.resolve(response.id.get(), Ok(result.to_owned()))
            }
        }
    }

    /// The same for a response that is parsed already. `id` is JSON text.
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

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.0)
    }
}

impl Future for Call {
    type Output = Option<Outcome>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.outcome).poll(cx).map(Result::ok)
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.calls.lock().waiting.remove(&self.id);
    }
}

/// The line of a request, with its line break. `params` is the JSON text of an object.
pub fn request_line(id: u64, method: &str, params: &str) -> String {
    let method = serde_json::Value::from(method);
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":{method},\"params\":{params}}}\n")
}

/// The line of a notification, with its line break.
pub fn notification_line(method: &str, params: &str) -> String {
    let method = serde_json::Value::from(method);
    format!("{{\"jsonrpc\":\"2.0\",\"method\":{method},\"params\":{params}}}\n")
}

/// The line of a response to the request with this id, given as JSON text; with its line break.
pub fn response_line(id: &str, outcome: &Outcome) -> String {
    let (name, value) = match outcome {
        Ok(result) => ("result", result),
        Err(error) => ("error", error),
    };
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"{name}\":{value}}}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_response_finds_its_request_and_stays_as_it_is() {
        let calls = OutgoingRequests::default();
        let (first, second, third) = (calls.begin(), calls.begin(), calls.begin());
        assert!(!calls.settle(r#"{"jsonrpc":"2.0","id":"1","result":{}}"#));
        assert!(!calls.settle(r#"{"jsonrpc":"2.0","id":77,"result":{}}"#));
        assert!(calls.settle(r#"{"jsonrpc":"2.0","id":2,"error":{"code":-1, "n":1e400}}"#));
        assert!(calls.settle(r#"{"jsonrpc":"2.0","result":{"a":1,"a":2},"id":1}"#));
        assert_eq!(first.await, Some(Ok(r#"{"a":1,"a":2}"#.to_owned())));
        assert_eq!(
            second.await,
            Some(Err(r#"{"code":-1, "n":1e400}"#.to_owned()))
        );
        calls.close();
        assert_eq!(third.await, None);
        assert_eq!(calls.begin().await, None);
    }

    #[test]
    fn who_no_longer_waits_is_forgotten() {
        let calls = OutgoingRequests::default();
        drop(calls.begin());
        assert!(!calls.settle(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#));
    }
}
