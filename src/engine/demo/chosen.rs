//! The settings of one session, read from the log when they are first needed.

use std::sync::Mutex;

use serde_json::json;

use crate::engine::{Attached, Called, EngineError, History};
use crate::protocol::UpdateKind;
use crate::sys::lock;

use super::settings::{NAME, Settings};

/// The settings of an open session.
#[derive(Debug, Default)]
pub(super) struct Chosen(Mutex<Option<Settings>>);

impl Chosen {
    /// The current settings.
    pub(super) fn now(&self, history: &dyn History) -> Settings {
        let mut settings = lock(&self.0);
        *settings.get_or_insert_with(|| Settings::restored(&history.stands()))
    }

    /// The settings to report when the session is opened. Updates in the log from another agent
    /// that had the session before are not sent again.
    pub(super) fn attached(&self, history: &dyn History) -> Attached {
        let settings = self.now(history);
        let stands = history.stands();
        let (mut gone, snapshots) = settings.since(&stands);
        // Our own commands are announced separately.
        gone.push(UpdateKind::AvailableCommands.name());
        Attached {
            answer: Some(settings.answer()),
            // An agent that gets the session back must learn that it has missed a part of it.
            inner: stands.agent.filter(|agent| agent != NAME).map(|_| taken()),
            snapshots,
            gone,
            ..Attached::default()
        }
    }

    /// The settings to report for a session that another process has open: its log has the current
    /// ones.
    pub(super) fn elsewhere(history: &dyn History) -> Attached {
        Attached {
            answer: Some(Settings::restored(&history.stands()).answer()),
            ..Attached::default()
        }
    }

    /// Serves a request that changes a setting.
    pub(super) fn serve(
        &self,
        history: &dyn History,
        method: &str,
        params: &str,
    ) -> Result<Called, EngineError> {
        let mut changed = self.now(history);
        let called = changed.serve(method, params)?;
        *lock(&self.0) = Some(changed);
        Ok(called)
    }
}

/// The record that the session of another agent is continued here.
fn taken() -> String {
    let agent = json!({ "name": NAME, "version": env!("CARGO_PKG_VERSION") });
    json!({ "agent": agent, "how": "resume" }).to_string()
}
