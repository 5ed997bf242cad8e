//! Waits for what is under way at the end of a connection, so that no response is lost.

use std::time::Duration;

use crate::session::Busy;

/// How long a cancelled turn may take to end, and a response to be sent.
pub(super) const GRACE: Duration = Duration::from_millis(500);

/// How long to wait for what does not end on its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShutdownLimits {
    /// For requests other than prompts, which only wait for the disk, for the client to read, or
    /// for a turn in front of them. The time in which a replay is under way does not count.
    pub(super) requests: Duration,
    /// For turns, before they are cancelled.
    pub(super) turns: Duration,
}

/// The client has ended its input.
pub(super) const END_OF_INPUT: ShutdownLimits = ShutdownLimits {
    requests: Duration::from_secs(7),
    turns: Duration::from_millis(400),
};

/// The client has ended its input, and a wrapped agent serves most of its requests.
pub(super) const END_OF_INPUT_WRAPPED: ShutdownLimits = ShutdownLimits {
    requests: Duration::from_secs(5),
    turns: Duration::from_millis(400),
};

/// The system wants the process to end.
pub(super) const SIGNAL: ShutdownLimits = ShutdownLimits {
    requests: GRACE,
    turns: Duration::ZERO,
};

/// How many bytes may be written before time counts although the client reads: a turn may never
/// end.
const ENDLESS: u64 = 64 * 1024 * 1024;

/// How often the client's reading is checked.
const STEP: Duration = Duration::from_millis(50);

/// The work to wait for at the end of a connection.
pub(super) struct UnderWay<'a> {
    pub(super) requests: &'a Busy,
    pub(super) turns: &'a Busy,
    pub(super) replays: &'a Busy,
    /// How many bytes were written so far, and whether more are pending.
    pub(super) written: &'a (dyn Fn() -> (u64, bool) + Send + Sync),
}

/// Waits until every request is answered, within the limits. The time of turns begins when the
/// other requests are done: a prompt may have waited for a long load. Time in which only the client
/// is slow does not count.
pub(super) async fn shutdown(
    under_way: &UnderWay<'_>,
    cancel_turns: impl FnOnce(),
    limits: ShutdownLimits,
) {
    let turns = under_way.turns;
    under_way.answered(limits.requests).await;
    tokio::select! {
        biased;
        () = turns.idle() => return,
        () = under_way.outlast(limits.turns, Counts::UnlessStuck, || false) => {}
    }
    cancel_turns();
    tokio::select! {
        () = turns.idle() => {}
        () = under_way.outlast(GRACE, Counts::WhenRead, || false) => {}
    }
}

/// Which time counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counts {
    /// All except that in which the client has something to read and reads nothing.
    UnlessStuck,
    /// Only that in which the client has read everything.
    WhenRead,
}

