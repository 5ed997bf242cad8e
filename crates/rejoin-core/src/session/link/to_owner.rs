//! The front's end of a link: finds the owner of a session, passes requests on to it, and asks whether it
//! is alive.

use std::io;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::unconstrained;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::engine::{AttachOutcome, BoxFuture, EngineError};
use crate::session::command::Command;
use crate::session::outcome::Refusal;
use crate::session::reply::{Busy, Reply};
use crate::session::request::Request;
use crate::session::{Client, Deps};
use crate::store::Holder;
use crate::sys::socket::Closer;
use crate::sys::{SessionId, blocking};
use crate::transport::message::request_line;
use crate::transport::{ClientConnection, MessageForm, OutgoingRequest, connect};

use super::events::{self, Passing};
use super::feed::{
    Feed, FromOwner, FrontChannel, FrontEnd, FrontEvents, LinkCommand, PATIENCE, PassedOn,
    Responds, Unanswered,
};
use super::message::{
    self, ALIVE, ANSWER, ATTACH, Attach, Attached, DESCRIBE, NOTIFY, Notified, PASS, PROTOCOL,
    Passed,
};

/// How often a session is looked for whose owner is not found.
const STEP: Duration = Duration::from_millis(10);
/// How long a request waits for the owner before that is asked whether it is alive.
const PAUSE: Duration = Duration::from_secs(2);
/// The error for an owner of which nothing more is known.
pub(in crate::session) const SILENT: &str = "the process that has the session open gives no answer";

/// A front that looks for the owner of its session.
#[derive(Clone)]
pub(in crate::session) struct Linking {
    pub(in crate::session) id: SessionId,
    pub(in crate::session) deps: Arc<Deps>,
    pub(in crate::session) client: Arc<Client>,
    /// The id by which the client knows the session.
    pub(in crate::session) client_id: String,
    /// Whether the client only looks on, and is asked nothing.
    pub(in crate::session) observes: bool,
    /// Where the front gets what the owner sends.
    pub(in crate::session) events: FrontEvents,
}

/// The link to the owner of a session.
pub(in crate::session) struct OwnerLink {
    /// No other link of this process has it.
    pub(in crate::session) number: u64,
    way: Way,
    /// Cancelled when the client cancels the prompts that were passed on so far.
    cancelled: CancellationToken,
    /// The available commands.
    pub(in crate::session) commands: Option<String>,
    /// Whether the owner's engine speaks version 2.
    pub(in crate::session) native: bool,
    /// Whether the client is asked nothing.
    pub(in crate::session) observes: bool,
    /// Whether the session was stopped on purpose.
    pub(in crate::session) is_stopped: bool,
}

/// How the owner is reached.
enum Way {
    /// In another process.
    Lines {
        connection: Arc<ClientConnection>,
        /// The socket of the owner.
        socket: String,
        /// Takes the requests that were passed on, until they are answered.
        passed: mpsc::UnboundedSender<Passing>,
        /// Ends the link when it is dropped.
        _closer: Closer,
    },
    /// In another task of this process.
    Channel(Here),
}

/// The way to an owner in this process.
#[derive(Clone)]
struct OwnerChannel {
    /// The number by which the owner knows the front.
    number: u64,
    /// A front does not keep its owner from ending.
    owner: mpsc::WeakUnboundedSender<Command>,
    client: Arc<ClientConnection>,
}

impl OwnerChannel {
    fn send(&self, command: LinkCommand) {
        // The end of the owner is reported by itself.
        if let Some(owner) = self.owner.upgrade() {
            owner.send(command.of_link(self.number, &self.client)).ok();
        }
    }
}

/// A front in the process of the owner. Its end is reported to the owner.
struct Here {
    owner: OwnerChannel,
    events: FrontEvents,
    busy: Busy,
}

impl Drop for Here {
    fn drop(&mut self) {
        self.owner.send(LinkCommand::Detach);
    }
}

/// Why there is no link to the owner of a session.
pub(in crate::session) enum Unlinked {
    /// The owner cannot be reached from here.
    Unreachable,
    /// The process with this socket gives no answer.
    Silent(String),
    /// The process does not have the session any longer, or not yet.
    NotOwner,
}

/// The result of a search for the owner of a session.
pub(in crate::session) enum Found {
    Linked(OwnerLink),
    /// The process that has the session cannot be linked to.
    Unlinked(Unlinked),
    /// No process has the session.
    Free,
    /// There is nothing to look for: the owner that is known is alive.
    Alive,
}

