//! What the log says about a session that is opened again.

use std::collections::HashMap;
use std::sync::Arc;

use crate::engine::{History, HistoryError};
use crate::json::{string_member, text_member};
use crate::protocol::UpdateKind;
use crate::record::{InVersion1, Kind, OpenTurns, Record, subagents};
use crate::sys::Ids;

use super::cleared::clears_context;
use super::hand_over::Reason;
use super::identity::NameMatch;
use super::ids::IdNormalizer;
use super::route::name_of;
use super::settings::Settings;
use super::shared_agent::Agent;

/// The state of a session according to its log.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own about the log"
)]
pub(super) struct ReplayedState {
    /// The agent's session id, if this agent has the session.
    pub(super) session_id: Option<String>,
    /// Whether the agent has gone on in another session of its own, and has not said in which one.
    pub(super) has_left: bool,
    /// The name that the log has for this agent.
    pub(super) recorded: Option<String>,
    /// The name of the agent that answered last, if that is another one.
    pub(super) other: Option<String>,
    /// Whether this agent was given a briefing of the session.
    pub(super) handed_over: bool,
    /// Whether the session is a fork.
    pub(super) forked: bool,
    pub(super) prompts: u64,
    /// Whether the last turn was interrupted by the end of our process or the agent's.
    pub(super) interrupted: bool,
    pub(super) settings: Settings,
    pub(super) normalizer: IdNormalizer,
    /// The last snapshot of each kind, by its name.
    pub(super) snapshots: HashMap<String, String>,
    open: OpenTurns<()>,
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
            session_id: None,
            has_left: false,
            recorded: None,
            other: None,
            handed_over: false,
            forked: false,
            prompts: 0,
            interrupted: false,
            settings: Settings::default(),
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
        recorded.is_some_and(|name| agent.means(name) == NameMatch::Maybe)
    }

    /// Why the agent is given a briefing, if it does not know the conversation.
    pub(super) fn reason(&self, agent: &Agent, adopt: bool) -> Reason {
        match &self.other {
            Some(other) => Reason::Other(other.clone()),
            None if self.forked && self.session_id.is_none() => Reason::Forked,
            None if adopt => Reason::Adopted,
            None if self.is_unsure(agent) => Reason::Unsure,
            None => Reason::Forgot,
        }
    }

    fn record(&mut self, record: &Record<'_>, agent: &Agent) {
        let overlaps = !self.open.is_empty();
        self.normalizer
            .recall(record.kind, record.payload, overlaps);
        if let Some(subagent) = subagents::announced_by(record) {
            agent.note_subagent(&subagent);
        }
        match record.kind {
            Kind::Prompt => {
                self.prompts += 1;
                self.interrupted = false;
                self.open.begin(record.id, ());
            }
            Kind::End => {
                self.interrupted = ended_with_process(record.payload);
                self.open.end(record.id);
            }
            // What the agent has under this id ends here.
            Kind::Answer if text_member(record.payload, "result").is_some_and(clears_context) => {
                self.session_id = None;
                self.has_left = true;
            }
            Kind::Session => {
                let engine = text_member(record.payload, "engine");
                let name = engine.and_then(|engine| string_member(engine, "name"));
                self.other = name.filter(|name| agent.means(name) == NameMatch::Other);
                self.forked = text_member(record.payload, "forkedFrom").is_some();
            }
            Kind::AgentSessionId => {
                self.has_left = false;
                let party = text_member(record.payload, "agent");
                let name = party.and_then(|party| string_member(party, "name"));
                let means = name.as_deref().map(|name| agent.means(name));
                if let Some(NameMatch::This | NameMatch::Maybe) = means {
                    // The record of a fork has no id.
                    self.session_id = string_member(record.payload, "id");
                    self.recorded = name;
                    self.other = None;
                    let how = string_member(record.payload, "how");
                    self.handed_over |= how.as_deref() == Some("transcript");
                } else {
                    self.other = name;
                    self.handed_over = false;
                    // This agent does not have the turns since then.
                    self.session_id = None;
                    // Another agent's modes and options do not apply to this one.
                    self.settings = Settings::default();
                }
            }
            Kind::Info => self.snapshot(name_of(record.payload), record.payload),
            Kind::UpdateV2 => {
                let name = name_of(record.payload);
                if UpdateKind::of_name(name.as_bytes()).snapshot().is_some() {
                    self.snapshot(name, record.payload);
                }
            }
            _ => {}
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
