//! Runs one session: feeds its machine with what happens, one thing after the other.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinError, JoinHandle};

use crate::engine::outlet::Canceller;
use crate::engine::{Attached, Called, Cancel, Ended, EngineError, Parting, Said, Wanted};
use crate::record::json::with_string;
use crate::replay::v2::View;
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
use super::request::{Answered, Asking};
use super::seat::{Hold, Seat};

/// One session of one connection.
pub(super) struct Actor {
    pub(super) id: SessionId,
    /// The id by which the client asked for it last, which is the one it is told.
    pub(super) name: String,
    pub(super) deps: Arc<Deps>,
    pub(super) machine: Machine<Reply>,
    /// Log and engine, while the session is open.
    pub(super) seat: Option<Seat>,
    pub(super) turn: Option<RunningTurn>,
    pub(super) replay: Option<RunningReplay>,
    /// The engine that is making ready.
    pub(super) attaching: Option<RunningAttach>,
    pub(super) replays: Busy,
    /// The requests that were answered by the batch that is being performed.
    pub(super) answered: Vec<BusyGuard>,
    /// The prompt of the running turn, if it was answered before that ends.
    pub(super) prompted: Option<BusyGuard>,
    /// The lines that are being sent.
    pub(super) line: Vec<u8>,
    /// How the client sees updates, if not as they are in the log.
    pub(super) view: Option<View>,
    /// The same lines as it sees them.
    pub(super) shown: Vec<u8>,
    /// Takes back what the client was asked for so far.
    pub(super) withdrawal: (Canceller, Cancel),
    /// The message that the next replay begins with.
    pub(super) sought: Option<String>,
    /// What tasks of this session have to tell it.
    pub(super) tell: mpsc::UnboundedSender<Told>,
    told: mpsc::UnboundedReceiver<Told>,
    /// Told when what was asked for before has been begun.
    barriers: Vec<oneshot::Sender<()>>,
    mailbox: Mailbox,
}

/// What a task that works for a session tells it.
pub(super) enum Told {
    /// The client has answered a request of the engine.
    Answered(Answered),
    /// The engine has served a request of the client.
    Called(Reply, Result<Called, EngineError>),
}

/// An engine at work, on a task of its own.
pub(super) struct RunningTurn {
    pub(super) canceller: Canceller,
    pub(super) task: JoinHandle<Turned>,
    /// What the task came back with, until the last of what the engine said is taken.
    pub(super) ended: Option<Result<Turned, JoinError>>,
}

/// An engine that makes ready, on a task of its own.
pub(super) struct RunningAttach {
    /// Has it given up, unless it is ready already.
    pub(super) canceller: Canceller,
    pub(super) task: JoinHandle<Result<Attached, EngineError>>,
}

impl Drop for RunningAttach {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What an engine's task comes back with.
pub(super) type Turned = Result<Ended, EngineError>;

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
    pub(super) opened: Option<(Hold, Scan, Wanted)>,
    pub(super) result: Result<(), Refusal>,
}

enum Event {
    Command(Option<Command>),
    Told(Told),
    Said(Said),
    Turned(Result<Turned, JoinError>),
    Replayed(Box<Result<Played, JoinError>>),
    Attached(Box<Result<Result<Attached, EngineError>, JoinError>>),
}

/// What the engine says next, or the end of its turn. What it said before that comes before it.
async fn engine(said: &mut mpsc::Receiver<Said>, turn: Option<&mut RunningTurn>) -> Event {
    let Some(turn) = turn else {
        return match said.recv().await {
            Some(said) => Event::Said(said),
            None => std::future::pending().await,
        };
    };
    if turn.ended.is_none() {
        tokio::select! {
            biased;
            Some(said) = said.recv() => return Event::Said(said),
            result = &mut turn.task => turn.ended = Some(result),
        }
    }
    // Something may have come in after it was looked at and before the task was.
    if let Ok(said) = said.try_recv() {
        return Event::Said(said);
    }
    match turn.ended.take() {
        Some(result) => Event::Turned(result),
        None => std::future::pending().await,
    }
}

impl Actor {
    pub(super) fn new(id: SessionId, deps: Arc<Deps>, replays: Busy, mailbox: Mailbox) -> Self {
        let machine = Machine::new(deps.dialect());
        let view = deps.dialect().view();
        let (tell, told) = mpsc::unbounded_channel();
        Self {
            name: id.to_string(),
            id,
            deps,
            machine,
            seat: None,
            turn: None,
            replay: None,
            attaching: None,
            replays,
            answered: Vec::new(),
            prompted: None,
            line: Vec::new(),
            view,
            shown: Vec::new(),
            sought: None,
            withdrawal: Cancel::new(),
            tell,
            told,
            barriers: Vec::new(),
            mailbox,
        }
    }

