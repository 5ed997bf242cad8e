//! What a session does, decided without doing it: requests and events in, effects out.
//!
//! The machine has no clock, file, channel or `await`. It returns batches of effects that its
//! actor performs in order, so "log first, then the client" is the order of a list and can be read
//! by a test. When an effect fails, the actor drops the rest of its batch, except that each
//! [`Effect::Answer`] in it becomes an answer with the failure, and tells the machine.
//!
//! Requests are served in the order they came. Three things make one wait: a replay, a turn that
//! must end before the session can be closed, and an earlier request that waits. Cancelling waits
//! only for a prompt in front of it.

use std::collections::VecDeque;

use crate::engine::{StopReason, TurnError};
use crate::record::Kind;
use crate::record::header::Place;
use crate::record::open_calls::OpenCalls;
use crate::store::Sync;

use super::effect::{Batch, Effect};
use super::outcome::{Done, Refusal};

/// Said by the failed update of a tool call that a cancelled turn left open.
const CANCELLED: &str = "Cancelled: the turn was cancelled before this tool call ended.";
/// Said by the failed update of a tool call that a failed turn left open.
const FAILED: &str = "Interrupted: the turn failed before this tool call ended.";

/// What a client asks of a session. `R` is what its answer is sent with.
#[derive(Debug)]
pub enum Request<R> {
    /// Make the session, which has just been given its id.
    New(R, Place),
    /// Replay the history, then go on in this place.
    Load(R, Place),
    /// Go on in this place without a replay.
    Resume(R, Place),
    /// Answer a prompt.
    Prompt {
        /// Where the stop reason goes.
        reply: R,
        /// The id of the user's message.
        message_id: String,
        /// The prompt's parameters without the session's id.
        params: String,
    },
    /// End the running turn.
    Cancel,
    /// Release the session.
    Close(R),
    /// Move the session to the trash.
    Delete(R),
}

#[derive(Debug)]
struct Turn<R> {
    reply: R,
    cancelled: bool,
    calls: OpenCalls,
    /// Why one of its records could not be kept; the answer of the turn.
    broken: Option<Refusal>,
}

/// What the effects that were handed out last are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Nothing,
    Opening { was_open: bool },
    Prompting,
    Updating,
    Ending,
    CatchingUp,
    Trashing { was_open: bool },
}

/// The state of one session.
#[derive(Debug)]
pub struct Machine<R> {
    open: bool,
    turn: Option<Turn<R>>,
    /// The load whose replay is running.
    replay: Option<R>,
    /// Requests that wait.
    queue: VecDeque<Request<R>>,
    /// Answers of turns that ended during a replay.
    held: VecDeque<(R, Result<Done, Refusal>)>,
    stage: Stage,
}

impl<R> Default for Machine<R> {
    fn default() -> Self {
        Self {
            open: false,
            turn: None,
            replay: None,
            queue: VecDeque::new(),
            held: VecDeque::new(),
            stage: Stage::Nothing,
        }
    }
}

impl<R> Machine<R> {
    /// Whether nothing is open and nothing waits, so that the actor may go.
    pub fn is_over(&self) -> bool {
        !self.open && self.turn.is_none() && self.replay.is_none() && self.queue.is_empty()
    }

    /// Whether requests wait to be begun.
    pub fn waits(&self) -> bool {
        !self.queue.is_empty()
    }

    /// The request whose replay is running.
    pub fn replaying(&self) -> Option<&R> {
        self.replay.as_ref()
    }

    /// A request of the client.
    pub fn request(&mut self, request: Request<R>) -> Batch<R> {
        if let Request::Cancel = request {
            let prompt_waits = self
                .queue
                .iter()
                .any(|r| matches!(r, Request::Prompt { .. }));
            if !prompt_waits {
                return self.cancel();
            }
        } else if self.queue.is_empty() && !self.must_wait(&request) {
            return self.serve(request);
        }
        self.queue.push_back(request);
        self.advance().unwrap_or_default()
    }

