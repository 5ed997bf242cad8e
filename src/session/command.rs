//! What is put into the mailbox of a session's actor.

use tokio::sync::{mpsc, oneshot};

use crate::transport::Held;

use super::reply::Reply;
use super::request::Request;

/// What an actor is sent.
#[derive(Debug)]
pub(super) enum Command {
    /// A request of the client, and the bytes that it takes until it is looked at.
    Request(Request<Reply>, Held),
    /// Tell when everything that was sent before has been begun.
    Barrier(oneshot::Sender<()>),
}

/// Where an actor finds what it was sent.
pub(super) type Mailbox = mpsc::UnboundedReceiver<Command>;
