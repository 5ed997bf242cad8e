//! Ends a connection without losing an answer.

use std::time::Duration;

use crate::session::busy::Busy;

/// How long a cancelled turn may take to end, and an answer to be sent.
pub(super) const LAST_WORDS: Duration = Duration::from_millis(500);

/// How long to wait for what does not end by itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// For requests other than prompts, which only wait for the disk, for the client to read, or
    /// for a turn in front of them. The time in which a replay is under way does not count.
    pub(super) requests: Duration,
    /// For turns, before they are cancelled.
    pub(super) turns: Duration,
}

/// The client has ended its input.
pub(super) const AT_LEISURE: Patience = Patience {
    requests: Duration::from_secs(30),
    turns: Duration::from_millis(400),
};

/// The client has ended its input, and another agent is asked for much of what it wants.
pub(super) const AT_LEISURE_WRAPPED: Patience = Patience {
    requests: Duration::from_secs(5),
    turns: Duration::from_millis(400),
};

/// The system wants the process to end.
pub(super) const IN_A_HURRY: Patience = Patience {
    requests: LAST_WORDS,
    turns: Duration::ZERO,
};

/// Waits until every request is answered, as far as patience goes. The time of turns begins when
/// the other requests are done: a prompt may have waited behind a long load.
pub(super) async fn wind_down(
    requests: &Busy,
    turns: &Busy,
    replays: &Busy,
    cancel_turns: impl FnOnce(),
    patience: Patience,
) {
    let given_up = async {
        loop {
            replays.idle().await;
            // What a replay was for is answered only after it, and another one may begin.
            tokio::time::sleep(patience.requests).await;
            if replays.is_idle() {
                return;
            }
        }
    };
    tokio::select! {
        () = requests.idle() => {}
        () = given_up => {}
    }
    if tokio::time::timeout(patience.turns, turns.idle())
        .await
        .is_err()
    {
        cancel_turns();
        tokio::time::timeout(LAST_WORDS, turns.idle()).await.ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use tokio::time::{Instant, sleep};

    #[derive(Default)]
    struct UnderWay {
        requests: Busy,
        turns: Busy,
        replays: Busy,
        cancelled: Cell<Option<Duration>>,
    }

    impl UnderWay {
        /// How long winding down takes.
        async fn ends(&self, patience: Patience) -> Duration {
            let begun = Instant::now();
            let cancel = || self.cancelled.set(Some(begun.elapsed()));
            let (requests, turns, replays) = (&self.requests, &self.turns, &self.replays);
            wind_down(requests, turns, replays, cancel, patience).await;
            begun.elapsed()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_follows_a_long_replay_is_waited_for() {
        for patience in [AT_LEISURE, IN_A_HURRY] {
            let under_way = UnderWay::default();
            let request = under_way.requests.begin();
            let replay = under_way.replays.begin();
            let load = async {
                sleep(Duration::from_mins(1)).await;
                drop(replay);
                sleep(LAST_WORDS / 2).await;
                drop(request);
            };
            let (took, ()) = tokio::join!(under_way.ends(patience), load);
            assert_eq!(took, Duration::from_mins(1) + LAST_WORDS / 2);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_disk_is_waited_for_and_a_dead_one_is_not() {
        let under_way = UnderWay::default();
        let request = under_way.requests.begin();
        let list = async {
            sleep(Duration::from_secs(20)).await;
            drop(request);
        };
        let (took, ()) = tokio::join!(under_way.ends(AT_LEISURE), list);
        assert_eq!(took, Duration::from_secs(20));
        let _request = under_way.requests.begin();
        assert_eq!(under_way.ends(AT_LEISURE).await, AT_LEISURE.requests);
        assert_eq!(under_way.ends(IN_A_HURRY).await, IN_A_HURRY.requests);
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_is_cancelled_after_its_grace_and_then_given_up() {
        let under_way = UnderWay::default();
        let _turn = under_way.turns.begin();
        assert_eq!(
            under_way.ends(AT_LEISURE).await,
            AT_LEISURE.turns + LAST_WORDS
        );
        assert_eq!(under_way.cancelled.get(), Some(AT_LEISURE.turns));
        assert_eq!(under_way.ends(IN_A_HURRY).await, LAST_WORDS);
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_behind_a_load_has_its_time() {
        let under_way = UnderWay::default();
        let (load, turn) = (under_way.requests.begin(), under_way.turns.begin());
        let work = async {
            sleep(Duration::from_secs(5)).await;
            drop(load);
            sleep(AT_LEISURE.turns / 2).await;
            drop(turn);
        };
        tokio::join!(under_way.ends(AT_LEISURE), work);
        assert_eq!(under_way.cancelled.get(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_cancelled_when_all_is_answered() {
        let under_way = UnderWay::default();
        assert_eq!(under_way.ends(AT_LEISURE).await, Duration::ZERO);
        assert_eq!(under_way.cancelled.get(), None);
    }
}
