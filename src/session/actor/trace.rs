//! Writes one line to the program's own log for each event of a session, for the people who run it.
//! The lines contain nothing of the conversation.

use crate::json;
use crate::session::open_session::OpenSession;
use crate::session::outcome::{Done, Refusal};
use crate::sys::Timestamp;

use super::Actor;

/// What the lines need that nothing else remembers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Trace {
    /// When the session began to be created or opened.
    opening: Option<Timestamp>,
    /// When the running turn began.
    turn: Option<Timestamp>,
    /// How the agent behind the engine was attached.
    pub(super) way: Option<&'static str>,
}

impl Actor {
    /// The session begins to be created or opened.
    pub(super) fn trace_opening(&mut self) {
        self.trace.opening = Some(self.deps.sys.clock.now());
        self.trace.way = None;
    }

    /// A turn begins.
    pub(super) fn trace_turn(&mut self) {
        self.trace.turn = Some(self.deps.sys.clock.now());
    }

    /// A turn has ended, with this payload of its `end` record.
    pub(super) fn trace_end(&mut self, end: &str) {
        let began = self.trace.turn.take();
        let ms = self.since(began);
        let session = &self.id;
        if let Some(reason) = json::string_member(end, "stopReason") {
            tracing::info!(%session, reason, ms, "turn ended");
        } else {
            tracing::info!(%session, ms, "turn failed");
        }
    }

    /// A request is about to be answered.
    pub(super) fn trace_answer(&self, result: &Result<Done, Refusal>) {
        let session = &self.id;
        let open_session = self.session.as_ref();
        let turns = open_session.map_or(0, |open_session| open_session.summary.prompts);
        let (ms, way) = (self.since(self.trace.opening), self.trace.way);
        match result {
            Ok(Done::Created(_)) => tracing::info!(%session, ms, "created"),
            Ok(Done::Forked(_)) => tracing::info!(%session, turns, ms, way, "forked"),
            Ok(Done::Loaded(_)) => tracing::info!(%session, turns, ms, way, "loaded"),
            Ok(Done::Resumed(_)) => tracing::info!(%session, turns, ms, way, "resumed"),
            Ok(Done::Closed) => tracing::info!(%session, "closed"),
            Ok(Done::Deleted) => tracing::info!(%session, "deleted"),
            Err(Refusal::NotFound) if self.deps.has_expired(session) => {
                tracing::info!(%session, "expired");
            }
            Err(Refusal::NotFound) => tracing::info!(%session, "not found"),
            Err(refusal @ Refusal::InUse { .. }) => tracing::info!(%session, %refusal, "in use"),
            Err(
                refusal @ (Refusal::Damaged(_)
                | Refusal::Newer(_)
                | Refusal::Storage(_)
                | Refusal::Engine(_)),
            ) => {
                tracing::info!(%session, %refusal, "request failed");
            }
            _ => return,
        }
        let elsewhere = open_session.and_then(OpenSession::elsewhere);
        if let (Ok(_), Some(elsewhere)) = (result, elsewhere) {
            let holder = elsewhere.holder.as_ref();
            let pid = holder.map(|holder| holder.pid);
            let client = holder.and_then(|holder| holder.client.as_deref());
            tracing::info!(%session, pid, client, "in use");
        }
    }

    /// How many milliseconds ago that was.
    fn since(&self, then: Option<Timestamp>) -> Option<i64> {
        let now = self.deps.sys.clock.now().as_millis();
        then.map(|then| now.saturating_sub(then.as_millis()).max(0))
    }
}
