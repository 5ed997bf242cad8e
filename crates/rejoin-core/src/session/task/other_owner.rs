//! A session that another task has open, in another process or on another connection of this one: the
//! front looks for its owner, passes requests on to it, and takes the session over when the owner is gone.

use std::collections::VecDeque;
use std::future::pending;
use std::mem;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::engine::{AttachReason, PromptEnd, StopReason};
use crate::session::Library;
use crate::session::command::Command;
use crate::session::effect::{Batch, Effect, Work};
use crate::session::front::Outgoing;
use crate::session::link::Owners;
use crate::session::link::feed::{ClientQuestion, FromOwner, FrontEvents, OWN_FRONT, Unanswered};
use crate::session::link::message::{Notified, Passed, Route};
use crate::session::link::to_owner::{Found, Linking, OwnerLink, SILENT, Unlinked};
use crate::session::machine::is_setting;
use crate::session::outcome::{Done, Refusal};
use crate::session::owner::lock::released;
use crate::session::owner::open_session::{LogAccess, OpenSession};
use crate::session::reply::Reply;
use crate::session::request::{AnswerDue, Request};
use crate::store::Store;
use crate::sys::blocking;
use crate::sys::waiter::Waiter;

use super::SessionTask;

/// How long to look for the owner of a session that is locked, if it can be reached at all: it may
/// have just locked it, or be about to end.
const SEARCH: Duration = Duration::from_secs(2);
/// How long to wait before an owner that was not found is looked for again.
const AGAIN: Duration = Duration::from_secs(1);

/// The owner in another task, as far as it is known.
pub(super) struct OtherOwner {
    link: Option<OwnerLink>,
    /// Where the front gets what owners send.
    events: FrontEvents,
    search: Option<OwnerSearch>,
    /// The owner, if it cannot be reached yet.
    awaited: Option<UnlinkedOwner>,
    /// The requests that the owner will not answer.
    unanswered: Vec<Unanswered>,
    /// How many requests were passed on and are not answered yet.
    passing: usize,
    /// Whether the client is gone, so that the session is not taken over.
    has_left: bool,
    /// Whether the session was stopped on purpose, so that it is not taken over before the client
    /// requests something.
    rests: bool,
    /// Messages that wait until it is known who owns the session, or until a process that is ending has
    /// released it.
    waiting: VecDeque<Command>,
    /// What has come from the owner before the end of the search that has found it.
    early: VecDeque<(u64, FromOwner)>,
}

/// A search for the owner, on a task of its own.
struct OwnerSearch {
    task: JoinHandle<Found>,
    /// Ends it early.
    hurry: CancellationToken,
    until: Instant,
    then: Then,
}

/// What follows a search.
#[derive(Clone, Copy, Debug)]
enum Then {
    /// The engine attaches, or the owner says how the session is.
    Attach(AttachReason),
    /// What has waited is served.
    Serve,
    /// What has waited is served, in the order in which it came: a process that is ending has released
    /// the session.
    Open,
}

/// The result of a search.
pub(super) struct Searched {
    found: Found,
    until: Instant,
    then: Then,
}

/// Something that concerns the owner in another task.
pub(super) enum OtherOwnerEvent {
    /// A search has ended.
    Searched(Searched),
    /// An owner that gave no answer gives one again, or has ended, or it is time to look for one that
    /// was not found.
    OwnerAnswers,
}

/// An owner that cannot be reached: until it can, the session is read-only here.
enum UnlinkedOwner {
    /// The process with this socket gives no answer.
    Silent(String),
    /// The owner was not found. At this time it is looked for again.
    NotFound(Instant),
}

impl Drop for OwnerSearch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl OtherOwner {
    pub(super) fn new(events: FrontEvents) -> Self {
        Self {
            link: None,
            events,
            search: None,
            awaited: None,
            unanswered: Vec::new(),
            passing: 0,
            has_left: false,
            rests: false,
            waiting: VecDeque::new(),
            early: VecDeque::new(),
        }
    }

    /// The link to the owner.
    pub(super) fn link(&self) -> Option<&OwnerLink> {
        self.link.as_ref()
    }

    /// Whether this is the number of the link.
    fn is_current(&self, number: u64) -> bool {
        let link = self.link.as_ref();
        link.is_some_and(|link| link.number == number)
    }

