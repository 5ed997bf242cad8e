//! What a session does, decided without doing it: requests and events in, effects out.
//!
//! The machine has no clock, file, channel or `await`. It returns batches of effects that its
//! actor performs in order, so "log first, then the client" is the order of a list and can be read
//! by a test. When an effect fails, the actor drops the rest of its batch, except that each
//! [`Effect::Answer`] in it becomes an answer with the failure, and tells the machine.
//!
//! Requests are served in the order they came. Four things make one wait: a replay, an engine that
//! makes ready, a turn that must end before the session can be closed, and an earlier request that
//! waits. Cancelling waits
//! only for a prompt in front of it.

use std::collections::VecDeque;

use crate::engine::{Attach, Block, Called, Ended, EngineError, Parting, StopReason, Wanted};
use crate::record::Kind;
use crate::record::open_calls::OpenCalls;

use super::effect::{Batch, Effect};
use super::outcome::{Done, Refusal};
use super::request::{Answered, Asking, AttachResult, Request, TurnResult};

/// Said by the failed update of a tool call that a cancelled turn left open.
const CANCELLED: &str = "Cancelled: the turn was cancelled before this tool call ended.";
/// Said by the failed update of a tool call that a failed turn left open.
const FAILED: &str = "Interrupted: the turn failed before this tool call ended.";

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
    Resuming,
    Trashing { was_open: bool },
}

/// What the engine makes ready for.
#[derive(Debug)]
enum Attaching<R> {
    New(R),
    /// Whether to replay it, too.
    Import(R, bool),
    /// The load whose reply is with the replay. Whether the session was open before it.
    Load {
        was_open: bool,
    },
    Resume(R, bool),
}

/// The state of one session.
#[derive(Debug)]
pub struct Machine<R> {
    open: bool,
    turn: Option<Turn<R>>,
    /// The load that is under way: its replay, and what follows that until it is answered.
    replay: Option<R>,
    /// Whether that load has opened the session.
    opened: bool,
    /// What the engine is making ready for.
    attach: Option<Attaching<R>>,
    /// Whether it was told to stop.
    aborting: bool,
    /// Requests of the engine that the client is shown after the replay.
    asked: VecDeque<Asking>,
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
            opened: false,
            attach: None,
            aborting: false,
            asked: VecDeque::new(),
            queue: VecDeque::new(),
            held: VecDeque::new(),
            stage: Stage::Nothing,
        }
    }
}

impl<R> Machine<R> {
    /// Whether nothing is open and nothing waits, so that the actor may go.
    pub fn is_over(&self) -> bool {
        !self.open
            && self.turn.is_none()
            && self.replay.is_none()
            && self.attach.is_none()
            && self.queue.is_empty()
    }

    /// Whether requests wait to be begun.
    pub fn waits(&self) -> bool {
        !self.queue.is_empty()
    }

    /// The request whose replay is running.
    pub fn replaying(&self) -> Option<&R> {
        self.replay.as_ref()
    }

    /// The request that waits for the engine to be ready.
    pub fn attaching(&self) -> Option<&R> {
        match self.attach.as_ref()? {
            Attaching::New(reply) | Attaching::Import(reply, _) | Attaching::Resume(reply, _) => {
                Some(reply)
            }
            Attaching::Load { .. } => self.replay.as_ref(),
        }
    }

    /// Whether what the engine says must wait for the session to exist.
    pub fn is_unborn(&self) -> bool {
        matches!(self.attach, Some(Attaching::New(_) | Attaching::Import(..)))
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
        if self.replay.is_none() {
            if let Some(asking) = self.asked.pop_front() {
                return Some(self.ask(asking));
            }
            if let Some((reply, result)) = self.held.pop_front() {
                return Some(vec![Effect::Answer(reply, result)]);
            }
        }
        let front = self.queue.front()?;
        if self.must_wait(front) {
            // Whoever ends the session does not wait for a turn to end by itself.
            let ends = matches!(front, Request::Close(_) | Request::Delete(_));
            let cancel = if ends && self.attach.is_some() && !self.aborting {
                self.aborting = true;
                vec![Effect::AbortAttach]
            } else if ends && self.replay.is_none() && self.attach.is_none() {
                self.cancel()
            } else {
                Vec::new()
            };
            return (!cancel.is_empty()).then_some(cancel);
        }
        let request = self.queue.pop_front()?;
        Some(self.serve(request))
    }

