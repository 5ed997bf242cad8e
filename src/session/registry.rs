//! The sessions of one connection, by id; makes an actor for each that is asked for.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::{mpsc, oneshot, watch};

use crate::engine::SessionConfig;
use crate::sys::{SessionId, blocking, lock};

use super::Deps;
use super::actor::Actor;
use super::busy::Busy;
use super::command::{Command, Mailbox};

use super::reply::Reply;
use super::request::{ForkSource, Request};

/// What a command in a mailbox takes, roughly, in bytes.
const COMMAND: usize = 512;

/// The sessions that are being worked on. Clones share them.
#[derive(Clone, Debug)]
pub struct Registry(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    deps: Arc<Deps>,
    requests: Busy,
    turns: Busy,
    replays: Busy,
    /// Actors that have not ended.
    alive: Busy,
    /// Whether the client has said all it will say.
    ending: watch::Sender<bool>,
    /// Unbounded, because whoever sends must not wait. What is in it counts in the connection's
    /// flow, which bounds it by reading no more.
    actors: Mutex<HashMap<SessionId, mpsc::UnboundedSender<Command>>>,
}

impl Registry {
    /// No sessions yet.
    pub fn new(deps: Arc<Deps>) -> Self {
        Self(Arc::new(Shared {
            deps,
            requests: Busy::default(),
            turns: Busy::default(),
            replays: Busy::default(),
            alive: Busy::default(),
            ending: watch::Sender::new(false),
            actors: Mutex::default(),
        }))
    }

    /// What all sessions share.
    pub fn deps(&self) -> &Arc<Deps> {
        &self.0.deps
    }

    /// Counts the requests under way that end by themselves: all but prompts.
    pub fn requests(&self) -> &Busy {
        &self.0.requests
    }

    /// Counts the prompts under way.
    pub fn turns(&self) -> &Busy {
        &self.0.turns
    }

    /// Counts the replays under way.
    pub fn replays(&self) -> &Busy {
        &self.0.replays
    }

    /// Says that the client has said all it will say, so that its sessions are about to be
    /// released.
    pub fn end(&self) {
        if let Some(store) = &self.0.deps.store {
            blocking(|| store.ending());
        }
        self.0.ending.send_replace(true);
    }

    /// Waits until the client has said all it will say.
    pub async fn ended(&self) {
        let mut ending = self.0.ending.subscribe();
        // The sender is in `self`, so waiting cannot fail.
        ending.wait_for(|ending| *ending).await.ok();
    }

    /// Sends a request to a session. Requests to one session are served in the order they were
    /// sent.
    pub fn send(&self, id: &SessionId, request: Request<Reply>) {
        let mut actors = self.lock();
        let bytes = match &request {
            Request::Notify { params, .. } => params.len(),
            _ => 0,
        };
        let held = self.0.deps.wire.flow.hold(COMMAND + bytes);
        let command = Command::Request(request, held);
        let Some(command) = offer(actors.get(id), command) else {
            return;
        };
        // Nobody has a session to cancel.
        if matches!(command, Command::Request(Request::Cancel { .. }, _)) {
            return;
        }
        let (sender, mailbox) = mpsc::unbounded_channel();
        offer(Some(&sender), command);
        actors.insert(id.clone(), sender);
        let replays = self.0.replays.clone();
        let actor = Actor::new(id.clone(), self.0.deps.clone(), replays, mailbox);
        let registry = self.clone();
        let id = id.clone();
        let alive = self.0.alive.begin();
        tokio::spawn(async move {
            actor.run(|mailbox| registry.retire(&id, mailbox)).await;
            drop(alive);
        });
    }

    /// Makes the session `id` out of another one, up to the message `at` if one is named.
    pub fn fork(
        &self,
        source: &SessionId,
        id: &SessionId,
        reply: Reply,
        config: SessionConfig,
        at: Option<String>,
    ) {
        let (lend, lent) = oneshot::channel();
        self.send(source, Request::ReadForFork(lend));
        self.send(id, Request::Fork(reply, config, ForkSource { lent, at }));
    }

    /// Whether somebody works on this session.
    pub fn has(&self, id: &SessionId) -> bool {
        self.lock().contains_key(id)
    }

    /// Cancels every running turn.
    pub fn cancel_all(&self) {
        for id in self.ids() {
            self.send(&id, Request::Cancel { withdraw: true });
        }
    }

    /// Lets go of every session, and waits until that is done. A turn that is still running is
    /// left as a crash would leave it.
    pub async fn release(&self) {
        self.lock().clear();
        self.0.alive.idle().await;
    }

    /// Waits until every session has begun what it was sent so far.
    pub async fn barrier(&self) {
        let mut waits = Vec::new();
        for id in self.ids() {
            let (tell, told) = oneshot::channel();
            offer(self.lock().get(&id), Command::Barrier(tell));
            waits.push(told);
        }
        for told in waits {
            // An actor that is gone has done everything.
            told.await.ok();
        }
    }

    /// Takes an actor out, unless something has come in for it meanwhile.
    fn retire(&self, id: &SessionId, mailbox: &mut Mailbox) -> bool {
        let mut actors = self.lock();
        if !mailbox.is_empty() {
            return false;
        }
        actors.remove(id);
        true
    }

    fn ids(&self) -> Vec<SessionId> {
        let mut ids: Vec<_> = self.lock().keys().cloned().collect();
        ids.sort_unstable();
        ids
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, mpsc::UnboundedSender<Command>>> {
        lock(&self.0.actors)
    }
}

/// Sends a command; gives it back if there is nobody to take it.
fn offer(actor: Option<&mpsc::UnboundedSender<Command>>, command: Command) -> Option<Command> {
    match actor {
        Some(actor) => actor.send(command).err().map(|error| error.0),
        None => Some(command),
    }
}
