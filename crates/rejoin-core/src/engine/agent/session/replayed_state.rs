//! The state of a session that is opened again, from its log.

use std::collections::HashMap;
use std::sync::Arc;

use crate::engine::{History, HistoryError};
use crate::json::{string_member, text_member};
use crate::protocol::UpdateKind;
use crate::record::{AgentPlace, InVersion1, Kind, OpenTurns, Record, Rewind, subagents};
use crate::sys::Ids;

use super::hand_over::BriefingReason;
use super::logged_prompts::LoggedPrompts;
use crate::engine::agent::ids::IdNormalizer;
use crate::engine::agent::process::names::NameMatch;
use crate::engine::agent::route::name_of;
use crate::engine::agent::route::settings::AgentSettings;
use crate::engine::agent::shared_agent::Agent;
use crate::engine::agent::wire::context_clear::clears_context;

/// The state of a session according to its log.
#[derive(Debug)]
pub(super) struct ReplayedState {
    pub(super) own: OwnSessions,
    /// The name that the log has for this agent.
    pub(super) recorded: Option<String>,
    /// The name of the agent that answered last, if that is another one.
    pub(super) other: Option<String>,
    /// The name of the agent that has the session now, if that is another one.
    holder: Option<String>,
    /// How many prompts this agent has got since the last briefing of the session that it was given,
    /// with the one behind the briefing, if it was given any.
    pub(super) prompts_since_briefing: Option<u64>,
    /// Why no session of the agent has the conversation, if that is a fork or has gone back.
    new_because: Option<BriefingReason>,
    pub(super) prompts: LoggedPrompts,
    /// Whether the last turn was interrupted by the end of our process or the agent's.
    pub(super) interrupted: bool,
    pub(super) settings: AgentSettings,
    pub(super) normalizer: IdNormalizer,
    /// The last snapshot of each kind, by its name.
    pub(super) snapshots: HashMap<String, String>,
    open: OpenTurns<()>,
}

/// The sessions of this agent that have a part of the conversation.
#[derive(Debug, Default)]
pub(super) struct OwnSessions {
    /// The id of the one that the agent goes on with, if it has the conversation.
    pub(super) id: Option<String>,
    /// The id of the one that the agent could not open when that one was made in its place.
    pub(super) instead_of: Option<String>,
    /// Whether the agent has gone on in another session, and has not said in which one.
    pub(super) has_left: bool,
    /// Whether the conversation has gone back since the agent opened a session.
    pub(super) is_rewound: bool,
    /// The place in one of them at which that one is to be forked.
    pub(super) origin: Option<AgentPlace>,
    /// How many of the prompts each of them has, or was sent in the briefing with a later one.
    knows: HashMap<String, u64>,
}

impl OwnSessions {
    /// How many of the prompts the one with this id has.
    pub(super) fn knows(&self, id: &str) -> u64 {
        self.knows.get(id).copied().unwrap_or(0)
    }

    /// The current one has the prompts up to this number.
    fn set_known(&mut self, prompts: u64) {
        if let Some(id) = &self.id {
            self.knows.insert(id.clone(), prompts);
        }
    }

    /// The conversation goes on in none of them.
    pub(super) fn leave(&mut self) {
        self.id = None;
        self.instead_of = None;
        self.origin = None;
    }
}

impl ReplayedState {
    /// Reads the log of a session that this agent is to continue. For an agent of version 2 the
    /// snapshots are as they were recorded.
    pub(super) fn read(
        history: &dyn History,
        agent: &Agent,
        ids: Arc<dyn Ids>,
        is_native: bool,
    ) -> Result<Self, HistoryError> {
        let mut state = Self {
            own: OwnSessions::default(),
            recorded: None,
            other: None,
            holder: None,
            prompts_since_briefing: None,
            new_because: None,
            prompts: LoggedPrompts::default(),
            interrupted: false,
            settings: AgentSettings::default(),
            normalizer: IdNormalizer::new(ids),
            snapshots: HashMap::new(),
            open: OpenTurns::default(),
        };
        if is_native {
            history.walk(&mut |record| state.record(record, agent))?;
        } else {
            let mut converted = InVersion1::new();
            history.walk(&mut |record| {
                converted.record(record, &mut |record| state.record(record, agent));
            })?;
            converted.finish(&mut |record| state.record(record, agent));
        }
        Ok(state)
    }

    /// Whether the session id may be that of another agent with the same name in the log.
    pub(super) fn is_unsure(&self, agent: &Agent) -> bool {
        let recorded = self.recorded.as_deref();
        recorded.is_some_and(|name| agent.names.means(name) == NameMatch::Maybe)
    }

    /// Why the agent is given a briefing, if it does not know the conversation.
    pub(super) fn reason(&self, agent: &Agent, adopt: bool) -> BriefingReason {
        match (&self.other, &self.new_because) {
            (Some(other), _) => BriefingReason::Other(other.clone()),
            (None, Some(reason)) if self.has_no_prompt() => reason.clone(),
            (None, _) if adopt => BriefingReason::Adopted,
            (None, _) if self.is_unsure(agent) => BriefingReason::Unsure,
            (None, _) => BriefingReason::Forgot,
        }
    }

