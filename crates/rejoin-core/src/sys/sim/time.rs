//! A clock that advances only when it is read: a test double.

use std::sync::atomic::{AtomicI64, Ordering};

use crate::sys::{Clock, Timestamp};

/// A clock that advances one millisecond with each read.
#[derive(Debug)]
pub struct SimClock(AtomicI64);

impl SimClock {
    /// A clock whose first read returns `start`.
    pub fn starting_at(start: Timestamp) -> Self {
        Self(AtomicI64::new(start.as_millis()))
    }

    /// Advances the clock by `millis` milliseconds, backwards if negative.
    pub fn advance(&self, millis: i64) {
        self.0.fetch_add(millis, Ordering::Relaxed);
    }
}

impl Default for SimClock {
    /// Starts at 2026-11-21T08:33:20.000Z.
    fn default() -> Self {
        Self::starting_at(Timestamp::from_millis(1_795_250_000_000))
    }
}

impl Clock for SimClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.fetch_add(1, Ordering::Relaxed))
    }
}
