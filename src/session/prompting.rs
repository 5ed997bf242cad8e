//! What a session does with prompts: it answers them, one at a time unless the engine takes more,
//! holds those that may wait, and withdraws those that are not in the log yet.

use std::mem;

use crate::engine::{Ended, EngineError, StopReason};
use crate::record::Kind;
use crate::record::OpenTurns;

use super::effect::{Batch, Effect, end_of};
use super::machine::{Machine, Stage};
use super::outcome::{Done, Refusal};
use super::phase::Phase;
use super::request::{Request, TurnResult};
use super::turn::{Turn, Waiting};
use super::version::ProtocolVersion;

/// Said by the failed update of a tool call that a cancelled turn left open.
const CANCELLED: &str = "Cancelled: the turn was cancelled before this tool call ended.";
/// Said by the failed update of a tool call that a failed turn left open.
const FAILED: &str = "Interrupted: the turn failed before this tool call ended.";

/// How much may wait for the turn that runs, in bytes of parameters.
const HELD: usize = 64 * 1024 * 1024;

/// How many prompts are answered at the same time at most, by an engine that takes them.
const OVERLAPPING: usize = OpenTurns::MOST;

impl<R> Machine<R> {
    /// How much waits for the turns that run.
    fn held_bytes(&self) -> usize {
        self.prompts.iter().map(|prompt| prompt.params.len()).sum()
    }

    /// Whether a prompt can begin while others are being answered. In the second dialect it cannot:
    /// an update that says how a turn ended does not say which.
    fn may_overlap(&self) -> bool {
        self.overlaps && self.version == ProtocolVersion::V1 && !self.turns.are_ending()
    }

    pub(super) fn prompt(&mut self, prompt: Waiting<R>) -> Batch<R> {
        if !self.open {
            let refused = Effect::Answer(prompt.reply, Err(Refusal::NotOpen));
            return vec![Effect::Check, refused];
        }
        let is_next = self.prompts.is_empty();
        if is_next && (self.turns.is_empty() || self.may_overlap()) {
            if self.turns.len() < OVERLAPPING {
                return self.begin(prompt);
            }
            return vec![Effect::Answer(prompt.reply, Err(Refusal::PromptInProgress))];
        }
        let holds = match self.version {
            ProtocolVersion::V2 => true,
            ProtocolVersion::V1 if self.overlaps => true,
            // It counts as the active prompt from the cancel in front of it, so the next one is
            // refused, whether the cancelled turn has ended by then or not.
            ProtocolVersion::V1 => {
                let ending = self.turns.is_empty() || self.turns.are_ending();
                ending && self.prompts.iter().all(|held| held.cancelled)
            }
        };
        if holds && self.held_bytes() + prompt.params.len() <= HELD {
            self.prompts.push_back(prompt);
            return Vec::new();
        }
        vec![Effect::Answer(prompt.reply, Err(Refusal::PromptInProgress))]
    }

    /// The prompt that waits longest, if nothing is in its way.
    pub(super) fn next_prompt(&mut self) -> Option<Batch<R>> {
        if self.replay.is_some() || self.attach.is_some() {
            return None;
        }
        if !self.turns.is_empty() && !self.may_overlap() {
            return None;
        }
        let prompt = self.prompts.pop_front()?;
        Some(if prompt.cancelled {
            self.skip(prompt)
        } else {
            self.begin(prompt)
        })
    }

    fn begin(&mut self, prompt: Waiting<R>) -> Batch<R> {
        let Waiting {
            reply,
            message_id,
            params,
            ..
        } = prompt;
        self.stage = Stage::Prompting;
        let record = Effect::record(Kind::Prompt, Some(message_id.clone()), params.clone());
        // While a turn runs, the log is claimed; recovery would close that turn.
        let claim = self.turns.is_empty().then_some(Effect::Claim);
        let mut batch: Batch<R> = claim.into_iter().collect();
        batch.extend([Effect::RecordWorkspaceChange, record]);
        let reply = match self.version {
            ProtocolVersion::V1 => Some(reply),
            ProtocolVersion::V2 => {
                let taken = Done::Taken(message_id.clone());
                batch.push(Effect::Answer(reply, Ok(taken)));
                batch.push(Effect::Echo {
                    message_id: message_id.clone(),
                    params: params.clone(),
                });
                batch.push(Effect::Tell(Phase::Running));
                None
            }
        };
        self.turns.begin(Turn {
            message_id: message_id.clone(),
            reply,
            cancelled: false,
            overlaps: false,
        });
        batch.push(Effect::Begin { message_id, params });
        batch
    }

