//! The channel for an engine's events, and the signal that cancels its turn.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::record::Kind;
use crate::sys::lock;
use crate::transport::Outcome;

/// How many blocks may wait to be logged. Few, so that an engine that is faster than log and client
/// waits and does not fill memory.
const WAITING: usize = 6;

/// Where an engine sends its events.
#[derive(Clone, Debug)]
pub struct Outlet {
    events: mpsc::Sender<EngineEvent>,
    filter: Option<Arc<dyn EventFilter>>,
}

/// Changes the events of an outlet on their way.
pub trait EventFilter: fmt::Debug + Send + Sync {
    /// The event that is sent instead. `None` if the outlet is closed.
    fn filter(&self, event: EngineEvent) -> Option<EngineEvent>;
}

/// An event from an engine; events keep their order.
#[derive(Debug)]
pub enum EngineEvent {
    /// For the log; most of it is also for the client.
    Block(Block),
    /// A request to the client.
    Ask(Question),
    /// The turn may be over: its end is decided here, ahead of other events. No further event is
    /// received until then.
    Ends {
        /// The id of the message that was answered.
        message_id: String,
        /// Resolves to whether the turn is over. It is not if the sender is dropped.
        is_end: oneshot::Receiver<bool>,
    },
    /// A report of its state by an engine that makes them itself: the parameters of the update without
    /// the session's id. `None`: there will be no more.
    State(Option<String>),
    /// A notification to the client that is not an update and is not logged.
    Notify {
        /// The method's name.
        method: String,
        /// The parameters, as JSON text.
        params: String,
        /// The position of the agent's session id in `params`, which the client's replaces. `None` for
        /// a subagent's session, which has the same id everywhere.
        session: Option<Range<usize>>,
    },
}

/// The payloads of records that are appended together.
#[derive(Clone, Debug, Default)]
pub struct Block {
    text: String,
    parts: Vec<BlockPart>,
    /// Where the memory of the text goes.
    spare: Option<SpareTexts>,
}

/// The memory of texts of blocks that were handled, for the next ones: some allocators map as much anew
/// each time. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct SpareTexts(Arc<Mutex<Vec<String>>>);

impl PartialEq for Block {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text && self.parts == other.parts
    }
}

impl Eq for Block {}

impl Drop for Block {
    fn drop(&mut self) {
        if let Some(spare) = self.spare.take() {
            spare.keep(std::mem::take(&mut self.text));
        }
    }
}

impl SpareTexts {
    /// How many are kept.
    const KEPT: usize = 2;
    /// The memory of a shorter one is freed, in bytes.
    const SHORTEST: usize = 16 * 1024;
    /// The memory of a longer one is freed, in bytes.
    const LONGEST: usize = 128 * 1024;

    /// An empty block with room for so many bytes of so many payloads.
    pub fn block(&self, bytes: usize, payloads: usize) -> Block {
        let kept = (bytes >= Self::SHORTEST).then(|| lock(&self.0).pop());
        let mut text = kept.flatten().unwrap_or_default();
        text.reserve(bytes);
        Block {
            text,
            parts: Vec::with_capacity(payloads),
            spare: Some(self.clone()),
        }
    }

