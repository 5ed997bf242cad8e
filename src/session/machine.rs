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
//! waits. Cancelling waits only for a prompt in front of it.

use std::collections::VecDeque;

use crate::engine::{Attach, Attached, Block, CloseReason, SessionConfig};
use crate::record::Kind;

use super::effect::{Batch, Effect};
use super::outcome::{Done, Refusal};
use super::pending_attach::PendingAttach;
use super::request::{ClientRequest, Request};
use super::turn::{Turns, Waiting};
use super::version::ProtocolVersion;

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
    pub(super) version: ProtocolVersion,
    /// Whether the engine takes prompts while it answers others.
    pub(super) overlaps: bool,
    /// Whether a load that opens the session attaches the engine before the replay.
    pub(super) attaches_first: bool,
    pub(super) open: bool,
    pub(super) turns: Turns<R>,
    /// The load that is under way: its replay, and what follows that until it is answered.
    pub(super) replay: Option<R>,
    /// Whether that load has opened the session.
    pub(super) opened: bool,
    /// What the engine that was ready before that replay has said.
    pub(super) imported: Option<Attached>,
    /// Whether a session of the engine's agent was made one of ours.
    pub(super) made: bool,
    /// What the engine is making ready for.
    pub(super) attach: Option<PendingAttach<R>>,
    /// Whether it was told to stop.
    pub(super) aborting: bool,
    /// Requests of the engine that the client is shown after the replay.
    pub(super) asked: VecDeque<ClientRequest>,
    /// How many requests the engine is serving.
    pub(super) calls: usize,
    /// Requests that wait.
    pub(super) queue: VecDeque<Request<R>>,
    /// Prompts that wait for the turns in front of them.
    pub(super) prompts: VecDeque<Waiting<R>>,
    /// Answers of turns that ended during a replay.
    pub(super) held: VecDeque<(R, Result<Done, Refusal>)>,
    /// How a turn ended during a replay whose client is to be told by an update.
    pub(super) rested: Option<String>,
    pub(super) stage: Stage,
}

impl<R> Default for Machine<R> {
    fn default() -> Self {
        Self::new(ProtocolVersion::default(), false)
    }
}

