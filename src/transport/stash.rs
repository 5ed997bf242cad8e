//! Keeps parameters of messages as text while the SDK dispatches a ticket in their place.
//!
//! The SDK would parse parameters into a tree, which changes numbers, drops repeated members and
//! takes up to seventy times the line's size. So it gets a line with a ticket for the parameters,
//! and the handler of the message exchanges the ticket for the original text.
//!
//! This also bounds the number of messages between reading and handling, since the SDK's own queues
//! are unbounded.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};
use std::task::{Context, Poll};

use crate::sys::lock;

/// The member of the parameters that carries the ticket.
pub const TICKET: &str = "_rejoinTicket";

/// How many messages may be read but not yet handled. Handling is quick, so this only keeps a flood
/// of input out of memory.
const UNDER_WAY: usize = 16;

/// How many bytes of parameters may be pending before the next message has to wait.
const BYTES_UNDER_WAY: usize = 4 * 1024 * 1024;

/// How often the reader yields to the handlers before it drops what is still pending. Some messages
/// never reach a handler: the SDK drops notifications that it does not know.
const PATIENCE: u32 = 64;

/// Parameters that are waiting for their handler, oldest first.
#[derive(Debug, Default)]
pub struct PendingParams(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    next: u64,
    waiting: VecDeque<(u64, String)>,
    /// How often the reader has yielded since the last [`take`](PendingParams::take).
    gave_way: u32,
    initialize: Option<String>,
}

impl PendingParams {
    /// Stores the parameters of the last `initialize`, which has no ticket.
    pub fn put_initialize(&self, params: String) {
        self.lock().initialize = Some(params);
    }

    /// The parameters of the last `initialize`.
    pub fn take_initialize(&self) -> Option<String> {
        self.lock().initialize.take()
    }

    /// Ready when another message may be read. Until then it yields to the handlers, which run on
    /// the same task as the reader.
    pub fn poll_room(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        let bytes: usize = state.waiting.iter().map(|(_, params)| params.len()).sum();
        if state.waiting.len() < UNDER_WAY && bytes < BYTES_UNDER_WAY {
            return Poll::Ready(());
        }
        state.gave_way += 1;
        if state.gave_way > PATIENCE {
            state.gave_way = 0;
            state.waiting.clear();
            return Poll::Ready(());
        }
        drop(state);
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Stores `params` and returns a ticket for them.
    pub fn put(&self, params: String) -> u64 {
        let mut state = self.lock();
        let ticket = state.next;
        state.next += 1;
        state.waiting.push_back((ticket, params));
        ticket
    }

    /// Exchanges a ticket for its parameters. Messages are handled in the order they were read, so
    /// older tickets belong to messages that never reached a handler and are dropped.
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
        state.gave_way = 0;
        found
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Waker;

    #[test]
    fn a_ticket_is_good_once_and_takes_older_ones_along() {
        let stash = PendingParams::default();
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
        let stash = PendingParams::default();
        let mut cx = Context::from_waker(Waker::noop());
        for _ in 0..UNDER_WAY {
            assert!(stash.poll_room(&mut cx).is_ready());
            stash.put(String::new());
        }
        assert!(stash.poll_room(&mut cx).is_pending());
        assert!(stash.take(0).is_some());
        assert!(stash.poll_room(&mut cx).is_ready());
    }

    #[test]
    fn reading_waits_behind_a_large_message() {
        let stash = PendingParams::default();
        let mut cx = Context::from_waker(Waker::noop());
        let ticket = stash.put("x".repeat(BYTES_UNDER_WAY));
        assert!(stash.poll_room(&mut cx).is_pending());
        assert!(stash.take(ticket).is_some());
        assert!(stash.poll_room(&mut cx).is_ready());
    }

    #[test]
    fn messages_that_nobody_handles_do_not_stop_the_reader() {
        let stash = PendingParams::default();
        let mut cx = Context::from_waker(Waker::noop());
        let mut pending = 0;
        for _ in 0..10 * UNDER_WAY {
            while stash.poll_room(&mut cx).is_pending() {
                pending += 1;
            }
            stash.put("lost".to_owned());
        }
        assert!(pending > 0);
        let ticket = stash.put("found".to_owned());
        assert_eq!(stash.take(ticket).as_deref(), Some("found"));
    }
}
