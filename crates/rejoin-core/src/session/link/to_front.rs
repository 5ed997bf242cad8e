//! The owner's end of a link to another process: reads what the front there sends, and posts it to the
//! task of the owner.

use std::sync::Arc;

use tokio::sync::mpsc;

use crate::json::text_member;
use crate::protocol::error::{INVALID_PARAMS, error_json};
use crate::protocol::method::CANCEL_REQUEST;
use crate::session::command::Command;
use crate::session::outcome::Refusal;
use crate::session::reply::{Busy, Reply};
use crate::session::request::Request;
use crate::sys::SessionId;
use crate::sys::socket::Closer;
use crate::transport::{ClientConnection, Incoming, IncomingRequest as Message, Received};

use super::feed::{Feed, FrontEnd, LinkCommand, Responds};
use super::message::{
    self, ALIVE, Attach, Attached, DESCRIBE, NOTIFY, Notified, PASS, PROTOCOL, Passed,
};
use super::owners::Owners;

pub use super::message::ATTACH;

/// Where the messages of a link go.
#[derive(Clone)]
struct Post {
    number: u64,
    owner: mpsc::UnboundedSender<Command>,
    connection: Arc<ClientConnection>,
}

impl Post {
    fn send(&self, command: LinkCommand) {
        // A task that has ended has dropped the link, which ends this.
        self.owner
            .send(command.of_link(self.number, &self.connection))
            .ok();
    }
}

/// Serves a link until one of its ends is gone. `attach` is its first message.
pub async fn serve(
    owners: &Owners,
    connection: Arc<ClientConnection>,
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
            connection.writer.written().await.ok();
            return;
        }
    };
    let id = SessionId::parse(&asked.session_id);
    let Some(owner) = id.and_then(|id| owners.find(&id)?.upgrade()) else {
        return Responds::<Attached>::Lines(attach.responder).answer(Err(Refusal::NotOpen));
    };
    let post = Post {
        number: owners.number(),
        owner,
        connection: connection.clone(),
    };
    let front = FrontEnd {
        number: post.number,
        feed: Feed::Lines {
            connection: connection.clone(),
            closer,
        },
        client_id: asked.name,
        client: asked.client.map(|client| client.name),
        observes: asked.observe,
        abilities: asked.abilities,
        pid: asked.pid,
        since: String::new(),
    };
    post.send(LinkCommand::Attach(
        front,
        Responds::Lines(attach.responder),
    ));
    let busy = Busy::default();
    while let Some(received) = incoming.next().await {
        match received {
            Received::Request(request) if request.method == DESCRIBE => {
                post.send(LinkCommand::Describe(Responds::Lines(request.responder)));
            }
            Received::Request(request) if request.method == ALIVE => {
                request.responder.answer(Ok("{}".to_owned()));
            }
            Received::Request(request) => pass(request, &busy, &post),
            Received::Notification { method, params } if method == CANCEL_REQUEST => {
                if let Some(id) = text_member(&params, "requestId") {
                    connection.requests.cancel(id);
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
