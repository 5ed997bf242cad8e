//! What the owner of a session sends a front: in lines to another process, as values within this one.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::engine::ClientCapabilities;
use crate::sys::lock;
use crate::sys::socket::Closer;
use crate::transport::{ClientConnection, Outcome, OutgoingRequest, Responder};

use super::message::{self, Answer, Attached, Passed, STOPPED};
use crate::session::command::{COMMAND, Command};
use crate::session::outcome::Refusal;
use crate::session::reply::Reply;
use crate::session::request::Request;

/// How long a client may hold up the other clients of its session.
pub(in crate::session) const PATIENCE: Duration = Duration::from_millis(250);
/// How long a client may take to read what it was sent before its link ends.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// A request of the engine for the client of a front.
pub(in crate::session) struct ClientQuestion {
    /// The method's name.
    pub(in crate::session) method: String,
    /// The parameters, with the client's id of the session.
    pub(in crate::session) params: String,
    /// Whether it has the form of version 2 already.
    pub(in crate::session) is_native: bool,
    /// Where the response goes, in the form of the log.
    pub(in crate::session) answer: oneshot::Sender<Outcome>,
    /// Says when the response is not needed any longer.
    pub(in crate::session) withdrawal: Withdrawal,
}

/// The end of a question whose response is not needed any longer. Clones are the same one.
#[derive(Clone, Default)]
pub(in crate::session) struct Withdrawal {
    token: CancellationToken,
    /// Withdraws it at the client, once that has it.
    at_client: Arc<Mutex<Option<AtClient>>>,
}

/// Withdraws a question at its client.
type AtClient = Box<dyn FnOnce() + Send>;

impl Withdrawal {
    /// A question that is withdrawn with this token.
    pub(in crate::session) fn with(token: CancellationToken) -> Self {
        Self {
            token,
            ..Self::default()
        }
    }

    pub(in crate::session) fn is_withdrawn(&self) -> bool {
        self.token.is_cancelled()
    }

    /// Waits until the question is withdrawn.
    pub(in crate::session) async fn withdrawn(&self) {
        self.token.cancelled().await;
    }

    /// Withdraws the question. What is sent to its client from now on follows that.
    pub(in crate::session) fn withdraw(&self) {
        self.token.cancel();
        if let Some(at_client) = lock(&self.at_client).take() {
            at_client();
        }
    }

    /// The client has the question, where this withdraws it.
    pub(in crate::session) fn is_sent(&self, at_client: impl FnOnce() + Send + 'static) {
        *lock(&self.at_client) = Some(Box::new(at_client));
        if self.is_withdrawn() {
            self.withdraw();
        }
    }
}

/// What a front gets from an owner in another task, in the order in which the owner has sent it.
pub(in crate::session) enum FromOwner {
    /// A request of the engine.
    Asked(ClientQuestion),
    /// A notification of the engine.
    Notified { method: String, params: String },
    /// The session is closed on purpose: the end of the link follows.
    Stopped,
    /// The owner has answered a request.
    Answered {
        reply: Reply,
        passed: Passed,
        answer: Answer,
    },
    /// The owner will not answer a request.
    Unanswered(Unanswered),
    /// The owner gives no sign of life, and this request waits for it.
    Silent(Unanswered),
    /// The owner is gone.
    Closed,
    /// The client has answered a request of the engine.
    Relayed,
}

impl FromOwner {
    /// Whether a request that was passed on is over.
    pub(in crate::session) fn ends_request(&self) -> bool {
        matches!(
            self,
            Self::Answered { .. } | Self::Unanswered(_) | Self::Silent(_)
        )
    }
}

/// A request that the owner has not answered.
pub(in crate::session) struct Unanswered {
    pub(in crate::session) reply: Reply,
    pub(in crate::session) passed: Passed,
    /// Whether the client has cancelled the session's turn meanwhile.
    pub(in crate::session) is_cancelled: bool,
}

/// In the place of the number of a link: the owner is in the task of the front itself.
pub(in crate::session) const OWN_FRONT: u64 = u64::MAX;

/// Where a front gets what its owners send, with the number of the link.
pub(in crate::session) type FrontEvents = mpsc::UnboundedSender<(u64, FromOwner)>;

