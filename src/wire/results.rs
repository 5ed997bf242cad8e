//! Keeps the text of results while the SDK takes a ticket for each to the writer.
//!
//! It is the [stash](super::stash) the other way round: a result that is text already, perhaps of
//! megabytes, is not parsed into a tree that the SDK would print again, which would change numbers
//! and take many times the memory.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

/// The member of a result that carries the ticket.
const TICKET: &str = "_rejoinResult";

/// Results on their way.
#[derive(Debug, Default)]
pub struct Results {
    state: Mutex<State>,
    /// How many there are, so that nothing is searched while there are none.
    count: AtomicUsize,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    waiting: Vec<(u64, String)>,
}

impl Results {
    /// Keeps the text of a result, which must be JSON on one line; returns what the SDK is to be
    /// given in its place.
    pub fn put(&self, text: String) -> Value {
        let mut state = self.lock();
        let ticket = state.next;
        state.next += 1;
        state.waiting.push((ticket, text));
        self.count.store(state.waiting.len(), Ordering::Release);
        json!({ TICKET: ticket })
    }

    /// The line with the text of its result, if it has a ticket for one.
    pub(super) fn fill(&self, line: String) -> String {
        if self.count.load(Ordering::Acquire) == 0 {
            return line;
        }
        // Within a string the quotes would be escaped.
        let begin = format!("{{\"{TICKET}\":");
        let Some((before, rest)) = line.split_once(&begin) else {
            return line;
        };
        let Some((ticket, after)) = rest.split_once('}') else {
            return line;
        };
        let mut state = self.lock();
        let at = ticket.parse().ok().and_then(|ticket: u64| {
            let mut waiting = state.waiting.iter();
            waiting.position(|(waiting, _)| *waiting == ticket)
        });
        let Some(at) = at else { return line };
        let (_, text) = state.waiting.swap_remove(at);
        self.count.store(state.waiting.len(), Ordering::Release);
        drop(state);
        [before, &text, after].concat()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_good_once() {
        let results = Results::default();
        let (a, b) = (results.put("{\"n\":1.50}".into()), results.put("[]".into()));
        let line = |value: &Value| format!("{{\"id\":1,\"result\":{value}}}");
        assert_eq!(results.fill(line(&b)), r#"{"id":1,"result":[]}"#);
        assert_eq!(results.fill(line(&b)), line(&b));
        assert_eq!(results.fill(line(&a)), r#"{"id":1,"result":{"n":1.50}}"#);
        for other in [
            r#"{"id":1,"result":{}}"#,
            r#"{"_rejoinResult":x}"#,
            r#"{"_rejoinResult":"#,
        ] {
            results.put(String::new());
            assert_eq!(results.fill(other.into()), other);
        }
    }
}
