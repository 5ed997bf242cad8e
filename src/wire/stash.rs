//! Keeps the parameters of messages as text while the SDK dispatches a ticket in their place.
//!
//! The SDK would parse parameters into a tree: that changes numbers, drops repeated members and
//! takes up to seventy times the line's size. A line therefore reaches it with a ticket for
//! parameters, and whoever handles the message trades the ticket for the original text.
//!
//! The stash also bounds how many messages are under way between reading and handling, which the
//! SDK's own queues do not.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// The member of the parameters that carries the ticket.
pub const TICKET: &str = "_rejoinTicket";

/// How many messages may be read but not yet handled. Handling is quick, so this is only there to
/// keep a flood of input out of memory.
const UNDER_WAY: usize = 16;

/// Parameters waiting for their handler, oldest first.
#[derive(Debug, Default)]
pub struct Stash(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    next: u64,
    waiting: VecDeque<(u64, String)>,
    reader: Option<Waker>,
    initialize: Option<String>,
}

impl Stash {
    /// Keeps the parameters of the last `initialize`, which travel without a ticket.
    pub fn put_initialize(&self, params: String) {
        self.lock().initialize = Some(params);
    }

    /// The parameters of the last `initialize`.
    pub fn take_initialize(&self) -> Option<String> {
        self.lock().initialize.take()
    }

    /// Ready when another message may be read.
    pub fn poll_room(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        if state.waiting.len() < UNDER_WAY {
            return Poll::Ready(());
        }
        state.reader = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Keeps `params` and returns the ticket for them.
    pub fn put(&self, params: String) -> u64 {
        let mut state = self.lock();
        let ticket = state.next;
        state.next += 1;
        state.waiting.push_back((ticket, params));
        ticket
    }

    /// Trades a ticket for its parameters. Messages are handled in the order they were read, so
    /// whatever older tickets are left belong to messages that never reached a handler: they go.
    pub fn take(&self, ticket: u64) -> Option<String> {
        let mut state = self.lock();
        let mut found = None;
        while state
            .waiting
            .front()
            .is_some_and(|(first, _)| *first <= ticket)
        {
            let (first, params) = state.waiting.pop_front()?;
            if first == ticket {
                found = Some(params);
            }
        }
        let reader = state.reader.take();
        drop(state);
        if let Some(reader) = reader {
            reader.wake();
        }
        found
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_good_once_and_takes_older_ones_along() {
        let stash = Stash::default();
        let tickets: Vec<_> = ["a", "b", "c"]
            .map(|text| stash.put(text.to_owned()))
            .to_vec();
        assert_eq!(stash.take(tickets[1]).as_deref(), Some("b"));
        assert_eq!(stash.take(tickets[1]), None);
        assert_eq!(stash.take(tickets[0]), None);
        assert_eq!(stash.take(tickets[2]).as_deref(), Some("c"));
        assert_eq!(stash.take(77), None);
    }

    #[test]
    fn reading_waits_when_too_many_are_under_way() {
        let stash = Stash::default();
        let mut cx = Context::from_waker(Waker::noop());
        for _ in 0..UNDER_WAY {
            assert!(stash.poll_room(&mut cx).is_ready());
            stash.put(String::new());
        }
        assert!(stash.poll_room(&mut cx).is_pending());
        assert!(stash.take(0).is_some());
        assert!(stash.poll_room(&mut cx).is_ready());
    }
}
