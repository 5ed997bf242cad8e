//! The owner of a session: it has the log and the engine's conversation. It appends what the machine
//! says, and asks the clients what the engine wants to know.
//!
//! Its clients are fronts, which read the log. A front in the same task is handed what is appended.

pub(super) mod engine_events;
pub(super) mod fronts;
pub(super) mod history;
pub(super) mod lock;
pub(super) mod open_session;
pub(super) mod questions;
pub(super) mod trace;

pub(super) mod life;
mod log;
mod titles;

use std::mem;
use std::ops::Range;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinHandle};
use tokio_util::sync::CancellationToken;

use crate::engine::{
    AttachOutcome, AttachReason, Block, BoxFuture, Cancel, EngineError, Prompt, Question,
};
use crate::json;
use crate::protocol::EngineCall;
use crate::protocol::meta::{OBSERVE, is_set};
use crate::protocol::method::SESSION_CANCEL;
use crate::store::Store;
use crate::sys::SessionId;

use super::command::Command;
use super::effect::Work;
use super::link::feed::{ClientQuestion, FrontEvents};
use super::link::message::Attached;
use super::outcome::{Elsewhere, Refusal};
use super::phase::Phase;
use super::reply::Reply;
use super::request::ClientRequest;
use super::{Client, Deps};
use engine_events::{End, FromEngine, RunningTurn};
use fronts::{Fronts, target_of};
use life::Forks;
use open_session::{LogAccess, LogChanges, OpenSession};
use questions::{OpenQuestions, OwnerEvent, Recipients, ServedCall};
use trace::Trace;

/// The log and the engine of one session, as far as it is open here.
pub(super) struct Owner {
    pub(super) id: SessionId,
    deps: Arc<Deps>,
    /// Log and engine, while the session is open.
    pub(super) session: Option<OpenSession>,
    /// The engine at work, on one prompt or on several.
    pub(super) turns: Vec<RunningTurn>,
    attach: Option<RunningAttach>,
    /// The clients that have the session open.
    pub(super) fronts: Fronts,
    pub(super) questions: OpenQuestions,
    pub(super) forks: Forks,
    /// For the results of what the engine serves.
    results: mpsc::UnboundedSender<OwnerEvent>,
    pub(super) trace: Trace,
}

/// Something that the engine does.
pub(super) enum EngineDoes {
    /// In its turns, or between them.
    Event(FromEngine),
    /// The engine has attached, or has failed to.
    Attached(Box<Attaching>),
}

/// The result of an engine that attaches.
pub(super) type Attaching = Result<Result<AttachOutcome, EngineError>, JoinError>;

/// An engine that attaches, on a task of its own.
struct RunningAttach {
    /// Asks it to stop.
    abort: CancellationToken,
    task: JoinHandle<Result<AttachOutcome, EngineError>>,
}

impl Drop for RunningAttach {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Owner {
    pub(super) fn new(
        id: SessionId,
        deps: Arc<Deps>,
        client: Arc<Client>,
        results: mpsc::UnboundedSender<OwnerEvent>,
        own_front: FrontEvents,
    ) -> Self {
        Self {
            fronts: Fronts::new(own_front, client, &id),
            id,
            deps,
            session: None,
            turns: Vec::new(),
            attach: None,
            questions: OpenQuestions::default(),
            forks: Forks::default(),
            results,
            trace: Trace::default(),
        }
    }

    /// What the engine does next. While the session is being created, that is only what the engine
    /// needs for it.
    pub(super) async fn engine(&mut self, is_being_created: bool) -> EngineDoes {
        let Self {
            session,
            turns,
            attach,
            ..
        } = self;
        let attached = async {
            match attach {
                Some(attach) => (&mut attach.task).await,
                None => std::future::pending().await,
            }
        };
        let event = async {
            let Some(session) = session else {
                return std::future::pending().await;
            };
            if is_being_created {
                return FromEngine::Event(session.early_request().await);
            }
            match session.early.pop_front() {
                Some(event) => FromEngine::Event(event),
                None => engine_events::next(&mut session.events, turns).await,
            }
        };
        tokio::select! {
            result = attached => {
                self.attach = None;
                EngineDoes::Attached(Box::new(result))
            }
            event = event => EngineDoes::Event(event),
        }
    }

    /// Whether the engine attaches.
    pub(super) fn is_attaching(&self) -> bool {
        self.attach.is_some()
    }

    /// Has the engine attach, or runs `instead` of it, until the request for it is cancelled.
    pub(super) fn attach(
        &mut self,
        how: AttachReason,
        instead: Option<BoxFuture<'static, Result<AttachOutcome, EngineError>>>,
        request: Option<CancellationToken>,
    ) {
        let session = self.session.as_ref();
        let attach = instead.or_else(|| session.map(|session| session.attach(how)));
        // The client cancels the request, or the session is to be closed.
        let abort = request.unwrap_or_default().child_token();
        let aborted = abort.clone();
        let task = tokio::spawn(async move {
            let Some(attach) = attach else {
                return Ok(AttachOutcome::default());
            };
            // An engine that is ready at once is never asked to stop.
            tokio::select! {
                biased;
                result = attach => result,
                () = aborted.cancelled() => Err(EngineError::cancelled()),
            }
        });
        self.attach = Some(RunningAttach { abort, task });
    }

