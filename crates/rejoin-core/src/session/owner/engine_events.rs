//! Waits for the events of an engine, and for the ends of the running turns, in their order.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinError, JoinHandle};

use crate::engine::{Block, Cancel, EngineError, EngineEvent, PromptEnd};

use super::open_session::OpenSession;

/// The most that is gathered to be appended at once, in bytes.
const MOST_GATHERED: usize = 64 * 1024;

/// The result of an engine's task.
pub(in crate::session) type TurnOutcome = Result<PromptEnd, EngineError>;

/// An engine at work on one prompt, on a task of its own.
pub(in crate::session) struct RunningTurn {
    pub(in crate::session) message_id: String,
    pub(in crate::session) cancel: Cancel,
    pub(in crate::session) task: JoinHandle<TurnOutcome>,
    pub(in crate::session) end: End,
}

/// How far a turn is from its end.
#[derive(Debug)]
pub(in crate::session) enum End {
    NotYet,
    /// This turn may be over. No event is received until the engine knows: if `true` comes, the end
    /// of the turn is next.
    Deciding(oneshot::Receiver<bool>),
    /// The end of the turn is next.
    Next,
    /// The task is done. So many events that the engine had sent by then come first.
    Done(Result<TurnOutcome, JoinError>, usize),
}

/// The next thing that an engine does.
#[derive(Debug)]
pub(in crate::session) enum FromEngine {
    Event(EngineEvent),
    /// The turn of this message has ended.
    TurnEnded(String, Result<TurnOutcome, JoinError>),
}

/// The engine's next event, or the end of one of its turns. Events that were sent before an end
/// come before it.
pub(in crate::session) async fn next(
    events: &mut mpsc::Receiver<EngineEvent>,
    turns: &mut Vec<RunningTurn>,
) -> FromEngine {
    loop {
        let known = turns.iter().position(|turn| turn.end.is_known());
        if let Some(place) = known.or(turns.iter().position(|turn| !turn.goes_on())) {
            if let Some(next) = at_end(events, turns, place).await {
                return next;
            }
            continue;
        }
        tokio::select! {
            biased;
            Some(event) = events.recv() => {
                if let Some(next) = take(event, turns) {
                    return next;
                }
            }
            (place, result) = ended(turns) => {
                if let Some(turn) = turns.get_mut(place) {
                    turn.end = End::Done(result, events.len());
                }
            }
        }
    }
}

/// Brings a turn closer to its end.
async fn at_end(
    events: &mut mpsc::Receiver<EngineEvent>,
    turns: &mut Vec<RunningTurn>,
    place: usize,
) -> Option<FromEngine> {
    let turn = turns.get_mut(place)?;
    match &mut turn.end {
        End::NotYet => {}
        End::Deciding(is_end) => {
            turn.end = match is_end.await {
                Ok(true) => End::Next,
                Ok(false) | Err(_) => End::NotYet,
            };
        }
        End::Next => {
            let result = (&mut turn.task).await;
            turn.end = End::Done(result, 0);
        }
        End::Done(_, before) if *before > 0 => {
            *before -= 1;
            return take(events.try_recv().ok()?, turns);
        }
        End::Done(..) => {
            let turn = turns.remove(place);
            if let End::Done(result, _) = turn.end {
                return Some(FromEngine::TurnEnded(turn.message_id, result));
            }
        }
    }
    None
}

/// Adds to a block the updates that wait behind it. Where to append takes its time, that costs as much
/// for many as for one.
pub(in crate::session) fn gather(
    block: &mut Block,
    session: &mut OpenSession,
    turns: &mut [RunningTurn],
) {
    let goes_on = |turns: &[RunningTurn]| turns.iter().all(RunningTurn::goes_on);
    while block.bytes() < MOST_GATHERED && session.early.is_empty() && goes_on(turns) {
        match session.events.try_recv() {
            Ok(EngineEvent::Block(more)) => {
                for entry in more.iter() {
                    block.push_entry(entry);
                }
            }
            Ok(event) => {
                if let Some(FromEngine::Event(event)) = take(event, turns) {
                    session.early.push_back(event);
                }
            }
            Err(_) => return,
        }
    }
}

