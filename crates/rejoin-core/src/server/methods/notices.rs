//! The task that notifies a client of changes in its lists.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, sleep_until};

use crate::index::{Catalog, Filter, ListError, Listed, ObservedSession};
use crate::json::Object;
use crate::protocol::method::SESSION_LIST_CHANGED;
use crate::record::ActivityState as Activity;
use crate::session::Registry;
use crate::sys::worktrees::counterparts;
use crate::sys::{Disk, SessionId, Timestamp};

use super::changes::{ListChanges, Subscription};
use super::row::RowForm;

/// How long changes are gathered.
const GATHER: Duration = Duration::from_millis(30);

/// How often a client is notified of one session, or of one list, at most.
const EACH: Duration = Duration::from_secs(1);

/// How often to look for dead processes, and for changes that the system did not report.
const CHECK: Duration = Duration::from_secs(10);

/// How often to look while a session is at work, and where the system reports no changes of files.
const CHECK_OFTEN: Duration = Duration::from_secs(2);

/// The task of one connection.
#[derive(Debug)]
pub(super) struct Notices {
    changes: ListChanges,
    registry: Registry,
    /// When the next check is due.
    check_at: Instant,
    /// When the folder last changed, as far as it was checked.
    folder: Option<Timestamp>,
    /// Whether a change has come since that check.
    has_heard: bool,
}

/// A session that was looked at.
type Looked = (SessionId, ObservedSession, Activity);

/// The folders in whose lists a session was, as far as the client was sent it, and is now.
struct FolderChange<'a> {
    before: Option<&'a str>,
    now: Option<&'a str>,
}

impl FolderChange<'_> {
    /// Whether a list with this scope may have changed. Where the session was is unknown if the client
    /// was not sent it.
    fn concern(&self, scope: &Filter) -> bool {
        let mut folders = [self.now, self.before].into_iter().flatten().peekable();
        folders.peek().is_none() || folders.any(|cwd| scope.covers(cwd))
    }

    /// Whether a list with this scope, which does not have the session now, may have had it.
    fn leave(&self, scope: &Filter) -> bool {
        match self.before {
            Some(before) => scope.covers(before),
            None => self.now.is_none(),
        }
    }
}

/// The changes to notify one subscription of.
#[derive(Default)]
struct Batch {
    sessions: Vec<(Listed, Activity)>,
    removed: Vec<SessionId>,
}

impl Notices {
    pub(super) fn new(changes: ListChanges, registry: Registry) -> Self {
        Self {
            changes,
            registry,
            check_at: Instant::now(),
            folder: None,
            has_heard: true,
        }
    }

    /// Notifies the client until it has no subscription left, or has ended its input.
    pub(super) async fn run(mut self) {
        loop {
            let next = self.next();
            tokio::select! {
                () = self.registry.ended() => {
                    self.changes.ends(&self.registry, true);
                    return;
                }
                () = self.changes.changed() => {
                    self.has_heard = true;
                    sleep(GATHER).await;
                }
                () = sleep_until(next) => {}
            }
            if self.changes.ends(&self.registry, false) {
                return;
            }
            if Instant::now() >= self.check_at {
                self.check().await;
            }
            self.notify().await;
        }
    }

    /// When there is something to do, if nothing changes before.
    fn next(&self) -> Instant {
        let state = self.changes.lock();
        if state.paused > 0 {
            return self.check_at;
        }
        let waiting = state.waiting.iter().filter(|id| !state.held.contains(*id));
        let sent = waiting.filter_map(|id| state.known.get(id)?.sent_at);
        let hints = state.hints.values().filter(|hint| hint.is_due);
        let due = sent.chain(hints.filter_map(|hint| hint.sent_at));
        due.map(|sent| sent + EACH)
            .fold(self.check_at, Instant::min)
    }

