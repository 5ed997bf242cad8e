//! Notifies a client of what changes in the lists that it keeps on its screen, whichever process changes it.
//!
//! Nothing is watched before the client asks for it. Then the folder of the logs is; what changes
//! there, or is reported to the catalog in this process, waits in a bounded set. A task takes it
//! from there, looks at the sessions as a list would, and notifies the client of those that look
//! different. If the set is full, or the system has missed changes, the client is asked to read its
//! lists again.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::index::{Filter, Listed};
use crate::record::{ActivityState as Activity, OpenTurns};
use crate::server::tools::ToolSessions;
use crate::session::Registry;
use crate::sys::{SessionId, Watch, blocking, lock};

use super::notices::Notices;
use super::row::RowForm;
use super::tool_changes;

/// How many changed sessions may wait. Beyond that, the client reads its lists again.
const MOST_WAITING: usize = 1000;

/// How many sessions are remembered as the client knows them. Others count as changed.
const MOST_KNOWN: usize = 10_000;

/// How many subscriptions a connection may have.
const MOST_SUBSCRIPTIONS: usize = 128;

/// For how many folders a client is notified that their lists have changed.
const MOST_HINTS: usize = 64;

/// How long a client that has read the list of a folder is notified of changes.
const HINTED_FOR: Duration = Duration::from_mins(10);

/// The changes that one connection is notified of. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct ListChanges(Arc<ListChangesInner>);

#[derive(Debug, Default)]
struct ListChangesInner {
    /// The other tools whose conversations are listed.
    tools: Option<Arc<ToolSessions>>,
    state: Mutex<ListChangesState>,
    /// Notified when a change waits.
    wake: Notify,
}

/// The subscriptions of a client, and the changes for them.
#[derive(Default)]
pub(super) struct ListChangesState {
    /// Changed sessions that were not looked at yet.
    pub(super) waiting: BTreeSet<SessionId>,
    /// Whether more has changed than can wait.
    pub(super) lost: bool,
    /// Sessions that the client learns of in another way first.
    pub(super) held: BTreeSet<SessionId>,
    /// How many subscriptions are not answered yet; nothing is sent meanwhile.
    pub(super) paused: usize,
    /// How sessions looked that the client was sent.
    pub(super) known: BTreeMap<SessionId, KnownSession>,
    pub(super) subscriptions: BTreeMap<String, Subscription>,
    /// The folders whose lists the client has read, without other subscriptions.
    pub(super) hints: BTreeMap<String, Hint>,
    /// How many subscriptions there were.
    count: u64,
    /// Watches the folder of the logs, while there is anything to report.
    watch: Option<Watch>,
    is_running: bool,
}

/// A session as the client knows it.
#[derive(Clone, Debug)]
pub(super) struct KnownSession {
    /// Identifies how it looks.
    look: u64,
    cwd: String,
    state: Activity,
    /// When the client was last notified of it.
    pub(super) sent_at: Option<Instant>,
}

/// A subscription to a list.
#[derive(Clone, Debug)]
pub(super) struct Subscription {
    /// The folders of the list. The rest of the filter does not count: archiving is a change, too.
    pub(super) scope: Filter,
    pub(super) form: RowForm,
}

/// A folder whose list the client has read.
#[derive(Clone, Debug)]
pub(super) struct Hint {
    pub(super) scope: Filter,
    until: Instant,
    /// When the client was last notified.
    pub(super) sent_at: Option<Instant>,
    /// Whether there was a change since.
    pub(super) is_due: bool,
}

impl ListChanges {
    /// No changes, in lists that have the conversations of these tools, too.
    pub(super) fn new(tools: Option<Arc<ToolSessions>>) -> Self {
        Self(Arc::new(ListChangesInner {
            tools,
            ..ListChangesInner::default()
        }))
    }

    /// Subscribes to changes of this list. Returns the subscription's id; none if there are too
    /// many.
    pub(super) fn subscribe(
        &self,
        registry: &Registry,
        scope: Filter,
        form: RowForm,
    ) -> Option<String> {
        let id = {
            let mut state = self.lock();
            if state.subscriptions.len() >= MOST_SUBSCRIPTIONS {
                return None;
            }
            state.count += 1;
            let id = format!("list-{}", state.count);
            let subscription = Subscription { scope, form };
            state.subscriptions.insert(id.clone(), subscription);
            id
        };
        self.start(registry);
        Some(id)
    }