    /// Whether the task must go on for the sake of requests.
    pub(super) fn is_busy(&self) -> bool {
        self.passing > 0 || !self.waiting.is_empty() || self.search.is_some()
    }

    /// Whether requests wait until it is known who owns the session, or until it is released.
    pub(super) fn holds_requests(&self) -> bool {
        let search = self.search.as_ref();
        search.is_some_and(|search| !matches!(search.then, Then::Attach(_)))
    }

    /// Keeps a message that comes while it is not known who owns the session, or while it is released.
    /// Returns one that is served at once. Otherwise, the effects are the answer to a prompt that waits
    /// here and is withdrawn.
    pub(super) fn hold(&mut self, command: Command) -> Result<Command, Batch<Reply>> {
        let Some(search) = self.search.as_ref().filter(|_| self.holds_requests()) else {
            return Ok(command);
        };
        let waits_for_all = matches!(search.then, Then::Open);
        if command.hurries()
            && !matches!(
                command,
                Command::Request(Request::Cancel { .. } | Request::WithdrawPrompt(_), _)
            )
        {
            search.hurry.cancel();
        }
        let waits = match &command {
            Command::Request(Request::WithdrawPrompt(id), _) => {
                if let Some(reply) = self.take_waiting_prompt(id) {
                    return Err(vec![Effect::Answer(reply, Err(Refusal::Cancelled))]);
                }
                false
            }
            Command::Link(..) | Command::Taken(_) => false,
            _ if waits_for_all => true,
            Command::Request(Request::Cancel { .. } | Request::Leave(_), _) => {
                let is_prompt =
                    |c: &Command| matches!(c, Command::Request(Request::Prompt { .. }, _));
                self.waiting.iter().any(is_prompt)
            }
            Command::Request(Request::Status(_), _)
            | Command::ReadForFork(..)
            | Command::Detach => false,
            _ => true,
        };
        if !waits {
            return Ok(command);
        }
        self.waiting.push_back(command);
        Err(Vec::new())
    }

    /// Takes a prompt out that waits here. Returns its reply.
    fn take_waiting_prompt(&mut self, id: &str) -> Option<Reply> {
        let is_it = |command: &Command| matches!(command, Command::Request(Request::Prompt { message_id, .. }, _) if message_id == id);
        let at = self.waiting.iter().position(is_it)?;
        match self.waiting.remove(at) {
            Some(Command::Request(Request::Prompt { reply, .. }, _)) => Some(reply),
            _ => None,
        }
    }

    /// Whether a request is to look for the owner first: the session was stopped on purpose, or the owner
    /// was not found.
    pub(super) fn needs_owner(&mut self, command: &Command) -> bool {
        let needs = matches!(
            command,
            Command::Request(
                Request::Prompt { .. }
                    | Request::Call { .. }
                    | Request::MetadataChange(..)
                    | Request::Rewind { .. },
                _
            )
        );
        let is_sought = matches!(self.awaited, Some(UnlinkedOwner::NotFound(_)));
        needs && (mem::take(&mut self.rests) || is_sought)
    }

    /// Waits for the result of a search, or until it is time to look again for an owner that could not
    /// be reached. Not while a request opens the session.
    pub(super) async fn event(&mut self, owners: &Owners, is_settled: bool) -> OtherOwnerEvent {
        if let Some(search) = &mut self.search {
            let found = (&mut search.task).await;
            let found = found.unwrap_or(Found::Unlinked(Unlinked::NotOwner));
            let (until, then) = (search.until, search.then);
            self.search = None;
            return OtherOwnerEvent::Searched(Searched { found, until, then });
        }
        match &self.awaited {
            Some(UnlinkedOwner::Silent(socket)) if is_settled => owners.not_silent(socket).await,
            Some(UnlinkedOwner::NotFound(again)) if is_settled => sleep_until(*again).await,
            _ => pending().await,
        }
        OtherOwnerEvent::OwnerAnswers
    }

    /// The client has opened the session again, and only looks on from now on, or no longer does.
    pub(super) fn looks_on(&mut self, observes: bool) {
        self.link.take_if(|link| link.observes != observes);
    }

    /// The client is gone: the owner goes on with what it was asked. Requests are answered when the
    /// link has ended.
    pub(super) fn leave(&mut self) {
        self.has_left = true;
        self.link = None;
    }

