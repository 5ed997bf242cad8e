//! The connection with an agent that runs: requests to it and from it, and who hears its updates.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};

use crate::engine::outlet::Canceller;
use crate::engine::relay::Patience;
use crate::engine::{Cancel, EngineError};
use crate::sys::lock;
use crate::transport::{Call, Outcome, OutgoingRequests, Wire};

use super::abilities::Abilities;
use super::route::Route;
use super::transport::AgentTransport;
use super::unclaimed::Unclaimed;

/// A connection with an agent.
#[derive(Debug)]
pub(super) struct Link {
    /// The client's end: requests of the agent go there.
    pub(super) client: Arc<Wire>,
    pub(super) runtime: Handle,
    transport: AgentTransport,
    calls: OutgoingRequests,
    routes: Mutex<HashMap<String, Arc<Route>>>,
    /// Requests whose result names a new session, and who is to hear of that session.
    pending_sessions: Mutex<HashMap<u64, Arc<Route>>>,
    /// Requests whose response ends a turn.
    ends: Mutex<HashMap<u64, Ending>>,
    /// Messages about sessions that nobody hears yet.
    pub(super) unclaimed: Unclaimed,
    /// The client's ids of its requests that were handed on, as JSON text, by ours.
    origins: Mutex<HashMap<u64, String>>,
    /// Requests of the agent that are under way, by their id's JSON text.
    asked: Mutex<BTreeMap<String, Canceller>>,
    /// What the agent can do; known when it has answered `initialize`.
    abilities: OnceLock<Abilities>,
    dead: watch::Sender<bool>,
    /// How many requests of ours were under way when the agent ended.
    left: AtomicUsize,
    leaving: AtomicBool,
    /// Whether the agent has replayed a session before it answered the request to load it.
    replays_first: AtomicBool,
}

/// What is done when the response to a prompt has come, in front of all that follows it.
#[derive(Debug)]
pub(super) struct Ending {
    pub(super) route: Arc<Route>,
    /// The id of the message that is answered.
    pub(super) message_id: String,
    /// Tells whether the response ends the turn.
    pub(super) surely: oneshot::Receiver<bool>,
}

/// A request to the agent, under way.
#[derive(Debug)]
pub(super) struct Pending {
    call: Call,
    link: Arc<Link>,
}

impl Link {
    pub(super) fn new(client: Arc<Wire>, transport: AgentTransport) -> Arc<Self> {
        Arc::new(Self {
            client,
            runtime: Handle::current(),
            transport,
            calls: OutgoingRequests::default(),
            routes: Mutex::default(),
            pending_sessions: Mutex::default(),
            ends: Mutex::default(),
            unclaimed: Unclaimed::default(),
            origins: Mutex::default(),
            asked: Mutex::default(),
            abilities: OnceLock::new(),
            dead: watch::Sender::new(false),
            left: AtomicUsize::new(0),
            leaving: AtomicBool::new(false),
            replays_first: AtomicBool::new(false),
        })
    }

    /// What the agent can do. Nothing, as long as it has not said so.
    pub(super) fn abilities(&self) -> Abilities {
        self.abilities.get().cloned().unwrap_or_default()
    }

    pub(super) fn know(&self, abilities: Abilities) {
        // An agent is greeted once.
        self.abilities.set(abilities).ok();
    }

    /// Sends a request. What is sent first comes first. `params` is the JSON text of an object.
    pub(super) fn request(self: &Arc<Self>, method: &str, params: &str) -> Pending {
        self.send(method, params, |_| {})
    }

    /// The same for a request that makes a session, whose messages go to `route`.
    pub(super) fn request_for(
        self: &Arc<Self>,
        method: &str,
        params: &str,
        route: &Arc<Route>,
    ) -> Pending {
        self.send(method, params, |id| {
            lock(&self.pending_sessions).insert(id, route.clone());
        })
    }

