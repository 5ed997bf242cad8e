//! The messages of a link: JSON-RPC, in lines.
//!
//! Both ends are rejoin, perhaps of different releases: [`Attach::protocol`] says whether they
//! understand each other. What is missing in a message of a later release has a default.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::engine::ClientCapabilities;
use crate::record::RewindTarget;
use crate::record::header::Implementation;
use crate::record::metadata::MetadataChange;
use crate::record::prompt_keys::idempotency_key;
use crate::session::outcome::{Done, Refusal};
use crate::session::request::{AnswerDue, Request};

/// The version of these messages.
pub const PROTOCOL: u32 = 1;

/// The first request: [`Attach`], answered with [`Attached`].
pub const ATTACH: &str = "_rejoin/attach";
/// Asks for the session as it is now, answered with the engine's part of the answer that opens it, as
/// JSON text, if it has one.
pub const DESCRIBE: &str = "_rejoin/describe";
/// A request of the client: [`Passed`], answered with an [`Answer`].
pub const PASS: &str = "_rejoin/pass";
/// A notification of the client: [`Notified`].
pub const NOTIFY: &str = "_rejoin/notify";

/// Asks whether the process at the other end is alive, which answers at once. One of a release that
/// does not know it answers with an error.
pub const ALIVE: &str = "_rejoin/alive";
/// How long it may take to answer that, and to admit a link.
pub const ANSWER: Duration = Duration::from_secs(5);

/// Notifies a client that the session is stopped on purpose, before the link ends.
pub const STOPPED: &str = "_rejoin/stopped";

/// The client that attaches, and the session to which it does.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Attach {
    /// See [`PROTOCOL`].
    pub protocol: u32,
    /// The release, for people.
    pub version: String,
    /// The session, by the id of its log.
    pub session_id: String,
    /// The id by which the client knows it.
    pub name: String,
    /// The client.
    #[serde(default)]
    pub client: Option<Implementation>,
    /// Whether the client only looks on, and is asked nothing.
    #[serde(default)]
    pub observe: bool,
    /// The id of its process.
    #[serde(default)]
    pub pid: u32,
    /// The client's capabilities. A front of an earlier release does not send them.
    #[serde(default)]
    pub abilities: Option<ClientCapabilities>,
}

/// The owner's description of the session, or the reason why it is not the owner.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Attached {
    /// The array of available commands that the engine announces itself, as JSON text.
    #[serde(default)]
    pub commands: Option<String>,
    /// Whether the engine speaks version 2.
    #[serde(default)]
    pub native: bool,
}

/// A request that is passed to the owner. See [`Request`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", content = "value", rename_all = "camelCase")]
#[serde(rename_all_fields = "camelCase")]
#[expect(missing_docs, reason = "they are those of `Request`")]
pub enum Passed {
    Prompt {
        due: AnswerDue,
        message_id: String,
        params: String,
    },
    Call {
        method: String,
        params: String,
    },
    Metadata(MetadataChange),
    Rewind {
        target: RewindTarget,
        client: Option<String>,
    },
    Delete,
    DeleteForAll,
}

/// A notification that is passed to the owner.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", content = "value", rename_all = "camelCase")]
#[serde(rename_all_fields = "camelCase")]
pub enum Notified {
    /// Cancel the running turns.
    Cancel,
    /// For the engine.
    Engine {
        /// The method's name.
        method: String,
        /// The notification's parameters.
        params: String,
    },
}

/// The answer to a [`Passed`] request.
pub type Answer = Result<Done, Refusal>;

/// The handling of a request for a session that another process has.
#[derive(Debug)]
pub enum Route<R> {
    /// The owner serves it.
    Pass(R, Passed),
    /// The owner is notified.
    Notify(Notified),
    /// The client is gone, and the owner goes on.
    Leave,
    /// The front that has received the request serves it.
    Here(Box<Request<R>>),
}

impl<R> Route<R> {
    /// Whether the owner of the session serves a request, or the front that has received it.
    pub fn of(request: Request<R>) -> Self {
        match request {
            Request::Prompt {
                reply,
                due,
                message_id,
                params,
            } => Self::Pass(
                reply,
                Passed::Prompt {
                    due,
                    message_id,
                    params,
                },
            ),
            Request::Call {
                reply,
                method,
                params,
            } => Self::Pass(reply, Passed::Call { method, params }),
            Request::MetadataChange(reply, change) => Self::Pass(reply, Passed::Metadata(change)),
            Request::Rewind {
                reply,
                target,
                client,
            } => Self::Pass(reply, Passed::Rewind { target, client }),
            Request::Delete(reply) => Self::Pass(reply, Passed::Delete),
            Request::DeleteForAll(reply) => Self::Pass(reply, Passed::DeleteForAll),
            Request::Notify { method, params } => Self::Notify(Notified::Engine { method, params }),
            Request::Cancel { .. } => Self::Notify(Notified::Cancel),
            Request::Leave(_) => Self::Leave,
            request => Self::Here(Box::new(request)),
        }
    }
}

impl Passed {
    /// Whether it may be served again: a prompt with an idempotency key is not run twice.
    pub fn has_key(&self) -> bool {
        matches!(self, Self::Prompt { params, .. } if idempotency_key(params).is_some())
    }

    /// The request that the owner serves.
    pub fn request<R>(self, reply: R) -> Request<R> {
        match self {
            Self::Prompt {
                due,
                message_id,
                params,
            } => Request::Prompt {
                reply,
                due,
                message_id,
                params,
            },
            Self::Call { method, params } => Request::Call {
                reply,
                method,
                params,
            },
            Self::Metadata(change) => Request::MetadataChange(reply, change),
            Self::Rewind { target, client } => Request::Rewind {
                reply,
                target,
                client,
            },
            Self::Delete => Request::Delete(reply),
            Self::DeleteForAll => Request::DeleteForAll(reply),
        }
    }
}

impl Notified {
    /// The request that the owner serves.
    pub fn request<R>(self) -> Request<R> {
        match self {
            // The other clients are asked, too, and do not know of the cancellation.
            Self::Cancel => Request::Cancel { withdraw: true },
            Self::Engine { method, params } => Request::Notify { method, params },
        }
    }
}

/// The JSON text of a message. None of them can fail to have one.
pub fn text(message: &impl Serialize) -> String {
    serde_json::to_string(message).unwrap_or_else(|error| {
        tracing::error!(%error, "a message of a link cannot be written");
        "null".to_owned()
    })
}
