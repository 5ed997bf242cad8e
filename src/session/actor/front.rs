//! A session that another process, or another connection of this one, has open: links to its owner,
//! passes requests on, and takes the session over when the owner is gone.

use std::collections::HashSet;
use std::io;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::unconstrained;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::engine::{AttachOutcome, BoxFuture, EngineError, PromptEnd, Question, StopReason};
use crate::protocol::method::REQUEST_PERMISSION;
use crate::protocol::v1;
use crate::replay::FindMessage;
use crate::session::effect::Batch;
use crate::session::link::message::{
    self, ALIVE, ANSWER, ATTACH, Answer, Attach, DESCRIBE, NOTIFY, Notified, PASS, PROTOCOL,
    Passed, Route, STOPPED,
};
use crate::session::machine::is_setting;
use crate::session::open_session::{LogAccess, OpenSession};
use crate::session::outcome::{Done, Refusal};
use crate::session::registry::Command;
use crate::session::reply::Reply;
use crate::session::request::{AnswerDue, Request};
use crate::store::{Holder, StoreError};
use crate::sys::blocking;
use crate::sys::socket::Closer;
use crate::transport::message::request_line;
use crate::transport::{
    ClientConnection, IncomingRequest as Message, MessageForm, OutgoingRequest, connect,
};

use super::own_front::PATIENCE;
use super::{Actor, TaskResult, front_events};

/// How long to look for the owner of a session that is locked, if it can be reached at all: it may
/// have just locked it, or be about to end.
pub(super) const SEARCH: Duration = Duration::from_secs(2);
/// How often.
const STEP: Duration = Duration::from_millis(10);
/// How long to wait before an owner that was not found is looked for again.
const AGAIN: Duration = Duration::from_secs(1);
/// How long a request waits for the owner before it is asked whether it is alive.
const PAUSE: Duration = Duration::from_secs(2);

/// The link to the owner of the session.
pub(super) struct Front {
    /// No earlier link of this actor has it.
    number: u64,
    wire: Arc<ClientConnection>,
    /// The socket of the owner.
    socket: String,
    /// Cancelled when the client cancels the prompts that were passed on so far.
    cancelled: CancellationToken,
    /// Takes the requests that were passed on, until they are answered.
    passed: mpsc::UnboundedSender<front_events::Passing>,
    /// The available commands.
    pub(super) commands: Option<String>,
    /// Whether the owner's engine speaks version 2.
    pub(super) native: bool,
    /// Whether the client is asked nothing.
    observes: bool,
    /// Whether the session was stopped on purpose.
    is_stopped: bool,
    /// Ends the link when it is dropped.
    _closer: Closer,
}

/// Something that comes through the link.
pub(super) enum FrontEvent {
    /// A request of the engine.
    Asked(Message),
    /// A notification of the engine.
    Notified { method: String, params: String },
    /// The owner has answered a request.
    Answered {
        reply: Reply,
        passed: Passed,
        answer: Answer,
    },
    /// The owner will not answer a request.
    Lost(Lost),
    /// The owner gives no sign of life, and this request waits for it.
    Silent(Lost),
    /// The owner is gone.
    Closed,
}

/// A request that the owner has not answered.
pub(super) struct Lost {
    reply: Reply,
    passed: Passed,
    /// Whether the client has cancelled the session's turn meanwhile.
    is_cancelled: bool,
}

/// An owner that cannot be reached: until it can, the session is read-only here.
pub(super) enum UnlinkedOwner {
    /// The process with this socket gives no answer.
    Silent(String),
    /// The owner was not found. At this time it is looked for again.
    NotFound(Instant),
}

/// Why there is no link to the owner of a session.
enum Unlinked {
    /// It cannot be reached from here.
    Unreachable,
    /// The process with this socket gives no answer.
    Silent(String),
    /// It does not have the session any longer, or not yet.
    NotOwner,
}

