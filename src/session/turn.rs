//! The prompts that are being answered, and one that waits for its turn.

use std::mem;

use crate::record::open_calls::OpenCalls;

use crate::transport::Outcome;

use super::asked;
use super::outcome::Refusal;

/// A prompt that is being answered.
#[derive(Debug)]
pub(super) struct Turn<R> {
    /// The id of the user's message.
    pub(super) message_id: String,
    /// Where its end is answered; nowhere if the client is notified of it by an update.
    pub(super) reply: Option<R>,
    pub(super) cancelled: bool,
    /// Whether another turn ran at the same time, so that its end has to name its prompt.
    pub(super) overlaps: bool,
}

/// A tool call that was made out of a request for permission.
#[derive(Debug)]
pub(super) struct MadeCall {
    /// The id of the request in the log.
    pub(super) ask: String,
    pub(super) call: String,
    /// The ids of the options that allow it.
    pub(super) allowing: Vec<String>,
    pub(super) is_allowed: bool,
}

/// The prompts that are being answered at the same time.
///
/// An update does not say to which of them it belongs, so all that follows from updates is kept for
/// all of them together, until the last one has ended.
#[derive(Debug)]
pub(super) struct Turns<R> {
    running: Vec<Turn<R>>,
    pub(super) calls: OpenCalls,
    /// The tool calls that only requests for permission have shown.
    pub(super) made: Vec<MadeCall>,
    /// The message for tool calls that are open at the end, if a turn was cancelled or failed.
    pub(super) failure: Option<&'static str>,
    /// Whether the requests to the client were withdrawn.
    pub(super) withdrawn: bool,
    /// Why a record could not be kept; the answer of each turn.
    pub(super) broken: Option<Refusal>,
    /// How many questions to the client's user are open.
    pub(super) asking: usize,
}

impl<R> Default for Turns<R> {
    fn default() -> Self {
        Self {
            running: Vec::new(),
            calls: OpenCalls::default(),
            made: Vec::new(),
            failure: None,
            withdrawn: false,
            broken: None,
            asking: 0,
        }
    }
}

impl<R> Turns<R> {
    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.running.len()
    }

    pub(super) fn is_running(&self, message_id: &str) -> bool {
        self.running
            .iter()
            .any(|turn| turn.message_id == message_id)
    }

    pub(super) fn begin(&mut self, mut turn: Turn<R>) {
        turn.overlaps = !self.running.is_empty();
        for other in &mut self.running {
            other.overlaps = true;
        }
        self.running.push(turn);
    }

    /// Takes out the turn of this prompt.
    pub(super) fn end(&mut self, message_id: &str) -> Option<Turn<R>> {
        let mut running = self.running.iter();
        let place = running.position(|turn| turn.message_id == message_id)?;
        Some(self.running.remove(place))
    }

    /// Takes out the turn that began last.
    pub(super) fn undo(&mut self) -> Option<Turn<R>> {
        self.running.pop()
    }

    /// Marks all of them as cancelled. False if they were already.
    pub(super) fn cancel(&mut self) -> bool {
        let mut news = false;
        for turn in &mut self.running {
            news |= !mem::replace(&mut turn.cancelled, true);
        }
        news
    }

    /// Whether all of them have been told to stop, so that what comes next can wait for their end.
    pub(super) fn are_ending(&self) -> bool {
        !self.is_empty()
            && (self.broken.is_some() || self.running.iter().all(|turn| turn.cancelled))
    }

    /// Takes note of the answer to a request for permission.
    pub(super) fn answered(&mut self, ask: &str, outcome: &Outcome) {
        let mut made = self.made.iter_mut();
        if let Some(made) = made.find(|made| made.ask == ask) {
            made.is_allowed = outcome
                .as_ref()
                .is_ok_and(|answer| asked::allows(&made.allowing, answer));
        }
    }

    /// The updates that close calls which only a request for permission has shown, and of which the
    /// engine has said no more.
    pub(super) fn close_made(&mut self) -> Vec<String> {
        let made = mem::take(&mut self.made).into_iter();
        let open = made.filter(|made| self.calls.is_open(&made.call));
        open.map(|made| asked::end(&made.call, made.is_allowed))
            .collect()
    }

    /// Forgets what the turns had in common, once the last one has ended. Returns the updates that
    /// close the tool calls they left open.
    pub(super) fn reset(&mut self) -> Vec<String> {
        let Self {
            mut calls, failure, ..
        } = mem::take(self);
        failure.map_or_else(Vec::new, |message| calls.close_all(message))
    }
}

/// A prompt that is not in the log yet.
#[derive(Debug)]
pub(super) struct Waiting<R> {
    pub(super) reply: R,
    pub(super) message_id: String,
    pub(super) params: String,
    /// Whether it was cancelled while it waited.
    pub(super) cancelled: bool,
}
