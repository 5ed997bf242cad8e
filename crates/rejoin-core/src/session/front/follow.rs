//! Reads the log as it grows: for the client of a session that another process has open, and for one that
//! does not read what it is sent. They are shown what is appended from the log.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::{JoinError, JoinHandle};

use crate::session::outcome::Refusal;
use crate::session::owner::open_session::{LogAccess, OpenSession};
use crate::store::Store;
use crate::sys::SessionId;
use crate::transport::{ClientConnection, Writer};

use super::Front;
use super::load::{LoadEvent, on_thread};
use super::playback::Playback;

/// How often to check whether the process is still there in which a turn runs: one that is killed
/// notifies nobody. Also how often to look at a log of which no changes are reported.
const CHECK: Duration = Duration::from_secs(1);

/// A session that is followed.
pub(super) struct Following {
    /// Notified when the log may have grown.
    grown: Arc<Notify>,
    /// Whether `grown` is notified, so that the log needs not be looked at now and then.
    is_notified: bool,
    /// The replay so far. Without one, the log is read from the start.
    playback: Option<Box<Playback>>,
    pub(in crate::session) what: Followed,
    /// A thread that reads for a client that is behind.
    reading: Option<JoinHandle<BehindReading>>,
}

/// Why a log is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Followed {
    /// This process has the session open, and is notified when another one takes it over.
    Own,
    /// Another process has the session open.
    Elsewhere,
    /// This process has the session open, and the client does not read what it is sent.
    Behind,
}

/// What a thread has read for a client that is behind.
struct BehindReading {
    playback: Box<Playback>,
    result: Result<(), Refusal>,
}

/// Something that concerns what the client is shown.
pub(in crate::session) enum FrontEvent {
    Load(LoadEvent),
    /// The log may have grown, or has not for a while.
    Followed {
        grown: bool,
    },
    /// A client that is behind was shown more.
    Read,
}

impl Following {
    /// Waits until the log may have grown, or until it is time to look for its writer. Returns
    /// whether it may have grown.
    async fn due(&self, is_running: bool) -> bool {
        if !is_running && self.is_notified {
            self.grown.notified().await;
            return true;
        }
        let grown = tokio::time::timeout(CHECK, self.grown.notified());
        grown.await.is_ok()
    }
}

