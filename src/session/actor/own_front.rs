//! The owner's own client, when it must not hold up the others: it does not read what it is sent, or
//! loads the session again.
//!
//! An actor of its own serves it from then on: a front, like those of the other clients. It goes on in
//! the log where the owner has stopped sending, and the owner passes on to it what the client requests.

use std::mem;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::session::effect::Batch;
use crate::session::outcome::{Done, Refusal};
use crate::session::registry::{Command, UnreadEnds};
use crate::session::reply::Reply;
use crate::session::request::Request;
use crate::sys::lock;

use super::Actor;

/// How long the owner's own client may hold up the others.
pub(super) const PATIENCE: Duration = Duration::from_millis(250);

/// Where the actor gets its messages, until it has ended.
type Commands = Mutex<Option<mpsc::UnboundedSender<Command>>>;

/// The actor that serves the owner's own client, as the owner knows it.
pub(super) struct OwnFront {
    /// By this the owner knows its link.
    key: String,
    commands: Arc<Commands>,
}

/// That an actor serves the own client of the owner, as that actor knows it.
pub(super) struct OfOwner {
    /// See [`OwnFront`].
    pub(super) key: String,
    /// Where in the log it begins, in bytes, if its client has been sent what is before that.
    pub(super) from: Option<u64>,
    /// Answers of the owner to the client.
    delivered: Vec<Delivered>,
}

/// An answer to a request that the owner has served.
type Delivered = (Reply, Result<Done, Refusal>);

impl OwnFront {
    /// Whether a link with this key is its link.
    pub(super) fn has(&self, key: Option<&str>) -> bool {
        key == Some(&self.key)
    }

    /// Passes on a message. Returns it if the actor has ended.
    fn offer(&self, command: Command) -> Option<Command> {
        match &*lock(&self.commands) {
            Some(commands) => commands.send(command).err().map(|error| error.0),
            None => Some(command),
        }
    }
}

impl Actor {
    /// Sends the client whole lines. If other clients have the session open, it has to read soon.
    pub(super) async fn put(&mut self, lines: &[u8]) {
        if self.links.is_detached {
            return;
        }
        let wire = self.deps.wire.clone();
        // A client that is gone needs nothing; the log has it.
        self.is_sent(wire.writer.control(lines)).await;
    }

    /// Waits until something is sent to the client. If other clients have the session open, not for
    /// long: then the client is behind. Returns `None` in that case.
    pub(super) async fn is_sent<T>(&mut self, sent: impl Future<Output = T>) -> Option<T> {
        if !self.links.any() {
            return Some(sent.await);
        }
        let result = timeout(PATIENCE, sent).await.ok();
        if result.is_none() {
            self.fall_behind();
        }
        result
    }

    /// The client was sent all that was logged.
    pub(super) fn all_is_sent(&mut self) {
        if let Some(session) = &mut self.session
            && !self.links.is_detached
        {
            session.unsent = None;
        }
    }

    /// The client does not read: it goes on from the log.
    fn fall_behind(&mut self) {
        let Some(session) = &self.session else {
            return;
        };
        tracing::info!(session = %self.id, client = self.client_name(), "does not read; goes on from the log");
        let (config, from) = (session.config.clone(), session.unsent);
        let from = Some(from.unwrap_or(session.shown));
        // It is not answered, since nobody has requested it.
        let reply = Reply::silent();
        self.start_own_front(Request::Resume(reply, config), from);
    }

    pub(super) fn client_name(&self) -> Option<&str> {
        let identity = self.client.identity.as_ref()?;
        Some(&identity.name)
    }

    /// Has an actor of its own serve the client, beginning with this request.
    fn start_own_front(&mut self, first: Request<Reply>, from: Option<u64>) {
        let (commands, mailbox) = mpsc::unbounded_channel();
        let (deps, client) = (self.deps.clone(), self.client.clone());
        let messages = (commands.downgrade(), mailbox);
        let mut front = Self::new(
            self.id.clone(),
            deps,
            client,
            self.replays.clone(),
            (messages, UnreadEnds::default()),
        );
        let key = self.deps.sys.ids.uuid().to_string();
        front.name.clone_from(&self.name);
        front.own_prompts = mem::take(&mut self.own_prompts);
        front.of_owner = Some(OfOwner {
            key: key.clone(),
            from,
            delivered: Vec::new(),
        });
        let held = self.deps.wire.flow.hold(0);
        // It has just been made.
        commands.send(Command::Request(first, held)).ok();
        let commands = Arc::new(Mutex::new(Some(commands)));
        run(front, &commands, &key, self.messages.clone());
        self.own_front = Some(OwnFront { key, commands });
        self.links.is_detached = true;
    }

