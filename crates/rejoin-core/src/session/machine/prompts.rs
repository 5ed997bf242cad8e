//! The prompts of a session: it has them answered, one at a time unless the engine takes more,
//! holds those that may wait, and withdraws those that are not logged yet.

use crate::engine::{Block, Prompt, PromptEnd, StopReason};
use crate::json;
use crate::record::prompt_keys::{UNSENT, idempotency_key};
use crate::record::{Kind, OpenTurns};
use crate::store::CALL_INTERRUPTED;

use super::repeats::repeated;
use super::turns::{InLog, Turn, TurnStop, WaitingPrompt};
use super::{Machine, Purpose};
use crate::session::effect::{Batch, Effect, Notification, Work, end_of};
use crate::session::outcome::{Done, Refusal};
use crate::session::phase::Phase;
use crate::session::request::{AnswerDue, Leaving, Request, TurnResult};

/// The message of tool calls that a cancelled turn left open.
const CANCELLED: &str = "Cancelled: the turn was cancelled before this tool call ended.";
/// The message of tool calls that a failed turn left open.
const FAILED: &str = "Interrupted: the turn failed before this tool call ended.";

/// How much may wait for the running turns, in bytes of parameters.
const HELD: usize = 64 * 1024 * 1024;

/// How many prompts are answered at the same time at most, by an engine that takes them.
const OVERLAPPING: usize = OpenTurns::MOST;

impl<R> Machine<R> {
    /// How much waits for the running turns, in bytes.
    fn held_bytes(&self) -> usize {
        self.prompts.iter().map(|prompt| prompt.params.len()).sum()
    }

    /// Whether a prompt can begin while others are being answered. Only prompts that are answered at
    /// the end of their turns can: the state update of version 2 does not name the turn that ended.
    fn may_overlap(&self, due: AnswerDue) -> bool {
        self.overlaps
            && due == AnswerDue::TurnEnds
            && self.turns.are_unanswered()
            && !self.turns.are_ending()
    }

    pub(super) fn prompt(&mut self, prompt: WaitingPrompt<R>) -> Batch<R> {
        if !self.lifecycle.is_open() {
            let refused = Effect::Answer(prompt.reply, Err(Refusal::NotOpen));
            return vec![Effect::Check, refused];
        }
        if let InLog::Unknown(key) = &prompt.known {
            let key = key.clone();
            return self.find_key(prompt, key, false);
        }
        let is_next = self.prompts.is_empty();
        if is_next && (self.turns.is_empty() || self.may_overlap(prompt.due)) {
            if self.turns.len() < OVERLAPPING {
                return self.begin(prompt);
            }
            return vec![in_progress(prompt.reply)];
        }
        let key = idempotency_key(&prompt.params);
        let is_repeat = key.is_some_and(|key| self.waits_for(&key));
        let holds = match prompt.due {
            _ if is_repeat => true,
            AnswerDue::Logged => true,
            AnswerDue::TurnEnds if self.overlaps => true,
            // After a cancellation one prompt may wait. A second one is refused, even if the
            // cancelled turn has ended by then.
            AnswerDue::TurnEnds => {
                let ending = self.turns.is_empty() || self.turns.are_ending();
                ending && self.prompts.iter().all(|held| held.cancelled)
            }
        };
        if holds && self.held_bytes() + prompt.params.len() <= HELD {
            self.prompts.push_back(prompt.waiting());
            return Vec::new();
        }
        vec![in_progress(prompt.reply)]
    }

    /// A prompt that was cancelled in another process before it began there. It waits for its turn to be
    /// logged.
    pub fn prompt_cancelled(&mut self, reply: R, message_id: String, params: String) {
        self.prompts.push_back(WaitingPrompt {
            cancelled: true,
            ..WaitingPrompt::new(reply, AnswerDue::TurnEnds, message_id, params)
        });
    }

    /// Begins the prompt that has waited longest, if it can begin.
    pub(super) fn next_prompt(&mut self) -> Option<Batch<R>> {
        let next = self.prompts.front()?;
        let is_held_up = if next.of_other {
            self.lifecycle.is_opening()
        } else {
            self.lifecycle.is_changing()
        };
        if is_held_up {
            return None;
        }
        let is_full = self.turns.len() >= OVERLAPPING;
        let due = next.due;
        if !self.turns.is_empty() && (is_full || !self.may_overlap(due)) {
            return None;
        }
        let prompt = self.prompts.pop_front()?;
        Some(if let InLog::Unknown(key) = &prompt.known {
            let key = key.clone();
            self.find_key(prompt, key, true)
        } else {
            self.begin_or_skip(prompt)
        })
    }