impl Front {
    /// Asks the owner how the session is now.
    pub(super) fn describe(&self) -> BoxFuture<'static, Result<AttachOutcome, EngineError>> {
        let wire = self.wire.clone();
        Box::pin(async move {
            let ended = || EngineError::internal(Refusal::OwnerEnded.to_string());
            let call = wire.ask_at_once(DESCRIBE, "{}");
            let outcome = tokio::select! {
                outcome = call => outcome.ok_or_else(ended)?,
                () = silence(&wire) => return Err(EngineError::internal(SILENT)),
            };
            let outcome = outcome.map_err(EngineError::internal)?;
            let answer = read::<Option<String>>(&outcome);
            let answer = answer.map_err(|refusal| EngineError::internal(refusal.to_string()))?;
            Ok(AttachOutcome {
                answer,
                ..AttachOutcome::default()
            })
        })
    }
}

impl Actor {
    /// Links to the process that has the session open. If it has ended, locks the session.
    /// An owner that cannot be reached keeps it: the session is read-only here. An owner that is not
    /// found within the time `search` is looked for again later.
    pub(super) async fn find_owner(&mut self, search: Duration) {
        let until = Instant::now() + search;
        self.awaited = None;
        while self.front.is_none() && !self.left {
            let elsewhere = self.session.as_ref().and_then(OpenSession::elsewhere);
            let (Some(elsewhere), Some(store)) = (elsewhere, self.deps.store.clone()) else {
                return;
            };
            // The one that was read may have released it to another one.
            let holder = blocking(|| store.holder(&self.id)).or_else(|| elsewhere.holder.clone());
            let linked = match holder {
                Some(holder) => self.link(&holder).await,
                None => Err(Unlinked::NotOwner),
            };
            match linked {
                Ok(front) => {
                    self.front = Some(front);
                    self.machine.pass_on(true);
                }
                Err(Unlinked::Unreachable) => return,
                Err(Unlinked::Silent(socket)) => return self.await_owner(socket),
                Err(Unlinked::NotOwner) => {
                    let is_open = blocking(|| store.is_open(&self.id));
                    // It fails if another process is faster.
                    if !is_open && self.claim().await.is_ok() {
                        return;
                    }
                    let now = Instant::now();
                    if now >= until {
                        // A process that has a session of a database is never reached.
                        let again = (!store.waits()).then(|| now + AGAIN);
                        self.awaited = again.map(UnlinkedOwner::NotFound);
                        return;
                    }
                    sleep(STEP).await;
                }
            }
        }
    }

    async fn link(&mut self, holder: &Holder) -> Result<Front, Unlinked> {
        let (Some(store), Some(socket)) = (&self.deps.store, holder.local_socket()) else {
            return Err(Unlinked::Unreachable);
        };
        let silent = || Unlinked::Silent(socket.to_owned());
        if self.deps.owners.is_silent(socket) {
            return Err(silent());
        }
        let stream = blocking(|| store.connect(holder)).map_err(|error| match error.kind() {
            io::ErrorKind::Unsupported | io::ErrorKind::PermissionDenied => {
                tracing::debug!(session = %self.id, %error, "the owner cannot be reached");
                Unlinked::Unreachable
            }
            io::ErrorKind::TimedOut => silent(),
            // It has no socket yet, or no longer.
            _ => Unlinked::NotOwner,
        })?;
        let (limit, process) = (self.deps.line_limit, self.deps.wire.flow.process());
        let (wire, incoming) = connect(
            stream.input,
            stream.output,
            limit,
            MessageForm::JsonRpc,
            process,
        )
        .map_err(|error| {
            tracing::warn!(session = %self.id, %error, "cannot link to the owner");
            Unlinked::Unreachable
        })?;
        let attach = Attach {
            protocol: PROTOCOL,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            session_id: self.id.to_string(),
            name: self.name.clone(),
            client: self.client.identity.clone(),
            observe: self.observes(),
            pid: std::process::id(),
            key: self.of_owner.as_ref().map(|own| own.key.clone()),
            abilities: Some(self.client.abilities),
        };
        self.fronts += 1;
        let number = self.fronts;
        let results = self.results.clone();
        let call = wire.ask_at_once(ATTACH, &message::text(&attach));
        let (passed, passing) = mpsc::unbounded_channel();
        let report = move |event| {
            results.send(TaskResult::Front(number, event)).ok();
        };
        let events = front_events::pass_on(incoming, wire.clone(), passing, report);
        // A budget of polls could leave out a response that is there, and so change the order.
        tokio::spawn(unconstrained(events));
        let outcome = timeout(ANSWER, call).await.map_err(|_| silent())?;
        let outcome = outcome.ok_or(Unlinked::NotOwner)?;
        let attached = outcome.map_err(|error| {
            tracing::warn!(session = %self.id, error, "the owner has refused a link");
            Unlinked::Unreachable
        })?;
        let attached = read::<message::Attached>(&attached).map_err(|_| Unlinked::NotOwner)?;
        tracing::info!(session = %self.id, pid = holder.pid, "attached to the owner");
        Ok(Front {
            number,
            wire,
            socket: socket.to_owned(),
            cancelled: CancellationToken::new(),
            passed,
            commands: attached.commands,
            native: attached.native,
            observes: attach.observe,
            is_stopped: false,
            _closer: stream.closer,
        })
    }