    /// The same for a prompt.
    pub(super) fn request_turn(self: &Arc<Self>, params: &str, ending: Ending) -> Pending {
        self.send("session/prompt", params, |id| {
            lock(&self.ends).insert(id, ending);
        })
    }

    /// What is to be done before a response is handed on.
    pub(super) fn ending(&self, id: &str) -> Option<Ending> {
        lock(&self.ends).remove(&id.parse().ok()?)
    }

    /// The same for a request that the client has made under the id `origin`.
    pub(super) fn request_of(
        self: &Arc<Self>,
        origin: &str,
        method: &str,
        params: &str,
    ) -> Pending {
        self.send(method, params, |id| {
            lock(&self.origins).insert(id, origin.to_owned());
        })
    }

    /// Sends a request once `note` has taken note of its id.
    fn send(self: &Arc<Self>, method: &str, params: &str, note: impl FnOnce(u64)) -> Pending {
        let call = self.calls.begin();
        note(call.id);
        self.transport.request(call.id, method, params);
        Pending {
            call,
            link: self.clone(),
        }
    }

    /// The client's id of a request that was handed on under `id`.
    pub(super) fn origin(&self, id: &str) -> Option<String> {
        let id = self.transport.number(id)?;
        lock(&self.origins).get(&id).cloned()
    }

    /// Sends a notification.
    pub(super) fn notify(&self, method: &str, params: &str) {
        self.transport.notify(method, params);
    }

    /// Answers a request of the agent.
    pub(super) fn respond(&self, id: &str, outcome: &Outcome) {
        lock(&self.asked).remove(id);
        self.transport.respond(id, outcome);
    }

    /// A response of the agent has come.
    pub(super) fn settle(&self, id: &str, outcome: Outcome) -> bool {
        let birth = id
            .parse()
            .ok()
            .and_then(|id| lock(&self.pending_sessions).remove(&id));
        if let (Some(route), Ok(result)) = (birth, &outcome) {
            // Whatever comes behind the response is heard.
            if let Some(session) = super::shape::session_of(result) {
                self.hear(&session.id, &route);
            }
        }
        self.calls.resolve(id, outcome)
    }

    /// Takes note of whether the agent has replayed a session before its answer, and tells whether it
    /// ever has: such an agent does not do so later.
    pub(super) fn replays_first(&self, now: bool) -> bool {
        self.replays_first.fetch_or(now, Ordering::AcqRel) || now
    }

    /// From now on, messages about this session go to `route`.
    pub(super) fn hear(&self, session: &str, route: &Arc<Route>) {
        lock(&self.routes).insert(session.to_owned(), route.clone());
    }

    /// Messages about this session are no longer heard.
    pub(super) fn forget(&self, session: &str) {
        lock(&self.routes).remove(session);
    }

    /// Whether a request is under way whose response names a new session.
    pub(super) fn awaits_sessions(&self) -> bool {
        !lock(&self.pending_sessions).is_empty()
    }

    /// Keeps a line about a session that nobody hears, if it may be one that is being made.
    pub(super) fn keep(&self, session: &str, line: &[u8]) -> bool {
        self.awaits_sessions() && self.unclaimed.keep(session, line)
    }

    /// Where a request about a session goes. An agent may need the answer before it can answer the
    /// request that makes the session, so that cannot be waited for; if there is only one such
    /// request, it is known which session is meant.
    pub(super) fn route_of_request(&self, session: &str) -> Option<Arc<Route>> {
        self.route(session).or_else(|| {
            let pending_sessions = lock(&self.pending_sessions);
            let mut routes = pending_sessions.values();
            routes.next().filter(|_| routes.next().is_none()).cloned()
        })
    }

    pub(super) fn route(&self, session: &str) -> Option<Arc<Route>> {
        lock(&self.routes).get(session).cloned()
    }

