//! The task of a session of one connection: it has the front of that connection's client, and the owner
//! of the session, which is closed unless the session is open here. It passes events to the machine,
//! one at a time, and performs the effects.

mod perform;
mod other_owner;

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinError;

use crate::engine::{AttachOutcome, CloseReason, EngineError, EngineEvent, Upstream};
use crate::sys::SessionId;
use crate::transport::FlowPermit;
use crate::transport::message::notification_line;

use super::command::{Command, Mailbox, UnreadEnds};
use super::effect::{Batch, Effect};
use super::front::follow::FrontEvent;
use super::front::load::{LoadEvent, ReplayOutcome};
use super::front::playback::Playback;
use super::front::{Front, Outgoing};
use super::link::feed::{FromOwner, LinkCommand};
use super::machine::Machine;
use super::outcome::{Done, Refusal};
use super::owner::engine_events::{FromEngine, TurnOutcome};
use super::owner::open_session::LogAccess;
use super::owner::questions::{OwnerEvent, ServedCall};
use super::owner::{Attaching, EngineDoes, Owner, panicked};
use super::phase::Phase;
use super::reply::{Busy, Reply};
use super::request::{Leaving, Request};
use super::{Client, Deps};
use other_owner::{OtherOwner, OtherOwnerEvent};

/// A session of a connection.
pub(super) struct SessionTask {
    deps: Arc<Deps>,
    machine: Machine<Reply>,
    owner: Owner,
    front: Front,
    /// The owner in another task, if the session is open there.
    other: OtherOwner,
    mail: Inbox,
    /// The results of what the engine and the clients do for the owner.
    owner_events: mpsc::UnboundedReceiver<OwnerEvent>,
    /// What comes from owners, with the number of the link.
    front_events: mpsc::UnboundedReceiver<(u64, FromOwner)>,
}

/// The messages to a task.
struct Inbox {
    mailbox: Mailbox,
    /// Where the mailbox gets its messages.
    messages: mpsc::WeakUnboundedSender<Command>,
    /// What ends the running turns, and was not read yet.
    ends: UnreadEnds,
    /// Notified when the requests before them have begun.
    barriers: Vec<oneshot::Sender<()>>,
    /// What counts in the connection's flow while requests wait: notifications may be among them, which
    /// nothing else counts.
    waiting: Vec<FlowPermit>,
}

/// Both ends of a task's mailbox.
type Messages = (mpsc::WeakUnboundedSender<Command>, Mailbox);

enum Event {
    Command(Command),
    Owner(OwnerEvent),
    FromOwner(u64, FromOwner),
    Engine(EngineDoes),
    Front(FrontEvent),
    OtherOwner(Box<OtherOwnerEvent>),
}

impl SessionTask {
    pub(super) fn new(
        id: SessionId,
        deps: Arc<Deps>,
        client: Arc<Client>,
        replays: Busy,
        ((messages, mailbox), ends): (Messages, UnreadEnds),
    ) -> Self {
        let (results, owner_events) = mpsc::unbounded_channel();
        let (from_owners, front_events) = mpsc::unbounded_channel();
        let machine = Machine::new(deps.engine.wraps_agent());
        let (own_deps, own_client) = (deps.clone(), client.clone());
        let owner = Owner::new(
            id.clone(),
            own_deps,
            own_client,
            results,
            from_owners.clone(),
        );
        let front = Front::new(id, deps.clone(), client, replays, from_owners.clone());
        Self {
            deps,
            machine,
            owner,
            front,
            other: OtherOwner::new(from_owners),
            mail: Inbox {
                mailbox,
                messages,
                ends,
                barriers: Vec::new(),
                waiting: Vec::new(),
            },
            owner_events,
            front_events,
        }
    }

    /// Serves the session until nothing is open and no request waits. `retire` says whether the
    /// task may end, which it may not if something has come in meanwhile.
    pub(super) async fn run(mut self, retire: impl Fn(&mut Mailbox) -> bool + Send) {
        loop {
            let Some(event) = self.event().await else {
                self.release(CloseReason::Closed);
                return self.owner.publish(&self.mail.messages);
            };
            let batch = Box::pin(self.handle(event)).await;
            self.perform(batch).await;
            self.settle().await;
            if self.is_over() && retire(&mut self.mail.mailbox) {
                return;
            }
        }
    }

