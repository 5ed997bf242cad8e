//! Replays a session: begins, continues after the engine has attached, and sends what a replay that
//! failed has held back.

use tokio::task::{JoinError, JoinHandle};
use tokio_util::sync::CancellationToken;

use crate::engine::{Block, SessionConfig};
use crate::record::Kind;
use crate::record::title::named;
use crate::session::effect::Batch;
use crate::session::open_session::{LogAccess, OpenSession};
use crate::session::outcome::Refusal;
use crate::session::playback::{Pace, Playback};
use crate::session::reply::{BusyGuard, Reply};
use crate::store::Scan;
use crate::sys::blocking;

use super::Actor;
use super::lock::{lock_or_read, released, takes_over};

/// A replay at work, on a thread of its own.
#[derive(Debug)]
pub(super) struct RunningReplay {
    pub(super) task: Option<JoinHandle<ReplayOutcome>>,
    /// The replay itself, when its task is done.
    pub(super) playback: Option<Playback>,
    /// Counts as under way until the task is done. What follows is a request like any other.
    busy: Option<BusyGuard>,
}

/// The result of a replay's thread.
#[derive(Debug)]
pub(super) struct ReplayOutcome {
    playback: Playback,
    /// The log and the workspace, if the session was opened with the replay.
    opened: Option<((LogAccess, Scan), SessionConfig)>,
    result: Result<(), Refusal>,
}

impl Actor {
    /// The replay's thread has ended.
    pub(super) fn replayed(&mut self, result: Result<ReplayOutcome, JoinError>) -> Batch<Reply> {
        let result = match (result, &mut self.replay) {
            (Ok(outcome), Some(replay)) => {
                replay.task = None;
                replay.busy = None;
                replay.playback = Some(outcome.playback);
                if let Some((opened, config)) = outcome.opened {
                    self.install(opened, config);
                }
                outcome.result
            }
            (Ok(_), None) => Ok(()),
            (Err(error), replay) => {
                tracing::error!(session = %self.id, %error, "the replay panicked");
                if let Some(replay) = replay {
                    replay.task = None;
                    replay.busy = None;
                }
                Err(failed())
            }
        };
        self.machine.replayed(result, self.session.is_some())
    }

