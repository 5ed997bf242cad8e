//! Keeps messages of an agent about a session until the session has a route.

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

    /// Whether there are lines about this session.
    pub(super) fn has(&self, session: &str) -> bool {
        lock(&self.0).iter().any(|(of, _)| of == session)
    }

    /// Whether any line is such a one.
    pub(super) fn any(&self, wanted: impl Fn(&[u8]) -> bool) -> bool {
        lock(&self.0).iter().any(|(_, line)| wanted(line))
    }

    /// All lines, in order.
    pub(super) fn take_all(&self) -> Vec<Vec<u8>> {
        let lines = std::mem::take(&mut *lock(&self.0));
        lines.into_iter().map(|(_, line)| line).collect()
    }
}
