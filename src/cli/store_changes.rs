//! Waits for changes of a store.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use rejoin::store::Store;
use rejoin::sys::Watch;

/// Reports that something has changed in a store.
pub(super) struct StoreChanges {
    changed: Receiver<()>,
    /// Reports the changes while it is kept; none if the store cannot be watched.
    _watch: Option<Watch>,
}

impl StoreChanges {
    pub(super) fn of(store: &Store) -> Self {
        let (changes, changed) = mpsc::channel();
        let watch = store.watch(move |_| {
            changes.send(()).ok();
        });
        Self {
            changed,
            _watch: watch
                .inspect_err(|error| tracing::debug!(%error, "changes are not reported"))
                .ok(),
        }
    }

    /// Waits until something has changed since the last call, but no longer than `limit`: not every
    /// change is reported.
    pub(super) fn wait(&self, limit: Duration) {
        if self.changed.recv_timeout(limit) == Err(RecvTimeoutError::Disconnected) {
            thread::sleep(limit);
        }
        self.any();
    }

    /// Whether something has changed since the last call.
    pub(super) fn any(&self) -> bool {
        self.changed.try_iter().count() > 0
    }
}
