//! The sessions that this process owns, for links.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{mpsc, watch};

use crate::session::command::Command;
use crate::store::Store;
use crate::sys::{SessionId, blocking, lock};
use crate::transport::{LINE_LIMIT, MessageForm, ProcessFlow, connect};

use super::message::ALIVE;

/// The tasks that own their sessions, on all connections of the process.
#[derive(Debug, Default)]
pub struct Owners {
    tasks: Mutex<HashMap<SessionId, (u64, mpsc::WeakUnboundedSender<Command>)>>,
    /// The clients in other processes of each session that has some.
    linked: Mutex<BTreeMap<SessionId, Vec<Linked>>>,
    /// The sockets of processes that gave no answer in time, and have given none since.
    silent: watch::Sender<BTreeSet<String>>,
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

    /// From now on, this task owns the session. Returns a number for it.
    pub(in crate::session) fn add(
        &self,
        id: &SessionId,
        task: mpsc::WeakUnboundedSender<Command>,
    ) -> u64 {
        let number = self.number();
        lock(&self.tasks).insert(id.clone(), (number, task));
        self.any
            .send_if_modified(|any| !std::mem::replace(any, true));
        number
    }

    /// The task with this number no longer owns the session. Another one may.
    pub(in crate::session) fn remove(&self, id: &SessionId, number: u64) {
        let mut tasks = lock(&self.tasks);
        if tasks.get(id).is_some_and(|(current, _)| *current == number) {
            tasks.remove(id);
            lock(&self.linked).remove(id);
        }
    }

    /// Where the owner of a session receives its messages, if it is in this process.
    pub(in crate::session) fn find(
        &self,
        id: &SessionId,
    ) -> Option<mpsc::WeakUnboundedSender<Command>> {
        let task = lock(&self.tasks).get(id)?.1.clone();
        (task.strong_count() > 0).then_some(task)
    }

    /// Whether the process with this socket gave no answer in time, and has given none since.
    pub(in crate::session) fn is_silent(&self, socket: &str) -> bool {
        self.silent.borrow().contains(socket)
    }

    /// Waits until the process with this socket answers again, or has ended.
    pub(in crate::session) async fn not_silent(&self, socket: &str) {
        let mut silent = self.silent.subscribe();
        // The sender is in `self`, so waiting cannot fail.
        silent
            .wait_for(|silent| !silent.contains(socket))
            .await
            .ok();
    }

    /// The process with this socket gave no answer in time. Until it does, or ends, it is not waited
    /// for again.
    pub(in crate::session) fn set_silent(
        self: &Arc<Self>,
        store: &Store,
        socket: &str,
        flow: &ProcessFlow,
    ) {
        let is_new = self
            .silent
            .send_if_modified(|silent| silent.insert(socket.to_owned()));
        if !is_new {
            return;
        }
        let (owners, store, flow) = (self.clone(), store.clone(), flow.clone());
        let socket = socket.to_owned();
        tokio::spawn(async move {
            answers(&store, &socket, &flow).await;
            owners
                .silent
                .send_if_modified(|silent| silent.remove(&socket));
        });
    }

    /// A number that no other link or owner has.
    pub(in crate::session) fn number(&self) -> u64 {
        self.last.fetch_add(1, Ordering::Relaxed)
    }
}

/// How long to wait before a process is tried again that accepts no connections.
const AGAIN: Duration = Duration::from_secs(1);

/// Waits until the process with this socket gives an answer, or has ended.
async fn answers(store: &Store, socket: &str, flow: &ProcessFlow) {
    let stream = loop {
        match blocking(|| store.connect_to(socket)) {
            Ok(stream) => break stream,
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                tokio::time::sleep(AGAIN).await;
            }
            Err(_) => return,
        }
    };
    let (input, output) = (stream.input, stream.output);
    let Ok((connection, mut incoming)) =
        connect(input, output, LINE_LIMIT, MessageForm::JsonRpc, flow)
    else {
        return;
    };
    let call = connection.ask_at_once(ALIVE, "{}");
    tokio::select! {
        _ = call => {}
        // The process sends nothing but the answer.
        _ = incoming.next() => {}
    }
}
