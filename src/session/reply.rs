//! The way back to whoever made a request.

use std::fmt;
use std::sync::Arc;

use crate::store::DamageReport;

use super::busy::BusyGuard;
use super::open_session::Elsewhere;
use super::outcome::{Done, Refusal};

/// What a request is answered with when it was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// What was done.
    pub done: Done,
    /// What is known to be wrong with the session's log, if it was opened.
    pub damage: Arc<[DamageReport]>,
    /// Who else has the session, if somebody has, so that it can only be read here.
    pub elsewhere: Option<Elsewhere>,
    /// Why nothing can be added to the session, if the disk lets it only be read.
    pub read_only: Option<String>,
}

/// Sends the answer to one request. Dropped, it leaves the request unanswered.
pub struct Reply {
    send: Box<dyn FnOnce(Result<Answer, Refusal>) + Send>,
    cancelled: Arc<dyn Fn() -> bool + Send + Sync>,
    busy: BusyGuard,
}

impl Reply {
    /// A way back that counts as busy until it is used. `cancelled` tells whether the client has
    /// cancelled the request.
    pub fn new(
        busy: BusyGuard,
        cancelled: impl Fn() -> bool + Send + Sync + 'static,
        send: impl FnOnce(Result<Answer, Refusal>) + Send + 'static,
    ) -> Self {
        Self {
            send: Box::new(send),
            cancelled: Arc::new(cancelled),
            busy,
        }
    }

    /// Tells whether the client has cancelled the request; may be asked from any thread.
    pub fn cancelled(&self) -> Arc<dyn Fn() -> bool + Send + Sync> {
        Arc::clone(&self.cancelled)
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
