//! What a session does when an effect that it asked for has failed.

use crate::engine::CloseReason;

use super::effect::{Batch, Effect};
use super::machine::{Machine, Stage};
use super::outcome::Refusal;
use super::pending_attach::PendingAttach;

impl<R> Machine<R> {
    /// An effect of the last batch failed.
    pub fn failed(&mut self, refusal: Refusal) -> Batch<R> {
        match std::mem::replace(&mut self.stage, Stage::Nothing) {
            Stage::Nothing => Vec::new(),
            Stage::Making => {
                self.made = false;
                self.not_opened(refusal, Some(CloseReason::Refused))
            }
            Stage::Opening { was_open: true } => self.not_opened(refusal, None),
            // Whoever is next must not find the lock taken.
            Stage::Opening { was_open: false } => {
                self.not_opened(refusal, Some(CloseReason::Closed))
            }
            Stage::Prompting => {
                // A prompt that was to be answered in this batch was.
                let reply = self.turns.undo().and_then(|turn| turn.reply);
                let answer = reply.map(|reply| Effect::Answer(reply, Err(refusal.clone())));
                answer.into_iter().chain(self.stop_turns(refusal)).collect()
            }
            Stage::Calling => {
                // The request was answered with the failure.
                self.calls = self.calls.saturating_sub(1);
                Vec::new()
            }
            Stage::Updating if self.turns.is_empty() => vec![Effect::RetryRecovery],
            Stage::Updating => self.stop_turns(refusal).into_iter().collect(),
            Stage::Ending => {
                let mut batch = self.not_ended(refusal.clone());
                batch.extend(self.stop_turns(refusal));
                batch
            }
            Stage::CatchingUp => self.not_shown(),
            Stage::Trashing { was_open } => {
                self.open = was_open;
                Vec::new()
            }
        }
    }

    /// Stops the turns that run, whose records cannot be kept.
    fn stop_turns(&mut self, refusal: Refusal) -> Option<Effect<R>> {
        if self.turns.is_empty() {
            return None;
        }
        self.turns.broken = Some(refusal);
        Some(Effect::CancelTurns)
    }

    /// What could not be opened is let go of, unless it was open before.
    fn not_opened(&mut self, refusal: Refusal, parting: Option<CloseReason>) -> Batch<R> {
        self.imported = None;
        let mut batch = Vec::new();
        if let Some(parting) = parting {
            self.open = false;
            batch.push(Effect::Release(parting));
        }
        let attach = self.attach.take();
        let reply = self
            .replay
            .take()
            .or(attach.and_then(PendingAttach::into_reply));
        batch.extend(reply.map(|reply| Effect::Answer(reply, Err(refusal))));
        batch
    }

    /// What a replay that failed has held up.
    pub(super) fn not_shown(&mut self) -> Batch<R> {
        let told = if self.open { self.tell() } else { None };
        std::iter::once(Effect::SendHeld).chain(told).collect()
    }
}
