//! What a session does, decided without doing it: requests and events in, effects out.
//!
//! The machine has no clock, file, channel or `await`. It returns batches of effects that its
//! actor performs in order, so "log first, then the client" is the order of a list and can be read
//! by a test. When an effect fails, the actor drops the rest of its batch, except that each
//! [`Effect::Answer`] and [`Effect::Call`] in it becomes an answer with the failure, and tells the
//! machine.
//!
//! Requests are served in the order they came. Four things make one wait: a replay, an engine that
//! makes ready, a turn that must end before the session can be closed, and an earlier request that
//! waits. Cancelling
//! waits only for a prompt in front of it.

use std::collections::VecDeque;

use crate::engine::{Attach, Attached, Block, Parting, Wanted};
use crate::record::Kind;

use super::attaching::Attaching;
use super::dialect::Dialect;
use super::effect::{Batch, Effect};
use super::outcome::{Done, Refusal};
use super::request::{Asking, Request};
use super::turn::{Turn, Waiting};

/// What the effects that were handed out last are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Nothing,
    Making,
    Opening { was_open: bool },
    Prompting,
    Calling,
    Updating,
    Ending,
    CatchingUp,
    Trashing { was_open: bool },
}

/// The state of one session.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, and all but one combine"
)]
pub struct Machine<R> {
    pub(super) dialect: Dialect,
    pub(super) open: bool,
    pub(super) turn: Option<Turn<R>>,
    /// The load that is under way: its replay, and what follows that until it is answered.
    pub(super) replay: Option<R>,
    /// Whether that load has opened the session.
    pub(super) opened: bool,
    /// An engine that was ready before that replay.
    pub(super) imported: Option<Attached>,
    /// Whether a session of the engine's agent was made one of ours.
    pub(super) made: bool,
    /// What the engine is making ready for.
    pub(super) attach: Option<Attaching<R>>,
    /// Whether it was told to stop.
    pub(super) aborting: bool,
    /// Requests of the engine that the client is shown after the replay.
    pub(super) asked: VecDeque<Asking>,
    /// How many requests the engine is serving.
    pub(super) calls: usize,
    /// Requests that wait.
    pub(super) queue: VecDeque<Request<R>>,
    /// Prompts that wait for the turn in front of them.
    pub(super) prompts: VecDeque<Waiting<R>>,
    /// Answers of turns that ended during a replay.
    pub(super) held: VecDeque<(R, Result<Done, Refusal>)>,
    /// How a turn ended during a replay whose client is to be told by an update.
    pub(super) rested: Option<String>,
    pub(super) stage: Stage,
}

impl<R> Default for Machine<R> {
    fn default() -> Self {
        Self::new(Dialect::default())
    }
}

impl<R> Machine<R> {
    /// A session that is not open, of a client that is told of turns in this way.
    pub fn new(dialect: Dialect) -> Self {
        Self {
            dialect,
            open: false,
            turn: None,
            replay: None,
            opened: false,
            imported: None,
            made: false,
            attach: None,
            aborting: false,
            asked: VecDeque::new(),
            calls: 0,
            queue: VecDeque::new(),
            prompts: VecDeque::new(),
            held: VecDeque::new(),
            rested: None,
            stage: Stage::Nothing,
        }
    }

    /// Whether nothing is open and nobody waits for an answer, so that the actor may go.
    pub fn is_over(&self) -> bool {
        !self.open
            && self.turn.is_none()
            && self.replay.is_none()
            && self.attach.is_none()
            && self.calls == 0
            && self.queue.is_empty()
            && self.prompts.is_empty()
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
        let mut batch = Vec::new();
        if let Request::TakeBack(id) = &request {
            return self.take_back(|prompt| prompt == id);
        }
        if let Request::Cancel { withdraw } = request {
            let prompt = |r: &Request<R>| matches!(r, Request::Prompt { .. });
            if self.dialect == Dialect::Told || !self.queue.iter().any(prompt) {
                return self.cancel(withdraw);
            }
        } else {
            if self.dialect == Dialect::Told && request.ends() {
                batch = self.take_back(|_| true);
            }
            if self.queue.is_empty() && !self.must_wait(&request) {
                batch.extend(self.serve(request));
                return batch;
            }
        }
        self.queue.push_back(request);
        batch.extend(self.advance().unwrap_or_default());
        batch
    }

