//! The sessions of one connection, by id: starts a task for each that gets a request.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::engine::SessionConfig;
use crate::store::ForkPoint;
use crate::sys::waiter::Waiter;
use crate::sys::{SessionId, blocking, lock};

use super::command::{COMMAND, Command, Mailbox, UnreadEnds};
use super::reply::{Busy, Reply};
use super::request::{Leaving, Request};
use super::task::SessionTask;
use super::{Client, Deps};

/// How long a session may take before what comes after it no longer waits.
const HELD_UP: Duration = Duration::from_secs(1);

/// Sends messages to one task.
#[derive(Clone, Debug)]
struct Mail {
    sender: mpsc::UnboundedSender<Command>,
    /// For whom the task works: it waits for the store, and reads no message meanwhile.
    waiter: Waiter,
    ends: UnreadEnds,
}

/// The sessions that are being worked on, for one client. Clones share them.
#[derive(Clone, Debug)]
pub struct Registry {
    shared: Arc<Shared>,
    client: Arc<Client>,
}

#[derive(Debug)]
struct Shared {
    deps: Arc<Deps>,
    requests: Busy,
    turns: Busy,
    replays: Busy,
    /// Tasks that have not ended.
    alive: Busy,
    /// Cancelled when the client sends no more.
    ending: CancellationToken,
    /// Unbounded, because the sender must not wait. Its content counts in the connection's flow,
    /// which bounds it: no more is read.
    tasks: Mutex<HashMap<SessionId, Mail>>,
    /// The session that was sent the last command.
    last: Mutex<Option<SessionId>>,
    /// The name of the client, once it is known.
    client_name: OnceLock<String>,
}

impl Registry {
    /// No sessions yet, and no client: [`for_client`](Self::for_client) opens sessions.
    pub fn new(deps: Arc<Deps>) -> Self {
        let shared = Arc::new(Shared {
            deps,
            requests: Busy::default(),
            turns: Busy::default(),
            replays: Busy::default(),
            alive: Busy::default(),
            ending: CancellationToken::new(),
            tasks: Mutex::default(),
            last: Mutex::default(),
            client_name: OnceLock::new(),
        });
        let client = Arc::default();
        Self { shared, client }
    }

    /// The registry of the same sessions, for this client.
    #[must_use]
    pub fn for_client(&self, client: Client) -> Self {
        if let Some(name) = client.name() {
            // The first one counts, as with `initialize`.
            self.shared.client_name.set(name.to_owned()).ok();
        }
        let (shared, client) = (self.shared.clone(), Arc::new(client));
        Self { shared, client }
    }

    /// The name of the client, if it has one and has sent it.
    pub fn client_name(&self) -> Option<&str> {
        self.shared.client_name.get().map(String::as_str)
    }

    /// Whether the client is there.
    pub fn has_client(&self) -> bool {
        !self.shared.deps.client.has_ended()
    }

    /// Ends the turn of a session and closes it for all its clients. Returns whether it was open
    /// here and is closed.
    pub async fn stop(&self, id: &SessionId) -> bool {
        if !self.has(id) {
            return false;
        }
        let (closed, is_closed) = oneshot::channel();
        let reply = Reply::new(
            self.requests().begin(),
            CancellationToken::new(),
            |answer| {
                closed.send(answer.is_ok()).ok();
            },
        );
        // The request does not come from the session's own client.
        offer(self.lock().get(id), Command::Stop(reply.of_link()));
        is_closed.await.unwrap_or(false)
    }

    /// The client for which this opens sessions.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The dependencies that all sessions share.
    pub fn deps(&self) -> &Arc<Deps> {
        &self.shared.deps
    }

    /// Counts the requests under way that end on their own: all but prompts.
    pub fn requests(&self) -> &Busy {
        &self.shared.requests
    }

    /// Counts the prompts under way.
    pub fn turns(&self) -> &Busy {
        &self.shared.turns
    }

    /// Counts the replays under way.
    pub fn replays(&self) -> &Busy {
        &self.shared.replays
    }

    /// The client sends no more, so its sessions are about to be released.
    pub fn end(&self) {
        if let Some(store) = &self.shared.deps.library.store {
            blocking(|| store.ending());
        }
        self.shared.ending.cancel();
    }

    /// Waits until the client sends no more.
    pub async fn ended(&self) {
        self.shared.ending.cancelled().await;
    }

    /// Sends a request to a session. Requests to one session are served in the order in which they
    /// were sent.
    pub fn send(&self, id: &SessionId, request: Request<Reply>) {
        let bytes = match &request {
            Request::Notify { params, .. } => params.len(),
            _ => 0,
        };
        let held = self.shared.deps.client.flow.hold(COMMAND + bytes);
        self.post(id, Command::Request(request, held));
    }

    /// Forks the session `source` as `id`, up to `at` if a place is named.
    pub fn fork(
        &self,
        source: &SessionId,
        id: &SessionId,
        reply: Reply,
        config: SessionConfig,
        at: Option<ForkPoint>,
    ) {
        let hold = || self.shared.deps.client.flow.hold(COMMAND);
        let (reader, log) = oneshot::channel();
        self.post(source, Command::ReadForFork(reader, hold()));
        let request = Request::Fork { reply, config, at };
        self.post(id, Command::Fork(request, log, hold()));
    }

