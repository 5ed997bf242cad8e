//! Runs one session: passes events to its machine, one at a time, and performs the effects.

mod client_requests;
mod close;
mod engine_events;
mod follow;
mod fork;
mod front;
mod front_events;
mod links;
mod lock;
mod metadata;
mod notify;
mod open;
mod own_front;
mod perform;
mod replay;
mod trace;

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinError, JoinHandle};
use tokio::time::sleep_until;
use tokio_util::sync::CancellationToken;

use crate::engine::{AttachOutcome, Called, CloseReason, EngineError, EngineEvent, Upstream};
use crate::protocol::ClientView;
use crate::store::Store;
use crate::sys::SessionId;
use crate::transport::FlowPermit;
use crate::transport::message::notification_line;

use super::effect::{Batch, Effect};
use super::link::message::Route;
use super::machine::Machine;
use super::open_session::OpenSession;
use super::outcome::{Done, Refusal};
use super::registry::{Command, ForkReader, ForkSource, Mailbox, UnreadEnds};
use super::reply::{Busy, BusyGuard, Reply};
use super::request::Request;
use super::{Client, Deps};
use client_requests::{ClientAnswer, ClientRequests};
use engine_events::{FromEngine, RunningTurn, TurnOutcome, panicked};
use follow::Following;
use front::{Front, FrontEvent, Lost, OwnPrompts, SEARCH, UnlinkedOwner};
use links::Links;
use own_front::{OfOwner, OwnFront};
use replay::{ReplayOutcome, RunningReplay};
use trace::Trace;

/// One session of one connection.
pub(super) struct Actor {
    id: SessionId,
    /// The id by which the client asked for it last, which is the one it gets.
    name: String,
    deps: Arc<Deps>,
    client: Arc<Client>,
    machine: Machine<Reply>,
    /// Log and engine, while the session is open.
    session: Option<OpenSession>,
    /// The engine at work, on one prompt or on several.
    turns: Vec<RunningTurn>,
    replay: Option<RunningReplay>,
    attach: Option<RunningAttach>,
    /// If another process has the session open.
    following: Option<Following>,
    /// The link to that process.
    front: Option<Front>,
    /// How many links to owners there were.
    fronts: u64,
    /// The prompts that the client has sent, as long as it may be shown them again.
    own_prompts: OwnPrompts,
    /// The owner, if it cannot be reached yet.
    awaited: Option<UnlinkedOwner>,
    /// The requests that the owner will not answer.
    lost: Vec<Lost>,
    /// How many requests were passed on and are not answered yet.
    passing: usize,
    /// Whether the client is gone, so that the session is not taken over.
    left: bool,
    /// Whether the session was stopped on purpose, so that it is not taken over before the client
    /// requests something.
    rests: bool,
    /// The other clients, if this actor has the session open.
    links: Links,
    /// The actor that serves the client in place of this one.
    own_front: Option<OwnFront>,
    /// If this actor serves the client in place of the owner.
    of_owner: Option<OfOwner>,
    replays: Busy,
    /// The requests that were answered by the batch that is being performed.
    answered: Vec<BusyGuard>,
    /// The prompt of the running turn, if it was answered before the turn ends.
    accepted: Option<BusyGuard>,
    /// The lines that are being sent.
    line: Vec<u8>,
    /// How the client sees the session.
    view: ClientView,
    client_requests: ClientRequests,
    /// Where the log goes for the forks that were requested and not served yet.
    fork_readers: VecDeque<ForkReader>,
    /// The log of the session that this one is forked from.
    fork_source: Option<ForkSource>,
    /// For the results of tasks that work for the session.
    results: mpsc::UnboundedSender<TaskResult>,
    finished: mpsc::UnboundedReceiver<TaskResult>,
    /// Notified when the requests before them have begun.
    barriers: Vec<oneshot::Sender<()>>,
    mailbox: Mailbox,
    /// What ends the running turns, and was not read yet.
    ends: UnreadEnds,
    /// What counts in the connection's flow while requests wait: notifications may be among them, which
    /// nothing else counts.
    waiting: Vec<FlowPermit>,
    /// Where the mailbox gets its messages.
    messages: mpsc::WeakUnboundedSender<Command>,
    trace: Trace,
}

/// Both ends of an actor's mailbox.
type Messages = (mpsc::WeakUnboundedSender<Command>, Mailbox);

