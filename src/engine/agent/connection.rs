//! The connection with a running agent: requests in both directions, and where the messages about
//! each session go.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;

use crate::engine::upstream::Patience;
use crate::engine::{Caller, Clients, EngineError};
use crate::json;
use crate::protocol::{Id, IdSet};
use crate::sys::lock;
use crate::transport::{Outcome, OutgoingRequest, OutgoingRequests};

use super::agent_requests::{self, AgentRequests};
use super::capabilities::Capabilities;
use super::early::EarlyMessages;
use super::parse::session_of;
use super::route::SessionRoute;
use super::steering::Steering;
use super::transport::AgentTransport;

/// How long an agent may take to end what was cancelled. After that the end is logged, for which a
/// database may take 2 s more: both together are less than the 10 s that a cancellation takes at most.
pub(super) const CANCEL_TIMEOUT: Duration = Duration::from_secs(7);
/// How long an agent may take to end a turn whose result is lost.
pub(super) const ABANDONED_TIMEOUT: Duration = Duration::from_secs(1);

/// How many bytes an agent may leave unread before it gets errors in place of long answers, and no more of
/// its requests are read.
const UNREAD: usize = 64 * 1024 * 1024;

/// How many bytes of an answer are short.
const SHORT: usize = 4096;

/// How long to wait before looking again whether an agent has read.
const AGAIN: Duration = Duration::from_millis(10);

/// A connection with an agent.
#[derive(Debug)]
pub(super) struct AgentConnection {
    /// The clients: one of them gets the agent's requests that belong to no session.
    pub(super) clients: Arc<Clients>,
    pub(super) runtime: Handle,
    transport: AgentTransport,
    calls: OutgoingRequests,
    routes: Mutex<HashMap<String, Arc<SessionRoute>>>,
    /// The routes of the sessions in which subagents were announced, with the subagents' sessions.
    subagents: Mutex<Vec<(Arc<SessionRoute>, IdSet)>>,
    /// The subagents of all processes of the agent.
    all_subagents: Arc<Mutex<IdSet>>,
    /// How often it changed where the messages about sessions go.
    changes: AtomicU64,
    /// Requests whose result names a new session, and where the messages about that session go.
    pending_sessions: Mutex<HashMap<u64, Arc<SessionRoute>>>,
    /// The actions for the arrival of responses, by the ids of the requests.
    awaited: Mutex<HashMap<u64, Awaited>>,
    pub(super) early: EarlyMessages,
    /// The forwarded requests of clients, by our ids of them.
    origins: Mutex<HashMap<u64, Caller>>,
    /// Pending requests of the agent, by their id's JSON text.
    requested: Mutex<AgentRequests>,
    /// The agent's capabilities; known once it has answered `initialize`.
    capabilities: OnceLock<Capabilities>,
    dead: watch::Sender<bool>,
    /// How many of our requests were pending when the agent ended.
    lost_requests: AtomicUsize,
    leaving: AtomicBool,
    /// Whether the agent is ended because it no longer took its input.
    is_deaf: AtomicBool,
    /// Whether the agent has replayed a session before it answered the request to load it.
    replays_first: AtomicBool,
}

/// The action for the arrival of a response, before any message that follows it.
#[derive(Debug)]
pub(super) enum Awaited {
    TurnEnd(TurnEnd),
    Steering(Steering),
    /// A session was opened, with this route.
    Opened(Arc<SessionRoute>),
}

/// Marks the end of a turn: handled when the response to its prompt arrives, before any message
/// that follows it.
#[derive(Debug)]
pub(super) struct TurnEnd {
    pub(super) route: Arc<SessionRoute>,
    /// The id of the message that is answered.
    pub(super) message_id: String,
    /// Resolves to whether the response ends the turn. `None` if the response only says that the
    /// agent has accepted the prompt.
    pub(super) is_end: Option<oneshot::Receiver<bool>>,
}

/// A pending request to the agent.
#[derive(Debug)]
pub(super) struct AgentCall {
    call: OutgoingRequest,
    connection: Arc<AgentConnection>,
}