    /// Call after each batch that was performed whole: what waits and need not wait any longer.
    pub fn advance(&mut self) -> Option<Batch<R>> {
        if let Stage::Trashing { .. } = self.stage {
            self.made = false;
        }
        self.stage = Stage::Nothing;
        if self.replay.is_none() {
            if let Some(asking) = self.asked.pop_front() {
                return Some(self.ask(asking));
            }
            if let Some((reply, result)) = self.held.pop_front() {
                return Some(vec![Effect::Answer(reply, result)]);
            }
        }
        let Some(front) = self.queue.front() else {
            return self.next_prompt();
        };
        if self.must_wait(front) {
            // Whoever ends the session does not wait for a turn to end by itself.
            let ends = front.ends();
            let cancel = if ends && self.attach.is_some() && !self.aborting {
                self.aborting = true;
                vec![Effect::AbortAttach]
            } else if ends && self.replay.is_none() && self.attach.is_none() {
                self.cancel(true)
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
        if !self.open || self.broken().is_some() || block.is_empty() {
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

    /// The replay that was started has reached where the log ended then, or failed. `open` says
    /// whether the session is open: it need not be if it was to be opened with the replay.
    pub fn replayed(&mut self, result: Result<(), Refusal>, open: bool) -> Batch<R> {
        self.open = open;
        let was_open = open && !std::mem::take(&mut self.opened);
        match result {
            Ok(()) if self.replay.is_some() => {
                self.attach = Some(Attaching::Load { was_open });
                match self.imported.take() {
                    Some(attached) => self.attached(Ok(attached)),
                    None => vec![Effect::Attach(Attach::Again)],
                }
            }
            Ok(()) => Vec::new(),
            Err(refusal) => {
                self.imported = None;
                match self.replay.take() {
                    // It was opened for nothing.
                    Some(reply) if open && !was_open && refusal == Refusal::NoSuchMessage => {
                        self.open = false;
                        let release = Effect::Release(Parting::Closed);
                        vec![release, Effect::Answer(reply, Err(refusal))]
                    }
                    Some(reply) => {
                        let mut batch = vec![Effect::Answer(reply, Err(refusal))];
                        batch.extend(self.not_shown());
                        batch
                    }
                    None => Vec::new(),
                }
            }
        }
    }

    /// Why the running turn cannot be logged any more.
    pub(super) fn broken(&self) -> Option<&Refusal> {
        self.turn.as_ref()?.broken.as_ref()
    }

    fn must_wait(&self, request: &Request<R>) -> bool {
        if let Request::Lend(_) | Request::Status(_) = request {
            return self.is_unborn();
        }
        self.replay.is_some()
            || self.attach.is_some()
            || !self.held.is_empty()
            || (request.ends() && self.turn.is_some())
    }

    fn serve(&mut self, request: Request<R>) -> Batch<R> {
        match request {
            Request::New(reply, wanted) => {
                self.attach = Some(Attaching::New(reply));
                self.prepare(wanted, Attach::New)
            }
            Request::Fork(reply, wanted, forking) => self.fork(reply, wanted, forking),
            Request::Lend(to) => vec![Effect::Lend(to)],
            Request::Note(reply, note) => self.note(reply, note),
            Request::Status(reply) => self.status(reply),
            // Somebody else asked for it, too, and was first.
            Request::Import {
                reply,
                wanted,
                replay,
            } if self.open || self.made => self.serve(if replay {
                Request::Load(reply, wanted)
            } else {
                Request::Resume(reply, wanted)
            }),
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
                    // It is not open before its log has been read.
                    self.stage = Stage::Opening { was_open: false };
                    vec![Effect::OpenAndReplay(wanted)]
                }
            }
            Request::LoadFrom {
                reply,
                wanted,
                message,
            } => {
                self.replay = Some(reply);
                self.opened = !self.open;
                let mut batch = self.opening(wanted);
                batch.extend([Effect::Seek(message), Effect::Replay]);
                batch
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
            } => self.prompt(Waiting {
                reply,
                message_id,
                params,
            }),
            Request::Call {
                reply,
                method,
                params,
            } => self.call(reply, method, params),
            Request::Notify { .. } if !self.open => Vec::new(),
            Request::Notify { method, params } => vec![Effect::Notify { method, params }],
            Request::Cancel { withdraw } => self.cancel(withdraw),
            Request::TakeBack(id) => self.take_back(|prompt| *prompt == id),
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
        self.stage = Stage::Making;
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
}

#[cfg(test)]
#[path = "machine_tests.rs"]
pub(super) mod tests;