/// The result of a task that works for a session.
enum TaskResult {
    /// The client has answered a request of the engine.
    ClientAnswer(ClientAnswer),
    /// The engine has served a request of the client.
    Called(ServedCall),
    /// Something has come through the link with this number.
    Front(u64, FrontEvent),
}

/// A request of the client that the engine has served.
struct ServedCall {
    reply: Reply,
    method: String,
    /// The mode that it has set, if the client has set an option.
    mode: Option<String>,
    result: Result<Called, EngineError>,
}

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

enum Event {
    Command(Option<Command>),
    TaskResult(TaskResult),
    Engine(FromEngine),
    Replayed(Box<Result<ReplayOutcome, JoinError>>),
    Attached(Box<Result<Result<AttachOutcome, EngineError>, JoinError>>),
    /// The log that another process writes may have grown, or has not for a while.
    Followed {
        grown: bool,
    },
    /// An owner that gave no answer gives one again, or has ended, or it is time to look for one that
    /// was not found.
    OwnerAnswers,
}

impl Actor {
    pub(super) fn new(
        id: SessionId,
        deps: Arc<Deps>,
        client: Arc<Client>,
        replays: Busy,
        ((messages, mailbox), ends): (Messages, UnreadEnds),
    ) -> Self {
        let machine = Machine::new(deps.engine.wraps_agent());
        let view = client.view.fresh();
        let (results, finished) = mpsc::unbounded_channel();
        Self {
            name: id.to_string(),
            id,
            deps,
            client,
            machine,
            session: None,
            turns: Vec::new(),
            replay: None,
            attach: None,
            following: None,
            front: None,
            fronts: 0,
            own_prompts: OwnPrompts::default(),
            awaited: None,
            lost: Vec::new(),
            passing: 0,
            left: false,
            rests: false,
            links: Links::default(),
            own_front: None,
            of_owner: None,
            replays,
            answered: Vec::new(),
            accepted: None,
            line: Vec::new(),
            view,
            client_requests: ClientRequests::default(),
            fork_readers: VecDeque::new(),
            fork_source: None,
            results,
            finished,
            barriers: Vec::new(),
            mailbox,
            ends,
            waiting: Vec::new(),
            messages,
            trace: Trace::default(),
        }
    }

    /// Serves the session until nothing is open and no request waits. `retire` says whether the
    /// actor may end, which it may not if something has come in meanwhile.
    pub(super) async fn run(mut self, retire: impl Fn(&mut Mailbox) -> bool + Send) {
        loop {
            let batch = match self.event().await {
                Event::Command(None) => {
                    self.release(CloseReason::Closed);
                    return self.update_owner();
                }
                Event::Command(Some(command)) => {
                    self.ends.read(&command);
                    if self.may_open(&command) {
                        self.follow_tool().await;
                    }
                    if self.needs_owner(&command) {
                        let batch = Box::pin(self.succeed_owner(SEARCH)).await;
                        self.perform(batch).await;
                    }
                    if self.session.is_none()
                        && matches!(command, Command::Request(Request::DeleteForAll(_), _))
                    {
                        self.delete_at_owner().await;
                    }
                    let command = self.for_own_front(command);
                    command.map_or_else(Vec::new, |command| self.command(command))
                }
                Event::TaskResult(TaskResult::ClientAnswer(answer)) => self.client_answered(answer),
                Event::TaskResult(TaskResult::Called(served)) => self.called(served),
                Event::TaskResult(TaskResult::Front(number, event)) => {
                    Box::pin(self.front_event(number, event)).await
                }
                Event::Engine(FromEngine::Event(event)) => self.engine_event(event).await,
                Event::Engine(FromEngine::TurnEnded(id, result)) => self.turn_ended(&id, result),
                Event::OwnerAnswers => Box::pin(self.owner_answers()).await,
                Event::Attached(result) => self.attached(*result),
                Event::Replayed(result) => self.replayed(*result),
                Event::Followed { grown } => {
                    self.follow(grown).await;
                    continue;
                }
            };
            self.perform(batch).await;
            self.update_following();
            self.answer_delivered().await;
            if !self.machine.has_waiting_requests() {
                self.waiting.clear();
            }
            self.update_owner();
            self.admit_links();
            let batch = self.close_unless_wanted();
            if !batch.is_empty() {
                self.perform(batch).await;
                self.update_owner();
            }
            // An agent may take its time; its new sessions are in no list before their first prompt.
            let creating = self.attach.is_some() && !self.deps.engine.wraps_agent();
            if !self.machine.has_waiting_requests() && !creating {
                for barrier in self.barriers.drain(..) {
                    barrier.send(()).ok();
                }
            }
            let waits = self.own_front.is_some() || self.passing > 0;
            if !waits && self.machine.is_over() && retire(&mut self.mailbox) {
                return;
            }
        }
    }