impl AgentConnection {
    /// The connection with a process. The subagents that it announces are added to `all_subagents`.
    pub(super) fn new(
        clients: Arc<Clients>,
        transport: AgentTransport,
        all_subagents: Arc<Mutex<IdSet>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            clients,
            runtime: Handle::current(),
            transport,
            calls: OutgoingRequests::default(),
            routes: Mutex::default(),
            subagents: Mutex::default(),
            all_subagents,
            changes: AtomicU64::new(0),
            pending_sessions: Mutex::default(),
            awaited: Mutex::default(),
            early: EarlyMessages::default(),
            origins: Mutex::default(),
            requested: Mutex::default(),
            capabilities: OnceLock::new(),
            dead: watch::Sender::new(false),
            lost_requests: AtomicUsize::new(0),
            leaving: AtomicBool::new(false),
            is_deaf: AtomicBool::new(false),
            replays_first: AtomicBool::new(false),
        })
    }

    /// The agent's capabilities: none until it has answered `initialize`.
    pub(super) fn capabilities(&self) -> Capabilities {
        self.capabilities.get().cloned().unwrap_or_default()
    }

    /// Whether the agent speaks version 2 of the protocol.
    pub(super) fn is_native(&self) -> bool {
        let capabilities = self.capabilities.get();
        capabilities.is_some_and(|capabilities| capabilities.is_native)
    }

    pub(super) fn set_capabilities(&self, capabilities: Capabilities) {
        // Each process is initialized once.
        self.capabilities.set(capabilities).ok();
    }

    /// Sends a request. Requests keep their order. `params` is the JSON text of an object.
    pub(super) fn request(self: &Arc<Self>, method: &str, params: &str) -> AgentCall {
        self.send(method, params, |_| {})
    }

    /// Sends a request that creates a session, whose messages go to `route`. Requests keep their
    /// order.
    pub(super) fn request_for(
        self: &Arc<Self>,
        method: &str,
        params: &str,
        route: &Arc<SessionRoute>,
    ) -> AgentCall {
        self.send(method, params, |id| {
            lock(&self.pending_sessions).insert(id, route.clone());
        })
    }

    /// Sends a request whose response is handled, as `awaited` says, before the agent's next
    /// message. Requests keep their order.
    pub(super) fn request_awaited(
        self: &Arc<Self>,
        method: &str,
        params: &str,
        awaited: Awaited,
    ) -> AgentCall {
        self.send(method, params, |id| {
            lock(&self.awaited).insert(id, awaited);
        })
    }

    /// Sends a request of a client, whose answer and further requests belong to `origin`. Requests
    /// keep their order.
    pub(super) fn request_of(
        self: &Arc<Self>,
        origin: Caller,
        method: &str,
        params: &str,
    ) -> AgentCall {
        self.send(method, params, |id| {
            lock(&self.origins).insert(id, origin);
        })
    }

    /// Sends a request after `register` was called with its id.
    fn send(self: &Arc<Self>, method: &str, params: &str, register: impl FnOnce(u64)) -> AgentCall {
        let call = self.calls.begin();
        register(call.id);
        self.transport.request(call.id, method, params);
        AgentCall {
            call,
            connection: self.clone(),
        }
    }

    /// Takes the action for the arrival of the response to this request.
    pub(super) fn take_awaited(&self, id: &str) -> Option<Awaited> {
        lock(&self.awaited).remove(&id.parse().ok()?)
    }

    /// The client's request that was forwarded with `id`.
    pub(super) fn origin(&self, id: &str) -> Option<Caller> {
        let id = self.transport.number(id)?;
        lock(&self.origins).get(&id).cloned()
    }

    /// Sends a notification.
    pub(super) fn notify(&self, method: &str, params: &str) {
        self.transport.notify(method, params);
    }

    /// Answers a request of the agent.
    pub(super) fn respond(&self, id: &str, outcome: &Outcome) {
        lock(&self.requested).end(id);
        let (Ok(body) | Err(body)) = outcome;
        if body.len() > SHORT && self.transport.unread() > UNREAD {
            return self.transport.respond(id, &Err(agent_requests::unread()));
        }
        self.transport.respond(id, outcome);
    }

    /// Handles a response of the agent. Returns whether its request is still pending.
    pub(super) fn resolve(&self, id: &str, outcome: Outcome) -> bool {
        let created = id
            .parse()
            .ok()
            .and_then(|id| lock(&self.pending_sessions).remove(&id));
        if let (Some(route), Ok(result)) = (created, &outcome) {
            // Messages that follow the response already have their route. Who sent the request finds out
            // if they do not.
            if let Some(session) = session_of(result) {
                self.subscribe(&session.id, &route);
            }
        }
        self.calls.resolve(id, outcome)
    }

    /// Records whether the agent has replayed a session before its response, and returns whether it
    /// ever has: such an agent does not replay later.
    pub(super) fn replays_first(&self, now: bool) -> bool {
        self.replays_first.fetch_or(now, Ordering::AcqRel) || now
    }

    /// From now on, messages about this session of the agent go to `route`, unless another open session
    /// has it: two never share one. Returns whether they do.
    pub(super) fn subscribe(&self, session: &str, route: &Arc<SessionRoute>) -> bool {
        let replaced = {
            let mut routes = lock(&self.routes);
            if routes
                .get(session)
                .is_some_and(|other| !may_give_way(other, route))
            {
                return false;
            }
            route.opened_as(session);
            routes.insert(session.to_owned(), route.clone())
        };
        self.forget_subagents(replaced.filter(|replaced| !Arc::ptr_eq(replaced, route)));
        true
    }

    /// From now on, messages about this session are ignored, if they went to `route`.
    pub(super) fn unsubscribe(&self, session: &str, route: &Arc<SessionRoute>) {
        let removed = {
            let mut routes = lock(&self.routes);
            let is_it = routes
                .get(session)
                .is_some_and(|current| Arc::ptr_eq(current, route));
            if is_it { routes.remove(session) } else { None }
        };
        self.forget_subagents(removed);
    }

    /// The error that another open session of ours has the agent's session with this id, if one has.
    pub(super) fn shared_error(
        &self,
        session: &str,
        route: &Arc<SessionRoute>,
    ) -> Option<EngineError> {
        let other = self.route(session);
        let other = other.filter(|other| !may_give_way(other, route))?;
        let message = format!(
            "the agent has only one session for this one and for {}, which is open: close that one \
             first, or go on there",
            other.name()
        );
        let id = ("openSessionId".to_owned(), other.name().into());
        let name = "agent_session_shared";
        Some(EngineError::with(
            EngineError::INTERNAL,
            name,
            message,
            [id],
        ))
    }

    /// Forgets the subagents of a session that is no longer open.
    fn forget_subagents(&self, route: Option<Arc<SessionRoute>>) {
        self.changes.fetch_add(1, Ordering::AcqRel);
        if let Some(route) = route {
            lock(&self.subagents).retain(|(of, _)| !Arc::ptr_eq(of, &route));
        }
    }

    /// From now on, messages about this subagent's session go to `route`. A session that is open is
    /// no subagent.
    pub(super) fn announce_subagent(&self, session: &str, route: &Arc<SessionRoute>) {
        if self.route(session).is_some() {
            return;
        }
        let id = Id::of(session.as_bytes());
        lock(&self.all_subagents).add(id);
        let mut subagents = lock(&self.subagents);
        let place = subagents.iter().position(|(of, _)| Arc::ptr_eq(of, route));
        let place = place.unwrap_or_else(|| {
            subagents.push((route.clone(), IdSet::default()));
            subagents.len() - 1
        });
        if subagents[place].1.add(id) {
            self.changes.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Counts changes of where the messages about sessions go.
    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Where messages about a subagent's session go.
    pub(super) fn subagent_route(&self, session: &str) -> Option<Arc<SessionRoute>> {
        let id = Id::of(session.as_bytes());
        let subagents = lock(&self.subagents);
        let found = subagents
            .iter()
            .rev()
            .find(|(_, sessions)| sessions.has(id));
        found.map(|(route, _)| route.clone())
    }

    /// Whether this is the session of a subagent.
    pub(super) fn is_subagent(&self, session: &str) -> bool {
        self.subagent_route(session).is_some()
    }

    /// The routes of all sessions.
    pub(super) fn all_routes(&self) -> Vec<Arc<SessionRoute>> {
        lock(&self.routes).values().cloned().collect()
    }

    /// Whether a request is pending whose response names a new session.
    pub(super) fn awaits_sessions(&self) -> bool {
        !lock(&self.pending_sessions).is_empty()
    }

    /// Keeps a line about a session without a route, if the session may be one that is being
    /// created.
    pub(super) fn keep_early(&self, session: &str, line: &[u8]) -> bool {
        self.awaits_sessions() && self.early.keep(session, line)
    }

    /// Where a request about a session goes. An agent may need the response before it can answer
    /// the request that creates the session, so it is not kept until then; if only one such request
    /// is pending, it is clear which session is meant.
    pub(super) fn route_of_request(&self, session: &str) -> Option<Arc<SessionRoute>> {
        self.route(session).or_else(|| {
            let pending_sessions = lock(&self.pending_sessions);
            let mut routes = pending_sessions.values();
            routes.next().filter(|_| routes.next().is_none()).cloned()
        })
    }

    pub(super) fn route(&self, session: &str) -> Option<Arc<SessionRoute>> {
        lock(&self.routes).get(session).cloned()
    }

    /// Registers a request of the agent, with parameters of this length. The token is cancelled when the
    /// agent withdraws it. `None` if too many are pending; then it has been refused. Blocks the thread
    /// while the agent does not read what it is answered.
    pub(super) fn begin(&self, id: &str, bytes: usize) -> Option<CancellationToken> {
        while self.transport.unread() > UNREAD && !self.is_leaving() && !self.is_dead() {
            thread::sleep(AGAIN);
        }
        let begun = lock(&self.requested).begin(id, bytes);
        if begun.is_none() {
            self.transport.respond(id, &Err(agent_requests::too_many()));
        }
        begun
    }

    /// The agent withdraws a request.
    pub(super) fn cancel(&self, id: &str) {
        lock(&self.requested).cancel(id);
    }

    /// Whether the agent is being ended.
    pub(super) fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::Acquire)
    }

    pub(super) fn is_dead(&self) -> bool {
        *self.dead.borrow()
    }

    /// Resolves when the agent has ended.
    pub(super) async fn died(&self) {
        // The sender is in `self`, so waiting cannot fail.
        let mut dead = self.dead.subscribe();
        dead.wait_for(|dead| *dead).await.ok();
    }

    /// Ends an agent that no longer takes its input, since it would answer nothing.
    pub(super) async fn end_when_deaf(&self) {
        tokio::select! {
            () = self.died() => {}
            () = self.transport.is_deaf() => {
                self.is_deaf.store(true, Ordering::Release);
                if !self.is_leaving() {
                    self.transport.end(Patience::EndOfInput).await;
                }
            }
        }
    }

    /// Takes note that the agent has answered `initialize`.
    pub(super) fn note_first_answer(&self) {
        self.transport.note_first_answer();
    }

    /// The agent's output has ended, so the process is ended, too.
    pub(super) fn finish(&self) {
        // Otherwise it is being ended already, with another time limit.
        if !self.is_leaving() {
            let ended = self.transport.end(Patience::EndOfInput);
            self.runtime.block_on(ended);
            self.transport.kill();
        }
        self.lost_requests
            .store(self.calls.waiting(), Ordering::Release);
        // Set before pending requests fail, so that they find the reason.
        self.dead.send_replace(true);
        // Its requests to the client are withdrawn.
        lock(&self.requested).cancel_all();
        self.calls.close();
        if self.transport.is_process() && !self.is_leaving() {
            let reason = self.exit_reason();
            tracing::warn!(%reason, "the agent has ended");
            for route in self.all_routes() {
                tracing::info!(session = route.name(), "its agent has ended");
            }
        }
    }

    /// Ends the agent.
    pub(super) async fn end(&self, patience: Patience) {
        self.leaving.store(true, Ordering::Release);
        self.transport.end(patience).await;
    }

    /// Ends the agent because our own process is about to exit.
    pub(super) async fn leave(&self, patience: Patience) {
        self.leaving.store(true, Ordering::Release);
        self.transport.leave(patience).await;
    }

    /// Why the agent has ended, in one line.
    pub(super) fn exit_reason(&self) -> String {
        let is_deaf = self.is_deaf.load(Ordering::Acquire);
        self.transport.exit_reason(is_deaf)
    }

    /// How an agent has ended that did not answer `initialize`, in one line.
    pub(super) fn startup_failure(&self) -> String {
        self.transport.startup_failure()
    }

    /// The error for requests that were pending when the agent ended.
    pub(super) fn ended_error(&self) -> EngineError {
        let message = if self.is_leaving() {
            "the agent was ended with the process that had started it".to_owned()
        } else {
            format!("the agent ended unexpectedly: {}", self.exit_reason())
        };
        let lines = self.transport.stderr_tail();
        let lines = (!lines.is_empty()).then(|| ("stderr".to_owned(), lines.join("\n").into()));
        EngineError::with(EngineError::INTERNAL, "agent_ended", message, lines)
    }

    /// Whether at most one request was pending when the agent ended.
    pub(super) fn ended_alone(&self) -> bool {
        self.lost_requests.load(Ordering::Acquire) <= 1
    }
}