    /// A request of the agent begins; the other end is told if the agent takes it back.
    pub(super) fn begin(&self, id: &str) -> Cancel {
        let (canceller, cancel) = Cancel::new();
        lock(&self.asked).insert(id.to_owned(), canceller);
        cancel
    }

    /// The agent takes a request back.
    pub(super) fn cancel(&self, id: &str) {
        if let Some(canceller) = lock(&self.asked).get(id) {
            canceller.cancel();
        }
    }

    pub(super) fn is_dead(&self) -> bool {
        *self.dead.borrow()
    }

    /// The agent says nothing any more: it has ended, or will have to.
    pub(super) fn finish(&self) {
        // Who ends it knows how long it may take.
        if !self.leaving.load(Ordering::Acquire) {
            let ended = self.transport.end(Patience::EndOfInput);
            self.runtime.block_on(ended);
            self.transport.kill();
        }
        self.left.store(self.calls.waiting(), Ordering::Release);
        // Whoever learns that nothing is answered any more shall find the reason.
        self.dead.send_replace(true);
        // The client is to know that nobody waits for its answers.
        for (_, canceller) in std::mem::take(&mut *lock(&self.asked)) {
            canceller.cancel();
        }
        self.calls.close();
        if self.transport.is_process() && !self.leaving.load(Ordering::Acquire) {
            tracing::warn!(reason = %self.exit_reason(), "the agent has ended");
        }
    }

    /// Ends the agent.
    pub(super) async fn end(&self, patience: Patience) {
        self.leaving.store(true, Ordering::Release);
        self.transport.end(patience).await;
    }

    /// Sees to it that the agent ends when we do.
    pub(super) async fn leave(&self, patience: Patience) {
        self.leaving.store(true, Ordering::Release);
        self.transport.leave(patience).await;
    }

    /// Why the agent is gone, in one line.
    pub(super) fn exit_reason(&self) -> String {
        self.transport.exit_reason()
    }

    /// How an agent has ended that did not answer `initialize`, in one line.
    pub(super) fn last_words(&self) -> String {
        self.transport.last_words()
    }

    /// The error for what was under way when the agent ended.
    pub(super) fn gone(&self) -> EngineError {
        let message = format!("the agent ended unexpectedly: {}", self.exit_reason());
        EngineError::named(EngineError::INTERNAL, "agent_ended", message)
    }

    /// Whether nothing but one request was under way when the agent ended.
    pub(super) fn ended_alone(&self) -> bool {
        self.left.load(Ordering::Acquire) <= 1
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        lock(&self.link.origins).remove(&self.call.id);
        // A session that is made when nobody waits for it any more is heard by nobody.
        lock(&self.link.pending_sessions).remove(&self.call.id);
        lock(&self.link.ends).remove(&self.call.id);
    }
}

impl Pending {
    /// Tells the agent that nobody waits for the outcome any more.
    pub(super) fn abandon(self) {
        self.link.transport.cancel(self.call.id);
    }

    /// Waits for the outcome.
    pub(super) async fn outcome(mut self) -> Result<String, EngineError> {
        self.settled().await
    }

    /// The same for who may give up.
    pub(super) async fn settled(&mut self) -> Result<String, EngineError> {
        let outcome = (&mut self.call).await;
        self.read(outcome)
    }

    /// The same; tells the agent when `cancelled` resolves, and goes on waiting.
    pub(super) async fn outcome_unless(
        mut self,
        cancelled: impl Future<Output = ()>,
    ) -> Result<String, EngineError> {
        tokio::select! {
            outcome = &mut self.call => return self.read(outcome),
            () = cancelled => {}
        }
        self.link.transport.cancel(self.call.id);
        self.outcome().await
    }

    fn read(&self, outcome: Option<Outcome>) -> Result<String, EngineError> {
        match outcome {
            Some(outcome) => outcome.map_err(|error| super::said::error(&error)),
            None => Err(self.link.gone()),
        }
    }
}
