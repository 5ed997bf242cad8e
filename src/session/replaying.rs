//! What an actor does to replay its session: begins, goes on where the replay ended, and makes up
//! for one that failed.

use crate::engine::Wanted;
use crate::sys::blocking;

use super::actor::{Actor, Played, RunningReplay};
use super::open::lock_or_read;
use super::outcome::Refusal;
use super::pace::Pace;
use super::playback::Playback;
use super::refusal::storage;
use super::reply::Reply;
use super::seat::Seat;

impl Actor {
    pub(super) fn start_replay(&mut self) -> Result<(), Refusal> {
        let (Some(seat), Some(store)) = (&self.seat, &self.deps.store) else {
            return Err(Refusal::NotOpen);
        };
        let mut reader = blocking(|| store.read(&self.id)).map_err(|error| storage(&error))?;
        if let Some(end) = seat.log_end() {
            reader.limit(end);
        }
        let sought = self.sought.take();
        let prompts = seat.summary.prompts;
        let mut playback = self.playback(prompts, sought.as_deref())?;
        let (store, id, end) = (store.clone(), self.id.clone(), seat.log_end());
        self.replay_with(move || {
            let found = match sought {
                Some(message) => playback.seek(&message, &store, &id, end),
                None => Ok(()),
            };
            let result = found.and_then(|()| playback.play(&mut reader));
            let result = playback.settle().and(result);
            Played {
                playback,
                opened: None,
                result,
            }
        });
        Ok(())
    }

    /// Opening reads the whole log, and so does a replay: both are done with one reading.
    pub(super) fn open_and_replay(&mut self, wanted: Wanted) -> Result<(), Refusal> {
        self.name.clone_from(&wanted.name);
        if self.deps.replay.tail.is_some() {
            // Where the last turns begin is known when the log was read.
            self.open(wanted)?;
            return self.start_replay();
        }
        let Some(store) = self.deps.store.clone() else {
            return Err(Refusal::NotFound);
        };
        if self.deps.has_expired(&self.id) {
            return Err(Refusal::NotFound);
        }
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
                Ok((hold, scan)) => (Some((hold, scan, wanted)), result),
                Err(refusal) => (None, Err(refusal)),
            };
            let result = result.and_then(|()| playback.put());
            let result = playback.settle().and(result);
            Played {
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
        let mut view = self.deps.dialect().view();
        if let Some(message) = from {
            policy.tail = None;
            view = view.map(|view| view.from_message(message));
        }
        Ok(Playback::new(
            &self.name,
            policy.for_session(prompts),
            Pace::new(policy.rate),
            &self.deps.wire.writer,
            view,
            Reply::cancelled(reply),
        ))
    }

    fn replay_with(&mut self, work: impl FnOnce() -> Played + Send + 'static) {
        self.replay = Some(RunningReplay {
            task: Some(tokio::task::spawn_blocking(work)),
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
        let end = self.seat.as_ref().and_then(Seat::log_end);
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
            playback.finish().map(|()| (playback.end, playback.view()))
        };
        let played = tokio::task::spawn_blocking(work).await;
        let played = played
            .map_err(|_| Refusal::Storage("the replay failed unexpectedly".to_owned()))
            .flatten()?;
        let (played, view) = played;
        self.view = view;
        if let Some(seat) = &mut self.seat {
            seat.shown = end.unwrap_or(played);
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
        let end = self.seat.as_ref().and_then(Seat::log_end);
        let shown = self.seat.as_ref().map_or(0, |seat| seat.shown);
        self.replay.is_none() && end.is_some_and(|end| shown < end)
    }

    /// Sends what is in the log and what the client was never sent, as it would have been sent
    /// live.
    pub(super) async fn send_missed(&mut self) -> Result<(), Refusal> {
        let (true, Some(seat), Some(store)) = (self.has_missed(), &self.seat, &self.deps.store)
        else {
            return Ok(());
        };
        let end = seat.log_end().unwrap_or_default();
        let mut reader = blocking(|| store.read(&self.id)).map_err(|error| storage(&error))?;
        reader.seek(seat.shown);
        reader.limit(end);
        while let Some(entry) = reader.next().map_err(|error| storage(&error))? {
            self.send_live(entry.record.kind, entry.record.payload)
                .await;
            if let Some(seat) = &mut self.seat {
                seat.shown = entry.end;
            }
        }
        Ok(())
    }
}