    /// Replays an open session, from a message on if one is named.
    pub(super) fn start_replay(&mut self, from: Option<String>) -> Result<(), Refusal> {
        let (Some(session), Some(store)) = (&self.session, &self.deps.store) else {
            return Err(Refusal::NotOpen);
        };
        let mut reader = blocking(|| store.read(&self.id))?;
        if let Some(end) = session.log_end() {
            reader.limit(end);
        }
        let prompts = session.summary.prompts;
        let mut playback = self.playback(prompts, from.as_deref())?;
        let (store, id, end) = (store.clone(), self.id.clone(), session.log_end());
        self.replay_with(move || {
            let found = match from {
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
    pub(super) async fn open_and_replay(&mut self, config: SessionConfig) -> Result<(), Refusal> {
        self.name.clone_from(&config.name);
        if self.deps.replay.tail.is_some() {
            // The log must be read first to find where the last turns begin.
            self.open(config).await?;
            return self.start_replay(None);
        }
        let Some(store) = self.deps.store.clone() else {
            return Err(Refusal::NotFound);
        };
        if self.deps.has_expired(&self.id) {
            return Err(Refusal::NotFound);
        }
        released(&store, &self.id).await;
        let id = self.id.clone();
        let by_force = takes_over(&config);
        let mut playback = self.playback(0, None)?;
        self.replay_with(move || {
            let mut result = Ok(());
            let opened = lock_or_read(&store, &id, by_force, &mut |entry| {
                // If the replay fails, the session is opened in any case.
                if result.is_ok() {
                    result = playback.record(entry);
                }
            });
            let (opened, result) = match opened {
                Ok(opened) => (Some((opened, config)), result),
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
    fn playback(&self, prompts: u64, from: Option<&str>) -> Result<Playback, Refusal> {
        let Some(reply) = self.machine.load_under_way() else {
            return Err(Refusal::NotOpen);
        };
        let mut policy = self.deps.replay;
        let mut view = self.view.fresh();
        if let Some(message) = from {
            policy.tail = None;
            view = view.from_message(message);
        }
        Ok(Playback::new(
            &self.name,
            policy.for_session(prompts, &self.deps, &self.client),
            Pace::new(policy.rate),
            &self.deps.wire.writer,
            view,
            Reply::cancellation(reply),
        ))
    }

    fn replay_with(&mut self, work: impl FnOnce() -> ReplayOutcome + Send + 'static) {
        let permits = self.deps.wire.flow.replays();
        let task = tokio::spawn(async move {
            // The semaphore is never closed.
            let _permit = permits.acquire_owned().await;
            match tokio::task::spawn_blocking(work).await {
                Ok(played) => played,
                Err(error) => match error.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    // The program ends.
                    Err(_) => std::future::pending().await,
                },
            }
        });
        self.replay = Some(RunningReplay {
            task: Some(task),
            playback: None,
            busy: Some(self.replays.begin()),
        });
    }

    pub(super) async fn catch_up(
        &mut self,
        snapshots: Block,
        gone: Vec<&'static str>,
    ) -> Result<(), Refusal> {
        let title = self.title_of_interrupted(&snapshots);
        let Some(mut playback) = self.replay.take().and_then(|replay| replay.playback) else {
            return Ok(());
        };
        let end = self.session.as_ref().and_then(OpenSession::log_end);
        let (id, store) = (self.id.clone(), self.deps.store.clone());
        let now = self.deps.sys.clock.now().to_string();
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
        let _permit = self.deps.wire.flow.replays().acquire_owned().await;
        let played = tokio::task::spawn_blocking(work).await;
        let mut playback = played.map_err(|_| failed()).flatten()?;
        self.trace.updates = Some(playback.sent);
        playback.swap_view(&mut self.view);
        if let Some(session) = &mut self.session {
            session.shown = end.unwrap_or(playback.end);
            session.unsent = None;
            session.missed_prompts = false;
            if let LogAccess::Shared(elsewhere) = &mut session.log {
                elsewhere.running = playback.in_turn;
                self.follow_from(Box::new(playback));
            }
        }
        Ok(())
    }

    /// The title of a session whose first turn was interrupted, so that its end has not named it, and
    /// when the session was last active. `None` if it has another title or will get one.
    fn title_of_interrupted(&self, snapshots: &Block) -> Option<(String, String)> {
        let is_named = snapshots.iter().any(|entry| named(entry.payload).is_some());
        if is_named || !self.turns.is_empty() {
            return None;
        }
        let summary = &self.session.as_ref()?.summary;
        // The same time in each replay.
        Some((summary.updated_at.clone()?, self.own_title()?))
    }

    pub(super) async fn abandon_replay(&mut self) -> Result<(), Refusal> {
        self.replay = None;
        self.send_missed().await
    }

    /// Whether the log has records that the client was not sent, and that no replay will reach.
    pub(super) fn has_missed(&self) -> bool {
        let end = self.session.as_ref().and_then(OpenSession::log_end);
        let shown = self.session.as_ref().map_or(0, |session| session.shown);
        let due = self.machine.is_replay_due();
        self.replay.is_none() && !due && end.is_some_and(|end| shown < end)
    }

    /// Sends the records that the client was not sent, as they would have been sent live.
    pub(super) async fn send_missed(&mut self) -> Result<(), Refusal> {
        let (true, Some(session), Some(store)) =
            (self.has_missed(), &self.session, &self.deps.store)
        else {
            return Ok(());
        };
        if session.missed_prompts {
            return self.replay_missed().await;
        }
        let end = session.log_end().unwrap_or_default();
        let mut reader = blocking(|| store.read(&self.id))?;
        reader.seek(session.shown);
        reader.limit(end);
        while let Some(entry) = reader.next()? {
            self.send_live(entry.record.kind, entry.record.payload)
                .await;
            if let Some(session) = &mut self.session {
                session.shown = entry.end;
            }
        }
        self.all_is_sent();
        Ok(())
    }

    /// Replays what another process has written since the client was last sent records: as a load
    /// would show it, with prompts.
    async fn replay_missed(&mut self) -> Result<(), Refusal> {
        let (Some(session), Some(store)) = (&self.session, self.deps.store.clone()) else {
            return Ok(());
        };
        let (id, shown, end) = (self.id.clone(), session.shown, session.log_end());
        let mut playback = self.rest();
        playback.swap_view(&mut self.view);
        let work = move || {
            let played = playback.play_after(&store, &id, shown, end);
            // The rest of the last message is sent in any case: it counts as shown.
            let finished = playback.finish();
            (playback, played.and(finished))
        };
        // It holds a thread for as long as the client does not read.
        let _permit = self.deps.wire.flow.replays().acquire_owned().await;
        let Ok((mut playback, played)) = tokio::task::spawn_blocking(work).await else {
            return Err(failed());
        };
        if let Some(session) = &mut self.session {
            session.shown = session.shown.max(playback.end);
            session.unsent = None;
            session.missed_prompts = played.is_err();
        }
        playback.swap_view(&mut self.view);
        played
    }

    /// A replay for a client that has seen a part of the session. Nothing cancels it.
    pub(super) fn rest(&self) -> Playback {
        let policy = self.deps.replay;
        Playback::new(
            &self.name,
            policy.for_all(&self.deps, &self.client),
            Pace::new(policy.rate),
            &self.deps.wire.writer,
            self.view.fresh(),
            CancellationToken::new(),
        )
    }
}

fn failed() -> Refusal {
    Refusal::Storage("the replay failed unexpectedly".to_owned())
}
