//! Follows a session that another process has open: its client is sent what is appended to the log.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use crate::session::open_session::{LogAccess, OpenSession};
use crate::session::outcome::Refusal;
use crate::session::phase::Phase;
use crate::session::playback::Playback;
use crate::store::Store;
use crate::sys::{SessionId, blocking};
use crate::transport::{ClientConnection, Writer};

use super::Actor;

/// How often to check whether the process is still there in which a turn runs: one that is killed
/// notifies nobody. Also how often to look at a log of which no changes are reported.
const CHECK: Duration = Duration::from_secs(1);

/// A session that is followed.
pub(super) struct Following {
    /// Notified when the log may have grown.
    grown: Arc<Notify>,
    /// Whether it is.
    is_notified: bool,
    /// The replay so far. Without one, the log is read from the start.
    playback: Option<Box<Playback>>,
    /// Whether this process has the session open, and is notified when another one takes it over.
    is_own: bool,
}

impl Following {
    /// Waits until the log may have grown, or until it is time to look for its writer. Returns
    /// whether it may have grown.
    pub(super) async fn due(&self, is_running: bool) -> bool {
        if !is_running && self.is_notified {
            self.grown.notified().await;
            return true;
        }
        let grown = tokio::time::timeout(CHECK, self.grown.notified());
        grown.await.is_ok()
    }
}

impl Actor {
    /// Begins to follow a session that another process has open, or ends it if none has. In a database,
    /// another process may also take over what this one has.
    pub(super) fn update_following(&mut self) {
        let (Some(session), Some(store)) = (&self.session, &self.deps.store) else {
            self.following = None;
            return;
        };
        let known = self.following.as_ref().map(|following| following.is_own);
        let growth = &self.deps.growth;
        let (is_own, notified) = match session.log {
            LogAccess::Own(_) if known == Some(true) => return,
            LogAccess::Own(_) => (
                true,
                growth.loss_of(store, &self.id).map(|lost| (lost, true)),
            ),
            LogAccess::Shared(_) if known == Some(false) => return,
            LogAccess::Shared(_) => (false, Some(growth.of(store, &self.id))),
            _ => (false, None),
        };
        self.following = notified.map(|(grown, is_notified)| Following {
            grown,
            is_notified,
            playback: None,
            is_own,
        });
    }

    /// Continues a replay that has just ended, instead of reading the log again.
    pub(super) fn follow_from(&mut self, playback: Box<Playback>) {
        self.update_following();
        if let Some(following) = &mut self.following {
            following.playback = Some(playback);
        }
    }

    /// The prompts that the client has sent, which it shows already. In version 2 it waits for them.
    fn hidden_prompts(&self) -> HashSet<String> {
        if self.view.has_state() {
            return HashSet::new();
        }
        self.own_prompts.clone()
    }

    /// Whether a session that is followed may be read: no load is under way.
    pub(super) fn may_follow(&self) -> bool {
        self.replay.is_none() && self.attach.is_none() && !self.machine.is_replay_due()
    }

    /// Whether a turn runs in another process.
    pub(super) fn runs_elsewhere(&self) -> bool {
        let elsewhere = self.session.as_ref().and_then(OpenSession::elsewhere);
        elsewhere.is_some_and(|elsewhere| elsewhere.running)
    }

    /// Whether a process has the session open, as far as can be seen.
    fn is_open_elsewhere(&self) -> bool {
        let store = self.deps.store.as_ref();
        store.is_some_and(|store| blocking(|| store.is_open(&self.id)))
    }

    /// Sends what another process has appended, and what it is doing. If the log has not `grown`, that
    /// process may be gone. A load that is under way sends it itself.
    pub(super) async fn follow(&mut self, grown: bool) {
        if !self.may_follow() {
            return;
        }
        let (Some(following), Some(session), Some(store)) =
            (&mut self.following, &self.session, self.deps.store.clone())
        else {
            return;
        };
        if following.is_own {
            self.check_claim();
            return self.update_following();
        }
        let (id, shown) = (self.id.clone(), session.shown);
        let known = following.playback.take();
        let mut playback = known.unwrap_or_else(|| Box::new(self.rest()));
        playback.follow();
        playback.hide_prompts(self.hidden_prompts());
        playback.swap_view(&mut self.view);
        let played = play(playback, &self.deps.wire, store, &id, shown);
        let Some((mut playback, played)) = Box::pin(played).await else {
            tracing::error!(session = %self.id, "following another process panicked");
            return;
        };
        playback.swap_view(&mut self.view);
        if let Err(error) = played {
            tracing::debug!(session = %self.id, %error, "cannot follow another process");
        }
        // A process that was killed has appended no end.
        let running = playback.in_turn && (grown || self.is_open_elsewhere());
        let (end, last) = (playback.end, playback.take_last_end());
        if let Some(following) = &mut self.following {
            following.playback = Some(playback);
        }
        let Some(session) = &mut self.session else {
            return;
        };
        session.shown = session.shown.max(end);
        session.missed_prompts = false;
        let LogAccess::Shared(elsewhere) = &mut session.log else {
            return;
        };
        let was_running = std::mem::replace(&mut elsewhere.running, running);
        if running != was_running || last.is_some() {
            let phase = if running {
                Phase::Running
            } else {
                Phase::Idle(last)
            };
            self.send_state(&phase).await;
        }
    }
}

/// Sends a client that was shown the log up to `shown` what comes after that. `None` if it panicked.
async fn play(
    mut playback: Box<Playback>,
    wire: &ClientConnection,
    store: Store,
    id: &SessionId,
    shown: u64,
) -> Option<(Box<Playback>, Result<(), Refusal>)> {
    if playback.is_live(shown) && !store.waits() {
        let played = send_appended(&mut playback, &wire.writer, &store, id).await;
        return Some((playback, played));
    }
    let id = id.clone();
    let work = move || {
        let played = if playback.end < shown {
            playback.play_after(&store, &id, shown, None)
        } else {
            playback.play_on(&store, &id, None)
        };
        let finished = playback.finish();
        (playback, played.and(finished))
    };
    // It holds a thread for as long as the client does not read.
    let _permit = wire.flow.replays().acquire_owned().await;
    tokio::task::spawn_blocking(work).await.ok()
}

/// The same without another thread: it is little, and was just written.
async fn send_appended(
    playback: &mut Playback,
    writer: &Writer,
    store: &Store,
    id: &SessionId,
) -> Result<(), Refusal> {
    loop {
        let has_more = playback.compose(store, id)?;
        let lines = playback.lines();
        if !lines.is_empty() {
            writer.control(lines).await.map_err(|_| Refusal::Gone)?;
            lines.clear();
        }
        if !has_more {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_log_of_which_no_changes_are_reported_is_looked_at_all_the_same() {
        let mut following = Following {
            grown: Arc::default(),
            is_notified: false,
            playback: None,
            is_own: false,
        };
        assert!(!following.due(false).await);
        following.grown.notify_one();
        assert!(following.due(false).await);
        following.is_notified = true;
        let due = tokio::time::timeout(CHECK * 10, following.due(false));
        assert!(due.await.is_err(), "nothing was reported");
        assert!(!following.due(true).await);
    }
}