    fn keep(&self, mut text: String) {
        if (Self::SHORTEST..=Self::LONGEST).contains(&text.capacity()) {
            text.clear();
            let mut kept = lock(&self.0);
            if kept.len() < Self::KEPT {
                kept.push(text);
            }
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct BlockPart {
    kind: Kind,
    /// The record's id, which only some kinds have.
    id: Option<Box<str>>,
    /// Whether the log has it already, so that it is only sent.
    known: bool,
    /// Whether it only continues the message that the last chunk before it is of.
    continues: bool,
    /// The position in the text where its payload ends.
    end: usize,
}

impl Block {
    /// A block of one payload.
    pub fn of(kind: Kind, payload: String) -> Self {
        let end = payload.len();
        Self {
            text: payload,
            parts: vec![BlockPart {
                kind,
                id: None,
                known: false,
                continues: false,
                end,
            }],
            spare: None,
        }
    }

    /// A block of payloads of one kind.
    pub fn of_all(kind: Kind, payloads: impl IntoIterator<Item = String>) -> Self {
        let mut block = Self::default();
        for payload in payloads {
            block.push(kind, &payload);
        }
        block
    }

    /// Adds a payload: JSON text without line breaks.
    pub fn push(&mut self, kind: Kind, payload: &str) {
        self.push_parts(kind, &[payload]);
    }

    /// Adds a payload in parts, which together are JSON text without line breaks.
    pub fn push_parts(&mut self, kind: Kind, payload: &[&str]) {
        for part in payload {
            self.text.push_str(part);
        }
        let end = self.text.len();
        self.parts.push(BlockPart {
            kind,
            id: None,
            known: false,
            continues: false,
            end,
        });
    }

    /// Adds a chunk that only continues the message that the last chunk before it is of.
    pub fn push_continuing(&mut self, kind: Kind, payload: &str) {
        self.push(kind, payload);
        if let Some(part) = self.parts.last_mut() {
            part.continues = true;
        }
    }

    /// Adds a payload that the log has already and that is sent to the client again.
    pub fn push_known(&mut self, kind: Kind, payload: &str) {
        self.push(kind, payload);
        if let Some(part) = self.parts.last_mut() {
            part.known = true;
        }
    }

    /// Adds a payload of a kind whose records have an id. The id must need no escaping in JSON.
    pub fn push_with_id(&mut self, kind: Kind, id: &str, payload: &str) {
        self.push(kind, payload);
        if let Some(part) = self.parts.last_mut() {
            part.id = Some(id.into());
        }
    }

    /// Adds a payload as it is in another block.
    pub fn push_entry(&mut self, entry: BlockEntry<'_>) {
        self.push(entry.kind, entry.payload);
        if let Some(part) = self.parts.last_mut() {
            part.id = entry.id.map(Into::into);
            part.known = entry.known;
            part.continues = entry.continues;
        }
    }

    /// Each payload with the kind and the id of its record.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = BlockEntry<'_>> + Clone {
        let mut from = 0;
        self.parts.iter().map(move |part| {
            let payload = self.text.get(from..part.end).unwrap_or_default();
            from = part.end;
            BlockEntry {
                kind: part.kind,
                id: part.id.as_deref(),
                known: part.known,
                continues: part.continues,
                payload,
            }
        })
    }

    /// Whether all of it only continues the message that the last chunk before it is of.
    pub fn continues(&self) -> bool {
        self.parts.iter().all(|part| part.continues)
    }

    /// Whether the block has no payload.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// How many payloads the block has.
    pub fn len(&self) -> usize {
        self.parts.len()
    }

    /// The total length of the payloads, in bytes.
    pub fn bytes(&self) -> usize {
        self.text.len()
    }
}

/// A payload of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockEntry<'a> {
    /// The kind of its record.
    pub kind: Kind,
    /// The id of its record.
    pub id: Option<&'a str>,
    /// Whether the log has it already.
    pub known: bool,
    /// Whether it only continues the message that the last chunk before it is of.
    pub continues: bool,
    /// JSON text.
    pub payload: &'a str,
}

impl<'a> BlockEntry<'a> {
    /// A payload that the log does not have.
    pub fn new(kind: Kind, id: Option<&'a str>, payload: &'a str) -> Self {
        Self {
            kind,
            id,
            known: false,
            continues: false,
            payload,
        }
    }

    /// The parts of its record.
    pub fn parts(self) -> (Kind, Option<&'a str>, &'a str) {
        (self.kind, self.id, self.payload)
    }
}

/// A request of the engine to the client.
#[derive(Debug)]
pub struct Question {
    /// The method's name.
    pub method: String,
    /// The parameters, as JSON text.
    pub params: String,
    /// The position of the agent's session id in `params`, which the client's replaces. `None` for a
    /// subagent's session, which has the same id everywhere.
    pub session: Option<Range<usize>>,
    /// Whether the request and its response are part of the conversation.
    pub logged: bool,
    /// Whether the request has the form of the client's version already.
    pub is_native: bool,
    /// Cancelled when the engine no longer needs the response.
    pub cancel: CancellationToken,
    /// Where the response goes.
    pub reply: oneshot::Sender<Outcome>,
}

/// The session accepts no more events: it is closed, or its log cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the session takes no more updates")]
pub struct Closed;

impl Outlet {
    /// An outlet and the end that receives what is put into it.
    pub fn new() -> (Self, mpsc::Receiver<EngineEvent>) {
        let (sender, receiver) = mpsc::channel(WAITING);
        let outlet = Self {
            events: sender,
            filter: None,
        };
        (outlet, receiver)
    }

