//! Runs one session: feeds its machine with what happens, one thing after the other.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinError, JoinHandle};

use crate::engine::outlet::Canceller;
use crate::engine::{Conversation, StopReason, TurnError};
use crate::record::header::Place;
use crate::store::Scan;
use crate::sys::SessionId;

use super::Deps;
use super::busy::{Busy, BusyGuard};
use super::command::{Command, Mailbox};
use super::effect::{Batch, Effect};
use super::machine::Machine;
use super::outcome::Refusal;
use super::playback::Playback;
use super::reply::Reply;
use super::seat::{Hold, Seat};

/// One session of one connection.
pub(super) struct Actor {
    pub(super) id: SessionId,
    pub(super) deps: Arc<Deps>,
    pub(super) machine: Machine<Reply>,
    /// Log and engine, while the session is open.
    pub(super) seat: Option<Seat>,
    pub(super) turn: Option<RunningTurn>,
    pub(super) replay: Option<RunningReplay>,
    pub(super) replays: Busy,
    /// The requests that were answered by the batch that is being performed.
    pub(super) answered: Vec<BusyGuard>,
    /// The line that is being sent.
    pub(super) line: Vec<u8>,
    /// Told when no request waits.
    barriers: Vec<oneshot::Sender<()>>,
    mailbox: Mailbox,
}

/// An engine at work, on a task of its own.
pub(super) struct RunningTurn {
    pub(super) updates: mpsc::Receiver<String>,
    pub(super) canceller: Canceller,
    pub(super) task: JoinHandle<Turned>,
    /// What the task came back with, until the last of the updates is taken.
    pub(super) ended: Option<Result<Turned, JoinError>>,
}

/// What an engine's task comes back with.
pub(super) type Turned = (Box<dyn Conversation>, Result<StopReason, TurnError>);

/// A replay at work, on a thread of its own.
#[derive(Debug)]
pub(super) struct RunningReplay {
    pub(super) task: Option<JoinHandle<Played>>,
    /// The replay itself, when its task is done.
    pub(super) playback: Option<Playback>,
    pub(super) _busy: BusyGuard,
}

/// What a replay's thread comes back with.
#[derive(Debug)]
pub(super) struct Played {
    pub(super) playback: Playback,
    /// The log, if it was opened with the replay, and where the session is to work.
    pub(super) opened: Option<(Hold, Scan, Place)>,
    pub(super) result: Result<(), Refusal>,
}

enum Event {
    Command(Option<Command>),
    Update(String),
    Turned(Result<Turned, JoinError>),
    Replayed(Box<Result<Played, JoinError>>),
}

impl RunningTurn {
    /// The engine's next update, or its end. What it said before it ended comes before its end.
    async fn event(&mut self) -> Event {
        if self.ended.is_none() {
            tokio::select! {
                biased;
                Some(update) = self.updates.recv() => return Event::Update(update),
                result = &mut self.task => self.ended = Some(result),
            }
        }
        // An update may have come in after they were looked at and before the task was.
        if let Ok(update) = self.updates.try_recv() {
            return Event::Update(update);
        }
        match self.ended.take() {
            Some(result) => Event::Turned(result),
            None => std::future::pending().await,
        }
    }
}

impl Actor {
    pub(super) fn new(id: SessionId, deps: Arc<Deps>, replays: Busy, mailbox: Mailbox) -> Self {
        let machine = Machine::default();
        Self {
            id,
            deps,
            machine,
            seat: None,
            turn: None,
            replay: None,
            replays,
            answered: Vec::new(),
            line: Vec::new(),
            barriers: Vec::new(),
            mailbox,
        }
    }

    /// Serves the session until nothing is open and nobody asks for it. `retire` says whether the
    /// actor may go, which it may not when something has come in meanwhile.
    pub(super) async fn run(mut self, retire: impl Fn(&mut Mailbox) -> bool + Send) {
        loop {
            let batch = match self.event().await {
                Event::Command(None) => return self.release(),
                Event::Command(Some(Command::Request(request))) => self.machine.request(request),
                Event::Command(Some(Command::Barrier(tell))) => {
                    self.barriers.push(tell);
                    Vec::new()
                }
                Event::Update(update) => self.machine.update(update),
                Event::Turned(result) => self.turned(result),
                Event::Replayed(result) => self.replayed(*result),
            };
            self.perform(batch).await;
            if !self.machine.waits() {
                for tell in self.barriers.drain(..) {
                    tell.send(()).ok();
                }
            }
            if self.machine.is_over() && retire(&mut self.mailbox) {
                return;
            }
        }
    }

