//! How a request is answered, and what counts as under way until then.

use std::fmt;
use std::sync::Arc;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::store::DamageReport;

use super::outcome::{Done, Elsewhere, Refusal};

/// The answer to a request that was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The outcome.
    pub done: Done,
    /// The damage in the session's log, if it was opened.
    pub damage: Arc<[DamageReport]>,
    /// The other process that has the session open, so that it is read-only here.
    pub elsewhere: Option<Elsewhere>,
    /// Why the disk only lets the session be read.
    pub read_only: Option<String>,
}

/// What an answer says about the session that it is about.
#[derive(Clone, Debug, Default)]
pub(super) struct AnswerNote {
    /// See [`Answer::damage`].
    pub(super) damage: Arc<[DamageReport]>,
    /// See [`Answer::elsewhere`].
    pub(super) elsewhere: Option<Elsewhere>,
    /// See [`Answer::read_only`].
    pub(super) read_only: Option<String>,
}

impl AnswerNote {
    /// The answer with this outcome.
    pub(super) fn answer(self, done: Done) -> Answer {
        Answer {
            done,
            damage: self.damage,
            elsewhere: self.elsewhere,
            read_only: self.read_only,
        }
    }
}

/// Sends the answer to one request. If it is dropped, the request stays unanswered.
pub struct Reply {
    send: Box<dyn FnOnce(Result<Answer, Refusal>) + Send>,
    cancellation: CancellationToken,
    /// Whether the request has not come from the client of the task that serves it. The view of one
    /// that has sent it through a link is applied there.
    is_of_link: bool,
    busy: BusyGuard,
}

impl Reply {
    /// A reply that counts as busy until it is used. `cancellation` is cancelled when the client
    /// cancels the request.
    pub fn new(
        busy: BusyGuard,
        cancellation: CancellationToken,
        send: impl FnOnce(Result<Answer, Refusal>) + Send + 'static,
    ) -> Self {
        Self {
            send: Box::new(send),
            cancellation,
            is_of_link: false,
            busy,
        }
    }

    /// The reply to a request that no client has sent.
    pub fn silent() -> Self {
        let busy = Busy::default().begin();
        Self::new(busy, CancellationToken::new(), |_answer| {}).of_link()
    }

    /// The reply to a request that has not come from the client of the task that serves it.
    #[must_use]
    pub fn of_link(self) -> Self {
        Self {
            is_of_link: true,
            ..self
        }
    }

    /// Whether the request has not come from the client of the task that serves it.
    pub fn is_of_link(&self) -> bool {
        self.is_of_link
    }

    /// Whether the client has cancelled the request.
    pub fn cancellation(&self) -> CancellationToken {
        self.cancellation.clone()
    }

    /// Answers the request: what is sent to the client from now on follows the answer. The request
    /// counts as busy until the guard is dropped, so that what belongs to it can still be sent.
    pub fn send(self, answer: Result<Answer, Refusal>) -> BusyGuard {
        (self.send)(answer);
        self.busy
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply").finish_non_exhaustive()
    }
}

/// Counts what is under way, so that the end of input can wait for it.
#[derive(Clone, Debug)]
pub struct Busy(watch::Sender<usize>);

/// Counts as under way until it is dropped.
#[derive(Debug)]
pub struct BusyGuard(watch::Sender<usize>);

impl Default for Busy {
    fn default() -> Self {
        Self(watch::Sender::new(0))
    }
}

impl Busy {
    /// Counts one more.
    pub fn begin(&self) -> BusyGuard {
        self.0.send_modify(|count| *count += 1);
        BusyGuard(self.0.clone())
    }

    /// Whether nothing is under way.
    pub fn is_idle(&self) -> bool {
        self.count() == 0
    }

    /// How much is under way.
    pub fn count(&self) -> usize {
        *self.0.borrow()
    }

    /// Waits until something is under way.
    pub async fn busy(&self) {
        let mut count = self.0.subscribe();
        // The sender is in `self`, so waiting cannot fail.
        count.wait_for(|count| *count > 0).await.ok();
    }

    /// Waits until nothing is under way.
    pub async fn idle(&self) {
        let mut count = self.0.subscribe();
        // The sender is in `self`, so waiting cannot fail.
        count.wait_for(|count| *count == 0).await.ok();
    }
}

impl Drop for BusyGuard {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}
