//! A load: replays the log to the client on a thread of its own, opens the session on the way if it is not
//! open, and catches up with what was logged meanwhile.

use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::{JoinError, JoinHandle};
use tokio_util::sync::CancellationToken;

use crate::engine::{Block, SessionConfig};
use crate::record::Kind;
use crate::session::cursors::Cursors;
use crate::session::outcome::Refusal;
use crate::session::owner::lock::{lock_or_read, takes_over};
use crate::session::owner::open_session::LogAccess;
use crate::session::reply::BusyGuard;
use crate::store::Scan;
use crate::sys::blocking;

use super::Front;
use super::playback::{Pace, Playback};

/// How far the client is with a load.
#[derive(Debug)]
pub(in crate::session) enum ClientLoad {
    /// No load is under way, or it has not begun to replay.
    None,
    /// The log is replayed up to the end that it had when the load began.
    Replaying {
        task: JoinHandle<ReplayOutcome>,
        /// Counts as under way until the task is done. What follows is a request like any other.
        _busy: BusyGuard,
    },
    /// The replay has reached that end, and the engine attaches.
    Replayed(Box<Playback>),
    /// What was logged since then is replayed.
    CatchingUp(JoinHandle<Result<Box<Playback>, Refusal>>),
}

/// A log that a replay has opened, and the workspace for it.
pub(in crate::session) type OpenedOnTheWay = ((LogAccess, Scan), SessionConfig);

/// The result of a replay's thread.
#[derive(Debug)]
pub(in crate::session) struct ReplayOutcome {
    playback: Box<Playback>,
    /// The log and the workspace, if the session was opened with the replay.
    pub(in crate::session) opened: Option<OpenedOnTheWay>,
    pub(in crate::session) result: Result<(), Refusal>,
}

/// Something that a load has come to.
pub(in crate::session) enum LoadEvent {
    Replayed(Box<Result<ReplayOutcome, JoinError>>),
    CaughtUp(Result<Box<Playback>, Refusal>),
}

/// A replay that opens the session, or one of an open session.
#[derive(Debug, Default)]
pub(in crate::session) struct ReplayStart {
    /// How many prompts there are, if that is known.
    pub(in crate::session) prompts: u64,
    /// The id of the message to start from.
    pub(in crate::session) message: Option<String>,
    /// When it is cancelled.
    pub(in crate::session) request: CancellationToken,
    /// Where the log ends.
    pub(in crate::session) end: Option<u64>,
}

impl ClientLoad {
    pub(super) fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }

    /// Waits for what the load comes to.
    pub(super) async fn event(&mut self) -> LoadEvent {
        match self {
            Self::Replaying { task, .. } => LoadEvent::Replayed(Box::new(task.await)),
            Self::CatchingUp(task) => {
                let caught_up = task.await.map_err(|_| failed()).flatten();
                LoadEvent::CaughtUp(caught_up)
            }
            Self::None | Self::Replayed(_) => std::future::pending().await,
        }
    }

    /// Reads the settings in the engine's part of the answer: the snapshots refer to them.
    pub(in crate::session) fn read_settings(&mut self, own: &str) {
        if let Self::Replayed(playback) = self {
            playback.read_settings(own);
        }
    }
}

impl Front {
    /// The replay's thread has ended. Returns what it has opened, and its result.
    pub(in crate::session) fn replayed(
        &mut self,
        outcome: Result<ReplayOutcome, JoinError>,
    ) -> (Option<OpenedOnTheWay>, Result<(), Refusal>) {
        match outcome {
            Ok(outcome) => {
                self.load = ClientLoad::Replayed(outcome.playback);
                (outcome.opened, outcome.result)
            }
            Err(error) => {
                tracing::error!(session = %self.id, %error, "the replay panicked");
                // Nothing is sent before the machine has given up the load.
                self.load = ClientLoad::Replayed(Box::new(self.rest()));
                (None, Err(failed()))
            }
        }
    }

    /// Replays an open session, from a message on if one is named.
    pub(in crate::session) fn start_replay(&mut self, from: ReplayStart) -> Result<(), Refusal> {
        let Some(store) = self.deps.library.store.clone() else {
            return Err(Refusal::NotOpen);
        };
        let mut reader = blocking(|| store.read(&self.id))?;
        let ReplayStart { end, .. } = from;
        if let Some(end) = end {
            reader.limit(end);
        }
        let mut playback = self.playback(&from);
        let id = self.id.clone();
        self.replay_with(move || {
            let found = match from.message {
                Some(message) => playback.find(&message, &store, &id, end),
                None => Ok(()),
            };
            let result = found.and_then(|()| playback.play(&mut reader));
            let result = playback.settle().and(result);
            ReplayOutcome {
                playback,
                opened: None,
                result,
            }
        });
        Ok(())
    }