impl Linking {
    /// Looks for the owner until it is found, or until that time.
    pub(in crate::session) async fn find(self, known: Option<Holder>, until: Instant) -> Found {
        let Some(store) = self.deps.library.store.clone() else {
            return Found::Unlinked(Unlinked::Unreachable);
        };
        loop {
            // The one that was read may have released it to another one.
            let holder = blocking(|| store.holder(&self.id)).or_else(|| known.clone());
            match self.link(holder.as_ref()).await {
                Ok(link) => return Found::Linked(link),
                Err(Unlinked::NotOwner) => {}
                Err(unlinked) => return Found::Unlinked(unlinked),
            }
            if !blocking(|| store.is_open(&self.id)) {
                return Found::Free;
            }
            if Instant::now() >= until {
                return Found::Unlinked(Unlinked::NotOwner);
            }
            sleep(STEP).await;
        }
    }

    /// Links to the owner, if it is in this process or in that of `holder`.
    pub(in crate::session) async fn link(
        &self,
        holder: Option<&Holder>,
    ) -> Result<OwnerLink, Unlinked> {
        if let Some(owner) = self.deps.library.owners.find(&self.id) {
            return self.link_here(owner).await;
        }
        match holder {
            Some(holder) => self.link_to(holder).await,
            None => Err(Unlinked::NotOwner),
        }
    }

    /// Links to the owner in this process.
    async fn link_here(
        &self,
        owner: mpsc::WeakUnboundedSender<Command>,
    ) -> Result<OwnerLink, Unlinked> {
        let number = self.deps.library.owners.number();
        let owner = OwnerChannel {
            number,
            owner,
            client: self.deps.client.clone(),
        };
        let here = Here {
            owner,
            events: self.events.clone(),
            busy: Busy::default(),
        };
        let channel = FrontChannel::new(number, self.events.clone());
        let feed = Feed::Channel(Arc::new(channel));
        let front = FrontEnd {
            number,
            feed,
            client_id: self.client_id.clone(),
            client: self.client.name().map(str::to_owned),
            observes: self.observes,
            abilities: Some(self.client.abilities),
            pid: std::process::id(),
            since: String::new(),
        };
        let (admission, admitted) = oneshot::channel();
        here.owner
            .send(LinkCommand::Attach(front, Responds::Channel(admission)));
        match timeout(ANSWER, admitted).await {
            Ok(Ok(Ok(attached))) => {
                tracing::info!(session = %self.id, "attached to the owner in this process");
                Ok(self.linked(number, Way::Channel(here), attached))
            }
            _ => Err(Unlinked::NotOwner),
        }
    }

    fn linked(&self, number: u64, way: Way, attached: Attached) -> OwnerLink {
        OwnerLink {
            number,
            way,
            cancelled: CancellationToken::new(),
            commands: attached.commands,
            native: attached.native,
            observes: self.observes,
            is_stopped: false,
        }
    }

    /// Links to the owner in another process.
    async fn link_to(&self, holder: &Holder) -> Result<OwnerLink, Unlinked> {
        let (Some(store), Some(socket)) = (&self.deps.library.store, holder.local_socket()) else {
            return Err(Unlinked::Unreachable);
        };
        let silent = || Unlinked::Silent(socket.to_owned());
        if self.deps.library.owners.is_silent(socket) {
            return Err(silent());
        }
        let stream = blocking(|| store.connect(holder)).map_err(|error| match error.kind() {
            io::ErrorKind::Unsupported | io::ErrorKind::PermissionDenied => {
                tracing::debug!(session = %self.id, %error, "the owner cannot be reached");
                Unlinked::Unreachable
            }
            io::ErrorKind::TimedOut => silent(),
            // The process has no socket yet, or no longer.
            _ => Unlinked::NotOwner,
        })?;
        let (limit, process) = (self.deps.client.line_limit, self.deps.client.flow.process());
        let form = MessageForm::JsonRpc;
        let (connection, incoming) = connect(stream.input, stream.output, limit, form, process)
            .map_err(|error| {
                tracing::warn!(session = %self.id, %error, "cannot link to the owner");
                Unlinked::Unreachable
            })?;
        let call = connection.ask_at_once(ATTACH, &message::text(&self.attach()));
        let (passed, passing) = mpsc::unbounded_channel();
        let (number, sender) = (self.deps.library.owners.number(), self.events.clone());
        let report = move |event| {
            sender.send((number, event)).ok();
        };
        let events = events::pass_on(incoming, connection.clone(), passing, report);
        // A budget of polls could leave out a response that is there, and so change the order.
        tokio::spawn(unconstrained(events));
        let outcome = timeout(ANSWER, call).await.map_err(|_| silent())?;
        let outcome = outcome.ok_or(Unlinked::NotOwner)?;
        let attached = outcome.map_err(|error| {
            tracing::warn!(session = %self.id, error, "the owner has refused a link");
            Unlinked::Unreachable
        })?;
        let attached = read::<Attached>(&attached).map_err(|_| Unlinked::NotOwner)?;
        tracing::info!(session = %self.id, pid = holder.pid, "attached to the owner");
        let way = Way::Lines {
            connection,
            socket: socket.to_owned(),
            passed,
            _closer: stream.closer,
        };
        Ok(self.linked(number, way, attached))
    }