    /// Whether a command may open the session.
    fn may_open(&self, command: &Command) -> bool {
        let is_new = match command {
            Command::Request(Request::New(..) | Request::Import { .. }, _)
            | Command::Fork(..)
            | Command::Link(..)
            | Command::Detach
            | Command::Stop(..)
            | Command::Deliver(..)
            | Command::OwnFrontEnded(_)
            | Command::Barrier(_)
            | Command::Taken(_) => true,
            Command::Request(..) | Command::ReadForFork(..) => false,
        };
        !is_new && self.session.is_none()
    }

    /// Before the session is opened: another tool may have it, or more of it.
    async fn follow_tool(&mut self) {
        if self.deps.sources.is_none() {
            return;
        }
        let (deps, id) = (self.deps.clone(), self.id.clone());
        let followed = tokio::task::spawn_blocking(move || deps.follow_tool(&id));
        if let Err(error) = followed.await {
            tracing::error!(session = %self.id, %error, "a conversation could not be read");
        }
    }

    fn command(&mut self, command: Command) -> Batch<Reply> {
        let request = match command {
            Command::Request(request, held) => {
                self.waiting.push(held);
                request
            }
            Command::Fork(request, source, _held) => {
                self.fork_source = Some(source);
                request
            }
            Command::ReadForFork(reader, _held) => {
                self.fork_readers.push_back(reader);
                Request::ReadForFork
            }
            Command::Link(number, command, _held) => return self.link_command(number, command),
            Command::Detach => return self.detach(),
            Command::Stop(reply) => return self.stop(reply),
            Command::Deliver(reply, result) => {
                self.delivered(reply, result);
                return Vec::new();
            }
            Command::OwnFrontEnded(key) => return self.own_front_ended(&key),
            Command::Barrier(barrier) => {
                self.barriers.push(barrier);
                return Vec::new();
            }
            Command::Taken(taken) => {
                // The one who waits may have given up.
                taken.send(()).ok();
                return Vec::new();
            }
        };
        let upstream = self.deps.engine.upstream();
        self.machine
            .attach_first(upstream.is_some_and(Upstream::may_want_sign_in));
        let is_native = match &self.front {
            Some(front) => front.native,
            None => self.deps.engine.is_native(),
        };
        self.machine.let_engine_report(is_native);
        self.view.set_native(is_native);
        self.machine.pass_on(self.front.is_some());
        self.among_others(request)
    }