/// Receives an event. One that says where a turn may end is recorded with the turn.
fn take(event: EngineEvent, turns: &mut [RunningTurn]) -> Option<FromEngine> {
    let EngineEvent::Ends { message_id, is_end } = event else {
        return Some(FromEngine::Event(event));
    };
    let mut turns = turns.iter_mut();
    let turn = turns.find(|turn| turn.message_id == message_id)?;
    if turn.goes_on() {
        turn.end = End::Deciding(is_end);
    }
    None
}

/// Waits until the task of a turn is done. Returns its position among the turns.
async fn ended(turns: &mut [RunningTurn]) -> (usize, Result<TurnOutcome, JoinError>) {
    poll_fn(|context| {
        for (place, turn) in turns.iter_mut().enumerate() {
            if let Poll::Ready(result) = Pin::new(&mut turn.task).poll(context) {
                return Poll::Ready((place, result));
            }
        }
        Poll::Pending
    })
    .await
}

impl End {
    /// Whether the position of the end among the events is known.
    fn is_known(&self) -> bool {
        matches!(self, Self::Deciding(_) | Self::Next)
    }
}

impl RunningTurn {
    fn goes_on(&self) -> bool {
        matches!(self.end, End::NotYet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Outlet, StopReason};
    use crate::record::Kind;

    fn turn(id: &str, task: impl Future<Output = TurnOutcome> + Send + 'static) -> RunningTurn {
        RunningTurn {
            message_id: id.to_owned(),
            cancel: Cancel::default(),
            task: tokio::spawn(task),
            end: End::NotYet,
        }
    }

    const ENDED: PromptEnd = PromptEnd::Because(StopReason::EndTurn);

    /// What comes next, in a word.
    async fn word(
        events: &mut mpsc::Receiver<EngineEvent>,
        turns: &mut Vec<RunningTurn>,
    ) -> String {
        match next(events, turns).await {
            FromEngine::TurnEnded(id, _) => id,
            FromEngine::Event(EngineEvent::Block(block)) => {
                block.iter().map(|entry| entry.payload).collect()
            }
            FromEngine::Event(other) => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn events_before_the_end_of_a_turn_come_before_it() {
        let (outlet, mut events) = Outlet::new();
        outlet.update("last".to_owned()).await.unwrap();
        outlet.update("word".to_owned()).await.unwrap();
        let mut turns = vec![turn("end", std::future::pending())];
        // As it is when the engine spoke and ended between a look at one and a look at the other.
        turns[0].end = End::Done(Ok(Ok(ENDED)), 2);
        outlet.update("late".to_owned()).await.unwrap();
        for expected in ["last", "word", "end", "late"] {
            assert_eq!(word(&mut events, &mut turns).await, expected);
        }
    }

    #[tokio::test]
    async fn an_end_comes_where_the_engine_puts_it() {
        let (outlet, mut events) = Outlet::new();
        let (sure, is_end) = oneshot::channel();
        let (again, not_yet) = oneshot::channel();
        let ends = |is_end| EngineEvent::Ends {
            message_id: "one".to_owned(),
            is_end,
        };
        let one = async move {
            again.send(false).ok();
            tokio::task::yield_now().await;
            sure.send(true).ok();
            tokio::task::yield_now().await;
            Ok(ENDED)
        };
        let mut turns = vec![turn("two", std::future::pending()), turn("one", one)];
        outlet.update("a".to_owned()).await.unwrap();
        outlet.send(ends(not_yet)).await.unwrap();
        outlet.update("b".to_owned()).await.unwrap();
        outlet.send(ends(is_end)).await.unwrap();
        let block = Block::of(Kind::Update, "c".to_owned());
        outlet.send(EngineEvent::Block(block)).await.unwrap();
        for expected in ["a", "b", "one", "c"] {
            assert_eq!(word(&mut events, &mut turns).await, expected);
        }
        assert_eq!(turns.len(), 1);
    }
}