/// The owner's way to a front of this process.
pub(in crate::session) struct FrontChannel {
    number: u64,
    events: FrontEvents,
}

impl FrontChannel {
    pub(in crate::session) fn new(number: u64, events: FrontEvents) -> Self {
        Self { number, events }
    }

    fn send(&self, event: FromOwner) {
        // A front that has ended needs nothing.
        self.events.send((self.number, event)).ok();
    }
}

impl Drop for FrontChannel {
    fn drop(&mut self) {
        self.send(FromOwner::Closed);
    }
}

/// The owner's way to a front in another task.
pub(in crate::session) enum Feed {
    /// To another process.
    Lines {
        /// This end of the link.
        connection: Arc<ClientConnection>,
        /// Ends the link when it is dropped.
        closer: Closer,
    },
    /// To a task of this process.
    Channel(Arc<FrontChannel>),
}

impl Feed {
    /// Where a request of the engine can be sent.
    pub(in crate::session) fn asks(&self) -> Asks {
        match self {
            Self::Lines { connection, .. } => Asks::Lines(connection.clone()),
            Self::Channel(channel) => Asks::Channel(Arc::downgrade(channel)),
        }
    }

    /// Passes on a notification of the engine. False if the other end does not read.
    pub(in crate::session) async fn notify(&self, method: &str, params: String) -> bool {
        match self {
            Self::Lines { connection, .. } => timeout(PATIENCE, connection.notify(method, &params))
                .await
                .is_ok(),
            Self::Channel(channel) => {
                let method = method.to_owned();
                channel.send(FromOwner::Notified { method, params });
                true
            }
        }
    }

    /// Notifies the client that the session is closed on purpose.
    pub(in crate::session) fn stopped(&self) {
        match self {
            // A front that is gone needs no notification.
            Self::Lines { connection, .. } => connection.notify_at_once(STOPPED, "{}"),
            Self::Channel(channel) => channel.send(FromOwner::Stopped),
        }
    }

    /// Ends the link once its client was sent everything.
    pub(in crate::session) fn end(self) {
        if let Self::Lines { connection, closer } = self {
            tokio::spawn(async move {
                timeout(LAST_WORDS, connection.writer.written()).await.ok();
                drop(closer);
            });
        }
    }
}

impl std::fmt::Debug for Feed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Feed").finish_non_exhaustive()
    }
}

/// A front in another task, as the owner knows it.
#[derive(Debug)]
pub(in crate::session) struct FrontEnd {
    /// The number of its link.
    pub(in crate::session) number: u64,
    pub(in crate::session) feed: Feed,
    /// The id by which its client knows the session.
    pub(in crate::session) client_id: String,
    /// The name of the client.
    pub(in crate::session) client: Option<String>,
    /// Whether the client only looks on, and is asked nothing.
    pub(in crate::session) observes: bool,
    /// The client's capabilities, if its process has sent them.
    pub(in crate::session) abilities: Option<ClientCapabilities>,
    /// The id of its process.
    pub(in crate::session) pid: u32,
    /// When it came, in the form of the log.
    pub(in crate::session) since: String,
}

/// A message of a front for the task of the owner.
#[derive(Debug)]
pub(in crate::session) enum LinkCommand {
    /// A client attaches.
    Attach(FrontEnd, Admission),
    /// A client wants to know how the session is now.
    Describe(Responds<Option<String>>),
    /// A request or notification of the client.
    Passed(Request<Reply>),
    /// The client is gone.
    Detach,
}

impl LinkCommand {
    /// The message as the owner's task gets it, which counts in the flow of the connection that it has
    /// come through.
    pub(in crate::session) fn of_link(self, number: u64, through: &ClientConnection) -> Command {
        Command::Link(number, self, through.flow.hold(COMMAND))
    }
}

/// Where a request of the engine goes.
#[derive(Clone)]
pub(in crate::session) enum Asks {
    /// The front of the owner's own task, which is handed the question.
    Own(FrontEvents),
    Lines(Arc<ClientConnection>),
    Channel(std::sync::Weak<FrontChannel>),
}

/// A request of the engine as one client got it.
pub(in crate::session) enum SentQuestion {
    Lines(Arc<ClientConnection>, OutgoingRequest),
    Value(oneshot::Receiver<Outcome>, Withdrawal),
}