    fn attach(&self) -> Attach {
        Attach {
            protocol: PROTOCOL,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            session_id: self.id.to_string(),
            name: self.client_id.clone(),
            client: self.client.identity.clone(),
            observe: self.observes,
            pid: std::process::id(),
            abilities: Some(self.client.abilities),
        }
    }

    /// Has the owner delete the session for all clients, if there is one.
    pub(in crate::session) async fn delete_at_owner(self) {
        let store = self.deps.library.store.as_ref();
        let holder = store.and_then(|store| blocking(|| store.holder(&self.id)));
        let Ok(link) = self.link(holder.as_ref()).await else {
            return;
        };
        // If it fails there, it fails here.
        match &link.way {
            Way::Lines { connection, .. } => {
                let deleted = message::text(&Passed::DeleteForAll);
                tokio::select! {
                    _ = connection.ask_at_once(PASS, &deleted) => {}
                    () = silence(connection) => {}
                }
            }
            Way::Channel(here) => {
                let (deleted, is_deleted) = oneshot::channel();
                let token = CancellationToken::new();
                let reply = Reply::new(here.busy.begin(), token, |_| {
                    deleted.send(()).ok();
                });
                let request = Request::DeleteForAll(reply.of_link());
                here.owner.send(LinkCommand::Passed(request));
                is_deleted.await.ok();
            }
        }
    }
}

impl OwnerLink {
    /// The socket of an owner in another process.
    pub(in crate::session) fn socket(&self) -> Option<&str> {
        match &self.way {
            Way::Lines { socket, .. } => Some(socket),
            Way::Channel(_) => None,
        }
    }

