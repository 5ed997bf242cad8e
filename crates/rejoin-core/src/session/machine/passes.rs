//! Requests that are passed to another process, which has the session.

use crate::engine::CloseReason;
use crate::session::effect::{Batch, Effect};
use crate::session::link::message::{Passed, Route};
use crate::session::request::Request;

use super::lifecycle::Lifecycle;
use super::{Machine, Purpose};

/// How requests are served that another process serves, which has the session.
#[derive(Debug, Default)]
pub(super) struct Passes {
    /// Whether another process has the session and serves its requests.
    pub(super) are_due: bool,
    /// How many prompts it has not answered.
    pub(super) prompts: usize,
    /// Whether the process was asked to cancel its turns, since the session is to be closed.
    pub(super) cancelled: bool,
}

impl<R> Machine<R> {
    /// Sets whether another process has the session and serves its requests.
    pub fn pass_on(&mut self, are_due: bool) {
        self.passes.are_due = are_due;
    }

    /// The other process has answered a prompt, or will not.
    pub fn passed_prompt_answered(&mut self) {
        self.passes.prompts = self.passes.prompts.saturating_sub(1);
    }

    /// The session has gone: another process has deleted or archived it.
    pub fn gone(&mut self) -> Batch<R> {
        if !matches!(self.lifecycle, Lifecycle::Open) {
            return Vec::new();
        }
        self.purpose = Purpose::Close;
        vec![Effect::Release(CloseReason::Closed)]
    }

    /// Has another process serve a request. Returns one that is served here.
    pub(super) fn pass(&mut self, request: Request<R>) -> Result<Batch<R>, Box<Request<R>>> {
        let route = Route::of(request);
        if let Route::Pass(_, Passed::Prompt { .. }) = route {
            self.passes.prompts += 1;
            self.passes.cancelled = false;
        }
        match route {
            Route::Here(request) => Err(request),
            route => Ok(vec![Effect::Pass(route)]),
        }
    }
}