    /// Has the owner serve a request.
    pub(super) async fn pass(&mut self, route: Route<Reply>) {
        match (route, &mut self.link) {
            (Route::Pass(reply, passed), link) => {
                self.passing += 1;
                if let Some(link) = link {
                    link.pass(reply, passed);
                } else {
                    let unanswered = FromOwner::Unanswered(Unanswered {
                        reply,
                        passed,
                        is_cancelled: false,
                    });
                    self.events.send((OWN_FRONT, unanswered)).ok();
                }
            }
            (_, None) | (Route::Here(_), _) => {}
            (Route::Leave, _) => self.leave(),
            (Route::Notify(Notified::Cancel), Some(link)) => {
                link.cancel();
                for unanswered in &mut self.unanswered {
                    unanswered.is_cancelled = true;
                }
            }
            (Route::Notify(notified), Some(link)) => link.notify(notified).await,
        }
    }

    /// The owner was not found: it is looked for again later. A process that has a session of a database is
    /// never reached.
    fn not_found(&mut self, library: &Library) {
        let waits = library.store.as_ref().is_some_and(Store::waits);
        let again = (!waits).then(|| Instant::now() + AGAIN);
        self.awaited = again.map(UnlinkedOwner::NotFound);
    }

    /// Has something end early: a search, if the engine was to attach after it.
    pub(super) fn cancel(&self, work: &Work) {
        if let (Work::Attach, Some(search)) = (work, &self.search)
            && matches!(search.then, Then::Attach(_))
        {
            search.hurry.cancel();
        }
    }
}

impl SessionTask {
    /// A front that looks for the owner of its session.
    fn linking(&self) -> Linking {
        Linking {
            id: self.owner.id.clone(),
            deps: self.deps.clone(),
            client: self.front.client.clone(),
            client_id: self.front.screen.client_id.clone(),
            observes: self.owner.is_observed(),
            events: self.other.events.clone(),
        }
    }

    /// Looks for the owner of a session that another task has open, until that time.
    fn search(&mut self, until: Instant, then: Then) {
        self.other.awaited = None;
        self.other.early.clear();
        let holder = self.owner.elsewhere();
        let holder = holder.and_then(|elsewhere| elsewhere.holder.clone());
        let search = self.linking().find(holder, until);
        self.spawn_search(search, until, then);
    }

    fn spawn_search(
        &mut self,
        search: impl Future<Output = Found> + Send + 'static,
        until: Instant,
        then: Then,
    ) {
        let hurry = match self.machine.attaching() {
            Some(reply) => reply.cancellation().child_token(),
            None => CancellationToken::new(),
        };
        let hurried = hurry.clone();
        let waiter = Waiter::current().unwrap_or_default();
        let task = tokio::spawn(waiter.scope(async move {
            tokio::select! {
                found = search => found,
                () = hurried.cancelled() => Found::Unlinked(Unlinked::NotOwner),
            }
        }));
        self.other.search = Some(OwnerSearch {
            task,
            hurry,
            until,
            then,
        });
    }

    /// Before the engine attaches to a session that another task has: finds the owner, or checks that it
    /// is alive.
    pub(super) fn search_to_attach(&mut self, how: AttachReason) {
        let (until, then) = (Instant::now() + SEARCH, Then::Attach(how));
        let Some(link) = &self.other.link else {
            return self.search(until, then);
        };
        let socket = link.socket().map(str::to_owned);
        let alive = link.alive();
        let check = async move {
            match (alive.await, socket) {
                (false, Some(socket)) => Found::Unlinked(Unlinked::Silent(socket)),
                _ => Found::Alive,
            }
        };
        self.spawn_search(check, until, then);
    }

    /// The store, if a request locks the log, which a process that is ending still has locked.
    pub(super) fn waits_for_release(&self, command: &Command) -> Option<Store> {
        let Command::Request(request, _) = command else {
            return None;
        };
        let store = self.deps.library.store.as_ref()?;
        let session = self.owner.session.as_ref();
        let is_locked = session.is_some_and(|session| !session.is_unlocked());
        let locks = match request {
            Request::Delete(_) | Request::DeleteForAll(_) => !is_locked,
            request if request.opens() => !is_locked,
            Request::Prompt { .. } | Request::MetadataChange(..) | Request::Rewind { .. } => {
                session.is_some() && !is_locked && self.other.link.is_none()
            }
            _ => false,
        };
        let waits = locks && blocking(|| store.is_being_released(&self.owner.id));
        waits.then(|| store.clone())
    }