    /// Passes the prompt that was appended last to the engine.
    pub(super) fn begin(&mut self, prompt: Prompt) {
        let turn = self.session.as_ref().map(|open| open.summary.prompts);
        let now = self.deps.library.sys.clock.now();
        self.trace.turn(&self.id, turn, &prompt.message_id, now);
        let Some(session) = &mut self.session else {
            return;
        };
        session.history.begin(session.prompt_offset(), &prompt);
        let cancel = Cancel::default();
        let message_id = prompt.message_id.clone();
        // Not in a task: messages to an agent are sent in the order in which they came.
        let turn = session.conversation.prompt(prompt, cancel.clone());
        self.turns.push(RunningTurn {
            message_id,
            cancel,
            task: tokio::spawn(turn),
            end: End::NotYet,
        });
    }

    /// Counts the prompt that was appended last as an earlier one.
    pub(super) fn skip(&mut self, prompt: &Prompt) {
        if let Some(session) = &mut self.session {
            session.history.begin(session.prompt_offset(), prompt);
            session.history.end(&prompt.message_id);
        }
        self.fronts.forget(&prompt.message_id);
    }

    /// Has something end early.
    pub(super) fn cancel(&mut self, work: &Work) {
        match work {
            Work::Attach => {
                if let Some(attach) = &self.attach {
                    attach.abort.cancel();
                }
            }
            Work::Turns => self.turns.iter().for_each(|turn| turn.cancel.cancel()),
            Work::FailedTurns => self.turns.iter().for_each(|turn| turn.cancel.abandon()),
            Work::Turn(message_id) => {
                let mut turns = self.turns.iter();
                if let Some(turn) = turns.find(|turn| turn.message_id == *message_id) {
                    turn.cancel.cancel_request();
                }
            }
            Work::OwnWork => {
                if let Some(session) = &self.session {
                    let params = json::Object::new().string("sessionId", &self.fronts.client_id);
                    session.conversation.notify(SESSION_CANCEL, params.end());
                }
            }
            Work::ClientRequests => self.questions.withdraw(),
        }
    }

    /// Has the engine serve a request.
    pub(super) fn call(&self, reply: Reply, call: EngineCall) {
        let Some(session) = &self.session else { return };
        let cancelled = Box::pin(reply.cancellation().cancelled_owned());
        let EngineCall {
            method,
            params,
            mode,
        } = call;
        let call = session.conversation.call(&method, params, cancelled);
        let (id, results) = (self.id.clone(), self.results.clone());
        let call = tokio::spawn(call);
        tokio::spawn(async move {
            let result = call.await;
            let result = result.unwrap_or_else(|error| Err(panicked(&id, &error)));
            let served = ServedCall {
                reply,
                method,
                mode,
                result,
            };
            results.send(OwnerEvent::Called(served)).ok();
        });
    }

    /// The turn of a message has ended. Its engine may have panicked: then its conversation is opened
    /// again.
    pub(super) fn turn_ended(&mut self, message_id: &str, has_panicked: bool) {
        if let Some(session) = &mut self.session {
            session.history.end(message_id);
            if has_panicked {
                session.reopen_conversation();
            }
        }
        self.fronts.forget(message_id);
    }

    /// The message whose turn began last, of those that run.
    pub(super) fn running_message(&self) -> Option<&str> {
        self.turns.last().map(|turn| &*turn.message_id)
    }

    /// Whether the client that has opened the session only looks on, and is asked nothing.
    pub(super) fn is_observed(&self) -> bool {
        let session = self.session.as_ref();
        let observes = |session: &OpenSession| is_set(&session.config.params.0, OBSERVE);
        self.deps.role.observes() || session.is_some_and(observes)
    }

    /// Whether the last turn was interrupted by a crash.
    pub(super) fn was_interrupted(&self) -> bool {
        let session = self.session.as_ref();
        session.is_some_and(|session| session.history.was_interrupted())
    }

    /// Whether a turn runs in another process.
    pub(super) fn runs_elsewhere(&self) -> bool {
        self.elsewhere().is_some_and(|elsewhere| elsewhere.running)
    }

    /// What the session is doing, as far as this process knows.
    pub(super) fn known_phase(&self, phase: Phase) -> Phase {
        if matches!(phase, Phase::Idle(_)) && self.runs_elsewhere() {
            Phase::Running
        } else {
            phase
        }
    }

    /// Checks that the log is still the one that this process may append to. A running turn finds out on
    /// its own.
    pub(super) fn check_claim(&mut self) {
        if self.turns.is_empty()
            && let Some(session) = &mut self.session
        {
            session.check_claim();
        }
    }