impl Drop for AgentCall {
    fn drop(&mut self) {
        lock(&self.connection.origins).remove(&self.call.id);
        // The session of a request that was given up has no route.
        lock(&self.connection.pending_sessions).remove(&self.call.id);
        lock(&self.connection.awaited).remove(&self.call.id);
    }
}

impl AgentCall {
    /// Gives up waiting and cancels the request.
    pub(super) fn abandon(self) {
        self.connection.transport.cancel(self.call.id);
    }

    /// Waits for the outcome.
    pub(super) async fn outcome(mut self) -> Result<String, EngineError> {
        self.wait().await
    }

    /// Waits for the outcome; the caller may stop waiting, and wait again.
    pub(super) async fn wait(&mut self) -> Result<String, EngineError> {
        let outcome = (&mut self.call).await;
        self.read(outcome)
    }

    /// Waits for the outcome, cancels the request when `cancelled` resolves, and then waits for at most
    /// [`CANCEL_TIMEOUT`].
    pub(super) async fn outcome_or_cancel(
        mut self,
        cancelled: impl Future<Output = ()>,
    ) -> Result<String, EngineError> {
        tokio::select! {
            outcome = &mut self.call => return self.read(outcome),
            () = cancelled => {}
        }
        self.connection.transport.cancel(self.call.id);
        let outcome = tokio::time::timeout(CANCEL_TIMEOUT, self.wait()).await;
        outcome.unwrap_or_else(|_| Err(EngineError::cancelled()))
    }

