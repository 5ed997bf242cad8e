//! Writes one line to the program's own log for each event of a session, for the people who run it.
//! The lines contain nothing of the conversation.

use crate::json;
use crate::session::open_session::OpenSession;
use crate::session::outcome::{Done, Refusal};
use crate::sys::Timestamp;

use super::Actor;

/// What the lines need that nothing else remembers.
#[derive(Clone, Debug, Default)]
pub(super) struct Trace {
    /// What is done to make the session open here, and when that began.
    opening: Option<(&'static str, Timestamp)>,
    /// When the running turns began, with the ids of their messages.
    turns: Vec<(String, Timestamp)>,
    /// How the agent behind the engine was attached.
    pub(super) way: Option<&'static str>,
    /// How many updates were replayed.
    pub(super) updates: Option<u64>,
}

impl Actor {
    /// The session begins to be `created`, `forked` or `opened`.
    pub(super) fn trace_opening(&mut self, what: &'static str) {
        self.trace.opening = Some((what, self.deps.sys.clock.now()));
        self.trace.way = None;
        self.trace.updates = None;
    }

    /// The turn of the message with this id begins.
    pub(super) fn trace_turn(&mut self, message_id: &str) {
        let (session, summary) = (&self.id, self.session.as_ref().map(|open| &open.summary));
        tracing::info!(%session, turn = summary.map(|summary| summary.prompts), "turn begun");
        let began = (message_id.to_owned(), self.deps.sys.clock.now());
        self.trace.turns.push(began);
    }

    /// A turn has ended, with this id and payload of its `end` record.
    pub(super) fn trace_end(&mut self, id: Option<&str>, end: &str) {
        let turns = &mut self.trace.turns;
        let at = turns.iter().position(|(turn, _)| Some(&**turn) == id);
        // Without an id it is the only one.
        let at = at.unwrap_or_default();
        let began = (at < turns.len()).then(|| turns.remove(at).1);
        let ms = self.since(began);
        let session = &self.id;
        if let Some(reason) = json::string_member(end, "stopReason") {
            tracing::info!(%session, reason, ms, "turn ended");
        } else {
            let error = json::text_member(end, "error");
            let code = error.and_then(|error| json::text_member(error, "code"));
            let code = code.and_then(|code| code.parse::<i64>().ok());
            tracing::info!(%session, code, ms, "turn failed");
        }
    }

    /// A request is about to be answered.
    pub(super) fn trace_answer(&mut self, result: &Result<Done, Refusal>) {
        use Done::{Created, Forked, Loaded, Resumed};
        // A request that has to wait until the session is open is not the one that opens it.
        let opening = match result {
            Ok(Created(_) | Forked(_) | Loaded(_) | Resumed(_)) => self.trace.opening.take(),
            Ok(_) | Err(Refusal::NotOpen | Refusal::PromptInProgress { .. }) => None,
            Err(_) => self.trace.opening.take(),
        };
        let session = &self.id;
        let open_session = self.session.as_ref();
        let turns = open_session.map_or(0, |open_session| open_session.summary.prompts);
        let ms = self.since(opening.map(|(_, began)| began));
        let (way, updates) = (self.trace.way, self.trace.updates);
        let agent = || self.deps.engine.identity().name;
        match result {
            Ok(Created(_)) => tracing::info!(%session, ms, agent = agent(), "created"),
            Ok(Forked(_)) => tracing::info!(%session, turns, ms, agent = agent(), way, "forked"),
            Ok(Loaded(_)) => {
                tracing::info!(%session, turns, updates, ms, agent = agent(), way, "loaded");
            }
            Ok(Resumed(_)) => {
                tracing::info!(%session, turns, updates, ms, agent = agent(), way, "resumed");
            }
            Ok(Done::Closed) => tracing::info!(%session, "closed"),
            Ok(Done::Deleted) => tracing::info!(%session, "deleted"),
            Err(Refusal::NotFound) if self.deps.has_expired(session) => {
                tracing::info!(%session, "expired");
            }
            Err(Refusal::NotFound) => tracing::info!(%session, "not found"),
            Err(error @ Refusal::InUse { .. }) => tracing::info!(%session, %error, "in use"),
            Err(error) if opening.is_some() => {
                let what = opening.map_or("opened", |(what, _)| what);
                tracing::info!(%session, %error, ms, "not {what}");
            }
            Err(
                error @ (Refusal::Damaged(_)
                | Refusal::Newer(_)
                | Refusal::Storage(_)
                | Refusal::Unreachable(_)
                | Refusal::Engine(_)),
            ) => {
                tracing::info!(%session, %error, "request failed");
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