    /// Passes on what the client wants to the actor that serves it. Returns what is served here.
    pub(super) fn for_own_front(&mut self, command: Command) -> Option<Command> {
        let Command::Request(request, held) = command else {
            if matches!(command, Command::Detach)
                && let Some(front) = self.own_front.take()
            {
                // The turns go on.
                front.offer(Command::Detach);
            }
            return Some(command);
        };
        let Some(front) = &self.own_front else {
            let loads = matches!(request, Request::Load(..) | Request::LoadFrom { .. });
            if loads && self.links.any() {
                self.start_own_front(request, None);
                return None;
            }
            return Some(Command::Request(request, held));
        };
        match request {
            Request::Status(_) | Request::ReadForFork => Some(Command::Request(request, held)),
            // The owner may have the prompt, and the turn.
            Request::WithdrawPrompt(id) => {
                let there = Request::WithdrawPrompt(id.clone());
                let there = Command::Request(there, self.deps.wire.flow.hold(0));
                front.offer(there);
                Some(Command::Request(Request::WithdrawPrompt(id), held))
            }
            Request::Leave(leaving) => {
                let there = Request::Leave(leaving.clone());
                front.offer(Command::Request(there, self.deps.wire.flow.hold(0)));
                Some(Command::Request(Request::Leave(leaving), held))
            }
            request => front.offer(Command::Request(request, held)),
        }
    }

    /// The actor that has served the client has ended: the client has closed the session.
    pub(super) fn own_front_ended(&mut self, key: &str) -> Batch<Reply> {
        if !self
            .own_front
            .as_ref()
            .is_some_and(|front| front.has(Some(key)))
        {
            return Vec::new();
        }
        self.own_front = None;
        self.cancel_own_turns()
    }

    /// Has the actor that serves the client answer a request of which everything is logged. Returns
    /// the answer if there is no such actor.
    pub(super) fn deliver(&self, reply: Reply, result: Result<Done, Refusal>) -> Option<Delivered> {
        let front = self.own_front.as_ref().filter(|_| !reply.is_of_link());
        let Some(front) = front else {
            return Some((reply, result));
        };
        match front.offer(Command::Deliver(reply, result)) {
            Some(Command::Deliver(reply, result)) => Some((reply, result)),
            _ => None,
        }
    }

    /// An answer of the owner.
    pub(super) fn delivered(&mut self, reply: Reply, result: Result<Done, Refusal>) {
        if let Some(own) = &mut self.of_owner {
            own.delivered.push((reply, result));
        }
    }

    /// Gives the client the answers of the owner, after what they are about.
    pub(super) async fn answer_delivered(&mut self) {
        let waits = self.replay.is_some() || self.machine.load_under_way().is_some();
        let Some(own) = self.of_owner.as_mut().filter(|_| !waits) else {
            return;
        };
        for (reply, result) in mem::take(&mut own.delivered) {
            if !matches!(result, Ok(Done::Accepted(_))) {
                self.follow(true).await;
            }
            self.answer(reply, result).await;
            self.answered.clear();
        }
    }

    /// Remembers that the client has sent a prompt, which it is not shown again.
    pub(super) fn own_prompt(&mut self, message_id: &str) {
        if self.front.is_none() && !self.links.any() && !self.machine.has_prompts() {
            // It has been shown all that there is.
            self.own_prompts.clear();
        }
        self.own_prompts.insert(message_id.to_owned());
    }

    /// Where in the log the client goes on, if it has been sent what is before that.
    pub(super) fn start_in_log(&mut self) {
        let from = self.of_owner.as_mut().and_then(|own| own.from.take());
        if let (Some(from), Some(session)) = (from, &mut self.session) {
            session.shown = from;
        }
    }
}

/// Runs the actor. Its end is reported to the owner.
fn run(
    front: Actor,
    commands: &Arc<Commands>,
    key: &str,
    owner: mpsc::WeakUnboundedSender<Command>,
) {
    let (commands, key) = (Arc::downgrade(commands), key.to_owned());
    tokio::spawn(async move {
        front
            .run(|mailbox| {
                let Some(commands) = commands.upgrade() else {
                    return true;
                };
                let mut commands = lock(&commands);
                if mailbox.is_empty() {
                    *commands = None;
                }
                mailbox.is_empty()
            })
            .await;
        if let Some(owner) = owner.upgrade() {
            // It may have ended, too.
            owner.send(Command::OwnFrontEnded(key)).ok();
        }
    });
}
