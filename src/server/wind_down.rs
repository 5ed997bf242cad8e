//! Ends a connection without losing an answer.

use std::time::Duration;

use crate::session::busy::Busy;

/// How long a cancelled turn may take to end, and an answer to be sent.
pub(super) const LAST_WORDS: Duration = Duration::from_millis(300);

/// Waits until every request is answered. Turns that take longer than `grace` are cancelled.
/// Requests that are not answered even so are given up, but not while a replay is under way.
pub(super) async fn wind_down(
    requests: &Busy,
    replays: &Busy,
    cancel_turns: impl FnOnce(),
    grace: Duration,
) {
    if tokio::time::timeout(grace, requests.idle()).await.is_ok() {
        return;
    }
    cancel_turns();
    let given_up = async {
        loop {
            replays.idle().await;
            // What a replay was for is answered only after it, and another one may begin.
            tokio::time::sleep(LAST_WORDS).await;
            if replays.is_idle() {
                return;
            }
        }
    };
    tokio::select! {
        () = requests.idle() => {}
        () = given_up => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use tokio::time::{Instant, advance, sleep};

    const GRACE: Duration = Duration::from_millis(400);

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_follows_a_long_replay_is_waited_for() {
        let (requests, replays) = (Busy::default(), Busy::default());
        let request = requests.begin();
        let replay = replays.begin();
        let load = async {
            sleep(Duration::from_mins(1)).await;
            drop(replay);
            sleep(LAST_WORDS / 2).await;
            drop(request);
        };
        let begun = Instant::now();
        tokio::join!(wind_down(&requests, &replays, || (), GRACE), load);
        assert_eq!(begun.elapsed(), Duration::from_mins(1) + LAST_WORDS / 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_is_cancelled_after_its_grace_and_then_given_up() {
        let (requests, replays) = (Busy::default(), Busy::default());
        let _request = requests.begin();
        let cancelled = Cell::new(None);
        let begun = Instant::now();
        let cancel = || cancelled.set(Some(begun.elapsed()));
        wind_down(&requests, &replays, cancel, GRACE).await;
        assert_eq!(cancelled.get(), Some(GRACE));
        assert_eq!(begun.elapsed(), GRACE + LAST_WORDS);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_cancelled_when_all_is_answered() {
        let (requests, replays) = (Busy::default(), Busy::default());
        advance(Duration::from_secs(1)).await;
        wind_down(&requests, &replays, || panic!("cancelled"), GRACE).await;
    }
}