    /// Ends a subscription, if it exists.
    pub(super) fn unsubscribe(&self, id: &str) {
        self.lock().subscriptions.remove(id);
        // The task ends after the last one.
        self.0.wake.notify_one();
    }

    /// Notifies the client of changes in the list of this folder, for a while.
    pub(super) fn hint(&self, registry: &Registry, scope: Filter) {
        let Some(cwd) = scope.cwd.clone() else {
            return;
        };
        {
            let mut state = self.lock();
            let now = Instant::now();
            state.hints.retain(|_, hint| hint.until > now);
            if state.hints.len() >= MOST_HINTS && !state.hints.contains_key(&cwd) {
                return;
            }
            let before = state.hints.remove(&cwd);
            let hint = Hint {
                scope,
                until: now + HINTED_FOR,
                sent_at: before.and_then(|hint| hint.sent_at),
                is_due: false,
            };
            state.hints.insert(cwd, hint);
        }
        self.start(registry);
    }

    /// The client is sent this entry by a response.
    pub(super) fn shown(&self, listed: &Listed, state: Activity) {
        self.lock().differs(listed, state, None);
    }

    /// Notifies the client of this session, or of any, only when the result is dropped.
    pub(super) fn hold(&self, id: Option<&SessionId>) -> Hold {
        let mut state = self.lock();
        match id {
            Some(id) => drop(state.held.insert(id.clone())),
            None => state.paused += 1,
        }
        let changes = self.clone();
        let id = id.cloned();
        Hold { changes, id }
    }

    /// A session has changed; without one, some have.
    fn note(&self, id: Option<SessionId>) {
        let mut state = self.lock();
        match id {
            _ if state.is_unused() => return,
            Some(id) if state.waiting.len() < MOST_WAITING || state.waiting.contains(&id) => {
                state.waiting.insert(id);
            }
            _ => state.lost = true,
        }
        drop(state);
        self.0.wake.notify_one();
    }

    /// Starts the task and the watch, unless they run.
    fn start(&self, registry: &Registry) {
        if std::mem::replace(&mut self.lock().is_running, true) {
            return;
        }
        self.watch(registry);
        if let Some(catalog) = &registry.deps().library.catalog {
            let changes = self.clone();
            catalog.observe(Some(Box::new(move |id| changes.note(Some(id.clone())))));
        }
        let notices = Notices::new(self.clone(), registry.clone());
        let tools = self.0.tools.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = notices.run() => {}
                () = tool_changes::follow(tools) => {}
            }
        });
    }

    /// Watches the folder of the logs, anew if it was watched before. Returns whether the system
    /// can do that.
    pub(super) fn watch(&self, registry: &Registry) -> bool {
        let changes = self.clone();
        let store = registry.deps().library.store.as_ref();
        let watch = store.and_then(|store| {
            let watch = blocking(|| store.watch(move |id| changes.note(id)));
            let failed = |error| tracing::info!(%error, "changes by other processes are seen late");
            watch.map_err(failed).ok()
        });
        let is_watched = watch.is_some();
        let before = std::mem::replace(&mut self.lock().watch, watch);
        // Outside of the lock, for which its thread may be waiting.
        drop(before);
        is_watched
    }

    /// Ends the task if there is nothing to report. Returns whether it ends.
    pub(super) fn ends(&self, registry: &Registry, at_once: bool) -> bool {
        let mut state = self.lock();
        let now = Instant::now();
        state.hints.retain(|_, hint| hint.until > now);
        if at_once {
            state.subscriptions.clear();
            state.hints.clear();
        }
        if !state.is_unused() {
            return false;
        }
        let ended = std::mem::take(&mut *state);
        state.count = ended.count;
        state.held.clone_from(&ended.held);
        state.paused = ended.paused;
        drop(state);
        // Outside of the lock, for which the thread of the watch may be waiting.
        drop(ended);
        if let Some(catalog) = &registry.deps().library.catalog {
            catalog.observe(None);
        }
        true
    }

    /// Resolves when a change waits.
    pub(super) async fn changed(&self) {
        self.0.wake.notified().await;
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, ListChangesState> {
        lock(&self.0.state)
    }
}

impl ListChangesState {
    fn is_unused(&self) -> bool {
        self.subscriptions.is_empty() && self.hints.is_empty()
    }