    /// Begins a prompt that has waited, unless it was cancelled meanwhile.
    pub(super) fn begin_or_skip(&mut self, prompt: WaitingPrompt<R>) -> Batch<R> {
        if prompt.cancelled {
            self.skip(prompt)
        } else {
            self.begin(prompt)
        }
    }

    fn begin(&mut self, prompt: WaitingPrompt<R>) -> Batch<R> {
        let repeats = self.take_repeats(&prompt);
        let is_keyed = repeats.is_some();
        let WaitingPrompt {
            reply,
            due,
            message_id,
            params,
            known,
            ..
        } = prompt;
        let (prompt, is_new) = match known {
            InLog::Recorded(prompt) => (prompt, false),
            _ => (Prompt { message_id, params }, true),
        };
        let mut batch = self.log_prompt(is_new.then_some(&prompt));
        let message_id = prompt.message_id.clone();
        let reply = match due {
            AnswerDue::TurnEnds => Some(reply),
            AnswerDue::Logged if is_new => {
                let accepted = Done::Accepted(message_id.clone());
                batch.push(Effect::Answer(reply, Ok(accepted)));
                batch.push(Effect::Notify(Notification::UserMessage(prompt.clone())));
                None
            }
            AnswerDue::Logged => {
                batch.push(repeated(reply, &message_id, Phase::Running));
                None
            }
        };
        if self.turns.is_empty() && !self.reports.are_due {
            batch.push(Effect::state(Phase::Running));
        }
        self.purpose = Purpose::Prompt;
        self.turns.begin(message_id.clone(), is_keyed, reply);
        let repeats = repeats.into_iter().flatten();
        batch.extend(repeats.filter_map(|repeat| self.join(&message_id, repeat)));
        if is_keyed {
            // Synced, since a prompt that the engine may have got must not be taken for a new one.
            batch.push(Effect::synced(Kind::Begin, Some(&message_id), "{}"));
        }
        batch.push(Effect::Begin(prompt));
        batch
    }

    /// Makes the log ready for a turn, and appends its prompt if that is new.
    fn log_prompt(&self, prompt: Option<&Prompt>) -> Batch<R> {
        // While a turn runs, the log is claimed; recovery would close that turn.
        let claim = self.turns.is_empty().then_some(Effect::Claim);
        let record = prompt
            .map(|prompt| Effect::record(Kind::Prompt, Some(&prompt.message_id), &prompt.params));
        claim
            .into_iter()
            .chain([Effect::RecordWorkspaceChange])
            .chain(record)
            .collect()
    }

    /// A prompt that was cancelled before it began. The client has shown it to its user, so it is
    /// logged; the engine never gets it.
    fn skip(&mut self, prompt: WaitingPrompt<R>) -> Batch<R> {
        let ended = PromptEnd::Because(StopReason::Cancelled);
        let repeats = self.take_repeats(&prompt).unwrap_or_default();
        let WaitingPrompt {
            reply,
            message_id,
            params,
            known,
            ..
        } = prompt;
        let mut batch = Vec::new();
        if !matches!(known, InLog::Recorded(_)) {
            let prompt = Prompt { message_id, params };
            batch = self.log_prompt(Some(&prompt));
            let id = (!self.turns.is_empty()).then_some(&*prompt.message_id);
            let end = Effect::synced(Kind::End, id, &ended.result());
            batch.push(Effect::Skip(prompt.clone()));
            batch.push(end);
        }
        let repeats = repeats.into_iter().map(|repeat| repeat.reply);
        let replies = [reply].into_iter().chain(repeats);
        batch.extend(replies.map(|reply| Effect::Answer(reply, Ok(Done::Stopped(ended.clone())))));
        batch
    }