    /// Has the owner serve a request.
    pub(super) async fn pass(&mut self, route: Route<Reply>) {
        if let Route::Pass(_, Passed::Prompt { message_id, .. }) = &route {
            self.own_prompt(message_id);
        }
        let Some(front) = &mut self.front else {
            if let Route::Pass(reply, passed) = route {
                let lost = FrontEvent::Lost(Lost {
                    reply,
                    passed,
                    is_cancelled: false,
                });
                let sent = self.results.send(TaskResult::Front(self.fronts, lost));
                self.passing += usize::from(sent.is_ok());
            }
            return;
        };
        let (reply, passed) = match route {
            Route::Here(_) => return,
            Route::Leave => return self.leave_owner(),
            Route::Notify(notified @ Notified::Cancel) => {
                front.wire.notify_at_once(NOTIFY, &message::text(&notified));
                // Later prompts are not concerned.
                mem::take(&mut front.cancelled).cancel();
                for lost in &mut self.lost {
                    lost.is_cancelled = true;
                }
                return;
            }
            Route::Notify(notified) => {
                let params = message::text(&notified);
                let notified = front.wire.notify(NOTIFY, &params);
                if timeout(PATIENCE, notified).await.is_err() {
                    tracing::debug!(session = %self.id, "the owner does not read: a notification is lost");
                }
                return;
            }
            Route::Pass(reply, passed) => (reply, passed),
        };
        // What waits to be read counts in the flow of the client until it is answered.
        let wire = front.wire.clone();
        let call = wire.outgoing.begin();
        let line = request_line(&call.id.to_string(), PASS, &message::text(&passed));
        let answered = answered(wire.clone(), call, front.cancelled.clone(), reply, passed);
        // It is waited for before it can be answered.
        let waits = front.passed.send(Box::pin(answered));
        self.passing += usize::from(waits.is_ok());
        // An owner that is gone answers nothing.
        wire.writer.put_line(line.trim_end().as_bytes()).ok();
    }

    /// The owner with this socket gives no answer: until it does, the session is read-only here.
    fn await_owner(&mut self, socket: String) {
        let Some(store) = &self.deps.store else {
            return;
        };
        tracing::warn!(session = %self.id, socket, "the process that has the session open gives no answer");
        let flow = self.deps.wire.flow.process();
        self.deps.owners.set_silent(store, &socket, flow);
        self.awaited = Some(UnlinkedOwner::Silent(socket));
    }

    /// The owner gives no sign of life: the session is read-only here until it does.
    fn give_owner_up(&mut self) {
        if let Some(front) = self.front.take() {
            self.machine.pass_on(false);
            self.await_owner(front.socket);
        }
    }

    /// Before a request that needs the owner: checks that it is alive.
    pub(super) async fn check_owner(&mut self) {
        if let Some(front) = &self.front
            && timeout(ANSWER, front.wire.ask_at_once(ALIVE, "{}"))
                .await
                .is_err()
        {
            self.give_owner_up();
        }
    }

