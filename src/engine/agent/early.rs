//! Keeps what an agent says about a session before it is known where that goes.

use std::sync::Mutex;

use crate::sys::lock;

/// How much is kept of messages about sessions without a route, in bytes.
const EARLY_LIMIT: usize = 1024 * 1024;

/// Lines about sessions without a route: an agent may send messages about a new session before its
/// response to the request that creates it.
#[derive(Debug, Default)]
pub(super) struct EarlyMessages(Mutex<Vec<(String, Vec<u8>)>>);

impl EarlyMessages {
    /// Keeps a line about this session; false if there is no room for it.
    pub(super) fn keep(&self, session: &str, line: &[u8]) -> bool {
        let mut lines = lock(&self.0);
        let kept: usize = lines.iter().map(|(_, line)| line.len()).sum();
        let room = kept + line.len() <= EARLY_LIMIT;
        if room {
            lines.push((session.to_owned(), line.to_vec()));
        }
        room
    }

    /// Whether there are no lines.
    pub(super) fn is_empty(&self) -> bool {
        let lines = lock(&self.0);
        lines.is_empty()
    }

    /// The sessions that the lines are about.
    pub(super) fn sessions(&self) -> Vec<String> {
        let lines = lock(&self.0);
        let mut sessions: Vec<_> = lines.iter().map(|(session, _)| session.clone()).collect();
        sessions.dedup();
        sessions
    }

    /// All lines, in order.
    pub(super) fn take_all(&self) -> Vec<Vec<u8>> {
        let lines = std::mem::take(&mut *lock(&self.0));
        lines.into_iter().map(|(_, line)| line).collect()
    }

    /// The lines of this session, in order.
    pub(super) fn take(&self, session: &str) -> Vec<Vec<u8>> {
        let mut lines = lock(&self.0);
        let (taken, left) = std::mem::take(&mut *lines)
            .into_iter()
            .partition(|(name, _)| name == session);
        *lines = left;
        taken.into_iter().map(|(_, line)| line).collect()
    }
}