impl Asks {
    /// Sends a question. The one for the front of the owner's own task is returned. Nobody waits until
    /// the client reads.
    pub(in crate::session) fn send(
        &self,
        method: &str,
        params: String,
        is_native: bool,
    ) -> (SentQuestion, Option<ClientQuestion>) {
        if let Self::Lines(connection) = self {
            let call = connection.ask_at_once(method, &params);
            return (SentQuestion::Lines(connection.clone(), call), None);
        }
        let (answer, answered) = oneshot::channel();
        let withdrawal = Withdrawal::default();
        let question = ClientQuestion {
            method: method.to_owned(),
            params,
            is_native,
            answer,
            withdrawal: withdrawal.clone(),
        };
        let sent = SentQuestion::Value(answered, withdrawal);
        match self {
            Self::Channel(channel) => {
                if let Some(channel) = channel.upgrade() {
                    channel.send(FromOwner::Asked(question));
                }
                (sent, None)
            }
            _ => (sent, Some(question)),
        }
    }

    /// Sends a question for which nothing else waits.
    pub(in crate::session) fn send_later(&self, method: &str, params: String) -> SentQuestion {
        let (sent, own) = self.send(method, params, false);
        if let (Self::Own(events), Some(question)) = (self, own) {
            events.send((OWN_FRONT, FromOwner::Asked(question))).ok();
        }
        sent
    }

    /// Whether it is the front of the owner's own task.
    pub(in crate::session) fn is_own(&self) -> bool {
        matches!(self, Self::Own(_))
    }
}

impl SentQuestion {
    /// The client is asked no longer.
    pub(in crate::session) fn withdraw(&self) {
        match self {
            Self::Lines(connection, call) => connection.withdraw(call),
            Self::Value(_, withdrawal) => withdrawal.withdraw(),
        }
    }
}

/// Resolves with the response of the client; with `None` if that is gone.
impl Future for SentQuestion {
    type Output = Option<Outcome>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Self::Lines(_, call) => Pin::new(call).poll(context),
            Self::Value(answered, _) => Pin::new(answered).poll(context).map(Result::ok),
        }
    }
}

/// Where an owner answers a front that attaches, or wants to know how the session is.
#[derive(Debug)]
pub(in crate::session) enum Responds<T> {
    Lines(Responder),
    Channel(oneshot::Sender<Result<T, Refusal>>),
}

impl<T: serde::Serialize> Responds<T> {
    pub(in crate::session) fn answer(self, answer: Result<T, Refusal>) {
        match self {
            Self::Lines(responder) => responder.answer(Ok(message::text(&answer))),
            // The front may have given up.
            Self::Channel(answered) => {
                answered.send(answer).ok();
            }
        }
    }
}

/// Where the answer to a front that attaches goes.
pub(in crate::session) type Admission = Responds<Attached>;

/// A request that was passed to an owner in this process: if it is dropped, its front learns that it
/// will not be answered.
pub(in crate::session) struct PassedOn {
    number: u64,
    events: FrontEvents,
    cancelled: CancellationToken,
    request: Option<(Reply, Passed)>,
}

impl PassedOn {
    pub(in crate::session) fn new(
        number: u64,
        events: FrontEvents,
        cancelled: CancellationToken,
        reply: Reply,
        passed: Passed,
    ) -> Self {
        Self {
            number,
            events,
            cancelled,
            request: Some((reply, passed)),
        }
    }

    /// The owner has answered.
    pub(in crate::session) fn answer(mut self, answer: Answer) {
        // An owner that is ending drops prompts that it had not begun.
        if matches!(answer, Err(Refusal::Interrupted)) {
            return;
        }
        if let Some((reply, passed)) = self.request.take() {
            let answered = FromOwner::Answered {
                reply,
                passed,
                answer,
            };
            self.events.send((self.number, answered)).ok();
        }
    }
}

impl Drop for PassedOn {
    fn drop(&mut self) {
        if let Some((reply, passed)) = self.request.take() {
            let unanswered = FromOwner::Unanswered(Unanswered {
                reply,
                passed,
                is_cancelled: self.cancelled.is_cancelled(),
            });
            self.events.send((self.number, unanswered)).ok();
        }
    }
}