    /// Keeps a request until a process that is ending has released the session.
    pub(super) fn wait_for_release(&mut self, store: Store, command: Command) {
        self.other.waiting.push_back(command);
        let released = released(store, self.owner.id.clone());
        let released = async {
            released.await;
            Found::Alive
        };
        self.spawn_search(released, Instant::now(), Then::Open);
    }

    /// Before a request that needs the owner: looks for it. The request waits for that.
    pub(super) fn search_for(&mut self, command: Command) {
        self.other.waiting.push_back(command);
        self.search_to_serve(SEARCH);
    }

    /// Looks for the owner, and then serves what has waited.
    fn search_to_serve(&mut self, within: Duration) {
        let until = Instant::now() + within;
        if self.owner.elsewhere().is_some() && self.other.link.is_none() && !self.other.has_left {
            return self.search(until, Then::Serve);
        }
        self.other.awaited = None;
        self.spawn_search(async { Found::Alive }, until, Then::Serve);
    }

    /// Before a session that is not open here is deleted for all clients: the task that has it does that.
    pub(super) fn delete_at_owner(&mut self, command: Command) {
        self.other.waiting.push_back(command);
        let linking = self.linking();
        let delete = async move {
            linking.delete_at_owner().await;
            Found::Alive
        };
        self.spawn_search(delete, Instant::now(), Then::Serve);
    }

    /// The search for the owner of the session has ended, with or without a result.
    pub(super) async fn searched(&mut self, searched: Searched) -> Batch<Reply> {
        let Searched { found, until, then } = searched;
        match found {
            Found::Linked(_) if self.other.has_left => {}
            Found::Linked(link) => {
                self.other.link = Some(link);
            }
            Found::Alive | Found::Unlinked(Unlinked::Unreachable) => {}
            Found::Unlinked(Unlinked::Silent(socket)) => {
                self.other.link = None;
                self.await_owner(socket);
            }
            Found::Unlinked(Unlinked::NotOwner) => self.other.not_found(&self.deps.library),
            Found::Free => {
                // The claim fails if another process is faster.
                if self.owner.elsewhere().is_some() && self.delivery().claim().await.is_err() {
                    if Instant::now() < until {
                        self.search(until, then);
                        return Vec::new();
                    }
                    self.other.not_found(&self.deps.library);
                }
            }
        }
        for (number, event) in mem::take(&mut self.other.early) {
            let batch = Box::pin(self.handle_other(number, event)).await;
            self.perform(batch).await;
        }
        match then {
            Then::Attach(how) => {
                self.attach_engine(how);
                Vec::new()
            }
            Then::Serve | Then::Open => self.serve_waiting().await,
        }
    }

    /// Serves what has waited for a search.
    async fn serve_waiting(&mut self) -> Batch<Reply> {
        self.answer_unanswered().await;
        let mut waiting = mem::take(&mut self.other.waiting);
        if let Some(command) = waiting.pop_front() {
            // The owner was looked for, or has released the session.
            let batch = self.command(command);
            self.perform(batch).await;
        }
        for command in waiting {
            let batch = Box::pin(self.accept(command)).await;
            self.perform(batch).await;
        }
        Vec::new()
    }

    /// The owner with this socket gives no answer: until it does, the session is read-only here.
    fn await_owner(&mut self, socket: String) {
        let Some(store) = &self.deps.library.store else {
            return;
        };
        tracing::warn!(session = %self.owner.id, socket, "the process that has the session open gives no answer");
        let flow = self.deps.client.flow.process();
        self.deps.library.owners.set_silent(store, &socket, flow);
        self.other.awaited = Some(UnlinkedOwner::Silent(socket));
    }

    /// The owner, which has given no answer for a while, gives one again or has ended. An owner that was
    /// not found may be there by now.
    pub(super) async fn owner_answers(&mut self) {
        self.other.awaited = None;
        let session = self.owner.session.as_ref();
        let is_elsewhere = session.is_some_and(OpenSession::is_unlocked);
        if self.other.link.is_none() && !self.other.rests && is_elsewhere {
            self.succeed_owner(Duration::ZERO).await;
        }
    }