    /// The next event; none when nobody can send messages any longer.
    async fn event(&mut self) -> Option<Event> {
        let is_running = self.owner.runs_elsewhere();
        let is_settled = self.machine.is_settled();
        let is_being_created = self.machine.is_being_created();
        // A client learns that its answer was taken before the engine gets it. The engine comes last, since
        // it may always have more.
        let event = tokio::select! {
            biased;
            Some((number, event)) = self.front_events.recv() => Event::FromOwner(number, event),
            Some(event) = self.owner_events.recv() => Event::Owner(event),
            command = self.mail.mailbox.recv() => Event::Command(command?),
            event = self.other.event(&self.deps.library.owners, is_settled) => {
                Event::OtherOwner(Box::new(event))
            }
            event = self.front.event(is_running) => Event::Front(event),
            does = self.owner.engine(is_being_created) => Event::Engine(does),
        };
        Some(event)
    }

    async fn handle(&mut self, event: Event) -> Batch<Reply> {
        match event {
            Event::Command(command) => {
                self.mail.ends.read(&command);
                self.accept(command).await
            }
            Event::Owner(OwnerEvent::ClientAnswer(answer)) => {
                let response = self.owner.questions.answered(answer);
                self.machine.answered(response)
            }
            Event::Owner(OwnerEvent::Called(served)) => self.called(served),
            Event::FromOwner(number, event) => self.handle_other(number, event).await,
            Event::Engine(EngineDoes::Attached(result)) => self.attached(*result),
            Event::Engine(EngineDoes::Event(FromEngine::Event(event))) => {
                self.engine_event(event).await
            }
            Event::Engine(EngineDoes::Event(FromEngine::TurnEnded(id, result))) => {
                self.turn_ended(&id, result)
            }
            Event::Front(FrontEvent::Load(LoadEvent::Replayed(outcome))) => self.replayed(*outcome),
            Event::Front(FrontEvent::Load(LoadEvent::CaughtUp(result))) => self.caught_up(result),
            Event::Front(FrontEvent::Followed { grown }) => {
                self.delivery().follow(grown).await;
                Vec::new()
            }
            Event::Front(FrontEvent::Read) => {
                self.front.has_read();
                Vec::new()
            }
            Event::OtherOwner(event) => match *event {
                OtherOwnerEvent::Searched(searched) => self.searched(searched).await,
                OtherOwnerEvent::OwnerAnswers => {
                    self.owner_answers().await;
                    Vec::new()
                }
            },
        }
    }

    /// After an event: what has changed is made known. A session that no client has open is closed, unless
    /// a turn runs.
    async fn settle(&mut self) {
        self.front.update_following(self.owner.session.as_ref());
        if !self.machine.has_waiting_requests() {
            self.mail.waiting.clear();
        }
        self.owner.publish(&self.mail.messages);
        if !self.machine.is_being_created() {
            self.owner.admit_fronts();
        }
        if !self.owner.is_wanted() && self.machine.is_settled() {
            let batch = self.machine.request(Request::Close(Reply::silent()));
            self.perform(batch).await;
            self.owner.publish(&self.mail.messages);
        }
        self.inform();
        // An agent may take its time; its new sessions are in no list before their first prompt.
        let creating = self.owner.is_attaching() && !self.deps.engine.wraps_agent();
        if !self.machine.has_waiting_requests() && !creating && !self.other.holds_requests() {
            for barrier in self.mail.barriers.drain(..) {
                barrier.send(()).ok();
            }
        }
    }

    /// Front and machine learn what they have to know of the owner, here or in another task.
    fn inform(&mut self) {
        self.machine.pass_on(self.other.link().is_some());
        self.front.held.is_loading = self.machine.load_under_way().is_some();
        self.front.held.is_attaching = self.machine.attaching().is_some();
        let fronts = &self.owner.fronts;
        let (is_shared, is_closed) = (fronts.any(), fronts.is_detached);
        self.front.screen.set_audience(is_shared, is_closed);
    }

    /// Whether nothing is open, and nobody waits for anything.
    fn is_over(&self) -> bool {
        self.machine.is_over() && !self.other.is_busy() && !self.front.is_busy()
    }

