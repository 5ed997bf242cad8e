//! Who waits for another machine, and how long: the work of a task knows its waiter without passing
//! it through every call.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::lock;

tokio::task_local! {
    static CURRENT: Waiter;
}

/// How long one wait may still take once its waiter is in a hurry.
pub const HURRIED: Duration = Duration::from_secs(2);

/// How long one wait may still take for a waiter in a hurry that has waited in vain: its waits do not
/// add up.
const DISAPPOINTED: Duration = Duration::from_millis(250);

/// For how long a waiter stays in a hurry. What it waits for next counts, too: a turn that was
/// cancelled is logged when the agent has ended it.
const STAYS: Duration = Duration::from_secs(10);

/// Someone for whom work is done. Clones are the same one.
#[derive(Clone, Debug)]
pub struct Waiter {
    /// The longest that one wait may take; as long as the work says if `None`.
    most: Option<Duration>,
    /// When it was last in a hurry.
    hurried: Arc<watch::Sender<Option<Instant>>>,
    /// When it has last waited in vain, while it was in a hurry, if no wait since then was not.
    in_vain: Arc<Mutex<Option<Instant>>>,
}

impl Waiter {
    /// Waits as long as the work says, until it is in a hurry.
    pub fn new() -> Self {
        Self::at_most(None)
    }

    /// Waits no longer than this for one thing, where the work says no less.
    pub fn at_most(most: impl Into<Option<Duration>>) -> Self {
        Self {
            most: most.into(),
            hurried: Arc::new(watch::Sender::new(None)),
            in_vain: Arc::default(),
        }
    }

    /// The waiter of the current task, if it has one.
    pub fn current() -> Option<Self> {
        CURRENT.try_with(Self::clone).ok()
    }

    /// Runs a task that works for this waiter.
    pub async fn scope<T>(self, task: impl Future<Output = T>) -> T {
        CURRENT.scope(self, task).await
    }

    /// Runs work for this waiter on this thread.
    pub fn run<T>(&self, work: impl FnOnce() -> T) -> T {
        CURRENT.sync_scope(self.clone(), work)
    }

    /// From now on it is in a hurry, for some seconds.
    pub fn hurry(&self) {
        self.hurried.send_replace(Some(Instant::now()));
    }

    /// How long a wait that begins now may take, if the work says `limit`.
    pub fn limit(&self, limit: Duration) -> Duration {
        let limit = self.most.map_or(limit, |most| limit.min(most));
        if !self.is_in_a_hurry() {
            limit
        } else if lock(&self.in_vain).is_some_and(|at| at.elapsed() < STAYS) {
            limit.min(DISAPPOINTED)
        } else {
            limit.min(HURRIED)
        }
    }

    fn is_in_a_hurry(&self) -> bool {
        let hurried = *self.hurried.borrow();
        hurried.is_some_and(|at| at.elapsed() < STAYS)
    }

    /// A wait has ended: in vain, or not.
    pub fn has_waited(&self, in_vain: bool) {
        let hurries = in_vain && self.is_in_a_hurry();
        *lock(&self.in_vain) = hurries.then(Instant::now);
    }

    /// Resolves when the waiter is in a hurry again, each time after this was called.
    pub fn hurries(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut hurried = self.hurried.subscribe();
        async move {
            if hurried.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

impl Default for Waiter {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_hurry_shortens_what_is_under_way_and_what_comes_next() {
        let long = Duration::from_mins(1);
        let waiter = Waiter::new();
        assert!(Waiter::current().is_none());
        let scope = waiter.clone().scope(async {
            let current = Waiter::current().expect("a task has its waiter");
            assert_eq!(current.limit(long), long);
            let hurries = current.hurries();
            waiter.hurry();
            hurries.await;
            assert_eq!(current.limit(long), HURRIED);
            current.has_waited(true);
            assert_eq!(current.limit(long), DISAPPOINTED);
            current.has_waited(false);
            assert_eq!(current.limit(long), HURRIED);
            current.has_waited(true);
            tokio::time::advance(STAYS).await;
            assert_eq!(current.limit(long), long);
            waiter.hurry();
            assert_eq!(current.limit(long), HURRIED);
        });
        scope.await;
        let brief = Waiter::at_most(HURRIED);
        assert_eq!(
            brief.run(|| Waiter::current().map(|own| own.limit(long))),
            Some(HURRIED)
        );
        assert_eq!(brief.limit(Duration::ZERO), Duration::ZERO);
    }
}
