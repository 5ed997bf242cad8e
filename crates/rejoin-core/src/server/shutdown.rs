//! The end of a connection: what is under way is waited for, so that no response is lost, then cancelled.

use std::time::Duration;

use crate::engine::upstream::Patience;
use crate::session::{Busy, Registry};

/// How long a cancelled turn may take to end, and a response to be sent.
pub(super) const GRACE: Duration = Duration::from_millis(500);

/// How long to wait for what does not end on its own.
#[derive(Clone, Copy, Debug)]
struct ShutdownLimits {
    /// For requests other than prompts, which only wait for the disk, for the client to read, or
    /// for a turn in front of them. The time in which a replay is under way does not count.
    requests: Duration,
    /// For turns, before they are cancelled.
    turns: Duration,
}

/// The client has ended its input.
const END_OF_INPUT: ShutdownLimits = ShutdownLimits {
    requests: Duration::from_secs(7),
    turns: Duration::from_millis(400),
};

/// The client has ended its input, and a wrapped agent serves most of its requests.
const END_OF_INPUT_WRAPPED: ShutdownLimits = ShutdownLimits {
    requests: Duration::from_secs(5),
    turns: Duration::from_millis(400),
};

/// The system wants the process to end.
const SIGNAL: ShutdownLimits = ShutdownLimits {
    requests: GRACE,
    turns: Duration::ZERO,
};

/// How many bytes may be written before time counts although the client reads: a turn may never
/// end.
const ENDLESS: u64 = 64 * 1024 * 1024;

/// How often the client's reading is checked.
const STEP: Duration = Duration::from_millis(50);

/// The work to wait for at the end of a connection.
struct UnderWay<'a> {
    requests: &'a Busy,
    turns: &'a Busy,
    replays: &'a Busy,
    /// How many bytes were written so far, and whether more are pending.
    written: &'a (dyn Fn() -> (u64, bool) + Send + Sync),
}

/// Ends what is under way after the end of input.
pub(super) async fn end_at_end_of_input(registry: &Registry) {
    end_within(limits_at_end_of_input(registry), registry).await;
}

fn limits_at_end_of_input(registry: &Registry) -> ShutdownLimits {
    if registry.deps().engine.wraps_agent() {
        END_OF_INPUT_WRAPPED
    } else {
        END_OF_INPUT
    }
}

/// The work that a connection has under way.
fn under_way<'a>(
    registry: &'a Registry,
    written: &'a (dyn Fn() -> (u64, bool) + Send + Sync),
) -> UnderWay<'a> {
    UnderWay {
        requests: registry.requests(),
        turns: registry.turns(),
        replays: registry.replays(),
        written,
    }
}

/// Waits at the end of a guest's input: as long as it reads, it gets its answers. Its turns go on.
pub(super) async fn end_of_guest(registry: &Registry) {
    let limits = limits_at_end_of_input(registry);
    let writer = &registry.deps().client.writer;
    let written = || writer.progress();
    under_way(registry, &written)
        .answered(limits.requests)
        .await;
    let ended = registry.turns().idle();
    tokio::time::timeout(limits.turns, ended).await.ok();
    writer.written().await.ok();
}

/// Cancels the turns after a signal, and waits until their responses are written.
pub(super) async fn end_on_signal(registry: &Registry) {
    registry.client_leaves();
    end_within(SIGNAL, registry).await;
    registry.deps().client.writer.written().await.ok();
}

/// Ends what is under way, within these limits of time.
async fn end_within(limits: ShutdownLimits, registry: &Registry) {
    registry.end();
    let (requests, turns) = (registry.requests(), registry.turns());
    let written = || registry.deps().client.writer.progress();
    let under_way = under_way(registry, &written);
    shutdown(&under_way, || registry.client_leaves(), limits).await;
    let engine = &registry.deps().engine;
    if engine.wraps_agent() && !(requests.is_idle() && turns.is_idle()) {
        // Ending an agent that does not answer first lets the requests that wait for it fail.
        engine.leave(Patience::Hurry).await;
        tokio::time::timeout(GRACE, async {
            requests.idle().await;
            turns.idle().await;
        })
        .await
        .ok();
    }
}

/// Waits until every request is answered, within the limits. The time of turns begins when the
/// other requests are done: a prompt may have waited for a long load. Time in which only the client
/// is slow does not count.
async fn shutdown(under_way: &UnderWay<'_>, cancel_turns: impl FnOnce(), limits: ShutdownLimits) {
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
    async fn answered(&self, limit: Duration) {
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