    /// Handles a message, or keeps it until it is known who owns the session.
    async fn accept(&mut self, command: Command) -> Batch<Reply> {
        let command = match self.other.hold(command) {
            Ok(command) => command,
            Err(batch) => return batch,
        };
        if self.other.holds_requests() {
            return self.command(command);
        }
        if self.may_open(&command) {
            self.follow_tool().await;
        }
        if let Some(store) = self.waits_for_release(&command) {
            self.wait_for_release(store, command);
        } else if self.other.needs_owner(&command) {
            self.search_for(command);
        } else if self.owner.session.is_none()
            && matches!(command, Command::Request(Request::DeleteForAll(_), _))
        {
            self.delete_at_owner(command);
        } else {
            return self.command(command);
        }
        Vec::new()
    }

    /// Whether a command may open the session.
    fn may_open(&self, command: &Command) -> bool {
        let is_new = match command {
            Command::Request(Request::New(..) | Request::Import { .. }, _)
            | Command::Fork(..)
            | Command::Link(..)
            | Command::Detach
            | Command::Stop(..)
            | Command::Barrier(_)
            | Command::Taken(_) => true,
            Command::Request(..) | Command::ReadForFork(..) => false,
        };
        !is_new && self.owner.session.is_none()
    }

    /// Before the session is opened: another tool may have it, or more of it.
    async fn follow_tool(&mut self) {
        let Some(tools) = self.deps.library.tools.clone() else {
            return;
        };
        let id = self.owner.id.clone();
        let followed = tokio::task::spawn_blocking(move || tools.follow(&id));
        if let Err(error) = followed.await {
            tracing::error!(session = %self.owner.id, %error, "a conversation could not be read");
        }
    }

    fn command(&mut self, command: Command) -> Batch<Reply> {
        let request = match command {
            Command::Request(request, held) => {
                self.mail.waiting.push(held);
                request
            }
            Command::Fork(request, source, _held) => {
                self.owner.forks.source = Some(source);
                request
            }
            Command::ReadForFork(reader, _held) => {
                self.owner.forks.readers.push_back(reader);
                Request::ReadForFork
            }
            Command::Link(number, command, _held) => return self.link_command(number, command),
            Command::Detach => {
                self.detach();
                return Vec::new();
            }
            Command::Stop(reply) => return self.stop(reply),
            Command::Barrier(barrier) => {
                self.mail.barriers.push(barrier);
                return Vec::new();
            }
            Command::Taken(taken) => {
                // The one who waits may have given up.
                taken.send(()).ok();
                return Vec::new();
            }
        };
        self.inform_machine();
        self.among_others(request)
    }

    /// Before a request of the client: what the engine, or the owner's engine, does by itself.
    fn inform_machine(&mut self) {
        let is_native = self
            .other
            .link()
            .map_or_else(|| self.deps.engine.is_native(), |link| link.native);
        let agent = self.deps.engine.upstream();
        self.machine
            .attach_first(agent.is_some_and(Upstream::may_want_sign_in));
        self.machine.let_engine_report(is_native);
        self.front.screen.view.set_native(is_native);
        self.machine.pass_on(self.other.link().is_some());
    }

    async fn engine_event(&mut self, event: EngineEvent) -> Batch<Reply> {
        match event {
            EngineEvent::Block(block) => match self.owner.engine_sends(block) {
                Some(block) => self.machine.update(block),
                None => Vec::new(),
            },
            EngineEvent::Ask(question) => match self.owner.engine_asks(question) {
                Some(request) => self.machine.ask(request),
                None => Vec::new(),
            },
            EngineEvent::State(params) => self.machine.state(params),
            // The ends of turns are awaited and handled elsewhere.
            EngineEvent::Ends { .. } => Vec::new(),
            EngineEvent::Notify {
                method,
                params,
                session,
            } => {
                let params = self.owner.fronts.with_client_id(params, session);
                self.owner.fronts.notify(&method, &params).await;
                let line = notification_line(&method, &params);
                if self.front.screen.is_behind {
                    self.delivery().give(Outgoing::Line(line)).await;
                } else {
                    self.front.screen.put(line.as_bytes(), None).await;
                }
                Vec::new()
            }
        }
    }