    /// The engine says something, in a turn or between two.
    pub fn said(&mut self, block: Block) -> Batch<R> {
        if !self.open || self.turn.as_ref().is_some_and(|turn| turn.broken.is_some()) {
            return Vec::new();
        }
        if let Some(turn) = &mut self.turn {
            for entry in block.iter() {
                if matches!(entry.kind, Kind::Update | Kind::UpdateParams) {
                    turn.calls.update(entry.payload);
                }
            }
        }
        self.stage = Stage::Updating;
        let block = std::sync::Arc::new(block);
        let append = Effect::AppendBlock(block.clone());
        if self.replay.is_some() {
            // The replay comes to it.
            vec![append]
        } else {
            vec![append, Effect::SendBlock(block)]
        }
    }

    /// The engine asks the client for something.
    pub fn ask(&mut self, asking: Asking) -> Batch<R> {
        if !self.open {
            return Vec::new();
        }
        if self.replay.is_some() {
            // The client does not know yet what it is about.
            self.asked.push_back(asking);
            return Vec::new();
        }
        let mut batch = Vec::new();
        if asking.logged {
            self.stage = Stage::Updating;
            let method = serde_json::Value::from(asking.method.as_str());
            let payload = format!(r#"{{"method":{method},"params":{}}}"#, asking.params);
            batch.push(Effect::record(Kind::Ask, Some(asking.id.clone()), payload));
        }
        batch.push(Effect::Ask(asking));
        batch
    }

    /// The client has answered what the engine asked it for.
    pub fn answered(&mut self, answered: Answered) -> Batch<R> {
        let mut batch = Vec::new();
        if answered.logged && self.open {
            self.stage = Stage::Updating;
            let payload = match &answered.outcome {
                Ok(result) => format!(r#"{{"result":{result}}}"#),
                Err(error) => format!(r#"{{"error":{error}}}"#),
            };
            batch.push(Effect::record(
                Kind::Answer,
                Some(answered.id.clone()),
                payload,
            ));
        }
        batch.push(Effect::Deliver(answered));
        batch
    }

    /// The engine has served a request.
    pub fn called(&mut self, reply: R, result: Result<Called, EngineError>) -> Batch<R> {
        let called = match result {
            Ok(called) => called,
            Err(error) => return vec![Effect::Answer(reply, Err(Refusal::Engine(error)))],
        };
        let mut batch = Vec::new();
        if let (Some(info), true) = (called.info, self.open) {
            self.stage = Stage::Updating;
            batch.push(Effect::record(Kind::Info, None, info));
        }
        batch.push(Effect::Answer(reply, Ok(Done::Served(called.result))));
        batch
    }

    /// The engine is ready, or cannot be.
    pub fn attached(&mut self, result: AttachResult) -> Batch<R> {
        self.aborting = false;
        let Some(attaching) = self.attach.take() else {
            return Vec::new();
        };
        match (attaching, result) {
            (Attaching::New(reply), Ok(attached)) => {
                self.stage = Stage::Opening { was_open: false };
                let mut batch = vec![Effect::Create];
                let inner = attached.inner;
                batch.extend(inner.map(|inner| Effect::record(Kind::Inner, None, inner)));
                batch.push(Effect::Answer(reply, Ok(Done::Created(attached.answer))));
                batch.push(Effect::SendSnapshots(attached.snapshots));
                batch.push(Effect::Announce);
                batch
            }
            (Attaching::Import(reply, replay), Ok(attached)) => {
                self.stage = Stage::Opening { was_open: false };
                let mut batch = vec![Effect::Create];
                let inner = attached.inner;
                batch.extend(inner.map(|inner| Effect::record(Kind::Inner, None, inner)));
                let blocks = attached.imported.into_iter();
                batch.extend(blocks.map(|block| Effect::AppendBlock(block.into())));
                if replay {
                    self.replay = Some(reply);
                    self.opened = true;
                    batch.push(Effect::Replay);
                } else {
                    let done = Done::Resumed(attached.answer);
                    batch.push(Effect::Answer(reply, Ok(done)));
                }
                batch
            }
            (Attaching::New(reply) | Attaching::Import(reply, _), Err(refusal)) => {
                self.open = false;
                vec![
                    Effect::Release(Parting::Refused),
                    Effect::Answer(reply, Err(refusal)),
                ]
            }
            (Attaching::Load { .. }, Ok(attached)) => {
                self.stage = Stage::CatchingUp;
                let mut batch: Batch<R> = Vec::new();
                batch.extend(attached.inner.map(Effect::KeepInner));
                batch.push(Effect::CatchUp(attached.snapshots));
                batch.push(Effect::Announce);
                let done = Done::Loaded(attached.answer);
                batch.extend(self.replay.take().map(|r| Effect::Answer(r, Ok(done))));
                batch
            }
            (Attaching::Load { was_open }, Err(refusal)) => {
                let reply = self.replay.take();
                let mut batch: Batch<R> = Vec::new();
                if was_open {
                    batch.push(Effect::SendHeld);
                } else {
                    self.open = false;
                    batch.push(Effect::Release(Parting::Closed));
                }
                batch.extend(reply.map(|reply| Effect::Answer(reply, Err(refusal))));
                batch
            }
            (Attaching::Resume(reply, _), Ok(attached)) => {
                self.stage = Stage::Resuming;
                let mut batch: Batch<R> = Vec::new();
                batch.extend(attached.inner.map(Effect::KeepInner));
                batch.push(Effect::Announce);
                batch.push(Effect::SendSnapshots(attached.snapshots));
                batch.push(Effect::Answer(reply, Ok(Done::Resumed(attached.answer))));
                batch
            }
            (Attaching::Resume(reply, was_open), Err(refusal)) => {
                let mut batch: Batch<R> = Vec::new();
                if !was_open {
                    self.open = false;
                    batch.push(Effect::Release(Parting::Closed));
                }
                batch.push(Effect::Answer(reply, Err(refusal)));
                batch
            }
        }
    }

    /// The engine is done with the running turn.
    pub fn finished(&mut self, result: TurnResult) -> Batch<R> {
        let Some(mut turn) = self.turn.take() else {
            return Vec::new();
        };
        if let Some(refusal) = turn.broken {
            // Its end is written when the log is recovered: now, or with the next prompt.
            return self.answer_turn(turn.reply, Err(refusal), vec![Effect::Mend]);
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
        batch.push(Effect::end(match &result {
            Ok(ended) => ended.result(),
            Err(error) => failure(error),
        }));
        self.stage = Stage::Ending;
        self.answer_turn(
            turn.reply,
            result.map(Done::Stopped).map_err(Refusal::Engine),
            batch,
        )
    }

    /// The replay that was started has reached where the log ended then, or failed. `open` says
    /// whether the session is open: it need not be if it was to be opened with the replay.
    pub fn replayed(&mut self, result: Result<(), Refusal>, open: bool) -> Batch<R> {
        self.open = open;
        let was_open = open && !std::mem::take(&mut self.opened);
        match result {
            Ok(()) if self.replay.is_some() => {
                self.attach = Some(Attaching::Load { was_open });
                vec![Effect::Attach(Attach::Again)]
            }
            Ok(()) => Vec::new(),
            Err(refusal) => match self.replay.take() {
                Some(reply) => vec![Effect::Answer(reply, Err(refusal)), Effect::SendHeld],
                None => Vec::new(),
            },
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
                    batch.push(Effect::Release(Parting::Refused));
                }
                let attaching = match self.attach.take() {
                    Some(
                        Attaching::New(reply)
                        | Attaching::Import(reply, _)
                        | Attaching::Resume(reply, _),
                    ) => Some(reply),
                    Some(Attaching::Load { .. }) | None => None,
                };
                let reply = self.replay.take().or(attaching);
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
            Stage::Resuming => Vec::new(),
            Stage::Trashing { was_open } => {
                self.open = was_open;
                Vec::new()
            }
        }
    }

    fn must_wait(&self, request: &Request<R>) -> bool {
        let ends = matches!(request, Request::Close(_) | Request::Delete(_));
        self.replay.is_some()
            || self.attach.is_some()
            || !self.held.is_empty()
            || (ends && self.turn.is_some())
    }

    fn serve(&mut self, request: Request<R>) -> Batch<R> {
        match request {
            Request::New(reply, wanted) => {
                self.attach = Some(Attaching::New(reply));
                self.prepare(wanted, Attach::New)
            }
            Request::Import {
                reply,
                wanted,
                replay,
            } => {
                self.attach = Some(Attaching::Import(reply, replay));
                self.prepare(wanted, Attach::Import)
            }
            Request::Load(reply, wanted) => {
                self.replay = Some(reply);
                self.opened = !self.open;
                if self.open {
                    let mut batch = self.opening(wanted);
                    batch.push(Effect::Replay);
                    batch
                } else {
                    self.stage = Stage::Opening { was_open: false };
                    self.open = true;
                    vec![Effect::OpenAndReplay(wanted)]
                }
            }
            Request::Resume(reply, wanted) => {
                self.attach = Some(Attaching::Resume(reply, self.open));
                let mut batch = self.opening(wanted);
                batch.push(Effect::Attach(Attach::Again));
                batch
            }
            Request::Prompt {
                reply,
                message_id,
                params,
            } => self.prompt(reply, message_id, params),
            Request::Call { reply, .. } if !self.open => {
                vec![Effect::Check, Effect::Answer(reply, Err(Refusal::NotOpen))]
            }
            Request::Call {
                reply,
                method,
                params,
            } => vec![Effect::Call {
                reply,
                method,
                params,
            }],
            Request::Notify { .. } if !self.open => Vec::new(),
            Request::Notify { method, params } => vec![Effect::Notify { method, params }],
            Request::Cancel => self.cancel(),
            Request::Close(reply) if !self.open => {
                vec![Effect::Check, Effect::Answer(reply, Ok(Done::Closed))]
            }
            Request::Close(reply) => {
                self.open = false;
                let release = Effect::Release(Parting::Closed);
                vec![release, Effect::Answer(reply, Ok(Done::Closed))]
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

    fn prepare(&mut self, wanted: Wanted, attach: Attach) -> Batch<R> {
        self.stage = Stage::Opening { was_open: false };
        self.open = true;
        vec![Effect::Prepare(wanted), Effect::Attach(attach)]
    }

    /// Nothing is opened twice, but the actor is asked all the same: the session may have moved
    /// to another folder.
    fn opening(&mut self, wanted: Wanted) -> Batch<R> {
        self.stage = Stage::Opening {
            was_open: self.open,
        };
        self.open = true;
        vec![Effect::Open(wanted), Effect::Mend]
    }

    fn prompt(&mut self, reply: R, message_id: String, params: String) -> Batch<R> {
        if !self.open {
            return vec![Effect::Check, Effect::Answer(reply, Err(Refusal::NotOpen))];
        }
        if self.turn.is_some() {
            return vec![Effect::Answer(reply, Err(Refusal::PromptInProgress))];
        }
        let prompt = Effect::record(Kind::Prompt, Some(message_id.clone()), params.clone());
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
        let append = Effect::record(Kind::Update, None, payload.clone());
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

/// How a turn that failed is written down.
fn failure(error: &EngineError) -> String {
    let message = serde_json::Value::from(error.message.as_str());
    let data = error.data.as_ref();
    let data = data
        .map(|data| format!(r#","data":{data}"#))
        .unwrap_or_default();
    format!(
        r#"{{"error":{{"code":{},"message":{message}{data}}}}}"#,
        error.code
    )
}

#[cfg(test)]
#[path = "machine_tests.rs"]
mod tests;