    /// A prompt that was cancelled before it began. The client has shown it to its user, so the log
    /// has it; the engine never sees it.
    fn skip(&mut self, prompt: Waiting<R>) -> Batch<R> {
        let Waiting {
            reply,
            message_id,
            params,
            ..
        } = prompt;
        let ended = Ended::Because(StopReason::Cancelled);
        let mut batch: Batch<R> = Vec::new();
        batch.extend(self.turns.is_empty().then_some(Effect::Claim));
        let id = (!self.turns.is_empty()).then(|| message_id.clone());
        batch.extend([
            Effect::RecordWorkspaceChange,
            Effect::record(Kind::Prompt, Some(message_id.clone()), params.clone()),
            Effect::Skip { message_id, params },
            Effect::end(id, ended.result()),
            Effect::Answer(reply, Ok(Done::Stopped(ended))),
        ]);
        batch
    }

    /// The engine is done with the turn of a prompt.
    pub fn finished(&mut self, message_id: &str, result: TurnResult) -> Batch<R> {
        let Some(turn) = self.turns.end(message_id) else {
            return Vec::new();
        };
        let is_last = self.turns.is_empty();
        if let Some(refusal) = self.turns.broken.clone() {
            // Its end is written when the log is recovered: now, or with the next prompt.
            let end = unwritten(&refusal);
            let mut recovery = Vec::new();
            if is_last {
                self.turns.reset();
                recovery.push(Effect::RetryRecovery);
            }
            return self.end(turn.reply, Err(refusal), end, recovery);
        }
        // A client that cancelled is answered so, whatever the engine made of it.
        let result = match result {
            Ok(ended) if !turn.cancelled || ended.is_cancelled() => Ok(ended),
            _ if turn.cancelled => Ok(Ended::Because(StopReason::Cancelled)),
            result => result,
        };
        match &result {
            Ok(ended) if ended.is_cancelled() => self.turns.failure = Some(CANCELLED),
            Ok(_) => {}
            Err(_) => self.turns.failure = Some(FAILED),
        }
        let mut batch: Batch<R> = Vec::new();
        // As long as others run, an open tool call may be one of theirs.
        if is_last {
            if self.turns.failure.is_none() {
                // A client knows them from the request; a replay shows their end, too.
                let made = self.turns.close_made().into_iter();
                batch.extend(made.map(|end| Effect::record(Kind::Output, None, end)));
            }
            for payload in self.turns.reset() {
                batch.extend(self.logged(payload));
            }
        }
        let end = end_of(&result);
        let id = turn.overlaps.then_some(turn.message_id);
        batch.push(Effect::end(id, end.clone()));
        self.stage = Stage::Ending;
        let result = result.map(Done::Stopped).map_err(Refusal::Engine);
        self.end(turn.reply, result, end, batch)
    }

    /// Tells the client of the end of a turn: at once, or when the replay that comes to it is
    /// through.
    fn end(
        &mut self,
        reply: Option<R>,
        result: Result<Done, Refusal>,
        end: String,
        mut batch: Batch<R>,
    ) -> Batch<R> {
        match (reply, self.replay.is_some()) {
            (Some(reply), true) => self.held.push_back((reply, result)),
            (Some(reply), false) => batch.push(Effect::Answer(reply, result)),
            (None, true) => self.rested = Some(end),
            (None, false) => batch.push(Effect::Tell(Phase::Idle(Some(end)))),
        }
        batch
    }