    /// Checks what no reported change shows: processes that died, and changes that the system does
    /// not report, such as those of other machines.
    async fn check(&mut self) {
        let deps = self.registry.deps().clone();
        let (Some(store), Some(catalog)) =
            (deps.library.store.clone(), deps.library.catalog.clone())
        else {
            return;
        };
        let found = spawn_blocking(move || (store.folder_changed().ok(), catalog.behind()));
        let Ok((folder, behind)) = found.await else {
            return;
        };
        let unheard = folder != self.folder && !self.has_heard;
        let mut is_watched = true;
        if unheard && self.folder.is_some() {
            is_watched = self.changes.watch(&self.registry);
        }
        let mut state = self.changes.lock();
        state.lost |= unheard && self.folder.is_some();
        let at_work = state.at_work();
        let is_quiet = at_work.is_empty() && is_watched;
        state.waiting.extend(at_work);
        state.waiting.extend(behind.unwrap_or_default());
        drop(state);
        self.folder = folder;
        self.has_heard = false;
        self.check_at = Instant::now() + if is_quiet { CHECK } else { CHECK_OFTEN };
    }

    /// Looks at what has changed, and notifies the client.
    async fn notify(&mut self) {
        let Some(ready) = self.ready() else {
            self.resync().await;
            return;
        };
        if !ready.is_empty() {
            match self.look(ready).await {
                Ok(looked) => self.send_changes(looked).await,
                Err(error) => {
                    tracing::warn!(%error, "changes of sessions were missed");
                    self.changes.lock().lost = true;
                    sleep(EACH).await;
                }
            }
        }
        self.send_hints().await;
    }

    /// The changed sessions of which the client may be notified now; none if changes were lost.
    fn ready(&self) -> Option<Vec<SessionId>> {
        let mut state = self.changes.lock();
        if state.paused > 0 {
            return Some(Vec::new());
        }
        if std::mem::take(&mut state.lost) {
            state.waiting.clear();
            state.known.clear();
            return None;
        }
        let now = Instant::now();
        let sent_at = |id: &SessionId| state.known.get(id)?.sent_at;
        let may_be_sent = |id: &SessionId| sent_at(id).is_none_or(|sent| sent + EACH <= now);
        let is_ready = |id: &SessionId| !state.held.contains(id) && may_be_sent(id);
        let ready: Vec<_> = state
            .waiting
            .iter()
            .filter(|id| is_ready(id))
            .cloned()
            .collect();
        state.waiting.retain(|id| ready.binary_search(id).is_err());
        Some(ready)
    }

    async fn look(&self, ids: Vec<SessionId>) -> Result<Vec<Looked>, ListError> {
        let deps = self.registry.deps().clone();
        let Some(catalog) = deps.library.catalog.clone() else {
            return Ok(Vec::new());
        };
        let looked = spawn_blocking(move || {
            let seen = catalog.look(&ids, deps.library.expired_before())?;
            let looked = seen.into_iter().map(|(id, seen)| {
                let activity = match &seen {
                    ObservedSession::Listed(listed) => catalog.state(listed),
                    ObservedSession::Hidden | ObservedSession::Gone => Activity::Idle,
                };
                (id, seen, activity)
            });
            Ok(looked.collect())
        });
        looked.await.unwrap_or_else(|_| Ok(Vec::new()))
    }

    async fn send_changes(&self, looked: Vec<Looked>) {
        let subscriptions = self.scopes().await;
        let mut batches: BTreeMap<&String, Batch> = BTreeMap::new();
        {
            let mut state = self.changes.lock();
            let now = Instant::now();
            for (id, seen, activity) in looked {
                let before = state.known.get(&id).map(|known| known.cwd().to_owned());
                let listed = match seen {
                    ObservedSession::Listed(listed) => Some(listed),
                    // Nobody has seen it.
                    ObservedSession::Hidden if before.is_none() => continue,
                    ObservedSession::Hidden | ObservedSession::Gone => None,
                };
                match &listed {
                    Some(listed) if !state.differs(listed, activity, Some(now)) => continue,
                    Some(_) => {}
                    None => drop(state.known.remove(&id)),
                }
                let cwd = listed.as_ref().map(|listed| listed.summary.cwd.as_str());
                let folders = FolderChange {
                    before: before.as_deref(),
                    now: cwd,
                };
                for hint in state.hints.values_mut() {
                    hint.is_due |= folders.concern(&hint.scope);
                }
                for (name, subscription) in &subscriptions {
                    let scope = &subscription.scope;
                    match &listed {
                        Some(listed) if scope.covers(&listed.summary.cwd) => {
                            let batch = batches.entry(name).or_default();
                            batch.sessions.push((Listed::clone(listed), activity));
                        }
                        _ if folders.leave(scope) => {
                            batches.entry(name).or_default().removed.push(id.clone());
                        }
                        _ => {}
                    }
                }
            }
        }
        for (name, batch) in batches {
            let Some(subscription) = subscriptions.get(name) else {
                continue;
            };
            let catalog = self.registry.deps().library.catalog.clone();
            let (form, name) = (subscription.form.clone(), name.clone());
            let is_current = self.changes.lock().subscriptions.contains_key(&name);
            let method = form.names.changes();
            let params = spawn_blocking(move || batch.params(catalog.as_deref(), &form, &name));
            if let (true, Ok(params)) = (is_current, params.await) {
                self.registry.deps().client.notify(method, &params).await;
            }
        }
    }