    /// Waits until the session that was sent the last command has taken it, unless that is `next`: so what
    /// sessions pass on at once keeps its order. Does not wait for one that is held up.
    pub async fn taken(&self, next: Option<&SessionId>) {
        let last = {
            let mut last = lock(&self.shared.last);
            if last.as_ref() == next {
                return;
            }
            last.take()
        };
        let (sender, taken) = oneshot::channel();
        let last = last.and_then(|last| self.lock().get(&last).cloned());
        if last.is_some() && offer(last.as_ref(), Command::Taken(sender)).is_none() {
            tokio::time::timeout(HELD_UP, taken).await.ok();
        }
    }

    /// Sends a command to the task of a session, and starts one if the session has none.
    fn post(&self, id: &SessionId, command: Command) {
        *lock(&self.shared.last) = Some(id.clone());
        let mut tasks = self.lock();
        let Some(command) = offer(tasks.get(id), command) else {
            return;
        };
        // A session without a task has nothing to cancel.
        if matches!(
            command,
            Command::Request(Request::Cancel { .. } | Request::Leave(_), _)
        ) {
            return;
        }
        let (sender, mailbox) = mpsc::unbounded_channel();
        let replays = self.shared.replays.clone();
        let (deps, client) = (self.shared.deps.clone(), self.client.clone());
        let messages = (sender.downgrade(), mailbox);
        let (waiter, ends) = (Waiter::new(), UnreadEnds::default());
        let task = SessionTask::new(id.clone(), deps, client, replays, (messages, ends.clone()));
        let mail = Mail {
            sender,
            waiter: waiter.clone(),
            ends,
        };
        offer(Some(&mail), command);
        tasks.insert(id.clone(), mail);
        let registry = self.clone();
        let id = id.clone();
        let alive = self.shared.alive.begin();
        tokio::spawn(waiter.scope(async move {
            task.run(|mailbox| registry.retire(&id, mailbox)).await;
            drop(alive);
        }));
    }

    /// Whether this session has a task.
    pub fn has(&self, id: &SessionId) -> bool {
        self.lock().contains_key(id)
    }

    /// The client has gone: its turns are cancelled, and those of others interrupted.
    pub fn client_leaves(&self) {
        let others = Vec::new();
        self.leave(&Leaving::Client { others });
    }

    /// The process is about to end: every running turn is interrupted.
    pub fn process_leaves(&self) {
        self.leave(&Leaving::Process);
    }

    fn leave(&self, leaving: &Leaving) {
        for id in self.ids() {
            self.send(&id, Request::Leave(leaving.clone()));
        }
    }

    /// Releases every session, and waits for that. A turn that is still running is left as a crash
    /// would leave it.
    pub async fn release(&self) {
        self.lock().clear();
        self.shared.alive.idle().await;
    }

    /// The client has gone, and the process goes on: turns that are running go on to their end. Waits
    /// until the sessions are released that no other client has open.
    pub async fn detach(&self) {
        for id in self.ids() {
            offer(self.lock().get(&id), Command::Detach);
        }
        self.shared.alive.idle().await;
    }

    /// Waits until every session is released.
    pub async fn released(&self) {
        self.shared.alive.idle().await;
    }

    /// Whether nothing is under way.
    pub fn is_idle(&self) -> bool {
        self.requests().is_idle() && self.turns().is_idle() && self.replays().is_idle()
    }

    /// Waits until nothing of what is under way now is.
    pub async fn idle(&self) {
        self.requests().idle().await;
        self.turns().idle().await;
        self.replays().idle().await;
    }

    /// Whether these are the sessions of the same connection.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Waits until every session has begun the requests that it was sent so far.
    pub async fn barrier(&self) {
        let mut waits = Vec::new();
        for id in self.ids() {
            let (barrier, passed) = oneshot::channel();
            offer(self.lock().get(&id), Command::Barrier(barrier));
            waits.push(passed);
        }
        for passed in waits {
            // A task that has ended has done everything.
            passed.await.ok();
        }
    }

    /// Removes a task, unless something has come in for it meanwhile.
    fn retire(&self, id: &SessionId, mailbox: &mut Mailbox) -> bool {
        let mut tasks = self.lock();
        if !mailbox.is_empty() {
            return false;
        }
        tasks.remove(id);
        true
    }

    /// The sessions that are being worked on.
    pub fn ids(&self) -> Vec<SessionId> {
        let mut ids: Vec<_> = self.lock().keys().cloned().collect();
        ids.sort_unstable();
        ids
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Mail>> {
        lock(&self.shared.tasks)
    }
}

/// Sends a command. Returns it if there is no task to receive it.
fn offer(task: Option<&Mail>, command: Command) -> Option<Command> {
    let Some(task) = task else {
        return Some(command);
    };
    let hurries = command.hurries();
    task.ends.sent(&command);
    let refused = task.sender.send(command).err();
    if hurries {
        task.waiter.hurry();
    }
    refused.map(|error| error.0)
}
