//! The state machine of one session: requests and events in, effects out.
//!
//! The machine has no clock, file, channel or `await`. It returns batches of effects that its task
//! performs in order, so "log first, then the client" is the order of a list that a test can read.
//! When an effect fails, the task drops the rest of its batch, except that each [`Effect::Answer`]
//! and [`Effect::Call`] in it becomes an answer with the failure, and calls [`Machine::failed`].
//!
//! Requests are served in the order in which they came. Four things make one wait: a replay, an
//! engine that attaches, a turn that must end before the session can be closed, and an earlier
//! request that waits. A cancellation only waits for an earlier prompt.

mod attach;
mod client_requests;
mod failed_effect;
mod lifecycle;
mod passes;
mod prompts;
mod repeats;
mod reports;
mod rewind;
mod turns;

use std::collections::VecDeque;
use std::sync::Arc;

use crate::engine::{AttachReason, Block, CloseReason, SessionConfig};
use crate::record::Kind;
use crate::record::metadata::MetadataChange;
use crate::store::Sync;

use super::effect::{Batch, Effect, Notification, Work};
use super::link::message::{Notified, Route};
use super::outcome::{Done, Refusal};
use super::request::Request;
use lifecycle::{AttachRequest, Lifecycle, Opened};
use passes::Passes;
use reports::Reports;
use turns::{SoughtPrompt, Turns, WaitingPrompt};

pub(super) use client_requests::{is_setting, withdrawn_outcome};

/// The state of one session.
#[derive(Debug)]
pub struct Machine<R> {
    /// Whether the engine takes prompts while it answers others.
    overlaps: bool,
    /// Whether a load that opens the session attaches the engine before the replay.
    attaches_first: bool,
    passes: Passes,
    reports: Reports,
    lifecycle: Lifecycle<R>,
    /// Whether this machine has imported the session, so that another import of it is a load.
    imported: bool,
    turns: Turns<R>,
    /// How many requests the engine is serving.
    calls: usize,
    /// Requests that wait.
    queue: VecDeque<Request<R>>,
    /// Prompts that wait for the turns in front of them.
    prompts: VecDeque<WaitingPrompt<R>>,
    sought: Option<SoughtPrompt<R>>,
    purpose: Purpose,
}

/// The purpose of the batch that is being performed. It decides what its success or failure changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// Its failure changes nothing.
    None,
    /// To create the session.
    Create,
    /// To open the session for a load or resume.
    Open,
    /// To find out whether a prompt was logged before.
    FindKey,
    /// To begin a turn.
    Prompt,
    /// To have the engine serve a request.
    Call,
    /// To log something of a turn, or between two turns.
    Log,
    /// To log the end of a turn.
    EndTurn {
        /// Whether the turn was cancelled.
        cancelled: bool,
    },
    /// To close the session.
    Close,
    /// To delete the session.
    Delete,
}

impl<R> Default for Machine<R> {
    fn default() -> Self {
        Self::new(false)
    }
}

impl<R> Machine<R> {
    /// A session that is not open. `overlaps` says whether the engine takes prompts while it
    /// answers others.
    pub fn new(overlaps: bool) -> Self {
        Self {
            overlaps,
            attaches_first: false,
            passes: Passes::default(),
            reports: Reports::default(),
            lifecycle: Lifecycle::Closed,
            imported: false,
            turns: Turns::default(),
            calls: 0,
            queue: VecDeque::new(),
            prompts: VecDeque::new(),
            sought: None,
            purpose: Purpose::None,
        }
    }

    /// Whether nothing is open and no request waits for its answer, so that the task may end.
    pub fn is_over(&self) -> bool {
        matches!(self.lifecycle, Lifecycle::Closed)
            && self.turns.is_empty()
            && self.calls == 0
            && self.passes.prompts == 0
            && self.queue.is_empty()
            && self.prompts.is_empty()
    }

    /// Whether requests wait to be begun.
    pub fn has_waiting_requests(&self) -> bool {
        !self.queue.is_empty()
    }

    /// The load that is under way.
    pub fn load_under_way(&self) -> Option<&R> {
        self.lifecycle.load_under_way()
    }

