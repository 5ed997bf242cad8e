//! Tells who asked when the answer to a request has passed the writer.
//!
//! The SDK queues answers, while updates go to the writer directly. Where an update must come
//! after an answer, its sender waits here until the answer is in front of it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

use serde::{Deserialize, Deserializer};
use serde_json::Value;
use tokio::sync::{Notify, oneshot};

use crate::sys::lock;

/// Requests whose answers somebody waits for.
#[derive(Debug, Default)]
pub struct Answers {
    awaited: Mutex<Vec<Awaited>>,
    /// Length of `awaited`, so that nothing is parsed while nobody waits.
    count: AtomicUsize,
    /// Told when `count` has become 0.
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

#[derive(Deserialize)]
struct Outgoing {
    /// `null` is an id, too.
    #[serde(default, deserialize_with = "present")]
    id: Option<Value>,
    method: Option<serde::de::IgnoredAny>,
    error: Option<serde::de::IgnoredAny>,
}

fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

impl Answers {
    /// Waits for the answer to the request with this id, given as JSON text. Resolves with an
    /// error if the connection ends first.
    pub fn expect(&self, id: &str) -> oneshot::Receiver<Answer> {
        let (tell, told) = oneshot::channel();
        // An id that cannot be read is never answered under it; the receiver learns at once.
        if let Ok(id) = serde_json::from_str(id) {
            let mut awaited = self.lock();
            awaited.push(Awaited { id, tell });
            self.count.store(awaited.len(), Ordering::Release);
        }
        told
    }

    /// Looks at a line that has just been put into the control lane.
    pub fn passed(&self, line: &str) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let Ok(Outgoing {
            id: Some(id),
            method: None,
            error,
        }) = serde_json::from_str(line)
        else {
            return;
        };
        let mut awaited = self.lock();
        let Some(at) = awaited.iter().position(|awaited| awaited.id == id) else {
            return;
        };
        let Awaited { tell, .. } = awaited.remove(at);
        self.count.store(awaited.len(), Ordering::Release);
        if awaited.is_empty() {
            self.none.notify_waiters();
        }
        drop(awaited);
        let answer = if error.is_some() {
            Answer::Error
        } else {
            Answer::Result
        };
        // Whoever waited may have gone, which is no concern of the writer.
        tell.send(answer).ok();
    }

    /// Resolves when every answer that was expected has passed, whether or not somebody still
    /// waits for it.
    pub async fn all_passed(&self) {
        loop {
            // Made before looking, so that what is told in between is not missed.
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
        answers.passed(r#"{"jsonrpc":"2.0","method":"session/update","params":{}}"#);
        answers.passed(r#"{"jsonrpc":"2.0","id":1,"method":"fs/read_text_file","params":{}}"#);
        assert!(first.try_recv().is_err());
        answers.passed(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
        assert_eq!(first.try_recv(), Ok(Answer::Result));
        assert!(named.try_recv().is_err());
        answers.passed(r#"{"jsonrpc":"2.0","id":"1","error":{"code":1,"message":"m"}}"#);
        assert_eq!(named.try_recv(), Ok(Answer::Error));
        let mut nameless = answers.expect("null");
        answers.passed(r#"{"jsonrpc":"2.0","result":{}}"#);
        assert!(nameless.try_recv().is_err());
        answers.passed(r#"{"jsonrpc":"2.0","id":null,"result":{}}"#);
        assert_eq!(nameless.try_recv(), Ok(Answer::Result));
    }

    #[tokio::test]
    async fn tells_when_nothing_is_awaited() {
        let answers = Answers::default();
        answers.all_passed().await;
        // Nobody waits for it, but it has not passed.
        drop(answers.expect("1"));
        let mut waiting = Box::pin(answers.all_passed());
        let pending =
            std::future::poll_fn(|cx| Poll::Ready(waiting.as_mut().poll(cx).is_pending()));
        assert!(pending.await);
        answers.passed(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
        waiting.await;
    }
}
