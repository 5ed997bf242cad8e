//! The transitions of a session when an effect has failed.

use crate::engine::CloseReason;

use super::lifecycle::Lifecycle;
use super::{Machine, Purpose};
use crate::session::effect::{Batch, Effect, Work};
use crate::session::outcome::{Done, Refusal};

impl<R> Machine<R> {
    /// An effect of the last batch has failed.
    pub fn failed(&mut self, refusal: Refusal) -> Batch<R> {
        match std::mem::replace(&mut self.purpose, Purpose::None) {
            Purpose::None | Purpose::Close | Purpose::Delete => Vec::new(),
            Purpose::Create => {
                self.imported = false;
                self.not_opened(refusal, Some(CloseReason::Refused))
            }
            Purpose::Open if self.lifecycle.was_open() => {
                let replays = matches!(self.lifecycle, Lifecycle::CatchingUp { .. });
                let mut batch = self.not_opened(refusal, None);
                if replays {
                    batch.extend(self.abandon_replay());
                }
                batch
            }
            // Another process must not find the lock taken.
            Purpose::Open => self.not_opened(refusal, Some(CloseReason::Closed)),
            Purpose::FindKey => {
                let sought = self.sought.take();
                let answer = sought.map(|sought| sought.failed(refusal));
                answer.into_iter().collect()
            }
            Purpose::Prompt => {
                // If the prompt was to be answered in this batch, it has been.
                let mut batch = Vec::new();
                if let Some(turn) = self.turns.undo() {
                    let result = turn.failed(&refusal).map(Done::Stopped);
                    let repeats = turn.repeats.into_iter().map(|(_, reply)| reply);
                    let replies = turn.reply.into_iter().chain(repeats);
                    batch.extend(replies.map(|reply| Effect::Answer(reply, result.clone())));
                }
                batch.extend(self.stop_turns(refusal));
                batch
            }
            Purpose::Call => {
                // The request was answered with the failure.
                self.calls = self.calls.saturating_sub(1);
                Vec::new()
            }
            Purpose::Log if self.turns.is_empty() && refusal.is_recoverable_at_once() => {
                vec![Effect::RetryRecovery]
            }
            Purpose::Log => self.stop_turns(refusal).into_iter().collect(),
            Purpose::EndTurn { cancelled } => {
                let mut batch = self.end_not_logged(&refusal.of_turn(cancelled));
                batch.extend(self.stop_turns(refusal));
                batch
            }
        }
    }

    /// Stops the running turns, which cannot be logged, so that nothing is gained by a wait for their
    /// ends.
    fn stop_turns(&mut self, refusal: Refusal) -> Option<Effect<R>> {
        if self.turns.is_empty() {
            return None;
        }
        self.turns.failure = Some(refusal);
        Some(Effect::Cancel(Work::FailedTurns))
    }

    /// Ends the request under way, and closes the session for a reason if it was not open before.
    fn not_opened(&mut self, refusal: Refusal, reason: Option<CloseReason>) -> Batch<R> {
        let now = match reason {
            Some(_) => Lifecycle::Closed,
            None => Lifecycle::Open,
        };
        let reply = self.lifecycle.end(now);
        let answer = reply.map(|reply| Effect::Answer(reply, Err(refusal)));
        reason
            .map(Effect::Release)
            .into_iter()
            .chain(answer)
            .collect()
    }

    /// Sends what a replay that has failed has held back.
    pub(super) fn abandon_replay(&self) -> Batch<R> {
        let mut batch = vec![Effect::AbandonReplay];
        if self.lifecycle.is_open() {
            batch.push(self.notify_state());
        }
        batch
    }
}
