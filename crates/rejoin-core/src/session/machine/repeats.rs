//! Prompts that come again with the idempotency key of an earlier one: the engine gets none of them
//! twice.
//!
//! A prompt with a key is looked for in the log before it is logged. If it is there, its repetition is
//! answered as the first one was, or when that is. Only a prompt of which the log says that no engine can
//! have got it is run by its repetition.

use std::collections::VecDeque;
use std::mem;

use crate::engine::{EngineError, Prompt};
use crate::json;
use crate::record::open_turns::is_interrupted;
use crate::record::prompt_keys::idempotency_key;
use crate::store::TURN_INTERRUPTED;

use super::turns::{InLog, SoughtPrompt, WaitingPrompt};
use super::{Machine, Purpose};
use crate::session::effect::{Batch, Effect};
use crate::session::outcome::{Done, Refusal};
use crate::session::phase::Phase;
use crate::session::request::{AnswerDue, RecordedPrompt, RecordedState};

impl<R> Machine<R> {
    /// Looks for a prompt with a key in the log, which must be up to date for that.
    pub(super) fn find_key(
        &mut self,
        prompt: WaitingPrompt<R>,
        key: String,
        was_waiting: bool,
    ) -> Batch<R> {
        self.purpose = Purpose::FindKey;
        let claim = self.turns.is_empty().then_some(Effect::Claim);
        let message_id = prompt.message_id.clone();
        self.sought = Some(SoughtPrompt {
            prompt,
            was_waiting,
            found: None,
        });
        let find = Effect::FindKey { key, message_id };
        claim.into_iter().chain([find]).collect()
    }

    /// The log has this prompt under the key that is looked for.
    pub fn key_found(&mut self, found: RecordedPrompt) {
        if let Some(sought) = &mut self.sought {
            sought.found = Some(found);
        }
    }

    /// The log was searched for the key of a prompt.
    pub(super) fn key_was_sought(&mut self) -> Option<Batch<R>> {
        let SoughtPrompt {
            mut prompt,
            was_waiting,
            found,
        } = self.sought.take()?;
        prompt.known = match found {
            None => InLog::New,
            Some(RecordedPrompt {
                message_id,
                state: RecordedState::NotBegun(params),
            }) => InLog::Recorded(Prompt { message_id, params }),
            Some(recorded) => return Some(self.repeat(prompt, recorded)),
        };
        Some(if was_waiting {
            self.begin_or_skip(prompt)
        } else {
            self.prompt(prompt)
        })
    }

    /// Answers a prompt that an engine may have got before.
    fn repeat(&mut self, prompt: WaitingPrompt<R>, first: RecordedPrompt) -> Batch<R> {
        let RecordedPrompt { message_id, state } = first;
        let end = match state {
            RecordedState::Ended(end) => end,
            RecordedState::Open | RecordedState::NotBegun(_) => {
                if self.turns.find(&message_id).is_some() {
                    return self.join(&message_id, prompt).into_iter().collect();
                }
                TURN_INTERRUPTED.to_owned()
            }
        };
        vec![Effect::Answer(
            prompt.reply,
            ended(prompt.due, message_id, end),
        )]
    }

    /// The repetition of a prompt whose turn runs is answered with that: now, or at the end of the turn.
    pub(super) fn join(&mut self, message_id: &str, repeat: WaitingPrompt<R>) -> Option<Effect<R>> {
        let phase = self.phase();
        match (repeat.due, self.turns.find(message_id)) {
            (AnswerDue::TurnEnds, Some(turn)) => {
                turn.repeats.push((repeat.message_id, repeat.reply));
                None
            }
            _ => Some(repeated(repeat.reply, message_id, phase)),
        }
    }

    /// Whether a prompt with this key waits for the turns in front of it.
    pub(super) fn waits_for(&self, key: &str) -> bool {
        self.prompts.iter().any(|prompt| prompt.has_key(key))
    }

    /// Takes the prompts with the key of this one that wait for the turns in front of them. `None` if it
    /// has no key.
    pub(super) fn take_repeats(
        &mut self,
        first: &WaitingPrompt<R>,
    ) -> Option<VecDeque<WaitingPrompt<R>>> {
        let key = idempotency_key(&first.params)?;
        let prompts = mem::take(&mut self.prompts).into_iter();
        let (repeats, others) = prompts.partition(|prompt| prompt.has_key(&key));
        self.prompts = others;
        Some(repeats)
    }
}

impl<R> WaitingPrompt<R> {
    fn has_key(&self, key: &str) -> bool {
        matches!(&self.known, InLog::Unknown(own) if own == key)
    }
}

/// Answers a repetition with the first prompt, and what becomes of that.
pub(super) fn repeated<R>(reply: R, message_id: &str, phase: Phase) -> Effect<R> {
    let message_id = message_id.to_owned();
    Effect::Answer(reply, Ok(Done::Repeated { message_id, phase }))
}

/// The answer to a repetition of a prompt whose turn has ended, with the payload of that record.
fn ended(due: AnswerDue, message_id: String, end: String) -> Result<Done, Refusal> {
    if due == AnswerDue::TurnEnds {
        if is_interrupted(&end) {
            return Err(Refusal::RepeatInterrupted { message_id });
        }
        if let Some(error) = json::text_member(&end, "error") {
            return Err(Refusal::Engine(EngineError::of_json(error)));
        }
    }
    let phase = Phase::Idle(Some(end));
    Ok(Done::Repeated { message_id, phase })
}

#[cfg(test)]
#[path = "repeats_tests.rs"]
mod tests;
