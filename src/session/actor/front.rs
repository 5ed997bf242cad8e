//! A session that another process, or another connection of this one, has open: links to its owner,
//! passes requests on, and takes the session over when the owner is gone.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::unconstrained;
use tokio::time::{Instant, sleep, timeout};

use crate::engine::{Attached, BoxFuture, EngineError, Question};
use crate::protocol::method::REQUEST_PERMISSION;
use crate::protocol::v1;
use crate::replay::FindMessage;
use crate::session::effect::Batch;
use crate::session::link::message::{
    self, ATTACH, Answer, Attach, DESCRIBE, NOTIFY, PASS, PROTOCOL, STOPPED,
};
use crate::session::link::message::{Passed, Route};
use crate::session::machine::is_setting;
use crate::session::open_session::{LogAccess, OpenSession};
use crate::session::outcome::{Done, Refusal};
use crate::session::registry::Command;
use crate::session::reply::Reply;
use crate::session::request::Request;
use crate::store::{Holder, StoreError};
use crate::sys::blocking;
use crate::sys::socket::Closer;
use crate::transport::{ClientConnection, Form, Request as Message, connect};

use super::{Actor, TaskResult, front_events};

/// How long to look for the owner of a session that is locked, if it can be reached at all: it may
/// have just locked it, or be about to end.
const SEARCH: Duration = Duration::from_secs(2);
/// How often.
const STEP: Duration = Duration::from_millis(10);
/// How long the owner may take to answer.
const ANSWER: Duration = Duration::from_secs(5);

/// The link to the owner of the session.
pub(super) struct Front {
    /// No earlier link of this actor has it.
    number: u64,
    wire: Arc<ClientConnection>,
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
    /// The owner has answered a request; `None` if it never will.
    Answered {
        reply: Reply,
        passed: Passed,
        answer: Option<Answer>,
    },
    /// The owner is gone.
    Closed,
}

/// Why there is no link to the owner of a session.
enum Unlinked {
    /// It cannot be reached from here.
    Unreachable,
    /// It does not have the session any longer, or not yet.
    NotOwner,
}

impl Front {
    /// Asks the owner how the session is now.
    pub(super) fn describe(&self) -> BoxFuture<'static, Result<Attached, EngineError>> {
        let wire = self.wire.clone();
        Box::pin(async move {
            let ended = || EngineError::internal(Refusal::OwnerEnded.to_string());
            let call = wire.ask(DESCRIBE, "{}").await.ok_or_else(ended)?;
            let outcome = call
                .await
                .ok_or_else(ended)?
                .map_err(EngineError::internal)?;
            let answer = read::<Option<String>>(&outcome);
            let answer = answer.map_err(|refusal| EngineError::internal(refusal.to_string()))?;
            Ok(Attached {
                answer,
                ..Attached::default()
            })
        })
    }
}

