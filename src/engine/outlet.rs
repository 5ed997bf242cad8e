//! The channel an engine speaks through, with its counterpart that tells it to stop.

use std::ops::Range;

use tokio::sync::{mpsc, oneshot, watch};

use crate::record::Kind;
use crate::wire::Outcome;

/// How many blocks may wait to be logged. Few: an engine that is faster than log and client shall
/// wait, not fill memory.
const WAITING: usize = 8;

/// Where an engine puts what it says.
#[derive(Clone, Debug)]
pub struct Outlet(mpsc::Sender<Said>);

/// What an engine says, in order.
#[derive(Debug)]
pub enum Said {
    /// For the log, and most of it for the client.
    Block(Block),
    /// A request to the client.
    Ask(Question),
    /// A notification to the client that is no update and goes into no log.
    Notify {
        /// The method's name.
        method: String,
        /// The parameters, as JSON text.
        params: String,
        /// Where the engine's own id of the session stands in them.
        session: Range<usize>,
    },
}

/// Payloads of records, as many as come at once: they are written together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Block {
    text: String,
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    kind: Kind,
    /// The id of its record, which only some kinds have.
    id: Option<Box<str>>,
    /// Whether it is in the log already, so that it is only sent.
    known: bool,
    /// Where its payload ends in the text.
    end: usize,
}

impl Block {
    /// A block of one payload.
    pub fn of(kind: Kind, payload: String) -> Self {
        let end = payload.len();
        Self {
            text: payload,
            parts: vec![Part {
                kind,
                id: None,
                known: false,
                end,
            }],
        }
    }

    /// Adds a payload: JSON text without line breaks.
    pub fn push(&mut self, kind: Kind, payload: &str) {
        self.text.push_str(payload);
        let end = self.text.len();
        self.parts.push(Part {
            kind,
            id: None,
            known: false,
            end,
        });
    }

    /// Adds a payload that the log has already, and that the client is sent again.
    pub fn push_known(&mut self, kind: Kind, payload: &str) {
        self.push(kind, payload);
        if let Some(part) = self.parts.last_mut() {
            part.known = true;
        }
    }

    /// Adds a payload of a kind whose records have an id, which must need no escaping in JSON.
    pub fn push_with_id(&mut self, kind: Kind, id: &str, payload: &str) {
        self.push(kind, payload);
        if let Some(part) = self.parts.last_mut() {
            part.id = Some(id.into());
        }
    }

    /// Each payload with the kind and the id of its record.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Entry<'_>> + Clone {
        let mut from = 0;
        self.parts.iter().map(move |part| {
            let payload = self.text.get(from..part.end).unwrap_or_default();
            from = part.end;
            Entry {
                kind: part.kind,
                id: part.id.as_deref(),
                known: part.known,
                payload,
            }
        })
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// How many payloads are in it.
    pub fn len(&self) -> usize {
        self.parts.len()
    }

    /// How long the payloads are together, in bytes.
    pub fn bytes(&self) -> usize {
        self.text.len()
    }
}

/// One payload of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The kind of its record.
    pub kind: Kind,
    /// The id of its record.
    pub id: Option<&'a str>,
    /// Whether the log has it already.
    pub known: bool,
    /// JSON text.
    pub payload: &'a str,
}

/// A request of the engine to the client.
#[derive(Debug)]
pub struct Question {
    /// The method's name.
    pub method: String,
    /// The parameters, as JSON text.
    pub params: String,
    /// Where the engine's own id of the session stands in them.
    pub session: Range<usize>,
    /// Whether the question and its answer are part of the conversation.
    pub logged: bool,
    /// Told when the engine no longer wants the answer.
    pub cancel: Cancel,
    /// Where the answer goes.
    pub reply: oneshot::Sender<Outcome>,
}

/// The session takes no more: it is closed, or its log cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the session takes no more updates")]
pub struct Closed;

impl Outlet {
    /// An outlet and the end that receives what is put into it.
    pub fn new() -> (Self, mpsc::Receiver<Said>) {
        let (sender, receiver) = mpsc::channel(WAITING);
        (Self(sender), receiver)
    }

    /// Sends one update: the JSON text of the `update` object, which must be one line.
    pub async fn update(&self, update: String) -> Result<(), Closed> {
        self.say(Said::Block(Block::of(Kind::Update, update))).await
    }

    /// Says something, when there is room.
    pub async fn say(&self, said: Said) -> Result<(), Closed> {
        self.0.send(said).await.map_err(|_| Closed)
    }

    /// The same on a thread that may wait.
    pub fn say_blocking(&self, said: Said) -> Result<(), Closed> {
        self.0.blocking_send(said).map_err(|_| Closed)
    }
}

/// Told to an engine when the client no longer wants the answer.
#[derive(Clone, Debug)]
pub struct Cancel(watch::Receiver<bool>);

/// The other end of a [`Cancel`]. Dropping it does not cancel.
#[derive(Debug)]
pub struct Canceller(watch::Sender<bool>);

impl Cancel {
    /// A pair that is not cancelled yet.
    pub fn new() -> (Canceller, Self) {
        let (sender, receiver) = watch::channel(false);
        (Canceller(sender), Self(receiver))
    }

    /// Whether the turn was cancelled.
    pub fn is_cancelled(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until the turn is cancelled; for ever if it never is.
    pub async fn cancelled(&self) {
        let mut receiver = self.0.clone();
        if receiver.wait_for(|cancelled| *cancelled).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Canceller {
    /// Cancels the turn.
    pub fn cancel(&self) {
        self.0.send_replace(true);
    }
}