impl UnderWay<'_> {
    /// Waits until the requests other than prompts are answered, within this limit.
    pub(super) async fn answered(&self, limit: Duration) {
        let Self {
            requests, replays, ..
        } = *self;
        let mut left = requests.count();
        let progresses = || {
            let now = requests.count();
            // A load is answered only after its replay, and another one may begin.
            !replays.is_idle() || std::mem::replace(&mut left, now) > now
        };
        tokio::select! {
            () = requests.idle() => {}
            () = self.outlast(limit, Counts::WhenRead, progresses) => {}
        }
    }

    /// Waits for `limit`, counted from the last progress.
    async fn outlast(
        &self,
        limit: Duration,
        counts: Counts,
        mut progresses: impl FnMut() -> bool + Send,
    ) {
        let mut spent = Duration::ZERO;
        let mut from = (self.written)().0;
        let mut last = from;
        while spent < limit {
            let step = STEP.min(limit.saturating_sub(spent));
            tokio::time::sleep(step).await;
            let (written, unread) = (self.written)();
            let stuck = unread && written == last;
            last = written;
            if progresses() {
                spent = Duration::ZERO;
                from = written;
            } else if !stuck
                && (counts == Counts::UnlessStuck || !unread || written - from > ENDLESS)
            {
                spent += step;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::lock;
    use std::cell::Cell;
    use std::sync::Mutex;
    use tokio::time::{Instant, sleep};

    #[derive(Default)]
    struct Ending {
        requests: Busy,
        turns: Busy,
        replays: Busy,
        cancelled: Cell<Option<Duration>>,
        /// How many bytes were written, and whether more are pending.
        written: Mutex<(u64, bool)>,
    }

    impl Ending {
        /// How long the shutdown takes.
        async fn ends(&self, limits: ShutdownLimits) -> Duration {
            let begun = Instant::now();
            let cancel = || self.cancelled.set(Some(begun.elapsed()));
            let written = &self.written;
            let under_way = UnderWay {
                requests: &self.requests,
                turns: &self.turns,
                replays: &self.replays,
                written: &|| *lock(written),
            };
            shutdown(&under_way, cancel, limits).await;
            begun.elapsed()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_response_after_a_long_replay_is_waited_for() {
        for limits in [END_OF_INPUT, SIGNAL] {
            let under_way = Ending::default();
            let request = under_way.requests.begin();
            let replay = under_way.replays.begin();
            let load = async {
                sleep(Duration::from_mins(1)).await;
                drop(replay);
                sleep(GRACE / 2).await;
                drop(request);
            };
            let (took, ()) = tokio::join!(under_way.ends(limits), load);
            assert_eq!(took, Duration::from_mins(1) + GRACE / 2);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_disk_is_waited_for_and_a_dead_one_is_not() {
        let under_way = Ending::default();
        let request = under_way.requests.begin();
        let list = async {
            sleep(Duration::from_secs(6)).await;
            drop(request);
        };
        let (took, ()) = tokio::join!(under_way.ends(END_OF_INPUT), list);
        assert_eq!(took, Duration::from_secs(6));
        let _request = under_way.requests.begin();
        assert_eq!(under_way.ends(END_OF_INPUT).await, END_OF_INPUT.requests);
        assert_eq!(under_way.ends(SIGNAL).await, SIGNAL.requests);
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_is_cancelled_after_its_time_and_then_dropped() {
        let under_way = Ending::default();
        let _turn = under_way.turns.begin();
        assert_eq!(
            under_way.ends(END_OF_INPUT).await,
            END_OF_INPUT.turns + GRACE
        );
        assert_eq!(under_way.cancelled.get(), Some(END_OF_INPUT.turns));
        assert_eq!(under_way.ends(SIGNAL).await, GRACE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_after_a_load_has_its_time() {
        let under_way = Ending::default();
        let (load, turn) = (under_way.requests.begin(), under_way.turns.begin());
        let work = async {
            sleep(Duration::from_secs(5)).await;
            drop(load);
            sleep(END_OF_INPUT.turns / 2).await;
            drop(turn);
        };
        tokio::join!(under_way.ends(END_OF_INPUT), work);
        assert_eq!(under_way.cancelled.get(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_cancelled_when_all_is_answered() {
        let under_way = Ending::default();
        assert_eq!(under_way.ends(END_OF_INPUT).await, Duration::ZERO);
        assert_eq!(under_way.cancelled.get(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_pauses_loses_no_response() {
        let under_way = Ending::default();
        *lock(&under_way.written) = (0, true);
        let (list, turn) = (under_way.requests.begin(), under_way.turns.begin());
        let pause = Duration::from_mins(9);
        let client = async {
            sleep(pause).await;
            drop(list);
            sleep(pause).await;
            *lock(&under_way.written) = (100, false);
            sleep(END_OF_INPUT.turns / 2).await;
            drop(turn);
        };
        let (took, ()) = tokio::join!(under_way.ends(END_OF_INPUT), client);
        assert_eq!(took, 2 * pause + END_OF_INPUT.turns / 2);
        assert_eq!(under_way.cancelled.get(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_client_is_waited_for_as_long_as_something_is_answered() {
        let under_way = Ending::default();
        *lock(&under_way.written) = (0, true);
        let lists: Vec<_> = (0..10).map(|_| under_way.requests.begin()).collect();
        let client = async {
            for list in lists {
                for _ in 0..20 {
                    sleep(Duration::from_secs(1)).await;
                    lock(&under_way.written).0 += ENDLESS / 25;
                }
                drop(list);
            }
        };
        let (took, ()) = tokio::join!(under_way.ends(END_OF_INPUT), client);
        assert_eq!(took, Duration::from_secs(200));
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_that_does_not_stop_is_dropped() {
        let under_way = Ending::default();
        let _turn = under_way.turns.begin();
        *lock(&under_way.written) = (0, true);
        let flood = async {
            loop {
                sleep(Duration::from_millis(10)).await;
                lock(&under_way.written).0 += ENDLESS / 10;
            }
        };
        tokio::select! {
            took = under_way.ends(END_OF_INPUT) => assert!(took < Duration::from_secs(2), "{took:?}"),
            () = flood => {}
        }
        assert_eq!(under_way.cancelled.get(), Some(END_OF_INPUT.turns));
    }
}
