//! The owner's end of a link: reads the messages of a client elsewhere, and posts them to the actor.

use std::sync::Arc;

use tokio::sync::mpsc;

use crate::engine::ClientCapabilities;
use crate::json::text_member;
use crate::protocol::error::{INVALID_PARAMS, error_json};
use crate::protocol::method::CANCEL_REQUEST;
use crate::session::outcome::Refusal;
use crate::session::registry::Command;
use crate::session::reply::{Busy, Reply};
use crate::session::request::Request;
use crate::sys::SessionId;
use crate::sys::socket::Closer;
use crate::transport::{
    ClientConnection, Incoming, IncomingRequest as Message, Received, Responder,
};

use super::message::{
    self, ALIVE, Attach, Attached, DESCRIBE, NOTIFY, Notified, PASS, PROTOCOL, Passed,
};
use super::owners::Owners;

pub use super::message::ATTACH;

/// The size that a message counts with in the flow of a connection, in bytes.
const COMMAND: usize = 512;

/// A client elsewhere, as the owner's actor knows it.
#[derive(Debug)]
pub(in crate::session) struct Link {
    /// Its number.
    pub(in crate::session) number: u64,
    /// Its end of the link.
    pub(in crate::session) wire: Arc<ClientConnection>,
    /// The id by which it knows the session.
    pub(in crate::session) name: String,
    /// The name of the client.
    pub(in crate::session) client: Option<String>,
    /// Whether the client only looks on, and is asked nothing.
    pub(in crate::session) observes: bool,
    /// The client's capabilities, if its process has sent them.
    pub(in crate::session) abilities: Option<ClientCapabilities>,
    /// The id of its process.
    pub(in crate::session) pid: u32,
    /// When it came, in the form of the log.
    pub(in crate::session) since: String,
    /// See [`Attach::key`].
    pub(in crate::session) key: Option<String>,
    /// Whether the client is the owner's own, which has this key.
    pub(in crate::session) is_own: bool,
    /// Ends the link when it is dropped.
    _closer: Closer,
}

/// A message of a link for the owner's actor.
#[derive(Debug)]
pub(in crate::session) enum LinkCommand {
    /// A client attaches. The answer is [`Attached`](message::Attached), or a [`Refusal`].
    Attach(Link, Responder),
    /// A client wants to know how the session is now.
    Describe(Responder),
    /// A request or notification of the client.
    Passed(Request<Reply>),
    /// The client is gone.
    Detach,
}

/// Where the messages of a link go.
#[derive(Clone)]
struct Post {
    number: u64,
    actor: mpsc::UnboundedSender<Command>,
    wire: Arc<ClientConnection>,
}

impl Post {
    fn send(&self, command: LinkCommand) {
        let held = self.wire.flow.hold(COMMAND);
        // An actor that has ended has dropped the link, which ends this.
        let command = Command::Link(self.number, command, held);
        self.actor.send(command).ok();
    }
}

/// Serves a link until one of its ends is gone. `attach` is its first message.
pub async fn serve(
    owners: &Owners,
    wire: Arc<ClientConnection>,
    mut incoming: Incoming,
    attach: Message,
    closer: Closer,
) {
    let asked = match serde_json::from_str::<Attach>(&attach.params) {
        Ok(asked) if asked.protocol == PROTOCOL => asked,
        asked => {
            let version = env!("CARGO_PKG_VERSION");
            let their =
                asked.map_or_else(|_| String::new(), |asked| format!(" of {}", asked.version));
            let message = format!(
                "rejoin {version} has the session open and does not know this request{their}"
            );
            let error = error_json(INVALID_PARAMS, &message);
            attach.responder.answer(Err(error));
            // The connection must not end before that.
            wire.writer.written().await.ok();
            return;
        }
    };
    let id = SessionId::parse(&asked.session_id);
    let Some(actor) = id.and_then(|id| owners.find(&id)) else {
        return refuse(attach.responder);
    };
    let post = Post {
        number: owners.number(),
        actor,
        wire: wire.clone(),
    };
    let link = Link {
        number: post.number,
        wire: wire.clone(),
        name: asked.name,
        client: asked.client.map(|client| client.name),
        observes: asked.observe,
        abilities: asked.abilities,
        pid: asked.pid,
        since: String::new(),
        key: asked.key,
        is_own: false,
        _closer: closer,
    };
    post.send(LinkCommand::Attach(link, attach.responder));
    let busy = Busy::default();
    while let Some(received) = incoming.next().await {
        match received {
            Received::Request(request) if request.method == DESCRIBE => {
                post.send(LinkCommand::Describe(request.responder));
            }
            Received::Request(request) if request.method == ALIVE => {
                request.responder.answer(Ok("{}".to_owned()));
            }
            Received::Request(request) => pass(request, &busy, &post),
            Received::Notification { method, params } if method == CANCEL_REQUEST => {
                if let Some(id) = text_member(&params, "requestId") {
                    wire.requests.cancel(id);
                }
            }
            Received::Notification { method, params } => {
                let notified = serde_json::from_str::<Notified>(&params);
                if let Some(notified) = notified.ok().filter(|_| method == NOTIFY) {
                    post.send(LinkCommand::Passed(notified.request()));
                } else {
                    tracing::debug!(method, "unknown notification of a link");
                }
            }
        }
    }
    post.send(LinkCommand::Detach);
}

/// Answers that this process does not own the session.
pub(in crate::session) fn refuse(responder: Responder) {
    let refused = Err::<Attached, _>(Refusal::NotOpen);
    responder.answer(Ok(message::text(&refused)));
}

/// Posts a request. Its answer goes back through the link.
fn pass(request: Message, busy: &Busy, post: &Post) {
    let Message {
        method,
        params,
        responder,
    } = request;
    let passed = serde_json::from_str::<Passed>(&params);
    let Some(passed) = passed.ok().filter(|_| method == PASS) else {
        let message = format!("`{method}` is no request of a link of this release");
        return responder.answer(Err(error_json(INVALID_PARAMS, &message)));
    };
    if let Passed::Prompt { message_id, .. } = &passed {
        let (post, message_id) = (post.clone(), message_id.clone());
        responder.on_cancel(move || {
            post.send(LinkCommand::Passed(Request::WithdrawPrompt(message_id)));
        });
    }
    let cancellation = responder.cancellation();
    let reply = Reply::new(busy.begin(), cancellation, move |outcome| {
        let outcome = outcome.map(|answer| answer.done);
        responder.answer(Ok(message::text(&outcome)));
    });
    post.send(LinkCommand::Passed(passed.request(reply.of_link())));
}