    /// Serves the session until nothing is open and nobody asks for it. `retire` says whether the
    /// actor may go, which it may not when something has come in meanwhile.
    pub(super) async fn run(mut self, retire: impl Fn(&mut Mailbox) -> bool + Send) {
        loop {
            let batch = match self.event().await {
                Event::Command(None) => return self.release(Parting::Closed),
                Event::Command(Some(Command::Request(request))) => self.machine.request(request),
                Event::Command(Some(Command::Barrier(tell))) => {
                    self.barriers.push(tell);
                    Vec::new()
                }
                Event::Told(Told::Answered(answered)) => self.machine.answered(answered),
                Event::Told(Told::Called(reply, result)) => self.machine.called(reply, result),
                Event::Said(said) => self.said(said).await,
                Event::Attached(result) => self.attached(*result),
                Event::Turned(result) => self.turned(result),
                Event::Replayed(result) => self.replayed(*result),
            };
            self.perform(batch).await;
            // An agent may take its time; the sessions that it makes are in no list before they are
            // prompted.
            let making = self.attaching.is_some() && self.deps.engine.relay().is_none();
            if !self.machine.waits() && !making {
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
        let attach = async {
            match &mut self.attaching {
                Some(attach) => Event::Attached(Box::new((&mut attach.task).await)),
                None => std::future::pending().await,
            }
        };
        let unborn = self.machine.is_unborn();
        let engine = async {
            match &mut self.seat {
                Some(seat) if !unborn => engine(&mut seat.said, self.turn.as_mut()).await,
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            command = self.mailbox.recv() => Event::Command(command),
            Some(told) = self.told.recv() => Event::Told(told),
            event = replay => event,
            event = attach => event,
            event = engine => event,
        }
    }

    /// What the engine says: for the log, or for the client.
    async fn said(&mut self, said: Said) -> Batch<Reply> {
        match said {
            Said::Block(block) => self.machine.said(self.with_title(block)),
            Said::Ask(question) => {
                let params = with_string(&question.params, &question.session, &self.name);
                self.machine.ask(Asking {
                    id: format!("ask_{}", self.deps.sys.ids.uuid().simple()),
                    method: question.method,
                    params,
                    logged: question.logged,
                    cancel: question.cancel,
                    reply: question.reply,
                })
            }
            Said::Notify {
                method,
                params,
                session,
            } => {
                let params = with_string(&params, &session, &self.name);
                self.deps.wire.notify(&method, &params).await;
                Vec::new()
            }
        }
    }

    fn turned(&mut self, result: Result<Turned, JoinError>) -> Batch<Reply> {
        self.turn = None;
        if let Some(seat) = &self.seat {
            seat.history.end();
        }
        let result = match result {
            Ok(result) => result,
            // Only the end of the program does that. Nothing is written any more: as after a crash,
            // whoever opens the log next finds the turn open and closes it.
            Err(error) if error.is_cancelled() => return Vec::new(),
            Err(error) => {
                tracing::error!(session = %self.id, %error, "the engine panicked");
                if let Some(seat) = &mut self.seat {
                    seat.reopen_conversation(&self.id, &self.deps);
                }
                let message = "the engine failed unexpectedly; the session goes on";
                Err(EngineError::internal(message))
            }
        };
        self.machine.finished(result)
    }

    fn attached(
        &mut self,
        result: Result<Result<Attached, EngineError>, JoinError>,
    ) -> Batch<Reply> {
        self.attaching = None;
        let playback = self.replay.as_mut();
        if let (Some(playback), Ok(Ok(attached))) = (
            playback.and_then(|replay| replay.playback.as_mut()),
            &result,
        ) && let Some(own) = &attached.answer
        {
            playback.note(own);
        }
        let result = match result {
            Ok(Err(error)) if error.code == EngineError::cancelled().code => {
                Err(Refusal::Cancelled)
            }
            Ok(Ok(mut attached)) => {
                self.with_title_of(&mut attached);
                Ok(attached)
            }
            Ok(Err(error)) => Err(Refusal::Engine(error)),
            Err(error) if error.is_cancelled() => Err(Refusal::Cancelled),
            Err(error) => {
                tracing::error!(session = %self.id, %error, "the engine panicked");
                let message = "the engine failed unexpectedly";
                Err(Refusal::Engine(EngineError::internal(message)))
            }
        };
        self.machine.attached(result)
    }

    fn replayed(&mut self, result: Result<Played, JoinError>) -> Batch<Reply> {
        let result = match (result, &mut self.replay) {
            (Ok(played), Some(replay)) => {
                replay.task = None;
                replay.playback = Some(played.playback);
                if let Some((hold, scan, wanted)) = played.opened {
                    self.sit_down(hold, scan, wanted);
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
            if self.turn.is_none() {
                self.prompted = None;
            }
            batch = match refusal {
                None => match self.machine.advance() {
                    Some(batch) => batch,
                    None => return,
                },
                Some(refusal) => {
                    for effect in effects {
                        if let Effect::Answer(reply, _) | Effect::Call { reply, .. } = effect {
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
    use crate::engine::{Block, Outlet};
    use crate::record::Kind;

    #[tokio::test]
    async fn what_an_engine_said_before_it_ended_comes_before_its_end() {
        let (outlet, mut said) = Outlet::new();
        let (canceller, _) = Cancel::new();
        let task = tokio::spawn(std::future::pending());
        // As it is when the engine spoke and ended between a look at one and a look at the other.
        outlet.update("last".to_owned()).await.unwrap();
        outlet.update("word".to_owned()).await.unwrap();
        let mut turn = RunningTurn {
            canceller,
            task,
            ended: Some(Ok(Err(EngineError::internal("x")))),
        };
        for word in ["last", "word"] {
            let next = engine(&mut said, Some(&mut turn)).await;
            let Event::Said(Said::Block(block)) = next else {
                panic!("it said {word}");
            };
            assert_eq!(block, Block::of(Kind::Update, word.to_owned()));
        }
        let end = engine(&mut said, Some(&mut turn)).await;
        assert!(matches!(end, Event::Turned(_)));
    }
}