    /// Handles what has come from an owner.
    pub(super) async fn handle_other(&mut self, number: u64, event: FromOwner) -> Batch<Reply> {
        let is_current = self.other.is_current(number);
        if event.ends_request() {
            self.other.passing -= 1;
        } else if self.other.search.is_some() && !is_current && number != OWN_FRONT {
            // The search may have found its owner, and has not ended yet.
            self.other.early.push_back((number, event));
            return Vec::new();
        }
        match event {
            FromOwner::Relayed => self.delivery().question_answered().await,
            FromOwner::Asked(question) if number == OWN_FRONT => {
                self.delivery().give(Outgoing::Ask(question)).await;
            }
            FromOwner::Asked(question) if is_current => self.asked_by_owner(question).await,
            FromOwner::Stopped if is_current => {
                if let Some(link) = &mut self.other.link {
                    link.is_stopped = true;
                }
            }
            FromOwner::Notified { method, params } if is_current => {
                self.deps.client.notify(&method, &params).await;
            }
            FromOwner::Answered {
                reply,
                passed,
                answer,
            } => return self.owner_answered(reply, &passed, answer).await,
            FromOwner::Silent(unanswered) => self.owner_is_silent(unanswered, is_current).await,
            FromOwner::Unanswered(unanswered) => {
                self.other.unanswered.push(unanswered);
                // What the owner has logged comes first, and so does that it is gone.
                if !is_current && self.other.search.is_none() {
                    self.answer_unanswered().await;
                }
            }
            FromOwner::Closed if is_current => self.owner_ended().await,
            FromOwner::Asked(_)
            | FromOwner::Stopped
            | FromOwner::Notified { .. }
            | FromOwner::Closed => {}
        }
        Vec::new()
    }

    /// The owner gives no sign of life, and this request waits for it.
    async fn owner_is_silent(&mut self, unanswered: Unanswered, is_current: bool) {
        self.other.unanswered.push(unanswered);
        let link = self.other.link.take_if(|_| is_current);
        if let Some(socket) = link.and_then(|link| link.socket().map(str::to_owned)) {
            self.await_owner(socket);
        }
        self.answer_unanswered().await;
    }

    /// A request of the owner's engine to the client.
    async fn asked_by_owner(&mut self, mut question: ClientQuestion) {
        question.is_native = self.other.link().is_some_and(|link| link.native);
        if !self.owner.is_observed() {
            self.delivery().give(Outgoing::Ask(question)).await;
        }
    }

    /// The owner has answered a request that was passed on.
    async fn owner_answered(
        &mut self,
        reply: Reply,
        passed: &Passed,
        answer: Result<Done, Refusal>,
    ) -> Batch<Reply> {
        let is_gone = matches!(answer, Ok(Done::Deleted | Done::Archived));
        self.delivery().follow(true).await;
        let answer = match answer {
            Err(Refusal::NotOpen) if !self.deps.library.exists(&self.owner.id) => {
                Err(Refusal::NotFound)
            }
            answer => answer,
        };
        self.answer_passed(reply, answer, passed).await;
        if is_gone {
            self.machine.gone()
        } else {
            Vec::new()
        }
    }

    /// The link to the owner has ended.
    async fn owner_ended(&mut self) {
        let link = self.other.link.take();
        if link.is_some_and(|link| link.is_stopped) {
            self.delivery().follow(true).await;
            self.other.rests = true;
            return self.answer_unanswered().await;
        }
        self.succeed_owner(SEARCH).await;
    }

    /// The owner is gone: another one is found within the time `search`, or this task becomes it.
    async fn succeed_owner(&mut self, search: Duration) {
        self.delivery().follow(true).await;
        // A request that opens the session looks for an owner itself.
        if !self.machine.is_settled() {
            return self.answer_unanswered().await;
        }
        if !self.deps.library.exists(&self.owner.id) {
            let batch = self.machine.gone();
            self.perform(batch).await;
            return self.answer_unanswered().await;
        }
        if self.other.search.is_none() {
            self.search_to_serve(search);
        }
    }