    fn called(&mut self, served: ServedCall) -> Batch<Reply> {
        let result = served.result.map(|mut called| {
            if served.reply.is_of_link() {
                // The client of this task did not ask for it.
                for entry in std::mem::take(&mut called.info).iter() {
                    called.updates.push_entry(entry);
                }
                return called;
            }
            let (mode, view) = (served.mode.as_deref(), &mut self.front.screen.view);
            called.result = view.call_result(&served.method, mode, called.result);
            called
        });
        self.machine.called(served.reply, result)
    }

    fn turn_ended(
        &mut self,
        message_id: &str,
        result: Result<TurnOutcome, JoinError>,
    ) -> Batch<Reply> {
        let has_panicked = result.as_ref().is_err_and(|error| !error.is_cancelled());
        self.owner.turn_ended(message_id, has_panicked);
        let result = match result {
            Ok(result) => result,
            // Only the end of the program cancels the task. Nothing more is written: as after a
            // crash, the next process that opens the log finds the turn open and closes it.
            Err(error) if error.is_cancelled() => return Vec::new(),
            Err(error) => Err(panicked(&self.owner.id, &error)),
        };
        self.machine.finished(message_id, result)
    }

    /// The engine has attached, or has failed to.
    fn attached(&mut self, result: Attaching) -> Batch<Reply> {
        let result = match result {
            Ok(Err(error)) if error.code == EngineError::cancelled().code => {
                Err(Refusal::Cancelled)
            }
            Ok(Ok(attached)) => Ok(self.note_attached(attached)),
            Ok(Err(error)) => Err(Refusal::Engine(error)),
            Err(error) if error.is_cancelled() => Err(Refusal::Cancelled),
            Err(error) => {
                tracing::error!(session = %self.owner.id, %error, "the engine panicked");
                let message = "the engine failed unexpectedly";
                Err(Refusal::Engine(EngineError::internal(message)))
            }
        };
        self.machine.attached(result)
    }

    fn note_attached(&mut self, mut attached: AttachOutcome) -> AttachOutcome {
        if let Some(own) = &attached.answer {
            self.front.load.read_settings(own);
        }
        self.owner.trace.way = attached.way;
        if let Some(session) = &self.owner.session {
            session.restore_title(&mut attached);
        }
        attached
    }

    /// The replay's thread has ended.
    fn replayed(&mut self, outcome: Result<ReplayOutcome, JoinError>) -> Batch<Reply> {
        let (opened, result) = self.front.replayed(outcome);
        if let Some((opened, config)) = opened {
            self.owner.install(opened, config);
            self.delivery().log_opened();
        }
        self.machine.replayed(result, self.owner.session.is_some())
    }

    /// The end of a load has been sent, or cannot be.
    fn caught_up(&mut self, result: Result<Box<Playback>, Refusal>) -> Batch<Reply> {
        let playback = match result {
            Ok(playback) => playback,
            Err(refusal) => {
                self.front.abandon_load();
                return self.machine.caught_up(Err(refusal));
            }
        };
        self.owner.trace.updates = Some(playback.sent);
        let playback = self.front.caught_up(playback);
        let log = self.owner.session.as_mut().map(|session| &mut session.log);
        if let Some(LogAccess::Shared(elsewhere)) = log {
            elsewhere.running = playback.in_turn;
            self.front.update_following(self.owner.session.as_ref());
            self.front.follow_from(playback);
        }
        self.front.held.is_answering = true;
        self.machine.caught_up(Ok(()))
    }

    /// Closes the session for all its clients, on purpose.
    fn stop(&mut self, reply: Reply) -> Batch<Reply> {
        self.owner.fronts.notify_stopped();
        self.machine.request(Request::Close(reply))
    }

    /// The client has gone. The session stays open for others, and as long as a turn runs.
    fn detach(&mut self) {
        self.owner.fronts.is_detached = true;
        if self.other.link().is_some() {
            self.other.leave();
        }
    }