    async fn event(&mut self) -> Event {
        let (may_follow, is_running) = (self.may_follow(), self.runs_elsewhere());
        let replay = async {
            match self.replay.as_mut().and_then(|replay| replay.task.as_mut()) {
                Some(task) => Event::Replayed(Box::new(task.await)),
                None => std::future::pending().await,
            }
        };
        let attach = async {
            match &mut self.attach {
                Some(attach) => Event::Attached(Box::new((&mut attach.task).await)),
                None => std::future::pending().await,
            }
        };
        let followed = async {
            match &self.following {
                Some(following) if may_follow => Event::Followed {
                    grown: following.due(is_running).await,
                },
                _ => std::future::pending().await,
            }
        };
        let is_settled = self.machine.is_settled();
        let owner = async {
            match &self.awaited {
                Some(awaited) if is_settled => {
                    match awaited {
                        UnlinkedOwner::Silent(socket) => self.deps.owners.not_silent(socket).await,
                        UnlinkedOwner::NotFound(again) => sleep_until(*again).await,
                    }
                    Event::OwnerAnswers
                }
                _ => std::future::pending().await,
            }
        };
        let is_being_created = self.machine.is_being_created();
        let engine = async {
            match &mut self.session {
                Some(session) if is_being_created => {
                    Event::Engine(FromEngine::Event(session.early_request().await))
                }
                Some(session) => match session.early.pop_front() {
                    Some(event) => Event::Engine(FromEngine::Event(event)),
                    None => Event::Engine(
                        engine_events::next(&mut session.events, &mut self.turns).await,
                    ),
                },
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            command = self.mailbox.recv() => Event::Command(command),
            Some(result) = self.finished.recv() => Event::TaskResult(result),
            event = replay => event,
            event = attach => event,
            event = engine => event,
            event = followed => event,
            event = owner => event,
        }
    }

    async fn engine_event(&mut self, event: EngineEvent) -> Batch<Reply> {
        match event {
            EngineEvent::Block(mut block) => {
                let waits = self.deps.store.as_ref().is_some_and(Store::waits);
                if let Some(session) = self.session.as_mut().filter(|_| waits) {
                    engine_events::gather(&mut block, session, &mut self.turns);
                }
                let block = self.with_title(block);
                self.machine.update(block)
            }
            EngineEvent::Ask(question) => self.engine_asks(question),
            EngineEvent::State(params) => self.machine.state(params),
            // It was handled where the ends of turns are awaited.
            EngineEvent::Ends { .. } => Vec::new(),
            EngineEvent::Notify {
                method,
                params,
                session,
            } => {
                let params = self.with_client_id(params, session);
                self.notify_links(&method, &params).await;
                let line = notification_line(&method, &params);
                self.put(line.as_bytes()).await;
                Vec::new()
            }
        }
    }

    fn called(&mut self, served: ServedCall) -> Batch<Reply> {
        let result = served.result.map(|mut called| {
            if served.reply.is_of_link() {
                // This actor's own client did not ask for it.
                for entry in std::mem::take(&mut called.info).iter() {
                    called.updates.push_entry(entry);
                }
                return called;
            }
            let mode = served.mode.as_deref();
            called.result = self.view.call_result(&served.method, mode, called.result);
            called
        });
        self.machine.called(served.reply, result)
    }

    fn turn_ended(
        &mut self,
        message_id: &str,
        result: Result<TurnOutcome, JoinError>,
    ) -> Batch<Reply> {
        if let Some(session) = &self.session {
            session.history.end(message_id);
        }
        self.links.forget(message_id);
        let result = match result {
            Ok(result) => result,
            // Only the end of the program cancels the task. Nothing more is written: as after a
            // crash, the next process that opens the log finds the turn open and closes it.
            Err(error) if error.is_cancelled() => return Vec::new(),
            Err(error) => {
                if let Some(session) = &mut self.session {
                    session.reopen_conversation(&self.id, &self.deps, &self.client);
                }
                Err(panicked(&self.id, &error))
            }
        };
        self.machine.finished(message_id, result)
    }

    /// Performs batches until the machine returns no more.
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
                self.accepted = None;
            }
            self.drop_unwanted_requests();
            batch = match refusal {
                None => match self.machine.advance() {
                    Some(batch) => batch,
                    None => return,
                },
                Some(refusal) => {
                    // What ends the turns waits behind what has failed, and came before its answer.
                    let is_ended = !refusal.is_of_disk() && self.ends.any();
                    if is_ended {
                        self.machine.end_meanwhile();
                    }
                    for effect in effects {
                        self.drop_effect(effect, &refusal, is_ended).await;
                    }
                    self.machine.failed(refusal)
                }
            };
        }
    }

    /// Answers what an effect that is not performed would have answered: with the failure, or as
    /// cancelled if `is_ended`, since the client has cancelled meanwhile.
    async fn drop_effect(&mut self, effect: Effect<Reply>, refusal: &Refusal, is_ended: bool) {
        let reason = if is_ended {
            &Refusal::Cancelled
        } else {
            refusal
        };
        match effect {
            Effect::Answer(reply, Ok(Done::Stopped(ended))) => {
                let result = refusal.of_turn(is_ended || ended.is_cancelled());
                self.answer(reply, result.map(Done::Stopped)).await;
            }
            Effect::Answer(reply, _)
            | Effect::Call { reply, .. }
            | Effect::Pass(Route::Pass(reply, _)) => {
                self.answer(reply, Err(reason.clone())).await;
            }
            Effect::Ask(request) => self.client_requests.respond(&request.id, None),
            Effect::Respond(id, _) => self.client_requests.respond(&id, None),
            _ => {}
        }
    }
}
