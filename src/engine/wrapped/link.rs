//! The connection with an agent that runs: requests to it and from it, and who hears its updates.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::engine::outlet::Canceller;
use crate::engine::relay::Patience;
use crate::engine::{Cancel, EngineError};
use crate::sys::lock;
use crate::wire::{Call, Calls, Outcome, Wire};

use super::abilities::Abilities;
use super::far_end::FarEnd;
use super::route::Route;
use super::unclaimed::Unclaimed;

/// A connection with an agent.
#[derive(Debug)]
pub(super) struct Link {
    /// The client's end: requests of the agent go there.
    pub(super) client: Arc<Wire>,
    pub(super) runtime: Handle,
    far_end: FarEnd,
    calls: Calls,
    routes: Mutex<HashMap<String, Arc<Route>>>,
    /// Requests whose result names a new session, and who is to hear of that session.
    births: Mutex<HashMap<u64, Arc<Route>>>,
    /// Updates of sessions that nobody hears yet.
    pub(super) unclaimed: Unclaimed,
    /// The client's ids of its requests that were handed on, as JSON text, by ours.
    origins: Mutex<HashMap<u64, String>>,
    /// Requests of the agent that are under way, by their id's JSON text.
    asked: Mutex<HashMap<String, Canceller>>,
    /// What the agent can do; known when it has answered `initialize`.
    abilities: OnceLock<Abilities>,
    dead: watch::Sender<bool>,
    leaving: AtomicBool,
}

/// A request to the agent, under way.
#[derive(Debug)]
pub(super) struct Pending {
    call: Call,
    link: Arc<Link>,
}

impl Link {
    pub(super) fn new(client: Arc<Wire>, far_end: FarEnd) -> Arc<Self> {
        Arc::new(Self {
            client,
            runtime: Handle::current(),
            far_end,
            calls: Calls::default(),
            routes: Mutex::default(),
            births: Mutex::default(),
            unclaimed: Unclaimed::default(),
            origins: Mutex::default(),
            asked: Mutex::default(),
            abilities: OnceLock::new(),
            dead: watch::Sender::new(false),
            leaving: AtomicBool::new(false),
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
            lock(&self.births).insert(id, route.clone());
        })
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
        self.far_end.request(call.id, method, params);
        Pending {
            call,
            link: self.clone(),
        }
    }

    /// The client's id of a request that was handed on under `id`.
    pub(super) fn origin(&self, id: &str) -> Option<String> {
        let id = self.far_end.number(id)?;
        lock(&self.origins).get(&id).cloned()
    }

    /// Sends a notification.
    pub(super) fn notify(&self, method: &str, params: &str) {
        self.far_end.notify(method, params);
    }

    /// Answers a request of the agent.
    pub(super) fn respond(&self, id: &str, outcome: &Outcome) {
        lock(&self.asked).remove(id);
        self.far_end.respond(id, outcome);
    }

    /// A response of the agent has come.
    pub(super) fn settle(&self, id: &str, outcome: Outcome) -> bool {
        let birth = id
            .parse()
            .ok()
            .and_then(|id| lock(&self.births).remove(&id));
        if let (Some(route), Ok(result)) = (birth, &outcome) {
            // Whatever comes behind the response is heard.
            if let Some(session) = super::shape::session_of(result) {
                self.hear(&session.id, &route);
            }
        }
        self.calls.resolve(id, outcome)
    }

    /// From now on, messages about this session go to `route`.
    pub(super) fn hear(&self, session: &str, route: &Arc<Route>) {
        lock(&self.routes).insert(session.to_owned(), route.clone());
    }

    /// Messages about this session are no longer heard.
    pub(super) fn forget(&self, session: &str) {
        lock(&self.routes).remove(session);
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
            let ended = self.far_end.end(Patience::EndOfInput);
            self.runtime.block_on(ended);
            self.far_end.kill();
        }
        // Whoever learns that nothing is answered any more shall find the reason.
        self.dead.send_replace(true);
        self.calls.close();
        lock(&self.asked).clear();
        if self.far_end.is_process() && !self.leaving.load(Ordering::Acquire) {
            tracing::warn!(reason = %self.epitaph(), "the agent has ended");
        }
    }

    /// Ends the agent.
    pub(super) async fn end(&self, patience: Patience) {
        self.leaving.store(true, Ordering::Release);
        self.far_end.end(patience).await;
    }

    /// Why the agent is gone, in one line.
    pub(super) fn epitaph(&self) -> String {
        self.far_end.epitaph()
    }

    /// The error for what was under way when the agent ended.
    pub(super) fn gone(&self) -> EngineError {
        EngineError {
            code: EngineError::INTERNAL,
            message: format!("the agent ended unexpectedly: {}", self.epitaph()),
            data: Some(r#"{"error":"agent_ended"}"#.to_owned()),
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        lock(&self.link.origins).remove(&self.call.id);
    }
}

impl Pending {
    /// Waits for the outcome.
    pub(super) async fn outcome(mut self) -> Result<String, EngineError> {
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
        self.link.far_end.cancel(self.call.id);
        self.outcome().await
    }

    fn read(&self, outcome: Option<Outcome>) -> Result<String, EngineError> {
        match outcome {
            Some(outcome) => outcome.map_err(|error| super::said::error(&error)),
            None => Err(self.link.gone()),
        }
    }
}
