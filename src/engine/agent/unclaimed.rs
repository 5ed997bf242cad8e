//! Messages about sessions that nobody hears yet: an agent may speak of a new session before it has
//! answered the request that makes it.

use std::sync::Mutex;

use crate::sys::lock;

/// How much is kept of all such sessions together, in bytes.
const KEPT: usize = 1024 * 1024;

/// Lines that wait for somebody to hear them.
#[derive(Debug, Default)]
pub(super) struct Unclaimed(Mutex<Vec<(String, Vec<u8>)>>);

impl Unclaimed {
    /// Keeps the line of a message about this session; false if there is no room for it.
    pub(super) fn keep(&self, session: &str, line: &[u8]) -> bool {
        let mut lines = lock(&self.0);
        let kept: usize = lines.iter().map(|(_, line)| line.len()).sum();
        let room = kept + line.len() <= KEPT;
        if room {
            lines.push((session.to_owned(), line.to_vec()));
        }
        room
    }

    /// Whether nothing is kept.
    pub(super) fn is_empty(&self) -> bool {
        let lines = lock(&self.0);
        lines.is_empty()
    }

    /// The sessions of which something is kept.
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