    /// The owner, which has given no answer for a while, gives one again or has ended. An owner that was
    /// not found may be there by now.
    pub(super) async fn owner_answers(&mut self) -> Batch<Reply> {
        self.awaited = None;
        let is_elsewhere = self.session.as_ref().is_some_and(OpenSession::is_unlocked);
        if self.front.is_some() || self.rests || !is_elsewhere {
            return Vec::new();
        }
        // Requests do not wait for this.
        self.succeed_owner(Duration::ZERO).await
    }

    /// Before a session that is not open here is deleted for all clients: the process that has it does
    /// that.
    pub(super) async fn delete_at_owner(&mut self) {
        let store = self.deps.store.as_ref();
        let holder = store.and_then(|store| blocking(|| store.holder(&self.id)));
        let Some(holder) = holder else { return };
        if let Ok(front) = self.link(&holder).await {
            let deleted = message::text(&Passed::DeleteForAll);
            // If it fails there, it fails here.
            tokio::select! {
                _ = front.wire.ask_at_once(PASS, &deleted) => {}
                () = silence(&front.wire) => {}
            }
        }
    }

    /// The client has opened the session again: from now on it only looks on, or no longer does.
    pub(super) fn link_again(&mut self) {
        let observes = self.observes();
        if self
            .front
            .as_ref()
            .is_some_and(|front| front.observes != observes)
        {
            self.front = None;
            self.machine.pass_on(false);
        }
    }

    /// The client is gone: the owner goes on with what it was asked. Requests are answered when the
    /// link has ended.
    pub(super) fn leave_owner(&mut self) {
        self.left = true;
        self.front = None;
        self.machine.pass_on(false);
    }

    /// Handles what has come through the link.
    pub(super) async fn front_event(&mut self, number: u64, event: FrontEvent) -> Batch<Reply> {
        let is_current = self
            .front
            .as_ref()
            .is_some_and(|front| front.number == number);
        if matches!(
            event,
            FrontEvent::Answered { .. } | FrontEvent::Lost(_) | FrontEvent::Silent(_)
        ) {
            self.passing -= 1;
        }
        match event {
            FrontEvent::Asked(request) if is_current => self.asked_by_owner(request),
            FrontEvent::Notified { method, .. } if is_current && method == STOPPED => {
                if let Some(front) = &mut self.front {
                    front.is_stopped = true;
                }
                Vec::new()
            }
            FrontEvent::Notified { method, params } if is_current => {
                self.deps.wire.notify(&method, &params).await;
                Vec::new()
            }
            FrontEvent::Answered {
                reply,
                passed,
                answer,
            } => {
                let is_gone = matches!(answer, Ok(Done::Deleted | Done::Archived));
                let accepted = matches!(answer, Ok(Done::Accepted(_)));
                if !accepted {
                    self.follow(true).await;
                }
                let answer = match answer {
                    Err(Refusal::NotOpen) if !self.exists() => Err(Refusal::NotFound),
                    answer => answer,
                };
                self.answer_passed(reply, answer, &passed).await;
                if is_gone {
                    self.machine.gone()
                } else {
                    Vec::new()
                }
            }
            FrontEvent::Silent(lost) => {
                if is_current {
                    self.give_owner_up();
                }
                self.lost.push(lost);
                self.answer_lost().await
            }
            FrontEvent::Lost(lost) => {
                self.lost.push(lost);
                // What the owner has logged comes first, and so does that it is gone.
                if is_current {
                    return Vec::new();
                }
                self.answer_lost().await
            }
            FrontEvent::Closed if is_current => {
                let front = self.front.take();
                self.machine.pass_on(false);
                if front.is_some_and(|front| front.is_stopped) {
                    self.follow(true).await;
                    self.rests = true;
                    return self.answer_lost().await;
                }
                self.succeed_owner(SEARCH).await
            }
            _ => Vec::new(),
        }
    }