    /// Sets whether a load attaches the engine before it replays. If the user must sign in first, the
    /// client loads again after that, and must not see the history twice.
    pub fn attach_first(&mut self, attaches_first: bool) {
        self.attaches_first = attaches_first;
    }

    /// Whether the session is open, and no request opens or loads it.
    pub fn is_settled(&self) -> bool {
        matches!(self.lifecycle, Lifecycle::Open)
    }

    /// A request of the client.
    pub fn request(&mut self, request: Request<R>) -> Batch<R> {
        if let Request::WithdrawPrompt(id) = &request {
            // A prompt that was passed to the owner is withdrawn with its request.
            return self.withdraw_prompt(id);
        }
        let is_cancel = matches!(request, Request::Cancel { .. } | Request::Leave(_));
        let mut batch = Vec::new();
        if is_cancel || request.cancels_turns() {
            batch = self.withdraw_unaccepted();
        }
        let waits = if is_cancel {
            let prompt = |r: &Request<R>| matches!(r, Request::Prompt { .. });
            self.queue.iter().any(prompt)
        } else {
            !self.queue.is_empty() || self.must_wait(&request)
        };
        if !waits {
            batch.extend(self.serve(request));
            return batch;
        }
        self.queue.push_back(request);
        batch.extend(self.advance().unwrap_or_default());
        batch
    }

    /// A request of another client than the one whose loads the machine serves: a load of a session
    /// that was open before does not hold it up.
    pub fn request_of_other(&mut self, request: Request<R>) -> Batch<R> {
        if !self.lifecycle.is_load_of_open() || request.cancels_turns() {
            return self.request(request);
        }
        match request {
            Request::Prompt {
                reply,
                due,
                message_id,
                params,
            } => self.prompt(WaitingPrompt {
                of_other: true,
                ..WaitingPrompt::new(reply, due, message_id, params)
            }),
            request => self.serve(request),
        }
    }

    /// Call this after each batch that was performed whole. Returns the effects of what has waited
    /// and can proceed.
    pub fn advance(&mut self) -> Option<Batch<R>> {
        match std::mem::replace(&mut self.purpose, Purpose::None) {
            Purpose::Close => self.lifecycle = Lifecycle::Closed,
            Purpose::Delete => {
                self.lifecycle = Lifecycle::Closed;
                self.imported = false;
            }
            Purpose::FindKey => {
                if let Some(batch) = self.key_was_sought() {
                    return Some(batch);
                }
            }
            _ => {}
        }
        // A prompt that was held came before the requests in the queue.
        if let Some(batch) = self.next_prompt() {
            return Some(batch);
        }
        let front = self.queue.front()?;
        if self.must_wait(front) {
            // A request that closes the session does not wait for turns to end on their own.
            let (closes, cancels) = (front.closes(), front.cancels_turns());
            let cancel = if closes && self.lifecycle.abort() {
                vec![Effect::Cancel(Work::Attach)]
            } else if cancels && self.passes.prompts > 0 && !self.passes.cancelled {
                self.passes.cancelled = true;
                vec![Effect::Pass(Route::Notify(Notified::Cancel))]
            } else if cancels && !self.lifecycle.is_changing() {
                let mut batch = self.withdraw_unaccepted();
                batch.extend(self.cancel(true));
                batch
            } else {
                Vec::new()
            };
            return (!cancel.is_empty()).then_some(cancel);
        }
        let request = self.queue.pop_front()?;
        Some(self.serve(request))
    }

    /// The engine sends updates, in a turn or between two.
    pub fn update(&mut self, block: Block) -> Batch<R> {
        if !self.lifecycle.is_open() || self.failure().is_some() || block.is_empty() {
            return Vec::new();
        }
        if !self.turns.is_empty() {
            let mut has_updates = false;
            for entry in block.iter() {
                if matches!(
                    entry.kind,
                    Kind::Update | Kind::UpdateParams | Kind::UpdateV2
                ) {
                    self.turns.calls.update(entry.payload);
                    has_updates = true;
                }
            }
            if has_updates {
                self.turns.note_updates();
            }
        }
        self.purpose = Purpose::Log;
        Self::log_and_send(block)
    }