    /// Checks that the owner is alive.
    pub(in crate::session) fn alive(&self) -> BoxFuture<'static, bool> {
        let connection = match &self.way {
            Way::Lines { connection, .. } => connection.clone(),
            Way::Channel(_) => return Box::pin(async { true }),
        };
        Box::pin(async move {
            timeout(ANSWER, connection.ask_at_once(ALIVE, "{}"))
                .await
                .is_ok()
        })
    }

    /// Asks the owner how the session is now.
    pub(in crate::session) fn describe(
        &self,
    ) -> BoxFuture<'static, Result<AttachOutcome, EngineError>> {
        let failed = |refusal: Refusal| EngineError::internal(refusal.to_string());
        let described = |answer| AttachOutcome {
            answer,
            ..AttachOutcome::default()
        };
        match &self.way {
            Way::Lines { connection, .. } => {
                let connection = connection.clone();
                Box::pin(async move {
                    let call = connection.ask_at_once(DESCRIBE, "{}");
                    let outcome = tokio::select! {
                        outcome = call => outcome.ok_or_else(|| failed(Refusal::OwnerEnded))?,
                        () = silence(&connection) => return Err(EngineError::internal(SILENT)),
                    };
                    let outcome = outcome.map_err(EngineError::internal)?;
                    read::<Option<String>>(&outcome)
                        .map(described)
                        .map_err(failed)
                })
            }
            Way::Channel(here) => {
                let (responds, described_by) = oneshot::channel();
                here.owner
                    .send(LinkCommand::Describe(Responds::Channel(responds)));
                Box::pin(async move {
                    let answer = described_by.await;
                    let answer = answer.map_err(|_| failed(Refusal::OwnerEnded))?;
                    answer.map(described).map_err(failed)
                })
            }
        }
    }

    /// Has the owner serve a request. The answer, or that no answer will come, is among what the owner
    /// sends.
    pub(in crate::session) fn pass(&self, reply: Reply, passed: Passed) {
        match &self.way {
            Way::Lines {
                connection,
                passed: waiting,
                ..
            } => {
                // What waits to be read counts in the flow of the client until it is answered.
                let connection = connection.clone();
                let call = connection.outgoing.begin();
                let line = request_line(&call.id.to_string(), PASS, &message::text(&passed));
                let cancelled = self.cancelled.clone();
                let answered = answered(connection.clone(), call, cancelled, reply, passed);
                // The wait begins before the request is sent.
                waiting.send(Box::pin(answered)).ok();
                // An owner that is gone answers nothing.
                connection.writer.put_line(line.trim_end().as_bytes()).ok();
            }
            Way::Channel(here) => self.pass_here(here, reply, passed),
        }
    }

    fn pass_here(&self, here: &Here, reply: Reply, passed: Passed) {
        let cancellation = reply.cancellation();
        let (answered, is_answered) = oneshot::channel::<()>();
        if let Passed::Prompt { message_id, .. } = &passed {
            let owner = here.owner.clone();
            let message_id = message_id.clone();
            let cancelled = cancellation.clone();
            tokio::spawn(async move {
                tokio::select! {
                    () = cancelled.cancelled() => {
                        let withdrawn = Request::WithdrawPrompt(message_id);
                        owner.send(LinkCommand::Passed(withdrawn));
                    }
                    // The request was answered, or will not be.
                    _ = is_answered => {}
                }
            });
        }
        let passed_on = PassedOn::new(
            self.number,
            here.events.clone(),
            self.cancelled.clone(),
            reply,
            passed.clone(),
        );
        let reply = Reply::new(here.busy.begin(), cancellation, move |outcome| {
            passed_on.answer(outcome.map(|answer| answer.done));
            drop(answered);
        });
        here.owner
            .send(LinkCommand::Passed(passed.request(reply.of_link())));
    }

    /// Notifies the owner that the client cancels the running turns.
    pub(in crate::session) fn cancel(&mut self) {
        let notified = Notified::Cancel;
        match &self.way {
            Way::Lines { connection, .. } => {
                connection.notify_at_once(NOTIFY, &message::text(&notified));
            }
            Way::Channel(here) => here.owner.send(LinkCommand::Passed(notified.request())),
        }
        // Later prompts are not concerned.
        mem::take(&mut self.cancelled).cancel();
    }

    /// Passes on a notification of the client.
    pub(in crate::session) async fn notify(&self, notified: Notified) {
        match &self.way {
            Way::Lines { connection, .. } => {
                let params = message::text(&notified);
                let sent = connection.notify(NOTIFY, &params);
                if timeout(PATIENCE, sent).await.is_err() {
                    tracing::debug!("the owner does not read: a notification is lost");
                }
            }
            Way::Channel(here) => here.owner.send(LinkCommand::Passed(notified.request())),
        }
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
    connection: Arc<ClientConnection>,
    mut call: OutgoingRequest,
    cancelled: CancellationToken,
    reply: Reply,
    passed: Passed,
) -> FromOwner {
    let request_cancelled = reply.cancellation();
    let is_prompt = matches!(passed, Passed::Prompt { .. });
    let waits_for_life = async {
        if is_prompt {
            tokio::select! {
                () = cancelled.cancelled() => {}
                () = request_cancelled.cancelled() => {}
            }
        }
        silence(&connection).await;
    };
    tokio::pin!(waits_for_life);
    let mut withdrawn = false;
    let outcome = loop {
        tokio::select! {
            outcome = &mut call => break Some(outcome),
            () = request_cancelled.cancelled(), if !withdrawn => {
                connection.withdraw(&call);
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
        return FromOwner::Answered {
            reply,
            passed,
            answer,
        };
    }
    let unanswered = Unanswered {
        reply,
        passed,
        is_cancelled: cancelled.is_cancelled(),
    };
    if is_silent {
        FromOwner::Silent(unanswered)
    } else {
        FromOwner::Unanswered(unanswered)
    }
}

/// Resolves when the process at the other end of a link gives no sign of life.
async fn silence(connection: &ClientConnection) {
    loop {
        sleep(PAUSE).await;
        match timeout(ANSWER, connection.ask_at_once(ALIVE, "{}")).await {
            Ok(Some(_)) => {}
            // The end of the link is reported by itself.
            Ok(None) => return std::future::pending().await,
            Err(_) => return,
        }
    }
}