    /// The subscriptions, with the worktrees that there are now.
    async fn scopes(&self) -> BTreeMap<String, Subscription> {
        let mut subscriptions = self.changes.lock().subscriptions.clone();
        let disk = self.registry.deps().library.sys.disk.clone();
        let looked = spawn_blocking(move || {
            for subscription in subscriptions.values_mut() {
                refresh(&*disk, &mut subscription.scope);
            }
            subscriptions
        });
        looked.await.unwrap_or_default()
    }

    /// Has the client read its lists again.
    async fn resync(&self) {
        let subscriptions = self.changes.lock().subscriptions.clone();
        for (id, subscription) in subscriptions {
            let Some(method) = subscription.form.names.resync() else {
                continue;
            };
            let params = json!({ "subscriptionId": id }).to_string();
            self.registry.deps().client.notify(method, &params).await;
        }
        self.changes
            .lock()
            .hints
            .values_mut()
            .for_each(|hint| hint.is_due = true);
        self.send_hints().await;
    }

    /// Notifies the client of lists that it has read and that have changed, except for those that it
    /// has a subscription for.
    async fn send_hints(&self) {
        let due: Vec<_> = {
            let mut state = self.changes.lock();
            let now = Instant::now();
            let scopes = state
                .subscriptions
                .values()
                .map(|subscription| &subscription.scope);
            let scopes: Vec<_> = scopes.cloned().collect();
            let hints = state.hints.iter_mut().filter(|(_, hint)| hint.is_due);
            let hints = hints.filter(|(_, hint)| hint.sent_at.is_none_or(|at| at + EACH <= now));
            let due = hints.map(|(cwd, hint)| {
                hint.is_due = false;
                hint.sent_at = Some(now);
                cwd.clone()
            });
            due.filter(|cwd| !scopes.iter().any(|scope| scope.covers(cwd)))
                .collect()
        };
        for cwd in due {
            let params = json!({ "cwd": cwd }).to_string();
            let wire = &self.registry.deps().client;
            wire.notify(SESSION_LIST_CHANGED, &params).await;
        }
    }
}

impl Batch {
    /// The parameters of the notification.
    fn params(self, catalog: Option<&Catalog>, form: &RowForm, subscription: &str) -> String {
        let rows = self.sessions.into_iter();
        let rows: Vec<_> = rows
            .map(|(listed, state)| form.text(catalog, listed, state))
            .collect();
        let removed = self.removed.iter().map(|id| form.name_of(catalog, id));
        let removed = Value::from(removed.collect::<Vec<_>>());
        Object::new()
            .string("subscriptionId", subscription)
            .raw("sessions", &format!("[{}]", rows.join(",")))
            .raw("removed", &removed.to_string())
            .end()
    }
}

/// Finds the worktrees of a list again, if it has those.
fn refresh(disk: &dyn Disk, scope: &mut Filter) {
    if let (Some(cwd), Some(worktrees)) = (&scope.cwd, &mut scope.worktrees) {
        *worktrees = counterparts(disk, Path::new(cwd));
    }
}