    /// Whether the client knows this entry differently, or not at all. Remembers it as sent; `sent_at`
    /// is the time if that is by a notification.
    pub(super) fn differs(
        &mut self,
        listed: &Listed,
        state: Activity,
        sent_at: Option<Instant>,
    ) -> bool {
        let look = look(listed, state);
        let before = self.known.get(&listed.id);
        if before.is_some_and(|before| before.look == look) {
            return false;
        }
        if self.known.len() >= MOST_KNOWN {
            self.known.clear();
        }
        let known = KnownSession {
            look,
            cwd: listed.summary.cwd.clone(),
            state,
            sent_at,
        };
        self.known.insert(listed.id.clone(), known);
        true
    }

    /// Sessions at work in other processes: if one dies, no file changes.
    pub(super) fn at_work(&self) -> Vec<SessionId> {
        let at_work = |known: &KnownSession| known.state != Activity::Idle;
        let known = self.known.iter().filter(|(_, known)| at_work(known));
        known.map(|(id, _)| id.clone()).collect()
    }
}

impl KnownSession {
    /// The working directory.
    pub(super) fn cwd(&self) -> &str {
        &self.cwd
    }
}

/// Identifies how an entry looks, without the time of the last activity.
fn look(listed: &Listed, state: Activity) -> u64 {
    let Listed {
        id,
        summary,
        tool_branch,
        is_pinned,
        ..
    } = listed;
    let mut summary = summary.clone();
    summary.updated_at = None;
    summary.restored_at = None;
    summary.scanned = 0;
    summary.activity.open_turns = OpenTurns::default();
    summary.activity.open_requests = OpenTurns::default();
    let mut hasher = DefaultHasher::new();
    format!("{id} {summary:?} {tool_branch:?} {is_pinned} {state:?}").hash(&mut hasher);
    hasher.finish()
}

/// While it lives, the client is not notified of a session, or of any.
#[derive(Debug)]
pub(super) struct Hold {
    changes: ListChanges,
    id: Option<SessionId>,
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut state = self.changes.lock();
        match &self.id {
            Some(id) => drop(state.held.remove(id)),
            None => state.paused = state.paused.saturating_sub(1),
        }
        drop(state);
        match self.id.take() {
            Some(id) => self.changes.note(Some(id)),
            None => self.changes.0.wake.notify_one(),
        }
    }
}

impl fmt::Debug for ListChangesState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListChangesState")
            .field("subscriptions", &self.subscriptions)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::Summary;
    use crate::server::methods::row::Names;
    use crate::sys::Ids;
    use crate::sys::ids::RandomIds;

    fn subscribed() -> ListChanges {
        let changes = ListChanges::new(None);
        let subscription = Subscription {
            scope: Filter::default(),
            form: RowForm::default(),
        };
        let id = "list-1".to_owned();
        changes.lock().subscriptions.insert(id, subscription);
        changes
    }

    #[test]
    fn more_than_can_wait_is_lost_and_the_client_reads_again() {
        let changes = subscribed();
        let ids: Vec<_> = (0..=MOST_WAITING).map(|_| RandomIds.session()).collect();
        for id in &ids[..MOST_WAITING] {
            changes.note(Some(id.clone()));
        }
        changes.note(Some(ids[0].clone()));
        assert!(!changes.lock().lost);
        changes.note(ids.last().cloned());
        assert!(changes.lock().lost);
        assert_eq!(changes.lock().waiting.len(), MOST_WAITING);
        assert_eq!(Names::Protocol.resync(), Some("session/list/resync"));
    }

    #[test]
    fn nothing_waits_without_a_subscription() {
        let changes = ListChanges::new(None);
        changes.note(Some(RandomIds.session()));
        changes.note(None);
        let state = changes.lock();
        assert!(state.waiting.is_empty() && !state.lost);
    }

    #[test]
    fn an_entry_has_not_changed_if_only_its_last_activity_has() {
        let changes = subscribed();
        let mut listed = Listed {
            id: RandomIds.session(),
            summary: Summary::default(),
            snippet: None,
            tool_branch: None,
            is_pinned: false,
        };
        let mut state = changes.lock();
        assert!(state.differs(&listed, Activity::Idle, None));
        listed.summary.updated_at = Some("2026".to_owned());
        listed.summary.scanned = 7;
        assert!(!state.differs(&listed, Activity::Idle, None));
        assert!(state.differs(&listed, Activity::Running, None));
        assert_eq!(state.at_work(), [listed.id.clone()]);
        listed.summary.archived = true;
        assert!(state.differs(&listed, Activity::Running, None));
    }
}
