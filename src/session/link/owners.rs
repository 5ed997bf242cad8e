//! The sessions that this process owns, for links.

use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{mpsc, watch};

use crate::session::registry::Command;
use crate::sys::{SessionId, lock};

/// The actors that own their sessions, on all connections of the process.
#[derive(Debug, Default)]
pub struct Owners {
    actors: Mutex<HashMap<SessionId, (u64, mpsc::WeakUnboundedSender<Command>)>>,
    /// The clients in other processes of each session that has some.
    linked: Mutex<BTreeMap<SessionId, Vec<Linked>>>,
    /// The last number that was given.
    last: AtomicU64,
    /// Whether there has been an owner.
    any: watch::Sender<bool>,
}

/// A client in another process.
#[derive(Clone, Debug)]
pub struct Linked {
    /// Its name, if it has one.
    pub client: Option<String>,
    /// When it came, in the form of the log.
    pub since: String,
}

impl Owners {
    /// The clients in other processes, with their sessions.
    pub fn linked(&self) -> Vec<(SessionId, Linked)> {
        let linked = lock(&self.linked);
        let each = linked
            .iter()
            .flat_map(|(id, all)| all.iter().map(|one| (id.clone(), one.clone())));
        each.collect()
    }

    /// The clients in other processes that a session has.
    pub(in crate::session) fn set_linked(&self, id: &SessionId, clients: Vec<Linked>) {
        let mut linked = lock(&self.linked);
        if clients.is_empty() {
            linked.remove(id);
        } else {
            linked.insert(id.clone(), clients);
        }
    }

    /// Waits until this process owns a session.
    pub async fn first(&self) {
        // The sender is in `self`, so waiting cannot fail.
        self.any.subscribe().wait_for(|any| *any).await.ok();
    }

    /// From now on, this actor owns the session. Returns a number for it.
    pub(in crate::session) fn add(
        &self,
        id: &SessionId,
        actor: mpsc::WeakUnboundedSender<Command>,
    ) -> u64 {
        let number = self.number();
        lock(&self.actors).insert(id.clone(), (number, actor));
        self.any
            .send_if_modified(|any| !std::mem::replace(any, true));
        number
    }

    /// The actor with this number no longer owns the session. Another one may.
    pub(in crate::session) fn remove(&self, id: &SessionId, number: u64) {
        let mut actors = lock(&self.actors);
        if actors
            .get(id)
            .is_some_and(|(current, _)| *current == number)
        {
            actors.remove(id);
            lock(&self.linked).remove(id);
        }
    }

    /// Where the owner of a session receives its messages, if it is in this process.
    pub(super) fn find(&self, id: &SessionId) -> Option<mpsc::UnboundedSender<Command>> {
        lock(&self.actors).get(id)?.1.upgrade()
    }

    /// A number that no other link or owner has.
    pub(super) fn number(&self) -> u64 {
        self.last.fetch_add(1, Ordering::Relaxed)
    }
}