    /// The engine has ended the turn of a prompt.
    pub fn finished(&mut self, message_id: &str, result: TurnResult) -> Batch<R> {
        let Some(turn) = self.turns.end(message_id) else {
            return Vec::new();
        };
        let is_last = self.turns.is_empty();
        if let Some(refusal) = self.failure().cloned() {
            // Its end is logged when the log is recovered: now, or with the next prompt.
            let result = turn.failed(&refusal);
            let end = Phase::Idle(Some(end_of(&result)));
            let result = result.map(Done::Stopped);
            let mut recovery = Vec::new();
            if is_last {
                self.turns.reset();
                if refusal.is_recoverable_at_once() {
                    recovery.push(Effect::RetryRecovery);
                }
            }
            return self.end(turn, result, end, recovery);
        }
        // A client that has cancelled gets that answer, whatever the engine returned, unless the
        // engine reports the end itself. The end of the process is no cancellation.
        let result = match (turn.stop, result) {
            (Some(TurnStop::Interrupted), Ok(ended)) if !ended.is_cancelled() => Ok(ended),
            (Some(TurnStop::Interrupted), _) => Err(Refusal::Interrupted),
            (_, Ok(ended @ PromptEnd::Reported(_))) => Ok(ended),
            (Some(TurnStop::Cancelled), Ok(ended)) if ended.is_cancelled() => Ok(ended),
            (Some(TurnStop::Cancelled), _) => Ok(PromptEnd::Because(StopReason::Cancelled)),
            (None, result) => result.map_err(Refusal::Engine),
        };
        match &result {
            Ok(ended) if ended.is_cancelled() => self.turns.interruption = Some(CANCELLED),
            Ok(_) => {}
            Err(Refusal::Interrupted) => self.turns.interruption = Some(CALL_INTERRUPTED),
            Err(_) => self.turns.interruption = Some(FAILED),
        }
        let mut batch: Batch<R> = Vec::new();
        // As long as others run, an open tool call may be one of theirs.
        if is_last {
            if self.turns.interruption.is_none() {
                // The client knows these calls from the requests; a replay shows their end, too.
                let ends = self.turns.end_permission_calls();
                let ends = ends.iter();
                batch.extend(ends.map(|end| Effect::record(Kind::Output, None, end)));
            }
            for payload in self.turns.reset() {
                batch.extend(Self::log_and_send(Block::of(Kind::Update, payload)));
            }
        }
        let end = end_of(&result);
        let id = turn.overlaps.then_some(&*turn.message_id);
        // A repetition of the prompt runs it then.
        let is_unsent = turn.is_keyed
            && !turn.has_updates
            && matches!(&result, Err(Refusal::Engine(error)) if error.is_of_unsent_prompt());
        batch.push(if is_unsent {
            let payload = json::with_members(&end, &[], &[(UNSENT, "true")]);
            Effect::synced(Kind::End, id, &payload)
        } else {
            Effect::synced(Kind::End, id, &end)
        });
        self.purpose = Purpose::EndTurn {
            cancelled: result.as_ref().is_ok_and(PromptEnd::is_cancelled),
        };
        let end = match &result {
            Ok(PromptEnd::Reported(params)) => Phase::Reported(params.clone()),
            _ => Phase::Idle(Some(end)),
        };
        let result = result.map(Done::Stopped);
        self.end(turn, result, end, batch)
    }

    /// Reports the end of a turn to the client.
    fn end(
        &mut self,
        turn: Turn<R>,
        result: Result<Done, Refusal>,
        end: Phase,
        mut batch: Batch<R>,
    ) -> Batch<R> {
        let Turn {
            message_id,
            reply,
            repeats,
            ..
        } = turn;
        let repeated = match &result {
            Ok(Done::Stopped(ended)) => {
                let phase = Phase::Idle(Some(ended.result()));
                Ok(Done::Repeated { message_id, phase })
            }
            result => result.clone(),
        };
        batch.extend(reply.map(|reply| Effect::Answer(reply, result)));
        let repeats = repeats.into_iter().map(|(_, reply)| reply);
        batch.extend(repeats.map(|reply| Effect::Answer(reply, repeated.clone())));
        batch.extend(self.notify_end(end));
        batch
    }

    /// Reports how the session is since its last turn has ended.
    fn notify_end(&mut self, end: Phase) -> Option<Effect<R>> {
        if !self.turns.is_empty() {
            return None;
        }
        self.reports.last = None;
        Some(Effect::state(end))
    }

    /// The end of a turn could not be logged, so that the turn has this result.
    pub(super) fn end_not_logged(&mut self, result: &Result<PromptEnd, Refusal>) -> Batch<R> {
        let end = Phase::Idle(Some(end_of(result)));
        self.notify_end(end).into_iter().collect()
    }

    /// Cancels the running turns. Prompts that wait for them came before this, so they are
    /// cancelled, too.
    pub(super) fn cancel(&mut self, withdraw: bool) -> Batch<R> {
        for prompt in &mut self.prompts {
            prompt.cancelled = true;
        }
        self.stop_turns_for(withdraw, |_| TurnStop::Cancelled)
    }

