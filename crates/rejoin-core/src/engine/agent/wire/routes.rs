//! Where an agent's messages about its sessions go.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::engine::EngineError;
use crate::protocol::{Id, IdSet};
use crate::sys::lock;

use crate::engine::agent::route::SessionRoute;

/// How much is kept of messages about sessions without a route, in bytes.
const EARLY_LIMIT: usize = 1024 * 1024;

/// The routes of an agent's sessions.
#[derive(Debug)]
pub(in crate::engine::agent) struct AgentRoutes {
    /// The routes of open sessions, by the agent's ids.
    open: Mutex<HashMap<String, Arc<SessionRoute>>>,
    /// The routes of the sessions in which subagents were announced, with the subagents' sessions.
    subagents: Mutex<Vec<(Arc<SessionRoute>, IdSet)>>,
    /// The subagents of all processes of the agent.
    all_subagents: Arc<Mutex<IdSet>>,
    /// How often the route of a session changed.
    changes: AtomicU64,
    /// The routes of sessions that are being created, by the ids of the requests for them.
    pending: Mutex<HashMap<u64, Arc<SessionRoute>>>,
    /// Lines about sessions without a route: an agent may send messages about a new session before its
    /// response to the request that creates it.
    early: Mutex<Vec<(String, Vec<u8>)>>,
}

impl AgentRoutes {
    /// No routes yet. The subagents that are announced are added to `all_subagents`.
    pub(super) fn new(all_subagents: Arc<Mutex<IdSet>>) -> Self {
        Self {
            open: Mutex::default(),
            subagents: Mutex::default(),
            all_subagents,
            changes: AtomicU64::new(0),
            pending: Mutex::default(),
            early: Mutex::default(),
        }
    }

    /// The route of this session of the agent.
    pub(in crate::engine::agent) fn get(&self, session: &str) -> Option<Arc<SessionRoute>> {
        lock(&self.open).get(session).cloned()
    }

    /// The routes of all sessions.
    pub(super) fn all(&self) -> Vec<Arc<SessionRoute>> {
        lock(&self.open).values().cloned().collect()
    }

    /// Counts changes of where the messages about sessions go.
    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// From now on, messages about this session of the agent go to `route`, unless another open session
    /// has it: two never share one. Returns whether they do.
    pub(in crate::engine::agent) fn subscribe(
        &self,
        session: &str,
        route: &Arc<SessionRoute>,
    ) -> bool {
        let replaced = {
            let mut open = lock(&self.open);
            if open
                .get(session)
                .is_some_and(|other| !may_give_way(other, route))
            {
                return false;
            }
            route.opened_as(session);
            open.insert(session.to_owned(), route.clone())
        };
        self.forget_subagents(replaced.filter(|replaced| !Arc::ptr_eq(replaced, route)));
        true
    }

    /// From now on, messages about this session are ignored, if they went to `route`.
    pub(in crate::engine::agent) fn unsubscribe(&self, session: &str, route: &Arc<SessionRoute>) {
        let removed = {
            let mut open = lock(&self.open);
            let is_it = open
                .get(session)
                .is_some_and(|current| Arc::ptr_eq(current, route));
            if is_it { open.remove(session) } else { None }
        };
        self.forget_subagents(removed);
    }

    /// The error that another open session of ours has the agent's session with this id, if one has.
    pub(in crate::engine::agent) fn shared_error(
        &self,
        session: &str,
        route: &Arc<SessionRoute>,
    ) -> Option<EngineError> {
        let other = self.get(session);
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
        if self.get(session).is_some() {
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

    /// Where messages about a subagent's session go.
    pub(in crate::engine::agent) fn of_subagent(&self, session: &str) -> Option<Arc<SessionRoute>> {
        let id = Id::of(session.as_bytes());
        let subagents = lock(&self.subagents);
        let found = subagents
            .iter()
            .rev()
            .find(|(_, sessions)| sessions.has(id));
        found.map(|(route, _)| route.clone())
    }

    /// The request with this id creates a session with this route.
    pub(super) fn add_pending(&self, request: u64, route: &Arc<SessionRoute>) {
        lock(&self.pending).insert(request, route.clone());
    }

    /// The request with this id has a response, or was given up: then its session has no route.
    pub(super) fn take_pending(&self, request: u64) -> Option<Arc<SessionRoute>> {
        lock(&self.pending).remove(&request)
    }

    /// Where a request about a session goes. An agent may need the response before it can answer
    /// the request that creates the session, so it is not kept until then; if only one such request
    /// is pending, it is clear which session is meant.
    pub(super) fn of_request(&self, session: &str) -> Option<Arc<SessionRoute>> {
        self.get(session).or_else(|| {
            let pending = lock(&self.pending);
            let mut routes = pending.values();
            routes.next().filter(|_| routes.next().is_none()).cloned()
        })
    }

    /// Keeps a line about a session without a route, if the session may be one that is being
    /// created, and there is room for the line. Returns whether it is kept.
    pub(super) fn keep_early(&self, session: &str, line: &[u8]) -> bool {
        if lock(&self.pending).is_empty() {
            return false;
        }
        let mut lines = lock(&self.early);
        let kept: usize = lines.iter().map(|(_, line)| line.len()).sum();
        let room = kept + line.len() <= EARLY_LIMIT;
        if room {
            lines.push((session.to_owned(), line.to_vec()));
        }
        room
    }

    /// Whether lines about this session are kept.
    pub(super) fn has_early(&self, session: &str) -> bool {
        lock(&self.early).iter().any(|(of, _)| of == session)
    }

    /// Whether any line that is kept is wanted.
    pub(super) fn any_early(&self, wanted: impl Fn(&[u8]) -> bool) -> bool {
        lock(&self.early).iter().any(|(_, line)| wanted(line))
    }

    /// Takes all lines that are kept, in order.
    pub(super) fn take_early(&self) -> Vec<Vec<u8>> {
        let lines = std::mem::take(&mut *lock(&self.early));
        lines.into_iter().map(|(_, line)| line).collect()
    }
}

/// Whether another route may take the messages about the agent's session in place of this one: one of the
/// same session, or any if this one is of none.
fn may_give_way(route: &SessionRoute, other: &SessionRoute) -> bool {
    route.session.is_none() || route.session == other.session
}
