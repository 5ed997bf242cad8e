//! Notifies of logs that other processes write to: one watch of the store for all sessions.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, Weak};

use tokio::sync::Notify;

use crate::store::Store;
use crate::sys::{SessionId, Watch, blocking, lock};

/// The sessions of which the growth is awaited.
type Awaited = HashMap<SessionId, Vec<Weak<Notify>>>;

/// Watches the store from the first session on.
#[derive(Default)]
pub struct Growth {
    awaited: Arc<Mutex<Awaited>>,
    /// `None` if the system reports no changes.
    watch: OnceLock<Option<Watch>>,
    /// The sessions that this process has open, for when another one takes them over.
    owned: Arc<Mutex<Awaited>>,
    /// Whether the store allows that.
    can_lose: OnceLock<bool>,
}

impl Growth {
    /// Notified when the log of this session may have grown, for as long as it is kept. It is notified
    /// once at the start: what was written before is not reported. Also returns whether it is notified
    /// at all: some systems report no changes, and others only so many to each user.
    pub(in crate::session) fn of(&self, store: &Store, id: &SessionId) -> (Arc<Notify>, bool) {
        let grown = awaited_in(&self.awaited, id);
        let watch = self.watch.get_or_init(|| {
            let (wanted, awaited) = (Arc::clone(&self.awaited), Arc::clone(&self.awaited));
            let wanted = move || awaited_now(&wanted);
            let begun =
                blocking(|| store.watch_some(wanted, move |id| notify(&awaited, id.as_ref())));
            let failed = |error| {
                tracing::warn!(%error, "sessions of other processes are looked at each second");
            };
            begun.map_err(failed).ok()
        });
        grown.notify_one();
        (grown, watch.is_some())
    }

    /// Notified when another process has taken over this session, which this one has open, for as long
    /// as it is kept. `None` if the store does not allow that.
    pub(in crate::session) fn loss_of(&self, store: &Store, id: &SessionId) -> Option<Arc<Notify>> {
        let can_lose = self.can_lose.get_or_init(|| {
            let owned = Arc::clone(&self.owned);
            store.on_taken_over(move |id| notify(&owned, Some(id)))
        });
        can_lose.then(|| awaited_in(&self.owned, id))
    }
}

/// From now on, this session is awaited, too.
fn awaited_in(all: &Mutex<Awaited>, id: &SessionId) -> Arc<Notify> {
    let notify = Arc::new(Notify::new());
    let mut awaited = lock(all);
    forget_unused(&mut awaited);
    // Each client of a host follows it by itself.
    let all = awaited.entry(id.clone()).or_default();
    all.push(Arc::downgrade(&notify));
    notify
}

/// The sessions that are awaited.
fn awaited_now(all: &Mutex<Awaited>) -> Vec<SessionId> {
    let mut awaited = lock(all);
    forget_unused(&mut awaited);
    awaited.keys().cloned().collect()
}

/// Forgets sessions that nobody awaits any longer.
fn forget_unused(awaited: &mut Awaited) {
    awaited.retain(|_, all| {
        all.retain(|notify| notify.strong_count() > 0);
        !all.is_empty()
    });
}

/// Notifies those that wait for this session, or for any if it is unknown which one has grown.
fn notify(awaited: &Mutex<Awaited>, id: Option<&SessionId>) {
    let awaited = lock(awaited);
    let notify = |grown: &Weak<Notify>| {
        if let Some(grown) = grown.upgrade() {
            grown.notify_one();
        }
    };
    match id {
        Some(id) => awaited.get(id).into_iter().flatten().for_each(notify),
        None => awaited.values().flatten().for_each(notify),
    }
}

impl fmt::Debug for Growth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Growth").finish_non_exhaustive()
    }
}
