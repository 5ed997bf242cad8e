//! Runs one session: feeds its machine with what happens, one thing after the other.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinError, JoinHandle};

use crate::engine::outlet::Canceller;
use crate::engine::{
    Attached, Called, Cancel, CloseReason, EngineError, EngineEvent, SessionConfig,
};
use crate::json::with_string;
use crate::protocol::v2::View;
use crate::store::Scan;
use crate::sys::{SessionId, Timestamp};

use super::Deps;
use super::busy::{Busy, BusyGuard};
use super::command::{Command, Mailbox};
use super::effect::{Batch, Effect};
use super::machine::Machine;
use super::open_session::{LogAccess, OpenSession};
use super::outcome::Refusal;
use super::playback::Playback;
use super::reply::Reply;
use super::request::{Answered, ClientRequest};
use super::running::{self, FromEngine, RunningTurn, TurnOutcome};

/// One session of one connection.
pub(super) struct Actor {
    pub(super) id: SessionId,
    /// The id by which the client asked for it last, which is the one it is told.
    pub(super) name: String,
    pub(super) deps: Arc<Deps>,
    pub(super) machine: Machine<Reply>,
    /// Log and engine, while the session is open.
    pub(super) session: Option<OpenSession>,
    /// The engine at work, on one prompt or on several.
    pub(super) turns: Vec<RunningTurn>,
    pub(super) replay: Option<RunningReplay>,
    /// The engine that is making ready.
    pub(super) pending_attach: Option<RunningAttach>,
    pub(super) replays: Busy,
    /// The requests that were answered by the batch that is being performed.
    pub(super) answered: Vec<BusyGuard>,
    /// The prompt of the running turn, if it was answered before that ends.
    pub(super) prompted: Option<BusyGuard>,
    /// The lines that are being sent.
    pub(super) line: Vec<u8>,
    /// How the client sees updates, if not as they are in the log.
    pub(super) view: Option<View>,
    /// The same lines as it sees them.
    pub(super) shown: Vec<u8>,
    /// Takes back what the client was asked for so far.
    pub(super) withdrawal: (Canceller, Cancel),
    /// The message that the next replay begins with.
    pub(super) sought: Option<String>,
    /// What tasks of this session have to tell it.
    pub(super) tell: mpsc::UnboundedSender<TaskResult>,
    told: mpsc::UnboundedReceiver<TaskResult>,
    /// Told when what was asked for before has been begun.
    barriers: Vec<oneshot::Sender<()>>,
    mailbox: Mailbox,
    pub(super) journal: Journal,
}

/// What the log lines about a session need that nothing else remembers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Journal {
    /// When the session began to be made or opened.
    pub(super) opening: Option<Timestamp>,
    /// When the running turn began.
    pub(super) turn: Option<Timestamp>,
    /// How the agent behind the engine came to where the session is.
    pub(super) way: Option<&'static str>,
}

/// What a task that works for a session tells it.
pub(super) enum TaskResult {
    /// The client has answered a request of the engine.
    Answered(Answered),
    /// The engine has served a request of the client.
    Called(Reply, Result<Called, EngineError>),
}

/// An engine that makes ready, on a task of its own.
pub(super) struct RunningAttach {
    /// Has it given up, unless it is ready already.
    pub(super) canceller: Canceller,
    pub(super) task: JoinHandle<Result<Attached, EngineError>>,
}