    /// Call after each batch that was performed whole: what waits and need not wait any longer.
    pub fn advance(&mut self) -> Option<Batch<R>> {
        self.stage = Stage::Nothing;
        if self.replay.is_none()
            && let Some((reply, result)) = self.held.pop_front()
        {
            return Some(vec![Effect::Answer(reply, result)]);
        }
        let front = self.queue.front()?;
        if self.must_wait(front) {
            // Whoever ends the session does not wait for a turn to end by itself.
            let ends = matches!(front, Request::Close(_) | Request::Delete(_));
            let cancel = if ends && self.replay.is_none() {
                self.cancel()
            } else {
                Vec::new()
            };
            return (!cancel.is_empty()).then_some(cancel);
        }
        let request = self.queue.pop_front()?;
        Some(self.serve(request))
    }

    /// An update of the running turn's engine.
    pub fn update(&mut self, payload: String) -> Batch<R> {
        let Some(turn) = &mut self.turn else {
            return Vec::new();
        };
        if turn.broken.is_some() {
            return Vec::new();
        }
        turn.calls.update(&payload);
        self.stage = Stage::Updating;
        self.logged(payload)
    }

    /// The engine is done with the running turn.
    pub fn finished(&mut self, result: Result<StopReason, TurnError>) -> Batch<R> {
        let Some(mut turn) = self.turn.take() else {
            return Vec::new();
        };
        if let Some(refusal) = turn.broken {
            // Its end is written when the log is recovered: now, or with the next prompt.
            return self.answer_turn(turn.reply, Err(refusal), vec![Effect::Mend]);
        }
        // A client that cancelled is told so, whatever the engine made of it.
        let result = if turn.cancelled {
            Ok(StopReason::Cancelled)
        } else {
            result
        };
        let open_calls = match &result {
            Ok(StopReason::Cancelled) => turn.calls.close_all(CANCELLED),
            Ok(_) => Vec::new(),
            Err(_) => turn.calls.close_all(FAILED),
        };
        let mut batch: Batch<R> = Vec::new();
        for payload in open_calls {
            batch.extend(self.logged(payload));
        }
        batch.push(Effect::end(match &result {
            Ok(reason) => serde_json::json!({ "stopReason": reason.as_str() }),
            Err(error) => {
                serde_json::json!({ "error": { "code": error.code, "message": error.message } })
            }
        }));
        self.stage = Stage::Ending;
        self.answer_turn(
            turn.reply,
            result.map(Done::Stopped).map_err(Refusal::Turn),
            batch,
        )
    }

    /// The replay that was started has reached where the log ended then, or failed. `open` says
    /// whether the session is open: it need not be if it was to be opened with the replay.
    pub fn replayed(&mut self, result: Result<(), Refusal>, open: bool) -> Batch<R> {
        self.open = open;
        let Some(reply) = self.replay.take() else {
            return Vec::new();
        };
        match result {
            Ok(()) => {
                self.stage = Stage::CatchingUp;
                vec![
                    Effect::CatchUp,
                    Effect::Announce,
                    Effect::Answer(reply, Ok(Done::Loaded)),
                ]
            }
            Err(refusal) => vec![Effect::Answer(reply, Err(refusal)), Effect::SendHeld],
        }
    }

    /// An effect of the last batch failed.
    pub fn failed(&mut self, refusal: Refusal) -> Batch<R> {
        match std::mem::replace(&mut self.stage, Stage::Nothing) {
            Stage::Nothing => Vec::new(),
            Stage::Opening { was_open } => {
                self.open = was_open;
                let mut batch = Vec::new();
                if !was_open {
                    // Whoever is next must not find the lock taken.
                    batch.push(Effect::Release);
                }
                let reply = self.replay.take();
                batch.extend(reply.map(|reply| Effect::Answer(reply, Err(refusal))));
                batch
            }
            Stage::Prompting => {
                let turn = self.turn.take();
                turn.map(|turn| Effect::Answer(turn.reply, Err(refusal)))
                    .into_iter()
                    .collect()
            }
            Stage::Updating => {
                if let Some(turn) = &mut self.turn {
                    turn.broken = Some(refusal);
                }
                vec![Effect::CancelTurn]
            }
            Stage::Ending => {
                if let Some((_, result)) = self.held.back_mut() {
                    *result = Err(refusal);
                }
                Vec::new()
            }
            Stage::CatchingUp => vec![Effect::SendHeld],
            Stage::Trashing { was_open } => {
                self.open = was_open;
                Vec::new()
            }
        }
    }

