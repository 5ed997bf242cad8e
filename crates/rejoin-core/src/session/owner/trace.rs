//! Writes one line to the program's own log for each event of a session, for the people who run it.
//! The lines contain nothing of the conversation.

use crate::json;
use crate::session::outcome::{Done, Elsewhere, Refusal};
use crate::sys::{SessionId, Timestamp};

/// What the lines need that nothing else remembers.
#[derive(Clone, Debug, Default)]
pub(in crate::session) struct Trace {
    /// What is done to make the session open here, and when that began.
    opening: Option<(&'static str, Timestamp)>,
    /// When the running turns began, with the ids of their messages.
    turns: Vec<(String, Timestamp)>,
    /// How the agent behind the engine was attached.
    pub(in crate::session) way: Option<&'static str>,
    /// How many updates were replayed.
    pub(in crate::session) updates: Option<u64>,
}

/// The session that a line is about, as it is now.
pub(in crate::session) struct Traced<'a> {
    pub(in crate::session) id: &'a SessionId,
    pub(in crate::session) now: Timestamp,
    /// How many prompts it has.
    pub(in crate::session) prompts: u64,
    /// The name of the agent.
    pub(in crate::session) agent: String,
    /// The process that has it, if that is another one.
    pub(in crate::session) elsewhere: Option<&'a Elsewhere>,
    pub(in crate::session) has_expired: bool,
}

impl Trace {
    /// The session begins to be `created`, `forked` or `opened`.
    pub(in crate::session) fn opening(&mut self, what: &'static str, now: Timestamp) {
        self.opening = Some((what, now));
        self.way = None;
        self.updates = None;
    }

    /// The turn of the message with this id begins. `turn` is its number.
    pub(in crate::session) fn turn(
        &mut self,
        session: &SessionId,
        turn: Option<u64>,
        message_id: &str,
        now: Timestamp,
    ) {
        tracing::info!(%session, turn, "turn begun");
        self.turns.push((message_id.to_owned(), now));
    }

    /// A turn has ended, with this id and payload of its `end` record.
    pub(in crate::session) fn end(
        &mut self,
        session: &SessionId,
        id: Option<&str>,
        end: &str,
        now: Timestamp,
    ) {
        let turns = &mut self.turns;
        let at = turns.iter().position(|(turn, _)| Some(&**turn) == id);
        // Without an id it is the only one.
        let at = at.unwrap_or_default();
        let began = (at < turns.len()).then(|| turns.remove(at).1);
        let ms = since(began, now);
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
    pub(in crate::session) fn answer(
        &mut self,
        result: &Result<Done, Refusal>,
        traced: &Traced<'_>,
    ) {
        use Done::{Created, Forked, Loaded, Resumed};
        // A request that has to wait until the session is open is not the one that opens it.
        let opening = match result {
            Ok(Created(_) | Forked(_) | Loaded(_) | Resumed(_)) => self.opening.take(),
            Ok(_) | Err(Refusal::NotOpen | Refusal::PromptInProgress { .. }) => None,
            Err(_) => self.opening.take(),
        };
        let (session, turns) = (traced.id, traced.prompts);
        let ms = since(opening.map(|(_, began)| began), traced.now);
        let (way, updates, agent) = (self.way, self.updates, &traced.agent);
        match result {
            Ok(Created(_)) => tracing::info!(%session, ms, agent, "created"),
            Ok(Forked(_)) => tracing::info!(%session, turns, ms, agent, way, "forked"),
            Ok(Loaded(_)) => tracing::info!(%session, turns, updates, ms, agent, way, "loaded"),
            Ok(Resumed(_)) => tracing::info!(%session, turns, updates, ms, agent, way, "resumed"),
            Ok(Done::Closed) => tracing::info!(%session, "closed"),
            Ok(Done::Deleted) => tracing::info!(%session, "deleted"),
            Err(Refusal::NotFound) if traced.has_expired => tracing::info!(%session, "expired"),
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
        if let (Ok(_), Some(elsewhere)) = (result, traced.elsewhere) {
            let holder = elsewhere.holder.as_ref();
            let pid = holder.map(|holder| holder.pid);
            let client = holder.and_then(|holder| holder.client.as_deref());
            tracing::info!(%session, pid, client, "in use");
        }
    }
}

/// How many milliseconds ago that was.
fn since(then: Option<Timestamp>, now: Timestamp) -> Option<i64> {
    let now = now.as_millis();
    then.map(|then| now.saturating_sub(then.as_millis()).max(0))
}
