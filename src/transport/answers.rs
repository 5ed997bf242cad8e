//! Notifies waiters when the response to a request has passed the writer.
//!
//! The SDK queues responses, while updates go to the writer directly. The sender of an update that
//! must follow a response waits here until the response is queued before it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

use serde_json::Value;
use tokio::sync::{Notify, oneshot};

use crate::sys::lock;

/// Requests whose responses are awaited.
#[derive(Debug, Default)]
pub struct Answers {
    awaited: Mutex<Vec<Awaited>>,
    /// Length of `awaited`, to skip the lookup while nothing is awaited.
    count: AtomicUsize,
    /// Notified when `count` has become 0.
    none: Notify,
}

#[derive(Debug)]
struct Awaited {
    id: Value,
    tell: oneshot::Sender<Answer>,
}

/// How a request was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// With a result.
    Result,
    /// With an error.
    Error,
}

impl Answers {
    /// Waits for the response to the request with this id, given as JSON text. Resolves with an
    /// error if the connection ends first.
    pub fn expect(&self, id: &str) -> oneshot::Receiver<Answer> {
        let (tell, told) = oneshot::channel();
        // An invalid id never gets a response, so the receiver resolves with an error at once.
        if let Ok(id) = serde_json::from_str(id) {
            let mut awaited = self.lock();
            awaited.push(Awaited { id, tell });
            self.count.store(awaited.len(), Ordering::Release);
        }
        told
    }

    /// Called when the response to the request with this id was put into the control lane.
    pub fn passed(&self, id: &Value, answer: Answer) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut awaited = self.lock();
        let Some(at) = awaited.iter().position(|awaited| awaited.id == *id) else {
            return;
        };
        let Awaited { tell, .. } = awaited.remove(at);
        self.count.store(awaited.len(), Ordering::Release);
        if awaited.is_empty() {
            self.none.notify_waiters();
        }
        drop(awaited);
        // The receiver may be gone, which does not matter to the writer.
        tell.send(answer).ok();
    }

    /// Resolves when every expected response has passed, even if its receiver is gone.
    pub async fn all_passed(&self) {
        loop {
            // Created before the check, so that no notification in between is missed.
            let none = self.none.notified();
            if self.count.load(Ordering::Acquire) == 0 {
                return;
            }
            none.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Awaited>> {
        lock(&self.awaited)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Poll;

    #[test]
    fn tells_each_waiter_once() {
        let answers = Answers::default();
        let mut first = answers.expect("1");
        let mut named = answers.expect("\"1\"");
        answers.passed(&2.into(), Answer::Result);
        assert!(first.try_recv().is_err());
        answers.passed(&1.into(), Answer::Result);
        assert_eq!(first.try_recv(), Ok(Answer::Result));
        assert!(named.try_recv().is_err());
        answers.passed(&"1".into(), Answer::Error);
        assert_eq!(named.try_recv(), Ok(Answer::Error));
        let mut nameless = answers.expect("null");
        answers.passed(&Value::Null, Answer::Result);
        assert_eq!(nameless.try_recv(), Ok(Answer::Result));
    }

    #[tokio::test]
    async fn tells_when_nothing_is_awaited() {
        let answers = Answers::default();
        answers.all_passed().await;
        // The receiver is gone, but the response has not passed.
        drop(answers.expect("1"));
        let mut waiting = Box::pin(answers.all_passed());
        let pending =
            std::future::poll_fn(|cx| Poll::Ready(waiting.as_mut().poll(cx).is_pending()));
        assert!(pending.await);
        answers.passed(&1.into(), Answer::Result);
        waiting.await;
    }
}