    fn must_wait(&self, request: &Request<R>) -> bool {
        let ends = matches!(request, Request::Close(_) | Request::Delete(_));
        self.replay.is_some() || !self.held.is_empty() || (ends && self.turn.is_some())
    }

    fn serve(&mut self, request: Request<R>) -> Batch<R> {
        match request {
            Request::New(reply, place) => {
                self.stage = Stage::Opening { was_open: false };
                self.open = true;
                let answer = Effect::Answer(reply, Ok(Done::Created));
                vec![Effect::Create(place), answer, Effect::Announce]
            }
            Request::Load(reply, place) => {
                self.replay = Some(reply);
                if self.open {
                    let mut batch = self.opening(place);
                    batch.push(Effect::Replay);
                    batch
                } else {
                    self.stage = Stage::Opening { was_open: false };
                    self.open = true;
                    vec![Effect::OpenAndReplay(place)]
                }
            }
            Request::Resume(reply, place) => {
                let mut batch = self.opening(place);
                batch.push(Effect::Announce);
                batch.push(Effect::Answer(reply, Ok(Done::Resumed)));
                batch
            }
            Request::Prompt {
                reply,
                message_id,
                params,
            } => self.prompt(reply, message_id, params),
            Request::Cancel => self.cancel(),
            Request::Close(reply) if !self.open => {
                vec![Effect::Check, Effect::Answer(reply, Ok(Done::Closed))]
            }
            Request::Close(reply) => {
                self.open = false;
                vec![Effect::Release, Effect::Answer(reply, Ok(Done::Closed))]
            }
            Request::Delete(reply) => {
                self.stage = Stage::Trashing {
                    was_open: self.open,
                };
                self.open = false;
                vec![Effect::Trash, Effect::Answer(reply, Ok(Done::Deleted))]
            }
        }
    }

    /// Nothing is opened twice, but the actor is asked all the same: the session may have moved
    /// to another folder.
    fn opening(&mut self, place: Place) -> Batch<R> {
        self.stage = Stage::Opening {
            was_open: self.open,
        };
        self.open = true;
        vec![Effect::Open(place), Effect::Mend]
    }

    fn prompt(&mut self, reply: R, message_id: String, params: String) -> Batch<R> {
        if !self.open {
            return vec![Effect::Check, Effect::Answer(reply, Err(Refusal::NotOpen))];
        }
        if self.turn.is_some() {
            return vec![Effect::Answer(reply, Err(Refusal::PromptInProgress))];
        }
        let prompt = Effect::Append {
            kind: Kind::Prompt,
            id: Some(message_id.clone()),
            payload: params.clone(),
            sync: Sync::Buffered,
        };
        let calls = OpenCalls::default();
        self.turn = Some(Turn {
            reply,
            cancelled: false,
            calls,
            broken: None,
        });
        self.stage = Stage::Prompting;
        vec![
            Effect::Claim,
            Effect::Reopened,
            prompt,
            Effect::Begin { message_id, params },
        ]
    }

    fn cancel(&mut self) -> Batch<R> {
        match &mut self.turn {
            Some(turn) if !turn.cancelled => {
                turn.cancelled = true;
                vec![Effect::CancelTurn]
            }
            _ => Vec::new(),
        }
    }

    /// The effects of an update: into the log, then to the client, unless a replay that will come
    /// to it is on its way.
    fn logged(&self, payload: String) -> Vec<Effect<R>> {
        let sync = Sync::Buffered;
        let append = Effect::Append {
            kind: Kind::Update,
            id: None,
            payload: payload.clone(),
            sync,
        };
        if self.replay.is_some() {
            vec![append]
        } else {
            vec![append, Effect::Send(payload)]
        }
    }

    fn answer_turn(
        &mut self,
        reply: R,
        result: Result<Done, Refusal>,
        mut batch: Batch<R>,
    ) -> Batch<R> {
        if self.replay.is_some() {
            self.held.push_back((reply, result));
        } else {
            batch.push(Effect::Answer(reply, result));
        }
        batch
    }
}

#[cfg(test)]
#[path = "machine_tests.rs"]
mod tests;