    /// The end of a turn could not be written.
    pub(super) fn not_ended(&mut self, refusal: Refusal) -> Batch<R> {
        match self.version {
            ProtocolVersion::V1 => {
                if let Some((_, result)) = self.held.back_mut() {
                    *result = Err(refusal);
                }
                Vec::new()
            }
            ProtocolVersion::V2 => {
                self.end(None, Err(refusal.clone()), unwritten(&refusal), Vec::new())
            }
        }
    }

    /// Ends the running turns. Prompts that wait for them were asked for before this, so they are
    /// cancelled, too.
    pub(super) fn cancel(&mut self, withdraw: bool) -> Batch<R> {
        let mut batch = match self.version {
            ProtocolVersion::V1 => {
                for prompt in &mut self.prompts {
                    prompt.cancelled = true;
                }
                Vec::new()
            }
            ProtocolVersion::V2 => self.withdraw_prompts(|_| true),
        };
        if self.turns.cancel() {
            batch.push(Effect::CancelTurns);
        }
        if withdraw && !self.turns.is_empty() && !mem::replace(&mut self.turns.withdrawn, true) {
            batch.push(Effect::Withdraw);
        }
        batch
    }

    /// The client cancels the request of one prompt.
    pub(super) fn withdraw_prompt(&mut self, message_id: &str) -> Batch<R> {
        let withdrawn = self.withdraw_prompts(|prompt| prompt == message_id);
        // In the second dialect, the request of a prompt that runs has been answered.
        let runs = self.version == ProtocolVersion::V1 && self.turns.is_running(message_id);
        if !withdrawn.is_empty() || !runs {
            return withdrawn;
        }
        if self.turns.len() > 1 {
            // The engine decides what becomes of it; the others go on.
            return vec![Effect::CancelTurn(message_id.to_owned())];
        }
        if self.turns.cancel() {
            let withdraw = !mem::replace(&mut self.turns.withdrawn, true);
            let withdraw = withdraw.then_some(Effect::Withdraw);
            return [Effect::CancelTurns].into_iter().chain(withdraw).collect();
        }
        Vec::new()
    }

    /// Refuses prompts that are not in the log yet.
    pub(super) fn withdraw_prompts(&mut self, which: impl Fn(&str) -> bool) -> Batch<R> {
        let mut batch = Vec::new();
        let mut refuse = |reply| batch.push(Effect::Answer(reply, Err(Refusal::Cancelled)));
        for prompt in std::mem::take(&mut self.prompts) {
            if which(&prompt.message_id) {
                refuse(prompt.reply);
            } else {
                self.prompts.push_back(prompt);
            }
        }
        for request in std::mem::take(&mut self.queue) {
            match request {
                Request::Prompt {
                    reply, message_id, ..
                } if which(&message_id) => refuse(reply),
                request => self.queue.push_back(request),
            }
        }
        batch
    }

    /// What a client is told that cannot know what the session is doing.
    pub(super) fn tell(&mut self) -> Option<Effect<R>> {
        if self.version == ProtocolVersion::V1 {
            return None;
        }
        Some(Effect::Tell(match self.phase() {
            Phase::Idle(_) => Phase::Idle(self.rested.take()),
            phase => phase,
        }))
    }

    /// What the session is doing, as no news.
    pub(super) fn phase(&self) -> Phase {
        if self.turns.is_empty() {
            Phase::Idle(None)
        } else if self.turns.asking > 0 {
            Phase::RequiresAction
        } else {
            Phase::Running
        }
    }

    /// The effects of an update: into the log, then to the client, unless a replay that will come
    /// to it is on its way.
    fn logged(&self, payload: String) -> Vec<Effect<R>> {
        let append = Effect::record(Kind::Update, None, payload.clone());
        if self.replay.is_some() {
            vec![append]
        } else {
            vec![append, Effect::Send(payload)]
        }
    }
}

/// How a turn is told of whose end could not be written down.
fn unwritten(refusal: &Refusal) -> String {
    end_of(&Err(EngineError::internal(refusal.to_string())))
}

#[cfg(test)]
#[path = "prompting_tests.rs"]
mod tests;