    /// Appends updates, then hands them to the clients.
    fn log_and_send(block: Block) -> Batch<R> {
        let block = Arc::new(block);
        let append = Effect::Append(block.clone(), Sync::Buffered);
        vec![append, Effect::Send(block)]
    }

    /// The replay has reached the end that the log had when it began, or has failed. `is_open` says
    /// whether the session is open, which a replay that opens it may have failed to do.
    pub fn replayed(&mut self, result: Result<(), Refusal>, is_open: bool) -> Batch<R> {
        let now = if is_open {
            Lifecycle::Open
        } else {
            Lifecycle::Closed
        };
        let (reply, session) = match std::mem::replace(&mut self.lifecycle, now) {
            Lifecycle::Replaying { reply, session } => (reply, session),
            other => {
                self.lifecycle = other;
                return Vec::new();
            }
        };
        let was_open = matches!(session, Opened::BeforeLoad);
        let Err(refusal) = result else {
            let request = AttachRequest::AfterReplay { was_open };
            self.lifecycle = Lifecycle::attaching(reply, request);
            return match session {
                Opened::ForLoad(Some(attached)) => self.attached(Ok(*attached)),
                _ => vec![Effect::Attach(AttachReason::Again)],
            };
        };
        if is_open && !was_open {
            // The session was opened for nothing.
            self.lifecycle = Lifecycle::Closed;
            let release = Effect::Release(CloseReason::Closed);
            return vec![release, Effect::Answer(reply, Err(refusal))];
        }
        let mut batch = vec![Effect::Answer(reply, Err(refusal))];
        batch.extend(self.abandon_replay());
        batch
    }

    /// Why nothing of the running turns can be logged.
    fn failure(&self) -> Option<&Refusal> {
        self.turns.failure.as_ref()
    }

    fn must_wait(&self, request: &Request<R>) -> bool {
        if let Request::ReadForFork | Request::Status(_) = request {
            return self.is_being_created();
        }
        self.lifecycle.is_changing() || (request.cancels_turns() && self.has_prompts())
    }

    /// Whether prompts are being answered, or wait for that.
    pub fn has_prompts(&self) -> bool {
        !self.turns.is_empty() || !self.prompts.is_empty() || self.passes.prompts > 0
    }

    fn serve(&mut self, request: Request<R>) -> Batch<R> {
        let is_open = self.lifecycle.is_open();
        let request = if is_open && self.passes.are_due {
            match self.pass(request) {
                Ok(batch) => return batch,
                Err(request) => *request,
            }
        } else {
            request
        };
        match request {
            Request::New(reply, config) => {
                let prepare = Effect::Prepare(config);
                self.create(reply, AttachRequest::New, prepare, AttachReason::New)
            }
            Request::Fork { reply, config, at } => {
                let fork = Effect::Fork(config, at);
                self.create(reply, AttachRequest::Fork, fork, AttachReason::Fork)
            }
            // Another request was first to import it.
            Request::Import {
                reply,
                config,
                replay,
            } if is_open || self.imported => self.serve(if replay {
                Request::Load(reply, config)
            } else {
                Request::Resume(reply, config)
            }),
            Request::Import {
                reply,
                config,
                replay,
            } => {
                let prepare = Effect::Prepare(config);
                let request = AttachRequest::Import { replay };
                self.create(reply, request, prepare, AttachReason::Import)
            }
            Request::ReadForFork => vec![Effect::ReadForFork],
            Request::MetadataChange(reply, change) => self.change_metadata(reply, change),
            Request::Rewind {
                reply,
                target,
                client,
            } => self.rewind(reply, target, client),
            Request::Status(reply) => self.status(reply),
            Request::Load(reply, config) => self.serve_load(reply, config, None),
            Request::LoadFrom {
                reply,
                config,
                message,
            } => self.serve_load(reply, config, Some(message)),
            Request::Resume(reply, config) => {
                let was_open = is_open;
                let request = AttachRequest::Resume { was_open };
                self.open(config, Lifecycle::attaching(reply, request))
            }
            Request::Prompt {
                reply,
                due,
                message_id,
                params,
            } => self.prompt(WaitingPrompt::new(reply, due, message_id, params)),
            Request::Call {
                reply,
                method,
                params,
            } => self.call(reply, method, params),
            Request::Notify { .. } if !is_open => Vec::new(),
            Request::Notify { method, params } => vec![Effect::Forward { method, params }],
            Request::Cancel { withdraw } => self.cancel(withdraw),
            Request::Leave(leaving) => self.leave(&leaving),
            Request::WithdrawPrompt(id) => self.withdraw_prompt(&id),
            Request::Close(reply) => {
                let mut batch = vec![Effect::Check, Effect::Answer(reply, Ok(Done::Closed))];
                if is_open {
                    self.purpose = Purpose::Close;
                    batch[0] = Effect::Release(CloseReason::Closed);
                }
                batch
            }
            Request::Delete(reply) | Request::DeleteForAll(reply) => {
                self.purpose = Purpose::Delete;
                let release = Effect::Release(CloseReason::Deleted);
                vec![release, Effect::Answer(reply, Ok(Done::Deleted))]
            }
        }
    }

