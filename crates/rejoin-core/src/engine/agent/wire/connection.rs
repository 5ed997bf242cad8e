//! The connection with a running agent: its requests and ours, where the messages about each session go,
//! and whether it runs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::engine::{Caller, Clients, EngineError};
use crate::json;
use crate::protocol::IdSet;
use crate::sys::lock;
use crate::transport::{Outcome, OutgoingRequest};

use super::awaited::Awaited;
use super::life::AgentLife;
use super::requests::{self, AgentCalls, AgentRequests};
use super::routes::AgentRoutes;
use crate::engine::agent::capabilities::Capabilities;
use crate::engine::agent::parse::session_of;
use crate::engine::agent::process::transport::AgentTransport;
use crate::engine::agent::route::SessionRoute;

/// How long an agent may take to end what was cancelled. After that the end is logged, for which a
/// database may take 2 s more: both together are less than the 10 s that a cancellation takes at most.
pub(in crate::engine::agent) const CANCEL_TIMEOUT: Duration = Duration::from_secs(7);
/// How long an agent may take to end a turn whose result is lost.
pub(in crate::engine::agent) const ABANDONED_TIMEOUT: Duration = Duration::from_secs(1);

/// How many bytes an agent may leave unread before it gets errors in place of long answers, and no more of
/// its requests are read.
const UNREAD: usize = 64 * 1024 * 1024;

/// How many bytes of an answer are short.
const SHORT: usize = 4096;

/// How long to wait before looking again whether an agent has read.
const AGAIN: Duration = Duration::from_millis(10);

/// A connection with an agent.
#[derive(Debug)]
pub(in crate::engine::agent) struct AgentConnection {
    /// The clients: one of them gets the agent's requests that belong to no session.
    pub(super) clients: Arc<Clients>,
    pub(super) runtime: Handle,
    transport: Arc<AgentTransport>,
    /// Whether the agent runs.
    pub(in crate::engine::agent) life: AgentLife,
    /// Where its messages about sessions go.
    pub(in crate::engine::agent) routes: AgentRoutes,
    /// Our requests.
    calls: AgentCalls,
    /// Its requests.
    requested: Mutex<AgentRequests>,
    /// The agent's capabilities; known once it has answered `initialize`.
    capabilities: OnceLock<Capabilities>,
    /// Whether the agent has replayed a session before it answered the request to load it.
    replays_first: AtomicBool,
}

/// A pending request to the agent.
#[derive(Debug)]
pub(in crate::engine::agent) struct AgentCall {
    call: OutgoingRequest,
    connection: Arc<AgentConnection>,
}

impl AgentConnection {
    /// The connection with a process. The subagents that it announces are added to `all_subagents`.
    pub(in crate::engine::agent) fn new(
        clients: Arc<Clients>,
        transport: AgentTransport,
        all_subagents: Arc<Mutex<IdSet>>,
    ) -> Arc<Self> {
        let transport = Arc::new(transport);
        Arc::new(Self {
            clients,
            runtime: Handle::current(),
            life: AgentLife::new(transport.clone()),
            transport,
            routes: AgentRoutes::new(all_subagents),
            calls: AgentCalls::default(),
            requested: Mutex::default(),
            capabilities: OnceLock::new(),
            replays_first: AtomicBool::new(false),
        })
    }

    /// The agent's capabilities: none until it has answered `initialize`.
    pub(in crate::engine::agent) fn capabilities(&self) -> Capabilities {
        self.capabilities.get().cloned().unwrap_or_default()
    }

    /// Whether the agent speaks version 2 of the protocol.
    pub(in crate::engine::agent) fn is_native(&self) -> bool {
        let capabilities = self.capabilities.get();
        capabilities.is_some_and(|capabilities| capabilities.is_native)
    }

    pub(in crate::engine::agent) fn set_capabilities(&self, capabilities: Capabilities) {
        // Each process is initialized once.
        self.capabilities.set(capabilities).ok();
    }

    /// Sends a request. Requests keep their order. `params` is the JSON text of an object.
    pub(in crate::engine::agent) fn request(
        self: &Arc<Self>,
        method: &str,
        params: &str,
    ) -> AgentCall {
        self.send(method, params, |_| {})
    }

    /// Sends a request that creates a session, whose messages go to `route`. Requests keep their
    /// order.
    pub(in crate::engine::agent) fn request_for(
        self: &Arc<Self>,
        method: &str,
        params: &str,
        route: &Arc<SessionRoute>,
    ) -> AgentCall {
        self.send(method, params, |id| {
            self.routes.add_pending(id, route);
        })
    }

    /// Sends a request whose response is handled, as `awaited` says, before the agent's next
    /// message. Requests keep their order.
    pub(in crate::engine::agent) fn request_awaited(
        self: &Arc<Self>,
        method: &str,
        params: &str,
        awaited: Awaited,
    ) -> AgentCall {
        self.send(method, params, |id| {
            self.calls.set_awaited(id, awaited);
        })
    }

