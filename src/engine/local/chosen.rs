//! What is chosen in one session, as far as it is known: it is read from the log when it is needed.

use std::sync::Mutex;

use serde_json::json;

use crate::engine::{Attached, Called, EngineError, History};
use crate::record::transcript::COMMANDS;
use crate::sys::lock;

use super::settings::{NAME, Settings};

/// The settings of an open session.
#[derive(Debug, Default)]
pub(super) struct Chosen(Mutex<Option<Settings>>);

impl Chosen {
    /// How the session is set now.
    pub(super) fn now(&self, history: &dyn History) -> Settings {
        let mut settings = lock(&self.0);
        *settings.get_or_insert_with(|| Settings::restored(&history.stands()))
    }

    /// What is told when the session is opened. What an agent said of it that had it before is not
    /// told again.
    pub(super) fn attached(&self, history: &dyn History) -> Attached {
        let settings = self.now(history);
        let stands = history.stands();
        let (mut gone, snapshots) = settings.since(&stands);
        // Ours are announced.
        gone.push(COMMANDS);
        Attached {
            answer: Some(settings.answer()),
            // Who comes back to the session must know that it has not seen all of it.
            inner: stands.agent.filter(|agent| agent != NAME).map(|_| taken()),
            snapshots,
            gone,
            ..Attached::default()
        }
    }

    /// Serves a request that changes something.
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

/// Says in the log that a session of another agent is answered here from now on.
fn taken() -> String {
    let agent = json!({ "name": NAME, "version": env!("CARGO_PKG_VERSION") });
    json!({ "agent": agent, "how": "resume" }).to_string()
}
