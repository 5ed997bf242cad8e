//! Tests of how updates are routed while an agent replays.

use tokio::time::{Instant, sleep};

use super::*;
use crate::sys::ids::RandomIds;

const SAID: &str = r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"x"},"messageId":"m"}"#;
const MODE: &str = r#"{"sessionUpdate":"current_mode_update","currentModeId":"ask"}"#;

fn route() -> Arc<SessionRoute> {
    let ids = Arc::new(RandomIds);
    SessionRoute::new(
        Outlet::new().0,
        None,
        Default::default(),
        false,
        IdNormalizer::new(ids),
        Arc::default(),
        HashMap::new(),
    )
}

/// The kinds of the records of an update.
fn take(route: &SessionRoute, update: &str) -> Vec<Kind> {
    let mut block = Block::default();
    route.update(
        Payload::of_record(Kind::Update, update).unwrap(),
        &mut block,
    );
    block.iter().map(|entry| entry.kind).collect()
}

#[tokio::test(start_paused = true)]
async fn a_replay_after_the_response_is_awaited() {
    let route = route();
    route.discard_replay();
    let agent = async {
        sleep(REPLAY_TIMEOUT / 2).await;
        // This is not the replay yet.
        take(&route, MODE);
        sleep(REPLAY_TIMEOUT / 3).await;
        for _ in 0..3 {
            take(&route, SAID);
            sleep(QUIET * 4 / 5).await;
        }
    };
    tokio::join!(route.wait_for_replay(false), agent);
    let discarded = route.go_live(true);
    assert_eq!((discarded.history, discarded.snapshots().len()), (3, 1));
}

#[tokio::test(start_paused = true)]
async fn an_agent_without_a_replay_is_not_awaited_for_long() {
    let route = route();
    route.discard_replay();
    for (known, waits) in [(false, REPLAY_TIMEOUT), (true, SHORT_REPLAY_TIMEOUT)] {
        let start = Instant::now();
        route.wait_for_replay(known).await;
        assert_eq!(start.elapsed(), waits);
    }
    assert_eq!(route.go_live(true).history, 0);
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_still_replays_is_not_silent() {
    let route = route();
    route.discard_replay();
    let limit = Duration::from_mins(2);
    let start = Instant::now();
    let agent = async {
        for _ in 0..3 {
            sleep(limit / 2).await;
            take(&route, SAID);
        }
    };
    tokio::join!(route.wait_for_silence(limit), agent);
    assert_eq!(start.elapsed(), limit / 2 * 3 + limit);
}

#[tokio::test(start_paused = true)]
async fn a_replay_that_goes_on_after_the_response_is_awaited() {
    let route = route();
    route.discard_replay();
    take(&route, SAID);
    let start = Instant::now();
    let agent = async {
        sleep(QUIET / 2).await;
        take(&route, SAID);
    };
    tokio::join!(route.wait_for_replay(false), agent);
    assert_eq!(start.elapsed(), QUIET / 2 + QUIET);
    assert_eq!(route.go_live(true).history, 2);
}

#[test]
fn late_updates_of_a_replay_are_ignored_until_the_next_turn() {
    let route = route();
    route.discard_replay();
    route.go_live(true);
    assert_eq!(take(&route, SAID), []);
    assert_eq!(take(&route, MODE), [Kind::Info]);
    route.turn_begins("m", "{}", None);
    assert_eq!(take(&route, SAID), [Kind::Update]);
}

#[test]
fn a_subagent_goes_on_if_it_is_announced_after_the_replay() {
    const ABOUT: &str = r#"{"sessionUpdate":"subagent_update","sessionId":"child"}"#;
    let route = route();
    let said = |route: &SessionRoute| {
        let mut block = Block::default();
        let payload = Payload::of_record(Kind::Update, SAID).unwrap();
        route.subagent_update("child", &payload, &mut block);
        block.iter().map(|entry| entry.kind).collect::<Vec<_>>()
    };
    route.discard_replay();
    // The response came first, so this may be the replay.
    route.opened();
    assert_eq!((take(&route, ABOUT), said(&route)), (vec![], vec![]));
    route.discard_replay();
    assert_eq!((take(&route, ABOUT), said(&route)), (vec![], vec![]));
    route.opened();
    assert_eq!(said(&route), []);
    assert_eq!(take(&route, ABOUT), [Kind::Update]);
    assert_eq!(said(&route), [Kind::Subagent]);
    route.go_live(true);
    assert_eq!(said(&route), [Kind::Subagent]);
    assert_eq!(take(&route, SAID), []);
}
