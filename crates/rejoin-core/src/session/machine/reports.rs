//! The engine's reports of its state, if it makes them.

use crate::session::effect::{Batch, Effect};
use crate::session::phase::Phase;

use super::Machine;

/// The engine's reports of its state.
#[derive(Debug, Default)]
pub(super) struct Reports {
    /// Whether the engine reports. If not, the session does.
    pub(super) are_due: bool,
    pub(super) last: Option<Phase>,
}

impl<R> Machine<R> {
    /// Sets whether the engine reports what it is doing. If not, the session does.
    pub fn let_engine_report(&mut self, reports_state: bool) {
        self.reports.are_due = reports_state;
    }

    /// The engine reports what it is doing, or will report nothing more.
    pub fn state(&mut self, params: Option<String>) -> Batch<R> {
        let before = self.reports.last.take();
        let phase = match params {
            Some(params) => {
                let phase = Phase::Reported(params);
                self.reports.last = Some(phase.clone());
                phase
            }
            // The end of a turn is reported with the turn.
            None if self.turns.is_empty() && before.is_some_and(|before| !before.is_idle()) => {
                Phase::Idle(None)
            }
            None => return Vec::new(),
        };
        if !self.lifecycle.is_open() || self.lifecycle.is_changing() {
            // The state is reported before the answer that is due.
            return Vec::new();
        }
        vec![Effect::state(phase)]
    }
}
