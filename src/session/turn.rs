//! A prompt that is being answered, and one that waits for its turn.

use crate::record::open_calls::OpenCalls;

use super::outcome::Refusal;

/// A prompt that is being answered.
#[derive(Debug)]
pub(super) struct Turn<R> {
    /// Where its end is answered; nowhere if the client is told of it by an update.
    pub(super) reply: Option<R>,
    pub(super) cancelled: bool,
    /// Whether what it asked the client for was taken back.
    pub(super) withdrawn: bool,
    pub(super) calls: OpenCalls,
    /// Why one of its records could not be kept; the answer of the turn.
    pub(super) broken: Option<Refusal>,
    /// How many questions to the client's user are open.
    pub(super) asking: usize,
}

/// A prompt that is not in the log yet.
#[derive(Debug)]
pub(super) struct Waiting<R> {
    pub(super) reply: R,
    pub(super) message_id: String,
    pub(super) params: String,
}