    /// The running turns, and the prompts that wait for them, were cancelled while something failed.
    pub fn end_meanwhile(&mut self) {
        for prompt in &mut self.prompts {
            prompt.cancelled = true;
        }
        self.turns.stop(|_| TurnStop::Cancelled);
        if let Purpose::EndTurn { cancelled } = &mut self.purpose {
            *cancelled = true;
        }
    }

    /// The process is ending, or its client has gone. Prompts of others that wait are not logged, so
    /// that another process can answer them.
    pub(super) fn leave(&mut self, leaving: &Leaving) -> Batch<R> {
        let why = |message_id: &str| {
            if leaving.interrupts(message_id) {
                TurnStop::Interrupted
            } else {
                TurnStop::Cancelled
            }
        };
        let mut batch = Vec::new();
        for mut prompt in std::mem::take(&mut self.prompts) {
            match why(&prompt.message_id) {
                TurnStop::Interrupted => {
                    batch.push(Effect::Answer(prompt.reply, Err(Refusal::Interrupted)));
                }
                TurnStop::Cancelled => {
                    prompt.cancelled = true;
                    self.prompts.push_back(prompt);
                }
            }
        }
        batch.extend(self.stop_turns_for(true, why));
        batch
    }

    fn stop_turns_for(&mut self, withdraw: bool, why: impl Fn(&str) -> TurnStop) -> Batch<R> {
        let mut batch = Vec::new();
        if self.turns.stop(why) {
            batch.push(Effect::Cancel(Work::Turns));
        }
        if self.turns.is_empty() && self.reports.last.as_ref().is_some_and(|now| !now.is_idle()) {
            batch.push(Effect::Cancel(Work::OwnWork));
        }
        if withdraw && !self.turns.is_empty() && self.turns.withdraw() {
            batch.push(Effect::Cancel(Work::ClientRequests));
        }
        batch
    }

    /// The client cancels the request of one prompt.
    pub(super) fn withdraw_prompt(&mut self, message_id: &str) -> Batch<R> {
        if let Some(reply) = self.turns.take_repeat(message_id) {
            return vec![Effect::Answer(reply, Err(Refusal::Cancelled))];
        }
        let withdrawn = self.withdraw_prompts(|prompt, _| prompt == message_id);
        if !withdrawn.is_empty() || !self.turns.is_unanswered(message_id) {
            return withdrawn;
        }
        if self.turns.len() > 1 {
            // The engine decides what becomes of it; the others go on.
            return vec![Effect::Cancel(Work::Turn(message_id.to_owned()))];
        }
        // After `session/cancel` the client answers the requests itself.
        let withdraw = !self.turns.are_stopped();
        self.stop_turns_for(withdraw, |_| TurnStop::Cancelled)
    }

    /// Refuses the prompts that would be answered when they are logged, and are not yet.
    pub(super) fn withdraw_unaccepted(&mut self) -> Batch<R> {
        self.withdraw_prompts(|_, due| due == AnswerDue::Logged)
    }

    /// Refuses prompts that are not logged yet.
    fn withdraw_prompts(&mut self, which: impl Fn(&str, AnswerDue) -> bool) -> Batch<R> {
        let mut batch = Vec::new();
        let mut refuse = |reply| batch.push(Effect::Answer(reply, Err(Refusal::Cancelled)));
        for prompt in std::mem::take(&mut self.prompts) {
            if which(&prompt.message_id, prompt.due) {
                refuse(prompt.reply);
            } else {
                self.prompts.push_back(prompt);
            }
        }
        for request in std::mem::take(&mut self.queue) {
            match request {
                Request::Prompt {
                    reply,
                    due,
                    message_id,
                    ..
                } if which(&message_id, due) => refuse(reply),
                request => self.queue.push_back(request),
            }
        }
        batch
    }

    /// Reports what the session is doing.
    pub(super) fn notify_state(&self) -> Effect<R> {
        Effect::state(self.phase())
    }

    /// The state of the session.
    pub(super) fn phase(&self) -> Phase {
        let reported = self.reports.last.as_ref().filter(|phase| !phase.is_idle());
        if let Some(reported) = reported {
            reported.clone()
        } else if self.turns.is_empty() {
            Phase::Idle(None)
        } else if self.turns.open_requests > 0 {
            Phase::RequiresAction
        } else {
            Phase::Running
        }
    }
}

/// Refuses a prompt while another one is being answered.
fn in_progress<R>(reply: R) -> Effect<R> {
    Effect::Answer(reply, Err(Refusal::PromptInProgress { client: None }))
}

#[cfg(test)]
#[path = "accepted_tests.rs"]
mod accepted_tests;
#[cfg(test)]
#[path = "prompts_tests.rs"]
mod tests;