    /// An outlet to the same receiver, with a filter before it instead of this outlet's.
    #[must_use]
    pub fn filtered(&self, filter: Arc<dyn EventFilter>) -> Self {
        Self {
            events: self.events.clone(),
            filter: Some(filter),
        }
    }

    /// Sends one update: the JSON text of the `update` object, which must be one line.
    pub async fn update(&self, update: String) -> Result<(), Closed> {
        self.send(EngineEvent::Block(Block::of(Kind::Update, update)))
            .await
    }

    /// Sends an event; waits for room.
    pub async fn send(&self, event: EngineEvent) -> Result<(), Closed> {
        let event = self.pass(event)?;
        self.events.send(event).await.map_err(|_| Closed)
    }

    /// Sends an event; blocks the thread until there is room.
    pub fn send_blocking(&self, event: EngineEvent) -> Result<(), Closed> {
        let event = self.pass(event)?;
        self.events.blocking_send(event).map_err(|_| Closed)
    }

    fn pass(&self, event: EngineEvent) -> Result<EngineEvent, Closed> {
        match &self.filter {
            Some(filter) => filter.filter(event).ok_or(Closed),
            None => Ok(event),
        }
    }
}

/// Notifies an engine that the client has cancelled a prompt. Clones share it.
#[derive(Clone, Debug)]
pub struct Cancel {
    turn: CancellationToken,
    /// Also cancelled by itself.
    request: CancellationToken,
    abandoned: CancellationToken,
}

impl Default for Cancel {
    /// A token that is not cancelled yet.
    fn default() -> Self {
        let turn = CancellationToken::new();
        let request = turn.child_token();
        Self {
            turn,
            request,
            abandoned: CancellationToken::new(),
        }
    }
}

impl Cancel {
    /// Cancels the turn, and with it all others of the session.
    pub fn cancel(&self) {
        self.turn.cancel();
    }

    /// Cancels the turn, whose result nobody waits for any longer.
    pub fn abandon(&self) {
        self.abandoned.cancel();
        self.turn.cancel();
    }

    /// Waits until nobody waits for the result of the turn; never resolves if somebody does.
    pub async fn abandoned(&self) {
        self.abandoned.cancelled().await;
    }

    /// Cancels the request of this prompt only, while other prompts are answered.
    pub fn cancel_request(&self) {
        self.request.cancel();
    }

    /// Signals that the turn was cancelled.
    pub fn turn(&self) -> &CancellationToken {
        &self.turn
    }

    /// Whether the turn was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.turn.is_cancelled()
    }

    /// Waits until the turn is cancelled; never resolves if it is not.
    pub async fn cancelled(&self) {
        self.turn.cancelled().await;
    }

    /// Waits until the turn, or only the request of this prompt, is cancelled; never resolves if
    /// neither is.
    pub async fn request_cancelled(&self) {
        self.request.cancelled().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_a_block_is_used_again_and_its_text_is_not() {
        let spare = SpareTexts::default();
        let mut block = spare.block(SpareTexts::SHORTEST, 1);
        block.push(Kind::Update, "{}");
        let at = block.text.as_ptr();
        drop(block);
        let again = spare.block(SpareTexts::SHORTEST, 1);
        assert_eq!((again.text.as_ptr(), again.bytes()), (at, 0));
        assert!(again.is_empty());

        let short = spare.block(1, 1);
        assert!(short.text.capacity() < SpareTexts::SHORTEST);
        let many: Vec<_> = (0..4)
            .map(|_| spare.block(SpareTexts::SHORTEST, 1))
            .collect();
        drop(many);
        assert_eq!(lock(&spare.0).len(), SpareTexts::KEPT);
        drop((again, short, spare.block(SpareTexts::LONGEST * 2, 1)));
        let longest = lock(&spare.0).iter().map(String::capacity).max();
        assert!(longest.is_some_and(|longest| longest <= SpareTexts::LONGEST));
    }
}
