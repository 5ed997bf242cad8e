//! One log line for each thing that happens to a session, for people who look after a server.
//! Nothing that was said in a session is in it.

use crate::json;
use crate::sys::Timestamp;

use super::actor::{Actor, Journal};
use super::outcome::{Done, Refusal};

impl Actor {
    /// The session begins to be made or opened.
    pub(super) fn note_opening(&mut self) {
        self.journal = Journal {
            opening: Some(self.deps.sys.clock.now()),
            way: None,
            ..self.journal
        };
    }

    /// A turn begins.
    pub(super) fn note_turn(&mut self) {
        self.journal.turn = Some(self.deps.sys.clock.now());
    }

    /// A turn has ended, with this payload of its `end` record.
    pub(super) fn note_end(&mut self, end: &str) {
        let began = self.journal.turn.take();
        let ms = self.since(began);
        let session = &self.id;
        if let Some(reason) = json::string_member(end, "stopReason") {
            tracing::info!(%session, reason, ms, "turn ended");
        } else {
            tracing::info!(%session, ms, "turn failed");
        }
    }

    /// A request is about to be answered.
    pub(super) fn note_answer(&self, result: &Result<Done, Refusal>) {
        let session = &self.id;
        let open_session = self.session.as_ref();
        let turns = open_session.map_or(0, |open_session| open_session.summary.prompts);
        let (ms, way) = (self.since(self.journal.opening), self.journal.way);
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
        if let (Ok(_), Some(elsewhere)) = (
            result,
            open_session.and_then(|open_session| open_session.elsewhere()),
        ) {
            let holder = elsewhere.holder.as_ref();
            let (pid, client) = (
                holder.map(|holder| holder.pid),
                holder.and_then(|holder| holder.client.as_deref()),
            );
            tracing::info!(%session, pid, client, "in use");
        }
    }

    /// How many milliseconds ago that was.
    fn since(&self, then: Option<Timestamp>) -> Option<i64> {
        let now = self.deps.sys.clock.now().as_millis();
        then.map(|then| now.saturating_sub(then.as_millis()).max(0))
    }
}
