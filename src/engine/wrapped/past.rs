//! What the log of a session tells of it when it is opened again.

use std::collections::HashMap;
use std::sync::Arc;

use crate::engine::{History, HistoryError};
use crate::record::json::{string_member, text_member};
use crate::record::{Kind, Record};
use crate::sys::Ids;

use super::route::name_of;

use super::settings::Settings;
use super::shape::Marks;

/// What is known of a session's past.
#[derive(Debug)]
pub(super) struct Past {
    /// How this agent knew the session last.
    pub(super) inner: Option<String>,
    /// The name of the agent that answered last, if it was another one.
    pub(super) other: Option<String>,
    /// Whether the session began as a copy of another one.
    pub(super) forked: bool,
    pub(super) prompts: u64,
    pub(super) settings: Settings,
    pub(super) marks: Marks,
    /// The last of each update that says how things were, by its name.
    pub(super) infos: HashMap<String, String>,
}

impl Past {
    /// Reads the past of a session that is to be continued by the agent of this name.
    pub(super) fn read(
        history: &dyn History,
        agent: &str,
        ids: Arc<dyn Ids>,
    ) -> Result<Self, HistoryError> {
        let mut past = Self {
            inner: None,
            other: None,
            forked: false,
            prompts: 0,
            settings: Settings::default(),
            marks: Marks::new(ids),
            infos: HashMap::new(),
        };
        history.walk(&mut |record| past.record(record, agent))?;
        Ok(past)
    }

    fn record(&mut self, record: &Record<'_>, agent: &str) {
        self.marks.recall(record.kind, record.payload);
        match record.kind {
            Kind::Prompt => self.prompts += 1,
            Kind::Session => {
                let engine = text_member(record.payload, "engine");
                let name = engine.and_then(|engine| string_member(engine, "name"));
                self.other = name.filter(|name| name != agent);
                self.forked = text_member(record.payload, "forkedFrom").is_some();
            }
            Kind::Inner => {
                let party = text_member(record.payload, "agent");
                let name = party.and_then(|party| string_member(party, "name"));
                if name.as_deref() == Some(agent) {
                    // The id that another session had is left out of a copy.
                    self.inner = string_member(record.payload, "id");
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