    fn serve_load(&mut self, reply: R, config: SessionConfig, from: Option<String>) -> Batch<R> {
        let session = if self.lifecycle.is_open() {
            Opened::BeforeLoad
        } else if from.is_some() {
            Opened::ForLoad(None)
        } else if self.attaches_first {
            let request = AttachRequest::BeforeReplay;
            return self.open(config, Lifecycle::attaching(reply, request));
        } else {
            Opened::NotYet
        };
        let lifecycle = |session| Lifecycle::Replaying { reply, session };
        if let Opened::NotYet = session {
            self.purpose = Purpose::Open;
            self.lifecycle = lifecycle(session);
            let open = Some(config);
            return vec![Effect::Replay { open, from }];
        }
        let mut batch = self.open(config, lifecycle(session));
        batch.push(Effect::Replay { open: None, from });
        batch
    }

    /// Begins to create the session.
    fn create(
        &mut self,
        reply: R,
        request: AttachRequest,
        first: Effect<R>,
        attach: AttachReason,
    ) -> Batch<R> {
        self.purpose = Purpose::Create;
        self.lifecycle = Lifecycle::attaching(reply, request);
        vec![first, Effect::Attach(attach)]
    }

    /// Begins to open the session. Nothing is opened twice, but the owner is asked in any case: the
    /// client may have moved the session to another folder.
    fn open(&mut self, config: SessionConfig, lifecycle: Lifecycle<R>) -> Batch<R> {
        self.purpose = Purpose::Open;
        self.lifecycle = lifecycle;
        let mut batch = vec![Effect::Open(config)];
        if let Lifecycle::Attaching { .. } = self.lifecycle {
            batch.push(Effect::Attach(AttachReason::Again));
        }
        batch
    }

    /// Changes the session's title, or archives it, which also closes it.
    fn change_metadata(&mut self, reply: R, change: MetadataChange) -> Batch<R> {
        if let Some(refusal) = self.failure() {
            return vec![Effect::Answer(reply, Err(refusal.clone()))];
        }
        let is_open = self.lifecycle.is_open();
        let payload = change.payload();
        let mut batch = vec![Effect::MetadataChange(change.clone())];
        let done = match change {
            MetadataChange::Title(title) => {
                let snapshots = Block::of(Kind::Info, payload);
                let snapshots = Notification::Snapshots(snapshots);
                batch.extend(is_open.then_some(Effect::Notify(snapshots)));
                Done::Titled(title)
            }
            MetadataChange::Archived(archived) => {
                if archived && is_open {
                    self.purpose = Purpose::Close;
                    batch.push(Effect::Release(CloseReason::Closed));
                }
                Done::Archived
            }
        };
        batch.push(Effect::Answer(reply, Ok(done)));
        batch
    }

    /// Reports the session's state without touching it.
    fn status(&self, reply: R) -> Batch<R> {
        let open = self.lifecycle.is_open();
        let phase = self.phase();
        let answer = Effect::Answer(reply, Ok(Done::Status { open, phase }));
        if open {
            vec![answer]
        } else {
            vec![Effect::Check, answer]
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