    /// Sends a request of a client, whose answer and further requests belong to `origin`. Requests
    /// keep their order.
    pub(in crate::engine::agent) fn request_of(
        self: &Arc<Self>,
        origin: Caller,
        method: &str,
        params: &str,
    ) -> AgentCall {
        self.send(method, params, |id| {
            self.calls.set_origin(id, origin);
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
        self.calls.take_awaited(id)
    }

    /// The client's request that was forwarded with `id`.
    pub(super) fn origin(&self, id: &str) -> Option<Caller> {
        self.calls.origin(self.transport.number(id)?)
    }

    /// Sends a notification.
    pub(in crate::engine::agent) fn notify(&self, method: &str, params: &str) {
        self.transport.notify(method, params);
    }

    /// Answers a request of the agent.
    pub(super) fn respond(&self, id: &str, outcome: &Outcome) {
        lock(&self.requested).end(id);
        let (Ok(body) | Err(body)) = outcome;
        if body.len() > SHORT && self.transport.unread() > UNREAD {
            return self.transport.respond(id, &Err(requests::unread()));
        }
        self.transport.respond(id, outcome);
    }

    /// Handles a response of the agent. Returns whether its request is still pending.
    pub(super) fn resolve(&self, id: &str, outcome: Outcome) -> bool {
        let created = id.parse().ok().and_then(|id| self.routes.take_pending(id));
        if let (Some(route), Ok(result)) = (created, &outcome) {
            // Messages that follow the response already have their route. Who sent the request finds out
            // if they do not.
            if let Some(session) = session_of(result) {
                self.routes.subscribe(&session.id, &route);
            }
        }
        self.calls.resolve(id, outcome)
    }

    /// Records whether the agent has replayed a session before its response, and returns whether it
    /// ever has: such an agent does not replay later.
    pub(in crate::engine::agent) fn replays_first(&self, now: bool) -> bool {
        self.replays_first.fetch_or(now, Ordering::AcqRel) || now
    }

    /// Registers a request of the agent, with parameters of this length. The token is cancelled when the
    /// agent withdraws it. `None` if too many are pending; then it has been refused. Blocks the thread
    /// while the agent does not read what it is answered.
    pub(super) fn begin(&self, id: &str, bytes: usize) -> Option<CancellationToken> {
        while self.transport.unread() > UNREAD && !self.life.is_ending() {
            thread::sleep(AGAIN);
        }
        let begun = lock(&self.requested).begin(id, bytes);
        if begun.is_none() {
            self.transport.respond(id, &Err(requests::too_many()));
        }
        begun
    }

    /// The agent withdraws a request.
    pub(super) fn cancel(&self, id: &str) {
        lock(&self.requested).cancel(id);
    }

    /// Takes note that the agent has answered `initialize`.
    pub(in crate::engine::agent) fn note_first_answer(&self) {
        self.transport.note_first_answer();
    }

    /// The agent's output has ended, so the process is ended, too.
    pub(super) fn finish(&self) {
        self.life.end_process(&self.runtime);
        // Set before pending requests fail, so that they find the reason.
        self.life.died_with(self.calls.waiting());
        // Its requests to the client are withdrawn.
        lock(&self.requested).cancel_all();
        self.calls.close();
        if let Some(reason) = self.life.unexpected_end() {
            tracing::warn!(%reason, "the agent has ended");
            for route in self.routes.all() {
                tracing::info!(session = route.name(), "its agent has ended");
            }
        }
    }
}

impl Drop for AgentCall {
    fn drop(&mut self) {
        self.connection.calls.forget(self.call.id);
        self.connection.routes.take_pending(self.call.id);
    }
}

impl AgentCall {
    /// Gives up waiting and cancels the request.
    pub(in crate::engine::agent) fn abandon(self) {
        self.connection.transport.cancel(self.call.id);
    }

    /// Waits for the outcome.
    pub(in crate::engine::agent) async fn outcome(mut self) -> Result<String, EngineError> {
        self.wait().await
    }

    /// Waits for the outcome; the caller may stop waiting, and wait again.
    pub(in crate::engine::agent) async fn wait(&mut self) -> Result<String, EngineError> {
        let outcome = (&mut self.call).await;
        self.read(outcome)
    }

    /// Waits for the outcome, cancels the request when `cancelled` resolves, and then waits for at most
    /// [`CANCEL_TIMEOUT`].
    pub(in crate::engine::agent) async fn outcome_or_cancel(
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
    pub(in crate::engine::agent) async fn outcome_within(
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
            None => Err(self.connection.life.ended_error()),
        }
    }
}

/// The error that an agent has not answered a request in time.
pub(in crate::engine::agent) fn timed_out(method: &str, limit: Duration) -> EngineError {
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