    async fn event(&mut self) -> Event {
        let replay = async {
            match self.replay.as_mut().and_then(|replay| replay.task.as_mut()) {
                Some(task) => Event::Replayed(Box::new(task.await)),
                None => std::future::pending().await,
            }
        };
        let turn = async {
            match &mut self.turn {
                Some(turn) => turn.event().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            command = self.mailbox.recv() => Event::Command(command),
            event = replay => event,
            event = turn => event,
        }
    }

    fn turned(&mut self, result: Result<Turned, JoinError>) -> Batch<Reply> {
        self.turn = None;
        let result = match result {
            Ok((conversation, result)) => {
                if let Some(seat) = &mut self.seat {
                    seat.conversation = Some(conversation);
                }
                result
            }
            // Only the end of the program does that. Nothing is written any more: as after a crash,
            // whoever opens the log next finds the turn open and closes it.
            Err(error) if error.is_cancelled() => return Vec::new(),
            Err(error) => {
                tracing::error!(session = %self.id, %error, "the engine panicked");
                if let Some(seat) = &mut self.seat {
                    seat.reopen_conversation(&self.id, &self.deps);
                }
                let message = "the engine failed unexpectedly; the session goes on".to_owned();
                Err(TurnError {
                    code: -32603,
                    message,
                })
            }
        };
        self.machine.finished(result)
    }

    fn replayed(&mut self, result: Result<Played, JoinError>) -> Batch<Reply> {
        let result = match (result, &mut self.replay) {
            (Ok(played), Some(replay)) => {
                replay.task = None;
                replay.playback = Some(played.playback);
                if let Some((hold, scan, place)) = played.opened {
                    self.sit_down(hold, scan, place);
                }
                played.result
            }
            (Ok(_), None) => Ok(()),
            (Err(error), replay) => {
                tracing::error!(session = %self.id, %error, "the replay panicked");
                if let Some(replay) = replay {
                    replay.task = None;
                }
                Err(Refusal::Storage(
                    "the replay failed unexpectedly".to_owned(),
                ))
            }
        };
        self.machine.replayed(result, self.seat.is_some())
    }

    /// Performs batches until the machine wants nothing more.
    async fn perform(&mut self, mut batch: Batch<Reply>) {
        loop {
            let mut effects = batch.into_iter();
            let mut refusal = None;
            for effect in effects.by_ref() {
                if let Err(reason) = self.effect(effect).await {
                    refusal = Some(reason);
                    break;
                }
            }
            self.answered.clear();
            batch = match refusal {
                None => match self.machine.advance() {
                    Some(batch) => batch,
                    None => return,
                },
                Some(refusal) => {
                    for effect in effects {
                        if let Effect::Answer(reply, _) = effect {
                            self.answer(reply, Err(refusal.clone())).await;
                        }
                    }
                    self.machine.failed(refusal)
                }
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Cancel, Outlet};

    #[tokio::test]
    async fn what_an_engine_said_before_it_ended_comes_before_its_end() {
        let (outlet, updates) = Outlet::new();
        let (canceller, _) = Cancel::new();
        let task = tokio::spawn(std::future::pending());
        let failed = TurnError {
            code: 1,
            message: String::new(),
        };
        // As it is when the engine spoke and ended between a look at one and a look at the other.
        outlet.update("last".to_owned()).await.unwrap();
        outlet.update("word".to_owned()).await.unwrap();
        let mut turn = RunningTurn {
            updates,
            canceller,
            task,
            ended: Some(Ok((Box::new(Mute), Err(failed)))),
        };
        for word in ["last", "word"] {
            assert!(matches!(turn.event().await, Event::Update(update) if update == word));
        }
        assert!(matches!(turn.event().await, Event::Turned(_)));
    }

    struct Mute;

    impl Conversation for Mute {
        fn commands(&self) -> Option<String> {
            None
        }

        fn prompt<'a>(
            &'a mut self,
            _: &'a crate::engine::Prompt,
            _: &'a Outlet,
            _: &'a Cancel,
        ) -> std::pin::Pin<Box<dyn Future<Output = Result<StopReason, TurnError>> + Send + 'a>>
        {
            Box::pin(std::future::pending())
        }
    }
}
