//! What the log of a session tells of it when it is opened again.

use std::collections::HashMap;
use std::sync::Arc;

use crate::engine::{History, HistoryError};
use crate::json::{string_member, text_member};
use crate::record::{Kind, OpenTurns, Record};
use crate::sys::Ids;

use super::identity::Means;
use super::route::name_of;
use super::settings::Settings;
use super::shape::IdNormalizer;
use super::shared_agent::Agent;
use super::transcript::Reason;

/// What is known of a session's past.
#[derive(Debug)]
pub(super) struct ReplayedState {
    /// How this agent knew the session last.
    pub(super) inner: Option<String>,
    /// The name of the agent that the log has it under.
    pub(super) recorded: Option<String>,
    /// The name of the agent that answered last, if it was another one.
    pub(super) other: Option<String>,
    /// Whether the session began as a copy of another one.
    pub(super) forked: bool,
    pub(super) prompts: u64,
    /// Whether the last turn was cut off: by the end of our process or of the agent's.
    pub(super) cut: bool,
    pub(super) settings: Settings,
    pub(super) marks: IdNormalizer,
    /// The last of each update that says how things were, by its name.
    pub(super) infos: HashMap<String, String>,
    open: OpenTurns<()>,
}

impl ReplayedState {
    /// Reads the past of a session that is to be continued by this agent.
    pub(super) fn read(
        history: &dyn History,
        agent: &Agent,
        ids: Arc<dyn Ids>,
    ) -> Result<Self, HistoryError> {
        let mut past = Self {
            inner: None,
            recorded: None,
            other: None,
            forked: false,
            prompts: 0,
            cut: false,
            settings: Settings::default(),
            marks: IdNormalizer::new(ids),
            infos: HashMap::new(),
            open: OpenTurns::default(),
        };
        history.walk(&mut |record| past.record(record, agent))?;
        Ok(past)
    }

    /// Whether the agent's id may be that of another agent: the name in the log does not tell them
    /// apart.
    pub(super) fn is_unsure(&self, agent: &Agent) -> bool {
        let recorded = self.recorded.as_deref();
        recorded.is_some_and(|name| agent.means(name) == Means::Perhaps)
    }

    /// Why the agent is given a transcript, if it does not know the conversation.
    pub(super) fn reason(&self, agent: &Agent, adopt: bool) -> Reason {
        match &self.other {
            Some(other) => Reason::Other(other.clone()),
            None if self.forked && self.inner.is_none() => Reason::Forked,
            None if adopt => Reason::Adopted,
            None if self.is_unsure(agent) => Reason::Unsure,
            None => Reason::Forgot,
        }
    }

    fn record(&mut self, record: &Record<'_>, agent: &Agent) {
        let overlaps = !self.open.is_empty();
        self.marks.recall(record.kind, record.payload, overlaps);
        match record.kind {
            Kind::Prompt => {
                self.prompts += 1;
                self.cut = false;
                self.open.begin(record.id, ());
            }
            Kind::End => {
                self.cut = is_cut(record.payload);
                self.open.end(record.id);
            }
            Kind::Session => {
                let engine = text_member(record.payload, "engine");
                let name = engine.and_then(|engine| string_member(engine, "name"));
                self.other = name.filter(|name| agent.means(name) == Means::Another);
                self.forked = text_member(record.payload, "forkedFrom").is_some();
            }
            Kind::AgentSessionId => {
                let party = text_member(record.payload, "agent");
                let name = party.and_then(|party| string_member(party, "name"));
                let means = name.as_deref().map(|name| agent.means(name));
                if let Some(Means::This | Means::Perhaps) = means {
                    // The id that another session had is left out of a copy.
                    self.inner = string_member(record.payload, "id");
                    self.recorded = name;
                    self.other = None;
                } else {
                    self.other = name;
                    // What was said since then it does not know.
                    self.inner = None;
                    // What another agent's modes are called means nothing to this one.
                    self.settings = Settings::default();
                }
            }
            Kind::Info => {
                self.settings.note(record.payload);
                let name = name_of(record.payload);
                self.infos.insert(name, record.payload.to_owned());
            }
            _ => {}
        }
    }
}

/// Whether the end of a turn tells that a process ended in it.
fn is_cut(end: &str) -> bool {
    let error = text_member(end, "error").and_then(|error| text_member(error, "data"));
    let name = error.and_then(|data| string_member(data, "error"));
    text_member(end, "interrupted").is_some() || name.as_deref() == Some("agent_ended")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_process_cuts_a_turn_off() {
        for (end, cut) in [
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
            assert_eq!(is_cut(end), cut, "{end}");
        }
    }
}