    /// A message of a front in another task.
    fn link_command(&mut self, number: u64, command: LinkCommand) -> Batch<Reply> {
        match command {
            LinkCommand::Attach(front, admission) => self.owner.fronts.wait(front, admission),
            LinkCommand::Describe(responds) => match &self.owner.session {
                Some(session) => session.describe(responds),
                None => responds.answer(Err(Refusal::NotOpen)),
            },
            LinkCommand::Passed(request) => return self.passed(number, request),
            LinkCommand::Detach => {
                let fronts = &mut self.owner.fronts;
                fronts.remove(number);
                fronts.count(&self.deps.library.owners, &self.owner.id);
            }
        }
        Vec::new()
    }

    /// A request of the client of a front in another task.
    fn passed(&mut self, number: u64, request: Request<Reply>) -> Batch<Reply> {
        let fronts = &mut self.owner.fronts;
        let refusal = if fronts.find(number).is_none() {
            Some(Refusal::NotOpen)
        } else if matches!(request, Request::Delete(_)) && fronts.has_others() {
            Some(self.owner.fronts.in_use_by_others(Some(number)))
        } else {
            None
        };
        if let Some(refusal) = refusal {
            return refuse(request, refusal);
        }
        if let Request::Prompt {
            message_id, due, ..
        } = &request
        {
            self.owner.fronts.prompted(number, message_id, *due);
        }
        self.machine.request_of_other(request)
    }

    /// A request of the client, of which others have the session open, too.
    fn among_others(&mut self, request: Request<Reply>) -> Batch<Reply> {
        let looks_on = self.owner.is_observed();
        if let Some(refusal) = self.owner.fronts.refusal_of(&request, looks_on) {
            return refuse(request, refusal);
        }
        let is_detached = self.owner.fronts.is_detached;
        if let Request::Prompt { message_id, .. } = &request {
            self.own_prompt(message_id);
        }
        match request {
            Request::Status(reply) if is_detached => {
                let (open, phase) = (false, Phase::Idle(None));
                vec![Effect::Answer(reply, Ok(Done::Status { open, phase }))]
            }
            Request::Cancel { .. } | Request::Notify { .. } if looks_on || is_detached => {
                Vec::new()
            }
            Request::Leave(Leaving::Client { .. }) => {
                let others = self.owner.fronts.prompts_of_others();
                let leaving = Leaving::Client { others };
                self.machine.request(Request::Leave(leaving))
            }
            Request::Close(reply) if self.owner.fronts.any() => self.close_among_others(reply),
            // The others are asked, too, and do not know of the cancellation.
            Request::Cancel { .. } if self.owner.fronts.any() => {
                self.machine.request(Request::Cancel { withdraw: true })
            }
            request => {
                if request.opens() {
                    self.owner.fronts.is_detached = false;
                }
                self.machine.request(request)
            }
        }
    }

    /// The client closes the session, which others have open.
    fn close_among_others(&mut self, reply: Reply) -> Batch<Reply> {
        let mut batch = self.cancel_own_turns();
        batch.push(Effect::Answer(reply, Ok(Done::Closed)));
        self.owner.fronts.is_detached = true;
        batch
    }

    /// Remembers that the client has sent a prompt, which it is not shown again.
    fn own_prompt(&mut self, message_id: &str) {
        let is_alone = self.other.link().is_none() && !self.owner.fronts.any();
        let is_first = is_alone && !self.machine.has_prompts();
        self.front.own_prompt(message_id, is_first);
    }

    /// Cancels the turns of the client, which has closed the session.
    fn cancel_own_turns(&mut self) -> Batch<Reply> {
        let fronts = &self.owner.fronts;
        let mut turns = self.owner.turns.iter();
        if turns.any(|turn| fronts.prompted_elsewhere(&turn.message_id).is_none()) {
            self.machine.request(Request::Cancel { withdraw: true })
        } else {
            Vec::new()
        }
    }
}

/// Answers a request that is not served.
fn refuse(request: Request<Reply>, refusal: Refusal) -> Batch<Reply> {
    match request {
        Request::Prompt { reply, .. }
        | Request::Call { reply, .. }
        | Request::MetadataChange(reply, _)
        | Request::Rewind { reply, .. }
        | Request::Delete(reply)
        | Request::DeleteForAll(reply) => vec![Effect::Answer(reply, Err(refusal))],
        _ => Vec::new(),
    }
}