impl Front {
    /// Waits for what concerns the client. `is_running` says whether a turn runs in another process.
    pub(in crate::session) async fn event(&mut self, is_running: bool) -> FrontEvent {
        let may_follow = self.may_follow();
        let load = &mut self.load;
        let following = &mut self.following;
        let followed = async {
            match following {
                Some(following) if following.reading.is_some() => {
                    following.read().await;
                    FrontEvent::Read
                }
                Some(following) if may_follow => FrontEvent::Followed {
                    grown: following.due(is_running).await,
                },
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            event = load.event() => FrontEvent::Load(event),
            event = followed => event,
        }
    }

    /// Begins to follow a session that another process has open, or ends it if none has. In a database,
    /// another process may also take over what this one has.
    pub(in crate::session) fn update_following(&mut self, session: Option<&OpenSession>) {
        let log = session.map(|session| &session.log);
        let (Some(log), Some(store)) = (log, &self.deps.library.store) else {
            self.following = None;
            self.screen.is_behind = false;
            return;
        };
        let known = self.following.as_ref().map(|following| following.what);
        let growth = &self.deps.library.growth;
        let is_own = matches!(log, LogAccess::Own(_) | LogAccess::Failed(_));
        let (what, notified) = match log {
            _ if is_own && self.screen.is_behind => {
                if known == Some(Followed::Behind) {
                    return;
                }
                let grown = Arc::new(Notify::new());
                grown.notify_one();
                tracing::info!(session = %self.id, client = self.client.name(), "does not read; goes on from the log");
                (Followed::Behind, Some((grown, true)))
            }
            LogAccess::Own(_) if known == Some(Followed::Own) => return,
            LogAccess::Own(_) => {
                let lost = growth.loss_of(store, &self.id);
                (Followed::Own, lost.map(|lost| (lost, true)))
            }
            LogAccess::Shared(_) if known == Some(Followed::Elsewhere) => return,
            LogAccess::Shared(_) => (Followed::Elsewhere, Some(growth.of(store, &self.id))),
            _ => (Followed::Elsewhere, None),
        };
        if !is_own {
            self.screen.is_behind = false;
        }
        self.following = notified.map(|(grown, is_notified)| Following {
            grown,
            is_notified,
            playback: None,
            what,
            reading: None,
        });
    }

    /// Continues a replay that has just ended, instead of reading the log again.
    pub(in crate::session) fn follow_from(&mut self, playback: Box<Playback>) {
        if let Some(following) = &mut self.following {
            following.playback = Some(playback);
        }
    }

    /// The log that this process has was appended to.
    pub(super) fn grown(&self) {
        if let Some(following) = &self.following
            && following.what == Followed::Behind
        {
            following.grown.notify_one();
        }
    }

    /// The prompts that the client has sent, which it shows already. In version 2 it waits for them.
    fn hidden_prompts(&self) -> HashSet<String> {
        if self.screen.view.has_state() {
            return HashSet::new();
        }
        self.own_prompts.clone()
    }

    /// The replay that follows, with the view through which the client sees the session.
    fn following_playback(&mut self) -> Box<Playback> {
        let known = self.following.as_mut();
        let known = known.and_then(|following| following.playback.take());
        let mut playback = known.unwrap_or_else(|| Box::new(self.rest()));
        playback.show_states();
        playback.follow();
        playback.hide_prompts(self.hidden_prompts());
        playback.swap_view(&mut self.screen.view);
        playback
    }

    /// Shows what another process has appended. Returns whether a turn is open; `None` if nothing could be
    /// read.
    pub(super) async fn follow(&mut self) -> Option<bool> {
        let store = self.deps.library.store.clone()?;
        self.following.as_ref()?;
        let shown = self.screen.position;
        let playback = self.following_playback();
        let played = play(playback, &self.deps.client, store, &self.id, shown);
        let Some((mut playback, played)) = Box::pin(played).await else {
            tracing::error!(session = %self.id, "following another process panicked");
            return None;
        };
        playback.swap_view(&mut self.screen.view);
        if let Err(error) = played {
            tracing::debug!(session = %self.id, %error, "cannot follow another process");
        }
        let is_in_turn = playback.in_turn;
        self.screen.position = self.screen.position.max(playback.end);
        self.screen.is_of_others = false;
        self.follow_from(playback);
        Some(is_in_turn)
    }

    /// Begins to show a client that is behind what comes next in the log, on a thread of its own.
    pub(super) fn read_on(&mut self) {
        let (Some(store), Some(following)) = (self.deps.library.store.clone(), &self.following)
        else {
            return;
        };
        if following.reading.is_some() {
            return;
        }
        let mut playback = self.following_playback();
        let (id, shown) = (self.id.clone(), self.screen.position);
        let work = move || {
            let result = show_rest(&mut playback, &store, &id, shown, None);
            BehindReading { playback, result }
        };
        let reading = on_thread(self.deps.client.flow.replays(), work);
        if let Some(following) = &mut self.following {
            following.reading = Some(reading);
        }
    }

    /// A client that is behind was shown more.
    pub(in crate::session) fn has_read(&mut self) {
        let Some(following) = &mut self.following else {
            return;
        };
        let Some(playback) = &mut following.playback else {
            return;
        };
        playback.swap_view(&mut self.screen.view);
        self.screen.position = self.screen.position.max(playback.end);
    }
}

impl Following {
    /// Waits for the thread that reads.
    async fn read(&mut self) {
        let Some(reading) = &mut self.reading else {
            return;
        };
        let read: Result<BehindReading, JoinError> = reading.await;
        self.reading = None;
        match read {
            Ok(read) => {
                if let Err(error) = read.result {
                    tracing::debug!(%error, "a client cannot be shown the log");
                }
                self.playback = Some(read.playback);
            }
            Err(error) => tracing::error!(%error, "showing a client the log panicked"),
        }
    }
}

/// Shows a client that was shown the log up to `shown` what comes after that. `None` if it panicked.
async fn play(
    mut playback: Box<Playback>,
    client: &ClientConnection,
    store: Store,
    id: &SessionId,
    shown: u64,
) -> Option<(Box<Playback>, Result<(), Refusal>)> {
    if playback.is_live(shown) && !store.waits() {
        let played = send_appended(&mut playback, &client.writer, &store, id).await;
        return Some((playback, played));
    }
    let id = id.clone();
    let work = move || {
        let played = show_rest(&mut playback, &store, &id, shown, None);
        (playback, played)
    };
    on_thread(client.flow.replays(), work).await.ok()
}

/// Shows what comes after `shown` in the log, up to `end` if that is given, on a thread that may block.
pub(super) fn show_rest(
    playback: &mut Playback,
    store: &Store,
    id: &SessionId,
    shown: u64,
    end: Option<u64>,
) -> Result<(), Refusal> {
    let played = if playback.end < shown {
        playback.play_after(store, id, shown, end)
    } else {
        playback.play_on(store, id, end)
    };
    // The rest of the last message is sent in any case: it counts as shown.
    let finished = playback.finish();
    played.and(finished)
}

/// Shows what was appended without another thread: it is little, and was just written.
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
            what: Followed::Elsewhere,
            reading: None,
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