    /// Waits for the outcome, but no longer than `limit`.
    pub(super) async fn outcome_within(
        mut self,
        method: &str,
        limit: Duration,
    ) -> Result<String, EngineError> {
        if let Ok(outcome) = tokio::time::timeout(limit, self.wait()).await {
            return outcome;
        }
        self.abandon();
        Err(timed_out(method, limit))
    }

    fn read(&self, outcome: Option<Outcome>) -> Result<String, EngineError> {
        match outcome {
            Some(outcome) => outcome.map_err(|error| agent_error(&error)),
            None => Err(self.connection.ended_error()),
        }
    }
}

/// Whether another route may take the messages about the agent's session in place of this one: one of the
/// same session, or any if this one is of none.
fn may_give_way(route: &SessionRoute, other: &SessionRoute) -> bool {
    route.session.is_none() || route.session == other.session
}

/// The error that an agent has not answered a request in time.
pub(super) fn timed_out(method: &str, limit: Duration) -> EngineError {
    let limit = humantime::format_duration(limit);
    let message = format!("the agent did not answer `{method}` within {limit} (`--load-timeout`)");
    EngineError::named(EngineError::INTERNAL, "agent_timeout", message)
}

/// An error object of the agent. The client gets the agent's own words and nothing else.
fn agent_error(object: &str) -> EngineError {
    let malformed = "the agent returned a malformed JSON-RPC error".to_owned();
    let mut error = EngineError::of_agent(EngineError::INTERNAL, malformed, None);
    for (name, value) in json::text_members(object) {
        match name.as_str() {
            "code" => error.code = value.parse().unwrap_or(EngineError::INTERNAL),
            "message" => {
                if let Ok(message) = serde_json::from_str(value) {
                    error.message = message;
                }
            }
            "data" => error.data = Some(value.to_owned()),
            _ => {}
        }
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_keep_their_members() {
        let read = agent_error(r#"{"code":-32000,"message":"sign \"in\"","data":{"n":1e400}}"#);
        assert_eq!(read.code, EngineError::SIGN_IN);
        assert_eq!(read.message, "sign \"in\"");
        assert_eq!(read.data.as_deref(), Some(r#"{"n":1e400}"#));
        assert_eq!(agent_error("7").code, EngineError::INTERNAL);
    }
}
