//! What an actor does to replay its session: begins, goes on where the replay ended, and makes up
//! for one that failed.

use std::sync::Arc;

use crate::engine::SessionConfig;
use crate::sys::blocking;

use super::access::{lock_or_read, released};
use super::actor::{Actor, ReplayOutcome, RunningReplay};
use super::open_session::{LogAccess, OpenSession};
use super::outcome::Refusal;
use super::pace::Pace;
use super::playback::Playback;
use super::refusal::storage;
use super::reply::Reply;

impl Actor {
    pub(super) fn start_replay(&mut self) -> Result<(), Refusal> {
        let (Some(session), Some(store)) = (&self.session, &self.deps.store) else {
            return Err(Refusal::NotOpen);
        };
        let mut reader = blocking(|| store.read(&self.id)).map_err(|error| storage(&error))?;
        if let Some(end) = session.log_end() {
            reader.limit(end);
        }
        let sought = self.sought.take();
        let prompts = session.summary.prompts;
        let mut playback = self.playback(prompts, sought.as_deref())?;
        let (store, id, end) = (store.clone(), self.id.clone(), session.log_end());
        self.replay_with(move || {
            let found = match sought {
                Some(message) => playback.seek(&message, &store, &id, end),
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

    /// Opening reads the whole log, and so does a replay: both are done with one reading.
    pub(super) async fn open_and_replay(&mut self, config: SessionConfig) -> Result<(), Refusal> {
        self.name.clone_from(&config.name);
        if self.deps.replay.tail.is_some() {
            // Where the last turns begin is known when the log was read.
            self.open(config).await?;
            return self.start_replay();
        }
        let Some(store) = self.deps.store.clone() else {
            return Err(Refusal::NotFound);
        };
        if self.deps.has_expired(&self.id) {
            return Err(Refusal::NotFound);
        }
        released(&store, &self.id).await;
        let id = self.id.clone();
        let mut playback = self.playback(0, None)?;
        self.replay_with(move || {
            let mut result = Ok(());
            let opened = lock_or_read(&store, &id, &mut |entry| {
                // If the replay breaks off, the session is opened all the same.
                if result.is_ok() {
                    result = playback.record(entry);
                }
            });
            let (opened, result) = match opened {
                Ok((log, scan)) => (Some((log, scan, config)), result),
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

    /// A replay of all, or of the last turns if that is wanted; or from a message on.
    fn playback(&self, prompts: u64, from: Option<&str>) -> Result<Playback, Refusal> {
        let Some(reply) = self.machine.replaying() else {
            return Err(Refusal::NotOpen);
        };
        let mut policy = self.deps.replay;
        let mut view = self.deps.version().view();
        if let Some(message) = from {
            policy.tail = None;
            view = view.map(|view| view.from_message(message));
        }
        Ok(Playback::new(
            &self.name,
            policy.for_session(prompts, self.deps.line_limit),
            Pace::new(policy.rate),
            &self.deps.wire.writer,
            view,
            Reply::cancelled(reply),
        ))
    }

    fn replay_with(&mut self, work: impl FnOnce() -> ReplayOutcome + Send + 'static) {
        let places = self.deps.wire.flow.replays();
        let task = tokio::spawn(async move {
            // It is never closed.
            let _place = places.acquire_owned().await;
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
            _busy: self.replays.begin(),
        });
    }

    pub(super) async fn catch_up(
        &mut self,
        snapshots: Vec<String>,
        gone: Vec<&'static str>,
    ) -> Result<(), Refusal> {
        let Some(mut playback) = self.replay.take().and_then(|replay| replay.playback) else {
            return Ok(());
        };
        let end = self.session.as_ref().and_then(OpenSession::log_end);
        let (id, store) = (self.id.clone(), self.deps.store.clone());
        let now = self.deps.sys.clock.now().to_string();
        playback.cannot_be_cancelled();
        let work = move || {
            if let (Some(store), true) = (store, end != Some(playback.end)) {
                let mut reader = store.read(&id).map_err(|error| storage(&error))?;
                reader.seek(playback.end);
                // Without the lock, the end is wherever the file ends.
                if let Some(end) = end {
                    reader.limit(end);
                }
                playback.play(&mut reader)?;
            }
            playback.snapshots(&now, &snapshots, &gone);
            let finished = playback.finish();
            finished.map(|()| (playback.end, playback.in_turn, playback.view()))
        };
        let _place = self.deps.wire.flow.replays().acquire_owned().await;
        let played = tokio::task::spawn_blocking(work).await;
        let played = played
            .map_err(|_| Refusal::Storage("the replay failed unexpectedly".to_owned()))
            .flatten()?;
        let (played, in_turn, view) = played;
        self.view = view;
        if let Some(session) = &mut self.session {
            session.shown = end.unwrap_or(played);
            session.behind = false;
            if let LogAccess::Shared(elsewhere) = &mut session.log {
                elsewhere.running = in_turn;
            }
        }
        Ok(())
    }

    pub(super) async fn send_held(&mut self) -> Result<(), Refusal> {
        self.replay = None;
        self.send_missed().await
    }

    /// Whether the log has something that the client was never sent, and that no replay on its way
    /// comes to.
    pub(super) fn has_missed(&self) -> bool {
        let end = self.session.as_ref().and_then(OpenSession::log_end);
        let shown = self.session.as_ref().map_or(0, |session| session.shown);
        let due = self.machine.is_replay_due();
        self.replay.is_none() && !due && end.is_some_and(|end| shown < end)
    }

    /// Sends what is in the log and what the client was never sent, as it would have been sent
    /// live.
    pub(super) async fn send_missed(&mut self) -> Result<(), Refusal> {
        let (true, Some(session), Some(store)) =
            (self.has_missed(), &self.session, &self.deps.store)
        else {
            return Ok(());
        };
        if session.behind {
            return self.replay_missed().await;
        }
        let end = session.log_end().unwrap_or_default();
        let mut reader = blocking(|| store.read(&self.id)).map_err(|error| storage(&error))?;
        reader.seek(session.shown);
        reader.limit(end);
        while let Some(entry) = reader.next().map_err(|error| storage(&error))? {
            self.send_live(entry.record.kind, entry.record.payload)
                .await;
            if let Some(session) = &mut self.session {
                session.shown = entry.end;
            }
        }
        Ok(())
    }

    /// Replays what another process has written since the client saw the log last: as a load would
    /// show it, prompts included.
    async fn replay_missed(&mut self) -> Result<(), Refusal> {
        let (Some(session), Some(store)) = (&self.session, self.deps.store.clone()) else {
            return Ok(());
        };
        let (id, shown, end) = (self.id.clone(), session.shown, session.log_end());
        let policy = self.deps.replay;
        let mut playback = Playback::new(
            &self.name,
            policy.for_all(self.deps.line_limit),
            Pace::new(policy.rate),
            &self.deps.wire.writer,
            self.view.take(),
            Arc::new(|| false),
        );
        let work = move || {
            let played = playback.go_on(&store, &id, shown, end);
            // What is left of the last message is sent in any case: it counts as shown.
            let finished = playback.finish();
            (playback, played.and(finished))
        };
        let Ok((playback, played)) = tokio::task::spawn_blocking(work).await else {
            self.view = self.deps.version().view();
            return Err(Refusal::Storage(
                "the replay failed unexpectedly".to_owned(),
            ));
        };
        if let Some(session) = &mut self.session {
            session.shown = session.shown.max(playback.end);
            session.behind = played.is_err();
        }
        self.view = playback.view();
        played
    }
}
