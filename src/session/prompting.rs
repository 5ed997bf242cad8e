//! What a session does with prompts: it answers one at a time, holds those that may wait, and takes
//! back those that are not in the log yet.

use crate::engine::{Ended, EngineError, StopReason};
use crate::record::Kind;
use crate::record::open_calls::OpenCalls;

use super::dialect::Dialect;
use super::effect::{Batch, Effect, end_of};
use super::machine::{Machine, Stage};
use super::outcome::{Done, Refusal};
use super::phase::Phase;
use super::request::{Request, TurnResult};
use super::turn::{Turn, Waiting};

/// Said by the failed update of a tool call that a cancelled turn left open.
const CANCELLED: &str = "Cancelled: the turn was cancelled before this tool call ended.";
/// Said by the failed update of a tool call that a failed turn left open.
const FAILED: &str = "Interrupted: the turn failed before this tool call ended.";

/// How much may wait for the turn that runs, in bytes of parameters.
const HELD: usize = 64 * 1024 * 1024;

impl<R> Machine<R> {
    /// How much waits for the turn that runs.
    fn held_bytes(&self) -> usize {
        self.prompts.iter().map(|prompt| prompt.params.len()).sum()
    }

    pub(super) fn prompt(&mut self, prompt: Waiting<R>) -> Batch<R> {
        let refusal = match (&self.turn, self.dialect) {
            _ if !self.open => {
                let refused = Effect::Answer(prompt.reply, Err(Refusal::NotOpen));
                return vec![Effect::Check, refused];
            }
            (None, _) => return self.begin(prompt),
            (Some(_), Dialect::Told) if self.held_bytes() + prompt.params.len() <= HELD => {
                self.prompts.push_back(prompt);
                return Vec::new();
            }
            (Some(_), _) => Refusal::PromptInProgress,
        };
        vec![Effect::Answer(prompt.reply, Err(refusal))]
    }

    /// The prompt that waits longest, if nothing is in its way.
    pub(super) fn next_prompt(&mut self) -> Option<Batch<R>> {
        if self.turn.is_some() || self.replay.is_some() || self.attach.is_some() {
            return None;
        }
        let prompt = self.prompts.pop_front()?;
        Some(self.prompt(prompt))
    }

    fn begin(&mut self, prompt: Waiting<R>) -> Batch<R> {
        let Waiting {
            reply,
            message_id,
            params,
        } = prompt;
        self.stage = Stage::Prompting;
        let record = Effect::record(Kind::Prompt, Some(message_id.clone()), params.clone());
        let mut batch = vec![Effect::Claim, Effect::Reopened, record];
        let reply = match self.dialect {
            Dialect::Answered => Some(reply),
            Dialect::Told => {
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
        batch.push(Effect::Begin { message_id, params });
        self.turn = Some(Turn {
            reply,
            cancelled: false,
            withdrawn: false,
            calls: OpenCalls::default(),
            broken: None,
            asking: 0,
        });
        batch
    }

    /// The engine is done with the running turn.
    pub fn finished(&mut self, result: TurnResult) -> Batch<R> {
        let Some(mut turn) = self.turn.take() else {
            return Vec::new();
        };
        if let Some(refusal) = turn.broken {
            // Its end is written when the log is recovered: now, or with the next prompt.
            let end = unwritten(&refusal);
            return self.end(turn.reply, Err(refusal), end, vec![Effect::Mend]);
        }
        // A client that cancelled is told so, whatever the engine made of it.
        let result = match result {
            Ok(ended) if !turn.cancelled || ended.is_cancelled() => Ok(ended),
            _ if turn.cancelled => Ok(Ended::Because(StopReason::Cancelled)),
            result => result,
        };
        let open_calls = match &result {
            Ok(ended) if ended.is_cancelled() => turn.calls.close_all(CANCELLED),
            Ok(_) => Vec::new(),
            Err(_) => turn.calls.close_all(FAILED),
        };
        let mut batch: Batch<R> = Vec::new();
        for payload in open_calls {
            batch.extend(self.logged(payload));
        }
        let end = end_of(&result);
        batch.push(Effect::end(end.clone()));
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
        match self.dialect {
            Dialect::Answered => {
                if let Some((_, result)) = self.held.back_mut() {
                    *result = Err(refusal);
                }
                Vec::new()
            }
            Dialect::Told => self.end(None, Err(refusal.clone()), unwritten(&refusal), Vec::new()),
        }
    }

    /// Ends the running turn, and takes back the prompts that wait for it if the client is told
    /// of turns by updates: it cancels all that it has asked for.
    pub(super) fn cancel(&mut self, withdraw: bool) -> Batch<R> {
        let mut batch = match self.dialect {
            Dialect::Answered => Vec::new(),
            Dialect::Told => self.take_back(|_| true),
        };
        if let Some(turn) = &mut self.turn {
            if !std::mem::replace(&mut turn.cancelled, true) {
                batch.push(Effect::CancelTurn);
            }
            if withdraw && !std::mem::replace(&mut turn.withdrawn, true) {
                batch.push(Effect::Withdraw);
            }
        }
        batch
    }

    /// Refuses prompts that are not in the log yet.
    pub(super) fn take_back(&mut self, which: impl Fn(&str) -> bool) -> Batch<R> {
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
        if self.dialect == Dialect::Answered {
            return None;
        }
        Some(Effect::Tell(match self.phase() {
            Phase::Idle(_) => Phase::Idle(self.rested.take()),
            phase => phase,
        }))
    }

    /// What the session is doing, as no news.
    pub(super) fn phase(&self) -> Phase {
        match &self.turn {
            Some(turn) if turn.asking > 0 => Phase::RequiresAction,
            Some(_) => Phase::Running,
            None => Phase::Idle(None),
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