impl<R> Machine<R> {
    /// A session that is not open, of a client that is told of turns in this way. `overlaps` says
    /// whether the engine takes prompts while it answers others.
    pub fn new(version: ProtocolVersion, overlaps: bool) -> Self {
        Self {
            version,
            overlaps,
            attaches_first: false,
            open: false,
            turns: Turns::default(),
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
            && self.turns.is_empty()
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

    /// Whether the client is told of turns by updates.
    pub fn is_told(&self) -> bool {
        self.version == ProtocolVersion::V2
    }

    /// The request whose replay is running.
    pub fn replaying(&self) -> Option<&R> {
        self.replay.as_ref()
    }

    /// Says whether the engine may refuse the next load in such a way that the client loads again,
    /// so that nothing must be shown twice.
    pub fn attach_first(&mut self, attaches_first: bool) {
        self.attaches_first = attaches_first;
    }

    /// A request of the client.
    pub fn request(&mut self, request: Request<R>) -> Batch<R> {
        let mut batch = Vec::new();
        if let Request::WithdrawPrompt(id) = &request {
            return self.withdraw_prompt(id);
        }
        if let Request::Cancel { withdraw } = request {
            let prompt = |r: &Request<R>| matches!(r, Request::Prompt { .. });
            if self.version == ProtocolVersion::V2 || !self.queue.iter().any(prompt) {
                return self.cancel(withdraw);
            }
        } else {
            if self.version == ProtocolVersion::V2 && request.ends() {
                batch = self.withdraw_prompts(|_| true);
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
            // A request that ends the session does not wait for turns to end by themselves.
            let ends = front.ends();
            let cancel = if ends && self.attach.is_some() && !self.aborting {
                self.aborting = true;
                vec![Effect::AbortAttach]
            } else if ends && self.replay.is_none() && self.attach.is_none() {
                self.cancel(true)
            } else {
                Vec::new()
            };
            if cancel.is_empty() {
                return self.next_prompt();
            }
            return Some(cancel);
        }
        let request = self.queue.pop_front()?;
        Some(self.serve(request))
    }

    /// The engine says something, in a turn or between two.
    pub fn said(&mut self, block: Block) -> Batch<R> {
        if !self.open || self.broken().is_some() || block.is_empty() {
            return Vec::new();
        }
        if !self.turns.is_empty() {
            for entry in block.iter() {
                if matches!(entry.kind, Kind::Update | Kind::UpdateParams) {
                    self.turns.calls.update(entry.payload);
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
                self.attach = Some(PendingAttach::Load { was_open });
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
                    Some(reply) if open && !was_open && refusal == Refusal::ReplayStartNotFound => {
                        self.open = false;
                        let release = Effect::Release(CloseReason::Closed);
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

    /// Why the running turns cannot be logged any more.
    pub(super) fn broken(&self) -> Option<&Refusal> {
        self.turns.broken.as_ref()
    }

    fn must_wait(&self, request: &Request<R>) -> bool {
        if let Request::ReadForFork(_) | Request::Status(_) = request {
            return self.is_unborn();
        }
        self.replay.is_some()
            || self.attach.is_some()
            || !self.held.is_empty()
            || (request.ends() && !(self.turns.is_empty() && self.prompts.is_empty()))
    }

    fn serve(&mut self, request: Request<R>) -> Batch<R> {
        match request {
            Request::New(reply, config) => {
                self.attach = Some(PendingAttach::New(reply));
                self.prepare(config, Attach::New)
            }
            Request::Fork(reply, config, forking) => self.fork(reply, config, forking),
            Request::ReadForFork(to) => vec![Effect::ReadForFork(to)],
            Request::MetadataChange(reply, note) => self.note(reply, note),
            Request::Status(reply) => self.status(reply),
            // Somebody else asked for it, too, and was first.
            Request::Import {
                reply,
                config,
                replay,
            } if self.open || self.made => self.serve(if replay {
                Request::Load(reply, config)
            } else {
                Request::Resume(reply, config)
            }),
            Request::Import {
                reply,
                config,
                replay,
            } => {
                self.attach = Some(PendingAttach::Import(reply, replay));
                self.prepare(config, Attach::Import)
            }
            Request::Load(reply, config) => {
                self.replay = Some(reply);
                self.opened = !self.open;
                if self.open {
                    let mut batch = self.opening(config);
                    batch.push(Effect::Replay);
                    batch
                } else if self.attaches_first {
                    self.attach = Some(PendingAttach::BeforeReplay);
                    let mut batch = self.opening(config);
                    batch.push(Effect::Attach(Attach::Again));
                    batch
                } else {
                    // It is not open before its log has been read.
                    self.stage = Stage::Opening { was_open: false };
                    vec![Effect::OpenAndReplay(config)]
                }
            }
            Request::LoadFrom {
                reply,
                config,
                message,
            } => {
                self.replay = Some(reply);
                self.opened = !self.open;
                let mut batch = self.opening(config);
                batch.extend([Effect::Seek(message), Effect::Replay]);
                batch
            }
            Request::Resume(reply, config) => {
                self.attach = Some(PendingAttach::Resume(reply, self.open));
                let mut batch = self.opening(config);
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
                cancelled: false,
            }),
            Request::Call {
                reply,
                method,
                params,
            } => self.call(reply, method, params),
            Request::Notify { .. } if !self.open => Vec::new(),
            Request::Notify { method, params } => vec![Effect::Notify { method, params }],
            Request::Cancel { withdraw } => self.cancel(withdraw),
            Request::WithdrawPrompt(id) => self.withdraw_prompt(&id),
            Request::Close(reply) if !self.open => {
                vec![Effect::Check, Effect::Answer(reply, Ok(Done::Closed))]
            }
            Request::Close(reply) => {
                self.open = false;
                let release = Effect::Release(CloseReason::Closed);
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

    fn prepare(&mut self, config: SessionConfig, attach: Attach) -> Batch<R> {
        self.stage = Stage::Making;
        self.open = true;
        vec![Effect::Prepare(config), Effect::Attach(attach)]
    }

    /// Nothing is opened twice, but the actor is asked all the same: the session may have moved
    /// to another folder.
    fn opening(&mut self, config: SessionConfig) -> Batch<R> {
        self.stage = Stage::Opening {
            was_open: self.open,
        };
        self.open = true;
        vec![Effect::Open(config), Effect::RetryRecovery]
    }
}

#[cfg(test)]
#[path = "machine_tests.rs"]
pub(super) mod tests;