    fn record(&mut self, record: &Record<'_>, agent: &Agent) {
        let overlaps = !self.open.is_empty();
        self.normalizer
            .recall(record.kind, record.payload, overlaps);
        self.prompts.record(record, overlaps);
        if let Some(subagent) = subagents::announced_by(record) {
            agent.note_subagent(&subagent);
        }
        match record.kind {
            Kind::Prompt => {
                self.interrupted = false;
                self.other.clone_from(&self.holder);
                self.own.set_known(self.prompts.count());
                if let Some(prompts) = &mut self.prompts_since_briefing {
                    *prompts += 1;
                }
                self.open.begin(record.id, ());
            }
            Kind::End => {
                self.interrupted = ended_with_process(record.payload);
                self.open.end(record.id);
            }
            // What the agent has under this id ends here.
            Kind::Answer if text_member(record.payload, "result").is_some_and(clears_context) => {
                self.own.id = None;
                self.own.has_left = true;
            }
            Kind::Session => {
                let engine = text_member(record.payload, "engine");
                let name = engine.and_then(|engine| string_member(engine, "name"));
                self.holder = name.filter(|name| agent.names.means(name) == NameMatch::Other);
                self.other.clone_from(&self.holder);
                let is_fork = text_member(record.payload, "forkedFrom").is_some();
                self.new_because = is_fork.then_some(BriefingReason::Forked);
            }
            Kind::AgentSessionId => {
                self.own.has_left = false;
                self.own.is_rewound = false;
                self.own.origin = None;
                let party = text_member(record.payload, "agent");
                let name = party.and_then(|party| string_member(party, "name"));
                let means = name.as_deref().map(|name| agent.names.means(name));
                if let Some(NameMatch::This | NameMatch::Maybe) = means {
                    self.recorded = name;
                    self.holder = None;
                    self.opened(record.payload);
                } else {
                    self.other.clone_from(&name);
                    self.holder = name;
                    self.prompts_since_briefing = None;
                    // This agent does not have the turns since then.
                    self.own.leave();
                    // Another agent's modes and options do not apply to this one.
                    self.settings = AgentSettings::default();
                }
            }
            Kind::Rewind => {
                // The sessions so far have what was undone.
                self.own.leave();
                self.own.has_left = true;
                self.own.knows.clear();
                self.new_because = Some(BriefingReason::Rewound);
                self.own.is_rewound = true;
                let rewind = Rewind::read(record.payload);
                let place = rewind.and_then(|rewind| rewind.agent_session);
                let is_own = |name: &str| agent.names.means(name) == NameMatch::This;
                match place.filter(|place| is_own(&place.session.agent)) {
                    Some(place) => self.goes_on_from(place),
                    None => self.prompts_since_briefing = None,
                }
            }
            Kind::Info => self.snapshot(name_of(record.payload), record.payload),
            Kind::UpdateV2 => {
                let name = name_of(record.payload);
                if UpdateKind::of_name(name.as_bytes()).is_snapshot() {
                    self.snapshot(name, record.payload);
                }
            }
            _ => {}
        }
    }

    /// Whether none of the agent's sessions has a prompt of the conversation.
    fn has_no_prompt(&self) -> bool {
        let id = self.own.id.as_deref();
        id.is_none_or(|id| self.own.knows(id) == 0)
    }

    /// The conversation has gone back to a place of one of the agent's sessions.
    fn goes_on_from(&mut self, place: AgentPlace) {
        self.recorded = Some(place.session.agent.clone());
        (self.holder, self.other) = (None, None);
        if place.cursor.is_some() {
            self.own.origin = Some(place);
        } else {
            self.own.id = Some(place.session.id);
            self.own.has_left = false;
            self.own.set_known(self.prompts.count());
        }
    }

    /// The agent has opened a session, as an `inner` record says.
    fn opened(&mut self, payload: &str) {
        if self.interrupted {
            // The agent may not have all of the last turn.
            self.own.set_known(self.prompts.count().saturating_sub(1));
        }
        // The record of a fork has no id.
        self.own.id = string_member(payload, "id");
        self.own.instead_of = string_member(payload, "instead");
        let is_briefed = string_member(payload, "how").as_deref() == Some("transcript");
        let is_prompted = !self.open.is_empty();
        if is_briefed {
            // A briefing is sent with the next prompt, which may be the one that is open.
            self.prompts_since_briefing = Some(u64::from(is_prompted));
        }
        if is_prompted {
            self.other = None;
        }
        if let Some(id) = &self.own.id {
            if is_prompted {
                self.own.set_known(self.prompts.count());
            } else if !self.own.knows.contains_key(id) {
                self.own
                    .set_known(if is_briefed { 0 } else { self.prompts.count() });
            }
        }
    }

    fn snapshot(&mut self, name: String, payload: &str) {
        self.settings.apply_update(payload);
        self.snapshots.insert(name, payload.to_owned());
    }
}

/// Whether a turn ended because a process did.
fn ended_with_process(end: &str) -> bool {
    let error = text_member(end, "error").and_then(|error| text_member(error, "data"));
    let name = error.and_then(|data| string_member(data, "error"));
    text_member(end, "interrupted").is_some() || name.as_deref() == Some("agent_ended")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_process_interrupts_a_turn() {
        for (end, interrupted) in [
            (r#"{"stopReason":"end_turn"}"#, false),
            (r#"{"stopReason":"cancelled"}"#, false),
            (
                r#"{"interrupted":"the process ended during this turn"}"#,
                true,
            ),
            (
                r#"{"error":{"code":-32603,"message":"m","data":{"error":"agent_ended"}}}"#,
                true,
            ),
            (
                r#"{"error":{"code":-32603,"message":"agent_ended"}}"#,
                false,
            ),
        ] {
            assert_eq!(ended_with_process(end), interrupted, "{end}");
        }
    }
}