    /// Opens a session and replays it. Both read the whole log, so it is read once for both.
    pub(in crate::session) fn open_and_replay(
        &mut self,
        config: SessionConfig,
        request: CancellationToken,
    ) -> Result<(), Refusal> {
        let Some(store) = self.deps.library.store.clone() else {
            return Err(Refusal::NotFound);
        };
        let id = self.id.clone();
        let by_force = takes_over(&config);
        let mut playback = self.playback(&ReplayStart {
            request,
            ..ReplayStart::default()
        });
        self.replay_with(move || {
            let mut result = Ok(());
            let opened = lock_or_read(&store, &id, by_force, &mut |entry| {
                // If the replay fails, the session is opened in any case.
                if result.is_ok() {
                    result = playback.record(entry);
                }
            });
            let (opened, result) = match opened {
                Ok(opened) => {
                    playback.note_damage(&opened.1.damage);
                    (Some((opened, config)), result)
                }
                Err(refusal) => (None, Err(refusal)),
            };
            let result = result.and_then(|()| playback.put());
            let result = playback.settle().and(result);
            ReplayOutcome {
                playback,
                opened,
                result,
            }
        });
        Ok(())
    }

    /// A replay of all turns, of the last ones if the policy says so, or from a message on.
    fn playback(&self, from: &ReplayStart) -> Box<Playback> {
        let mut policy = self.deps.replay;
        let mut view = self.screen.view.fresh();
        if let Some(message) = &from.message {
            policy.tail = None;
            view = view.from_message(message);
        }
        let playback = Playback::new(
            &self.screen.client_id,
            policy.for_session(from.prompts, &self.deps, &self.client),
            Pace::new(policy.rate),
            &self.deps.client.writer,
            view,
            from.request.clone(),
        );
        let cursors = Cursors::of_log(&self.id, &self.deps, &self.client);
        Box::new(playback.with_end_mark().with_cursors(cursors))
    }

    fn replay_with(&mut self, work: impl FnOnce() -> ReplayOutcome + Send + 'static) {
        let task = on_thread(self.deps.client.flow.replays(), work);
        self.load = ClientLoad::Replaying {
            task,
            _busy: self.guards.replays.begin(),
        };
    }

    /// Begins to replay what was logged since the replay began, up to `end`, and then snapshots. `title` is
    /// that of a session whose first turn was interrupted, with its time.
    pub(super) fn catch_up(
        &mut self,
        end: Option<u64>,
        title: Option<(String, String)>,
        snapshots: Block,
        gone: Vec<&'static str>,
    ) {
        let ClientLoad::Replayed(mut playback) =
            std::mem::replace(&mut self.load, ClientLoad::None)
        else {
            return;
        };
        let (id, store) = (self.id.clone(), self.deps.library.store.clone());
        let now = self.deps.library.sys.clock.now().to_string();
        playback.ignore_cancellation();
        let work = move || {
            if let (Some(store), true) = (store, end != Some(playback.end)) {
                playback.play_on(&store, &id, end)?;
            }
            if let Some((at, title)) = title {
                playback.snapshots(&at, &Block::of(Kind::Info, title), &[]);
            }
            playback.snapshots(&now, &snapshots, &gone);
            playback.finish().map(|()| playback)
        };
        let task = on_thread(self.deps.client.flow.replays(), work);
        self.load = ClientLoad::CatchingUp(task);
    }

    /// The client was shown all that there was when it began to catch up, or `end` if that is known: from
    /// now on it is level. Returns the replay.
    pub(in crate::session) fn caught_up(&mut self, mut playback: Box<Playback>) -> Box<Playback> {
        self.load = ClientLoad::None;
        playback.swap_view(&mut self.screen.view);
        self.screen.position = playback.end;
        self.screen.cursors_sent = playback.end;
        self.screen.is_of_others = false;
        self.screen.is_behind = false;
        playback
    }

    /// Gives up a load.
    pub(in crate::session) fn abandon_load(&mut self) {
        self.load = ClientLoad::None;
    }
}

/// The refusal of what a replay that has panicked was to do.
pub(super) fn failed() -> Refusal {
    Refusal::Storage("the replay failed unexpectedly".to_owned())
}

/// Reads a log for a client, on a thread that it holds for as long as the client does not read.
pub(super) fn on_thread<T: Send + 'static>(
    permits: Arc<Semaphore>,
    work: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    tokio::spawn(async move {
        // The semaphore is never closed.
        let _permit = permits.acquire_owned().await;
        match tokio::task::spawn_blocking(work).await {
            Ok(read) => read,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The program ends.
                Err(_) => std::future::pending().await,
            },
        }
    })
}