    /// Serves the requests that the owner has not answered, or answers that it has ended.
    async fn answer_unanswered(&mut self) {
        self.machine.pass_on(self.other.link.is_some());
        let mut is_there = None;
        for unanswered in mem::take(&mut self.other.unanswered) {
            let Unanswered {
                reply,
                passed,
                is_cancelled,
            } = unanswered;
            let is_withdrawn = reply.cancellation().is_cancelled();
            if matches!(passed, Passed::Prompt { .. }) && (is_cancelled || is_withdrawn) {
                self.answer_cancelled(reply, passed, is_withdrawn).await;
                continue;
            }
            if self.may_repeat(&passed) || self.is_served() && passed.has_key() {
                if matches!(passed, Passed::Prompt { .. }) {
                    self.machine.passed_prompt_answered();
                }
                // What follows is served after it.
                let served = self.machine.request(passed.request(reply));
                self.perform(served).await;
                continue;
            }
            let is_there =
                *is_there.get_or_insert_with(|| self.deps.library.exists(&self.owner.id));
            let refusal = self.refusal_of_unanswered(is_there);
            self.answer_passed(reply, Err(refusal), &passed).await;
        }
    }

    /// The refusal of a request that the owner will not answer.
    fn refusal_of_unanswered(&self, is_there: bool) -> Refusal {
        if !is_there {
            Refusal::NotFound
        } else if self.owner.session.is_none() {
            Refusal::NotOpen
        } else if self.other.has_left {
            Refusal::ClientLeft
        } else if matches!(self.other.awaited, Some(UnlinkedOwner::Silent(_))) {
            self.silent_owner()
        } else {
            Refusal::OwnerEnded
        }
    }

    /// Answers a prompt that the owner has not answered and the client has cancelled, or withdrawn:
    /// nobody will begin it.
    async fn answer_cancelled(&mut self, reply: Reply, passed: Passed, is_withdrawn: bool) {
        let is_new = self.may_repeat(&passed);
        let answer = match passed {
            Passed::Prompt {
                due: AnswerDue::TurnEnds,
                ..
            } if !(is_withdrawn && is_new) => {
                Ok(Done::Stopped(PromptEnd::Because(StopReason::Cancelled)))
            }
            _ => Err(Refusal::Cancelled),
        };
        if is_new
            && self.other.link.is_none()
            && answer.is_ok()
            && let Passed::Prompt {
                message_id, params, ..
            } = &passed
        {
            // The client has shown it to its user, so it is logged.
            self.machine.passed_prompt_answered();
            let (message_id, params) = (message_id.clone(), params.clone());
            return self.machine.prompt_cancelled(reply, message_id, params);
        }
        self.answer_passed(reply, answer, &passed).await;
    }

    /// The refusal of a request that only the owner can serve, which gives no answer.
    fn silent_owner(&self) -> Refusal {
        let elsewhere = self.owner.elsewhere();
        let holder = elsewhere.and_then(|elsewhere| elsewhere.holder.clone());
        let message = match &holder {
            Some(holder) => format!(
                "process {} on {} has session {} open and gives no answer",
                holder.pid, holder.host, self.owner.fronts.client_id
            ),
            None => SILENT.to_owned(),
        };
        Refusal::InUse { message, holder }
    }

    /// Whether requests that the owner has not answered can be served, here or by the next owner.
    fn is_served(&self) -> bool {
        let session = self.owner.session.as_ref();
        let owns = session.is_some_and(|session| matches!(session.log, LogAccess::Own(_)));
        let is_served = owns || self.other.link.is_some();
        is_served && !self.other.has_left && self.machine.is_settled()
    }

    /// Whether a request that the owner has not answered can be served as if it had not been sent:
    /// nothing of it is in the log, or it only sets something.
    fn may_repeat(&self, passed: &Passed) -> bool {
        if !self.is_served() {
            return false;
        }
        match passed {
            Passed::Prompt { message_id, .. } => {
                let (library, id) = (&self.deps.library, &self.owner.id);
                !library.may_have_logged(id, message_id)
            }
            Passed::Call { method, .. } => is_setting(method),
            Passed::Metadata(_) | Passed::Rewind { .. } | Passed::Delete | Passed::DeleteForAll => {
                false
            }
        }
    }

    async fn answer_passed(
        &mut self,
        reply: Reply,
        answer: Result<Done, Refusal>,
        passed: &Passed,
    ) {
        if matches!(passed, Passed::Prompt { .. }) {
            self.machine.passed_prompt_answered();
        }
        self.delivery().answer(reply, answer).await;
        self.front.settle(true);
    }
}