impl Drop for RunningAttach {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A replay at work, on a thread of its own.
#[derive(Debug)]
pub(super) struct RunningReplay {
    pub(super) task: Option<JoinHandle<ReplayOutcome>>,
    /// The replay itself, when its task is done.
    pub(super) playback: Option<Playback>,
    pub(super) _busy: BusyGuard,
}

/// What a replay's thread comes back with.
#[derive(Debug)]
pub(super) struct ReplayOutcome {
    pub(super) playback: Playback,
    /// The log, if it was opened with the replay, and where the session is to work.
    pub(super) opened: Option<(LogAccess, Scan, SessionConfig)>,
    pub(super) result: Result<(), Refusal>,
}

enum Event {
    Command(Option<Command>),
    TaskResult(TaskResult),
    Engine(FromEngine),
    Replayed(Box<Result<ReplayOutcome, JoinError>>),
    Attached(Box<Result<Result<Attached, EngineError>, JoinError>>),
}

impl Actor {
    pub(super) fn new(id: SessionId, deps: Arc<Deps>, replays: Busy, mailbox: Mailbox) -> Self {
        let machine = Machine::new(deps.version(), deps.engine.takes_prompts_in_turns());
        let view = deps.version().view();
        let (tell, told) = mpsc::unbounded_channel();
        Self {
            name: id.to_string(),
            id,
            deps,
            machine,
            session: None,
            turns: Vec::new(),
            replay: None,
            pending_attach: None,
            replays,
            answered: Vec::new(),
            prompted: None,
            line: Vec::new(),
            view,
            shown: Vec::new(),
            sought: None,
            withdrawal: Cancel::new(),
            tell,
            told,
            barriers: Vec::new(),
            mailbox,
            journal: Journal::default(),
        }
    }

    /// Serves the session until nothing is open and nobody asks for it. `retire` says whether the
    /// actor may go, which it may not when something has come in meanwhile.
    pub(super) async fn run(mut self, retire: impl Fn(&mut Mailbox) -> bool + Send) {
        loop {
            let batch = match self.event().await {
                Event::Command(None) => return self.release(CloseReason::Closed),
                Event::Command(Some(Command::Request(request, held))) => {
                    drop(held);
                    self.machine
                        .attach_first(self.deps.engine.may_want_sign_in());
                    self.machine.request(request)
                }
                Event::Command(Some(Command::Barrier(tell))) => {
                    self.barriers.push(tell);
                    Vec::new()
                }
                Event::TaskResult(TaskResult::Answered(answered)) => {
                    self.machine.answered(answered)
                }
                Event::TaskResult(TaskResult::Called(reply, result)) => {
                    self.machine.called(reply, result)
                }
                Event::Engine(FromEngine::EngineEvent(said)) => self.said(said).await,
                Event::Engine(FromEngine::TurnOutcome(id, result)) => self.turned(&id, result),
                Event::Attached(result) => self.attached(*result),
                Event::Replayed(result) => self.replayed(*result),
            };
            self.perform(batch).await;
            // An agent may take its time; the sessions that it makes are in no list before they are
            // prompted.
            let making = self.pending_attach.is_some() && !self.deps.engine.wraps_agent();
            if !self.machine.waits() && !making {
                for tell in self.barriers.drain(..) {
                    tell.send(()).ok();
                }
            }
            if self.machine.is_over() && retire(&mut self.mailbox) {
                return;
            }
        }
    }

