//! Counts the requests that are not answered yet, so that the end of input can wait for them.

use tokio::sync::watch;

/// How many requests are under way.
#[derive(Clone, Debug)]
pub struct Busy(watch::Sender<usize>);

/// One request under way; it counts until this is dropped.
#[derive(Debug)]
pub struct BusyGuard(watch::Sender<usize>);

impl Default for Busy {
    fn default() -> Self {
        Self(watch::Sender::new(0))
    }
}

impl Busy {
    /// Counts one request more.
    pub fn begin(&self) -> BusyGuard {
        self.0.send_modify(|count| *count += 1);
        BusyGuard(self.0.clone())
    }

    /// Whether nothing is under way.
    pub fn is_idle(&self) -> bool {
        *self.0.borrow() == 0
    }

    /// How many requests are under way.
    pub fn count(&self) -> usize {
        *self.0.borrow()
    }

    /// Waits until nothing is under way.
    pub async fn idle(&self) {
        let mut count = self.0.subscribe();
        // The sender is in `self`, so waiting cannot fail.
        count.wait_for(|count| *count == 0).await.ok();
    }
}

impl Drop for BusyGuard {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}