impl Actor {
    /// Links to the process that has the session open. If it has ended, locks the session.
    /// One that cannot be reached keeps it: the session is read-only here.
    pub(super) async fn find_owner(&mut self) {
        let until = Instant::now() + SEARCH;
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
                Err(Unlinked::NotOwner) => {
                    let is_open = blocking(|| store.is_open(&self.id));
                    // It fails if another process is faster.
                    if !is_open && self.claim().await.is_ok() {
                        return;
                    }
                    if Instant::now() >= until {
                        return;
                    }
                    sleep(STEP).await;
                }
            }
        }
    }

    async fn link(&mut self, holder: &Holder) -> Result<Front, Unlinked> {
        let Some(store) = &self.deps.store else {
            return Err(Unlinked::Unreachable);
        };
        let stream = blocking(|| store.connect(holder)).map_err(|error| match error.kind() {
            io::ErrorKind::Unsupported | io::ErrorKind::PermissionDenied => {
                tracing::debug!(session = %self.id, %error, "the owner cannot be reached");
                Unlinked::Unreachable
            }
            // It has no socket yet, or no longer.
            _ => Unlinked::NotOwner,
        })?;
        let (limit, process) = (self.deps.line_limit, self.deps.wire.flow.process());
        let (wire, incoming) = connect(stream.input, stream.output, limit, Form::JsonRpc, process)
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
        };
        self.fronts += 1;
        let number = self.fronts;
        let results = self.results.clone();
        let asked = wire.ask(ATTACH, &message::text(&attach)).await;
        let call = asked.ok_or(Unlinked::NotOwner)?;
        let (passed, passing) = mpsc::unbounded_channel();
        let report = move |event| {
            results.send(TaskResult::Front(number, event)).ok();
        };
        let events = front_events::pass_on(incoming, wire.clone(), passing, report);
        // A budget of polls could leave out a response that is there, and so change the order.
        tokio::spawn(unconstrained(events));
        let outcome = timeout(ANSWER, call).await;
        let Ok(Some(outcome)) = outcome else {
            return Err(Unlinked::NotOwner);
        };
        let attached = outcome.map_err(|error| {
            tracing::warn!(session = %self.id, error, "the owner has refused a link");
            Unlinked::Unreachable
        })?;
        let attached = read::<message::Attached>(&attached).map_err(|_| Unlinked::NotOwner)?;
        tracing::info!(session = %self.id, pid = holder.pid, "attached to the owner");
        Ok(Front {
            number,
            wire,
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
        let Some(front) = &self.front else {
            if let Route::Pass(reply, passed) = route {
                let answered = FrontEvent::Answered {
                    reply,
                    passed,
                    answer: None,
                };
                let sent = self.results.send(TaskResult::Front(self.fronts, answered));
                self.passing += usize::from(sent.is_ok());
            }
            return;
        };
        let (reply, passed) = match route {
            Route::Here(_) => return,
            Route::Leave => return self.leave_owner(),
            Route::Notify(notified) => {
                let params = message::text(&notified);
                return front.wire.notify(NOTIFY, &params).await;
            }
            Route::Pass(reply, passed) => (reply, passed),
        };
        let wire = front.wire.clone();
        let params = message::text(&passed);
        let mut call = wire.outgoing.begin();
        let id = call.id;
        let answered = async move {
            let outcome = tokio::select! {
                outcome = &mut call => outcome,
                () = reply.cancellation().cancelled_owned() => {
                    wire.withdraw(&call).await;
                    call.await
                }
            };
            // An owner that is ending drops its requests.
            let answer = outcome.and_then(Result::ok).map(|answer| read(&answer));
            FrontEvent::Answered {
                reply,
                passed,
                answer,
            }
        };
        // It is waited for before it can be answered.
        let waits = front.passed.send(Box::pin(answered));
        self.passing += usize::from(waits.is_ok());
        front.wire.request(id, PASS, &params).await;
    }

    /// Before a session that is not open here is deleted for all clients: the process that has it does
    /// that.
    pub(super) async fn delete_at_owner(&mut self) {
        let store = self.deps.store.as_ref();
        let holder = store.and_then(|store| blocking(|| store.holder(&self.id)));
        let Some(holder) = holder else { return };
        if let Ok(front) = self.link(&holder).await {
            let deleted = message::text(&Passed::DeleteForAll);
            if let Some(call) = front.wire.ask(PASS, &deleted).await {
                // If it fails there, it fails here.
                call.await;
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
        if matches!(event, FrontEvent::Answered { .. }) {
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
                answer: Some(answer),
            } => {
                let is_gone = matches!(answer, Ok(Done::Deleted | Done::Archived));
                let accepted = matches!(answer, Ok(Done::Accepted(_)));
                if !accepted {
                    self.follow(true).await;
                }
                self.answer_passed(reply, answer, &passed).await;
                if is_gone {
                    self.machine.gone()
                } else {
                    Vec::new()
                }
            }
            FrontEvent::Answered {
                reply,
                passed,
                answer: None,
            } => {
                self.lost.push((reply, passed));
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
                self.succeed_owner().await
            }
            _ => Vec::new(),
        }
    }

    /// Whether this opens the session again, after it was stopped on purpose.
    pub(super) fn wakes(&mut self, command: &Command) -> bool {
        let wakes = matches!(
            command,
            Command::Request(
                Request::Prompt { .. } | Request::Call { .. } | Request::MetadataChange(..),
                _
            )
        );
        wakes && std::mem::take(&mut self.rests)
    }

    /// The owner is gone: another one is found, or this actor becomes it.
    pub(super) async fn succeed_owner(&mut self) -> Batch<Reply> {
        self.follow(true).await;
        let mut batch = Vec::new();
        // A request that opens the session looks for an owner itself.
        if self.machine.is_settled() {
            let exists = match &self.deps.store {
                Some(store) => blocking(|| store.exists(&self.id)).unwrap_or(true),
                None => true,
            };
            if exists {
                self.find_owner().await;
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
        for (reply, passed) in std::mem::take(&mut self.lost) {
            if self.may_repeat(&passed) {
                if matches!(passed, Passed::Prompt { .. }) {
                    self.machine.passed_prompt_answered();
                }
                batch.extend(self.machine.request(passed.request(reply)));
                continue;
            }
            let refusal = if self.session.is_none() {
                Refusal::NotOpen
            } else if self.left {
                Refusal::Gone
            } else {
                Refusal::OwnerEnded
            };
            self.answer_passed(reply, Err(refusal), &passed).await;
        }
        batch
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

/// The prompts that this actor's client has sent, which it is not shown again.
pub(super) type OwnPrompts = HashSet<String>;