    async fn event(&mut self) -> Event {
        let replay = async {
            match self.replay.as_mut().and_then(|replay| replay.task.as_mut()) {
                Some(task) => Event::Replayed(Box::new(task.await)),
                None => std::future::pending().await,
            }
        };
        let attach = async {
            match &mut self.pending_attach {
                Some(attach) => Event::Attached(Box::new((&mut attach.task).await)),
                None => std::future::pending().await,
            }
        };
        let unborn = self.machine.is_unborn();
        let engine = async {
            match &mut self.session {
                Some(session) if unborn => {
                    Event::Engine(FromEngine::EngineEvent(session.early_question().await))
                }
                Some(session) => match session.early.pop_front() {
                    Some(said) => Event::Engine(FromEngine::EngineEvent(said)),
                    None => Event::Engine(running::next(&mut session.said, &mut self.turns).await),
                },
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            command = self.mailbox.recv() => Event::Command(command),
            Some(told) = self.told.recv() => Event::TaskResult(told),
            event = replay => event,
            event = attach => event,
            event = engine => event,
        }
    }

    /// What the engine says: for the log, or for the client.
    async fn said(&mut self, said: EngineEvent) -> Batch<Reply> {
        match said {
            EngineEvent::Block(block) => self.machine.said(self.with_title(block)),
            EngineEvent::Ask(question) => {
                let params = with_string(&question.params, &question.session, &self.name);
                self.machine.ask(ClientRequest {
                    id: format!("ask_{}", self.deps.sys.ids.uuid().simple()),
                    method: question.method,
                    params,
                    logged: question.logged,
                    cancel: question.cancel,
                    reply: question.reply,
                })
            }
            // It was taken where the ends of turns are awaited.
            EngineEvent::Ends { .. } => Vec::new(),
            EngineEvent::Notify {
                method,
                params,
                session,
            } => {
                let params = with_string(&params, &session, &self.name);
                self.deps.wire.notify(&method, &params).await;
                Vec::new()
            }
        }
    }

    fn turned(&mut self, message_id: &str, result: Result<TurnOutcome, JoinError>) -> Batch<Reply> {
        if let Some(session) = &self.session {
            session.history.end(message_id);
        }
        let result = match result {
            Ok(result) => result,
            // Only the end of the program does that. Nothing is written any more: as after a crash,
            // whoever opens the log next finds the turn open and closes it.
            Err(error) if error.is_cancelled() => return Vec::new(),
            Err(error) => {
                tracing::error!(session = %self.id, %error, "the engine panicked");
                if let Some(session) = &mut self.session {
                    session.reopen_conversation(&self.id, &self.deps);
                }
                let message = "the engine failed unexpectedly; the session goes on";
                Err(EngineError::internal(message))
            }
        };
        self.machine.finished(message_id, result)
    }

    fn attached(
        &mut self,
        result: Result<Result<Attached, EngineError>, JoinError>,
    ) -> Batch<Reply> {
        self.pending_attach = None;
        let playback = self.replay.as_mut();
        if let (Some(playback), Ok(Ok(attached))) = (
            playback.and_then(|replay| replay.playback.as_mut()),
            &result,
        ) && let Some(own) = &attached.answer
        {
            playback.note(own);
        }
        let result = match result {
            Ok(Err(error)) if error.code == EngineError::cancelled().code => {
                Err(Refusal::Cancelled)
            }
            Ok(Ok(mut attached)) => {
                self.journal.way = attached.way;
                self.with_title_of(&mut attached);
                Ok(attached)
            }
            Ok(Err(error)) => Err(Refusal::Engine(error)),
            Err(error) if error.is_cancelled() => Err(Refusal::Cancelled),
            Err(error) => {
                tracing::error!(session = %self.id, %error, "the engine panicked");
                let message = "the engine failed unexpectedly";
                Err(Refusal::Engine(EngineError::internal(message)))
            }
        };
        self.machine.attached(result)
    }

    fn replayed(&mut self, result: Result<ReplayOutcome, JoinError>) -> Batch<Reply> {
        let result = match (result, &mut self.replay) {
            (Ok(played), Some(replay)) => {
                replay.task = None;
                replay.playback = Some(played.playback);
                if let Some((log, scan, config)) = played.opened {
                    self.install_log(log, scan, config);
                }
                played.result
            }
            (Ok(_), None) => Ok(()),
            (Err(error), replay) => {
                tracing::error!(session = %self.id, %error, "the replay panicked");
                if let Some(replay) = replay {
                    replay.task = None;
                }
                Err(Refusal::Storage(
                    "the replay failed unexpectedly".to_owned(),
                ))
            }
        };
        self.machine.replayed(result, self.session.is_some())
    }

    /// Performs batches until the machine wants nothing more.
    async fn perform(&mut self, mut batch: Batch<Reply>) {
        loop {
            let mut effects = batch.into_iter();
            let mut refusal = None;
            for effect in effects.by_ref() {
                if let Err(reason) = self.effect(effect).await {
                    refusal = Some(reason);
                    break;
                }
            }
            self.answered.clear();
            if self.turns.is_empty() {
                self.prompted = None;
            }
            batch = match refusal {
                None => match self.machine.advance() {
                    Some(batch) => batch,
                    None => return,
                },
                Some(refusal) => {
                    for effect in effects {
                        if let Effect::Answer(reply, _) | Effect::Call { reply, .. } = effect {
                            self.answer(reply, Err(refusal.clone())).await;
                        }
                    }
                    self.machine.failed(refusal)
                }
            };
        }
    }
}