    /// Whether a request is to look for the owner first: the session was stopped on purpose, or the owner
    /// was not found.
    pub(super) fn needs_owner(&mut self, command: &Command) -> bool {
        let needs = matches!(
            command,
            Command::Request(
                Request::Prompt { .. } | Request::Call { .. } | Request::MetadataChange(..),
                _
            )
        );
        let is_sought = matches!(self.awaited, Some(UnlinkedOwner::NotFound(_)));
        needs && (mem::take(&mut self.rests) || is_sought)
    }

    /// The owner is gone: another one is found within the time `search`, or this actor becomes it.
    pub(super) async fn succeed_owner(&mut self, search: Duration) -> Batch<Reply> {
        self.follow(true).await;
        let mut batch = Vec::new();
        // A request that opens the session looks for an owner itself.
        if self.machine.is_settled() {
            if self.exists() {
                self.find_owner(search).await;
            } else {
                batch = self.machine.gone();
            }
        }
        batch.extend(self.answer_lost().await);
        batch
    }

    /// Serves the requests that the owner has not answered, or answers that it has ended.
    async fn answer_lost(&mut self) -> Batch<Reply> {
        let mut batch = Vec::new();
        let mut is_there = None;
        for lost in mem::take(&mut self.lost) {
            let Lost {
                reply,
                passed,
                is_cancelled,
            } = lost;
            let is_withdrawn = reply.cancellation().is_cancelled();
            if matches!(passed, Passed::Prompt { .. }) && (is_cancelled || is_withdrawn) {
                self.answer_cancelled(reply, passed, is_withdrawn).await;
                continue;
            }
            if self.may_repeat(&passed) {
                if matches!(passed, Passed::Prompt { .. }) {
                    self.machine.passed_prompt_answered();
                }
                batch.extend(self.machine.request(passed.request(reply)));
                continue;
            }
            let is_there = *is_there.get_or_insert_with(|| self.exists());
            let refusal = if !is_there {
                Refusal::NotFound
            } else if self.session.is_none() {
                Refusal::NotOpen
            } else if self.left {
                Refusal::ClientLeft
            } else if matches!(self.awaited, Some(UnlinkedOwner::Silent(_))) {
                self.silent_owner()
            } else {
                Refusal::OwnerEnded
            };
            self.answer_passed(reply, Err(refusal), &passed).await;
        }
        batch
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
            && self.front.is_none()
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

    /// Whether the session has not been deleted, as far as that can be found out.
    fn exists(&self) -> bool {
        let store = self.deps.store.as_ref();
        store.is_none_or(|store| blocking(|| store.exists(&self.id)).unwrap_or(true))
    }

    /// The refusal of a request that only the owner can serve, which gives no answer.
    fn silent_owner(&self) -> Refusal {
        let elsewhere = self.session.as_ref().and_then(OpenSession::elsewhere);
        let holder = elsewhere.and_then(|elsewhere| elsewhere.holder.clone());
        let message = match &holder {
            Some(holder) => format!(
                "process {} on {} has session {} open and gives no answer",
                holder.pid, holder.host, self.name
            ),
            None => SILENT.to_owned(),
        };
        Refusal::InUse { message, holder }
    }

    /// Whether a request that the owner has not answered can be served as if it had not been sent:
    /// nothing of it is in the log, or it only sets something.
    fn may_repeat(&self, passed: &Passed) -> bool {
        let session = self.session.as_ref();
        let owns = session.is_some_and(|session| matches!(session.log, LogAccess::Own(_)));
        if self.left || !self.machine.is_settled() || !(owns || self.front.is_some()) {
            return false;
        }
        match passed {
            Passed::Prompt { message_id, .. } => !self.may_be_logged(message_id),
            Passed::Call { method, .. } => is_setting(method),
            Passed::Metadata(_) | Passed::Delete | Passed::DeleteForAll => false,
        }
    }

    /// Whether a message is in the log, as far as it can be read.
    fn may_be_logged(&self, message_id: &str) -> bool {
        let Some(store) = &self.deps.store else {
            return true;
        };
        let mut search = FindMessage::new(message_id);
        let mut found = || -> Result<bool, StoreError> {
            let mut reader = store.read(&self.id)?;
            while let Some(entry) = reader.next()? {
                if search.record(&entry.record) {
                    return Ok(true);
                }
            }
            Ok(false)
        };
        let found = blocking(&mut found).unwrap_or(true);
        found || search.finish()
    }

    async fn answer_passed(&mut self, reply: Reply, answer: Answer, passed: &Passed) {
        if matches!(passed, Passed::Prompt { .. }) {
            self.machine.passed_prompt_answered();
        }
        self.answer(reply, answer).await;
        self.answered.clear();
    }

    /// A request of the owner's engine to the client.
    fn asked_by_owner(&mut self, request: Message) -> Batch<Reply> {
        let Message {
            method,
            mut params,
            responder,
        } = request;
        let native = self.front.as_ref().is_some_and(|front| front.native);
        if native && !self.view.shows_version_2() && method == REQUEST_PERMISSION {
            // The outcome has the same form in both versions.
            params = v1::permission(&params);
        }
        let (reply, outcome) = tokio::sync::oneshot::channel();
        let question = Question {
            params,
            session: None,
            logged: false,
            is_native: native && self.view.shows_version_2(),
            cancel: responder.cancellation(),
            reply,
            method,
        };
        tokio::spawn(async move {
            if let Ok(outcome) = outcome.await {
                responder.answer(outcome);
            }
        });
        self.engine_asks(question)
    }
}

/// The result of a request of a link.
fn read<T: serde::de::DeserializeOwned>(result: &str) -> Result<T, Refusal> {
    let read = serde_json::from_str::<Result<T, Refusal>>(result);
    read.unwrap_or_else(|error| Err(Refusal::Storage(format!("an unknown answer: {error}"))))
}

/// Waits for the answer to a request that was passed on. A prompt may take as long as it takes, unless
/// it is cancelled; for anything else the owner has to be alive.
async fn answered(
    wire: Arc<ClientConnection>,
    mut call: OutgoingRequest,
    cancelled: CancellationToken,
    reply: Reply,
    passed: Passed,
) -> FrontEvent {
    let request_cancelled = reply.cancellation();
    let is_prompt = matches!(passed, Passed::Prompt { .. });
    let waits_for_life = async {
        if is_prompt {
            tokio::select! {
                () = cancelled.cancelled() => {}
                () = request_cancelled.cancelled() => {}
            }
        }
        silence(&wire).await;
    };
    tokio::pin!(waits_for_life);
    let mut withdrawn = false;
    let outcome = loop {
        tokio::select! {
            outcome = &mut call => break Some(outcome),
            () = request_cancelled.cancelled(), if !withdrawn => {
                wire.withdraw(&call);
                withdrawn = true;
            }
            () = &mut waits_for_life => break None,
        }
    };
    let is_silent = outcome.is_none();
    // An owner that is ending drops its requests, and prompts that it had not begun.
    let answer = outcome.flatten().and_then(Result::ok);
    let answer = answer.map(|answer| read(&answer));
    if let Some(answer) = answer.filter(|answer| !matches!(answer, Err(Refusal::Interrupted))) {
        return FrontEvent::Answered {
            reply,
            passed,
            answer,
        };
    }
    let lost = Lost {
        reply,
        passed,
        is_cancelled: cancelled.is_cancelled(),
    };
    if is_silent {
        FrontEvent::Silent(lost)
    } else {
        FrontEvent::Lost(lost)
    }
}

/// Resolves when the process at the other end of a link gives no sign of life.
async fn silence(wire: &ClientConnection) {
    loop {
        sleep(PAUSE).await;
        match timeout(ANSWER, wire.ask_at_once(ALIVE, "{}")).await {
            Ok(Some(_)) => {}
            // The end of the link is reported by itself.
            Ok(None) => return std::future::pending().await,
            Err(_) => return,
        }
    }
}

/// The error for an owner of which nothing more is known.
const SILENT: &str = "the process that has the session open gives no answer";

/// The prompts that this actor's client has sent, which it is not shown again.
pub(super) type OwnPrompts = HashSet<String>;