    /// Whether a write has failed, and nothing keeps the log from being recovered now.
    pub(super) fn may_recover(&self) -> bool {
        let session = self.session.as_ref();
        let failed = session.is_some_and(|session| matches!(session.log, LogAccess::Failed(_)));
        // Turns that are being cancelled have not ended.
        failed && self.turns.is_empty()
    }

    /// The part of the log that was appended last, in bytes; empty without a log.
    pub(super) fn last_appended(&self) -> Range<u64> {
        let session = self.session.as_ref();
        session.map_or(0..0, |session| session.last_appended.clone())
    }

    /// The process that has the session open, if it is another one.
    pub(super) fn elsewhere(&self) -> Option<&Elsewhere> {
        self.session.as_ref().and_then(OpenSession::elsewhere)
    }

    /// Where the log ends, in bytes, if this process has it locked.
    pub(super) fn log_end(&self) -> Option<u64> {
        self.session.as_ref().and_then(OpenSession::log_end)
    }

    /// What became of the log since the last call.
    pub(super) fn take_log_changes(&mut self) -> LogChanges {
        let session = self.session.as_mut();
        session.map_or_else(LogChanges::default, |session| {
            std::mem::take(&mut session.changes)
        })
    }

    /// Lets fronts find the task with this mailbox while it owns the session.
    pub(super) fn publish(&mut self, task: &mpsc::WeakUnboundedSender<Command>) {
        let owners = &self.deps.library.owners;
        // Fronts may attach while this process has the log locked.
        match (self.log_end().is_some(), self.fronts.owner) {
            (true, None) => {
                let number = owners.add(&self.id, task.clone());
                self.fronts.owner = Some(number);
            }
            (false, Some(number)) => {
                owners.remove(&self.id, number);
                self.fronts.leave();
            }
            _ => {}
        }
    }

    /// Whether a client has the session open, or a turn runs.
    pub(super) fn is_wanted(&self) -> bool {
        let fronts = &self.fronts;
        let has_clients = !fronts.is_detached || fronts.any() || fronts.are_waiting();
        has_clients || !self.turns.is_empty()
    }

    /// The engine sends updates. Returns them as they are logged.
    pub(super) fn engine_sends(&mut self, mut block: Block) -> Option<Block> {
        let waits = self.deps.library.store.as_ref().is_some_and(Store::waits);
        let session = self.session.as_mut()?;
        if waits {
            engine_events::gather(&mut block, session, &mut self.turns);
        }
        Some(session.with_title(block))
    }

    /// Admits the fronts that have come. Clients that may answer what is asked already are asked, too.
    pub(super) fn admit_fronts(&mut self) {
        if !self.fronts.are_waiting() {
            return;
        }
        for (mut front, admission) in mem::take(&mut self.fronts.waiting) {
            let session = self
                .session
                .as_ref()
                .filter(|_| self.fronts.owner.is_some());
            let Some(session) = session else {
                admission.answer(Err(Refusal::NotOpen));
                continue;
            };
            tracing::info!(session = %self.id, client = front.client, "another client has attached");
            admission.answer(Ok(Attached {
                commands: session.conversation.commands(),
                native: self.deps.engine.is_native(),
            }));
            if !front.observes {
                self.questions.ask_too(&target_of(&front));
            }
            front.since = self.deps.library.sys.clock.now().to_string();
            self.fronts.list.push(front);
        }
        self.fronts.count(&self.deps.library.owners, &self.id);
    }

    /// The engine sends the clients a request. Returns it for the machine, unless the engine does not wait
    /// for its response any longer.
    pub(super) fn engine_asks(&mut self, question: Question) -> Option<ClientRequest> {
        let id = format!("ask_{}", self.deps.library.sys.ids.uuid().simple());
        let is_wanted = self.questions.begin(&id, question.cancel, question.reply);
        is_wanted.then(|| ClientRequest {
            id,
            of_subagent: question.session.is_none(),
            params: self
                .fronts
                .with_client_id(question.params, question.session),
            method: question.method,
            logged: question.logged,
            is_native: question.is_native,
        })
    }

    /// Sends a request of the engine to all clients that may answer it. Returns the question for the
    /// front of the owner's own task, if that is one of them.
    pub(super) fn ask(&mut self, request: ClientRequest) -> Option<ClientQuestion> {
        let looks_on = self.is_observed();
        let prompt = self.running_message();
        let recipients = Recipients {
            targets: self.fronts.targets(&request.method, prompt, looks_on),
            has_others: self.fronts.any(),
            may_come: self.fronts.is_detached || self.deps.role.shares_engine() || looks_on,
            timeout: self.deps.client_timeout,
        };
        let results = self.results.clone();
        self.questions.ask(request, recipients, results)
    }
}

/// The error for a task of the engine that has panicked.
pub(super) fn panicked(session: &SessionId, error: &JoinError) -> EngineError {
    tracing::error!(%session, %error, "the engine panicked");
    EngineError::internal("the engine failed unexpectedly; the session goes on")
}
