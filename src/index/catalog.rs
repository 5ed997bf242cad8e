//! The catalog as the sessions use it: what they report to it, and the list it gives.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::record::Inner;
use crate::sys::{SessionId, Sys, lock};

use super::cursor::{self, Position};
use super::database::{Database, DatabaseError};
use super::filter::Filter;
use super::inners;
use super::refresh::{Refresh, RefreshError};
use super::rows::{self, Row, Window};
use super::texts;
use super::{Logs, Summary};

/// How often a list is begun anew because the catalog was emptied under it or stayed locked,
/// before it is made in memory, where nobody does that; and then as often again.
const ATTEMPTS: usize = 3;

/// How long to leave unreadable logs alone, in milliseconds. Their length tells of new content,
/// but not of a permission that was given.
const RETRY_AFTER: u64 = 60 * 1000;

/// How much of logs a search may read before it answers, in bytes: enough for what was said since
/// the last one, and no more than a moment's work where nothing was ever searched.
const READ_AT_ONCE: usize = 4 * 1024 * 1024;

/// How many sessions are looked at in one step by their ids.
const BY_ID: i64 = 1000;

/// The catalog of a store.
pub struct Catalog {
    database: Database,
    logs: Arc<dyn Logs>,
    sys: Sys,
    /// Held while names are compared, so that two lists don't do the same work.
    comparing: Mutex<()>,
    /// When this process last tried to read unreadable logs again, in milliseconds; 0 if never.
    retried_at: AtomicI64,
    /// Sessions of which the catalog could not be told. The next list looks at their logs.
    untold: Mutex<BTreeSet<SessionId>>,
}

/// Part of a list, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// The sessions.
    pub sessions: Vec<Listed>,
    /// Where the next page begins; none if this is the last one.
    pub next_cursor: Option<String>,
    /// How many sessions all pages have together.
    pub total: u64,
    /// Whether every word of every log could be searched; if not, there may be more to be found.
    pub complete: bool,
}

/// An entry of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The session.
    pub id: SessionId,
    /// What it is about.
    pub summary: Summary,
}

/// Why there is no list.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    /// The cursor is none of ours, or belongs to a list with another filter.
    #[error("the cursor is malformed or belongs to another list")]
    Cursor,
    /// The folder of the sessions cannot be read.
    #[error("cannot read the folder of the sessions")]
    Folder(#[source] std::io::Error),
    /// Not even memory will do for the catalog.
    #[error(transparent)]
    Storage(DatabaseError),
}

/// What the folder of the sessions was like before a change, see [`Catalog::before_change`].
#[derive(Clone, Copy, Debug)]
#[must_use = "tell `created` or `removed`"]
pub struct BeforeChange(Option<i64>);

impl Catalog {
    /// The catalog kept in the file at `path`, or in memory. Does nothing yet: the file is opened
    /// when it is first needed, so that the program starts fast.
    pub fn open(path: Option<&Path>, logs: Arc<dyn Logs>, sys: &Sys) -> Self {
        Self {
            database: Database::new(path.map(Path::to_owned), sys.clone()),
            logs,
            sys: sys.clone(),
            comparing: Mutex::default(),
            retried_at: AtomicI64::new(0),
            untold: Mutex::default(),
        }
    }

    /// To be called before this program adds or removes a log; what it returns goes to
    /// [`created`](Self::created) or [`removed`](Self::removed).
    ///
    /// A list compares names with the folder only if the folder changed since they were last
    /// compared. So that our own changes don't make every list compare them, the catalog moves the
    /// time it remembers along with such a change, if it had every name before it. A change by
    /// another program in between goes unseen with it, but not for long: after some minutes the
    /// names are compared all the same.
    pub fn before_change(&self) -> BeforeChange {
        BeforeChange(self.folder_changed())
    }

    /// A log was made, and this process may write to it.
    pub fn created(&self, id: &SessionId, summary: &Summary, before: BeforeChange) {
        self.folder_change(id, before, Some(summary));
    }

    /// A log was removed.
    pub fn removed(&self, id: &SessionId, before: BeforeChange) {
        self.folder_change(id, before, None);
    }

    /// This process is about to write something to a log that the list shows: to be called while
    /// it has the log's lock, each time before a prompt or another folder is recorded. If the
    /// process dies before it calls [`closed`](Self::closed), the next list reads the end of the
    /// log.
    pub fn opened(&self, id: &SessionId) {
        let now = self.now();
        let done = self.database.write(|tx| rows::mark_dirty(tx, id, now));
        self.note_if_failed(id, done);
    }

    /// The log of an open session changed: a prompt, a new folder, a title.
    pub fn put(&self, id: &SessionId, summary: &Summary) {
        self.put_marked(id, summary, self.now());
    }

    /// This process will write to the log no more: to be called while it still has the log's lock,
    /// or it may undo what the next holder says.
    pub fn closed(&self, id: &SessionId, summary: &Summary) {
        self.put_marked(id, summary, 0);
    }

    /// The page of the list that begins at `cursor`, or the first one, with up to `limit` entries.
    pub fn list(
        &self,
        filter: &Filter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page, ListError> {
        let after = match cursor {
            Some(cursor) => Some(cursor::decode(cursor, filter).ok_or(ListError::Cursor)?),
            None => None,
        };
        self.page(filter, after.as_ref(), 0, limit)
    }

    /// The part of the list that begins with the entry number `offset`, counted from 0.
    pub fn list_at(&self, filter: &Filter, offset: u64, limit: usize) -> Result<Page, ListError> {
        self.page(filter, None, offset, limit)
    }

    fn page(
        &self,
        filter: &Filter,
        after: Option<&Position>,
        offset: u64,
        limit: usize,
    ) -> Result<Page, ListError> {
        let limit = limit.max(1);
        let window = Window {
            after,
            offset,
            // One more than the page tells whether there is a next one.
            limit: limit.saturating_add(1),
        };
        // Those that were looked at need no second look, so this ends.
        let mut checked = BTreeSet::new();
        let (mut rows, total, complete) = self.with_retries(|| {
            self.bring_up()?;
            let complete = filter.search.is_none() || self.refresh().words(READ_AT_ONCE)?;
            loop {
                let found = self.database.read(|tx| {
                    let search = filter.search.as_ref();
                    let found = search.map(|search| texts::found(tx, search)).transpose()?;
                    let found = found.as_ref();
                    let Some(page) = rows::page(tx, filter, found, window)? else {
                        return Ok(None);
                    };
                    Ok(Some((page, rows::count_listed(tx, filter, found)?)))
                })?;
                let Some((found, total)) = found else {
                    return Ok(None);
                };
                let unchecked = found.iter().filter(|row| !checked.contains(&row.id));
                if !self.refresh().stale(unchecked, false)? {
                    return Ok(Some((found, total, complete)));
                }
                checked.extend(found.into_iter().map(|row| row.id));
            }
        })?;
        let more = rows.len() > limit;
        rows.truncate(limit);
        let last = rows.last().filter(|_| more);
        let next_cursor = last.map(|row| cursor::cursor_after(&row.id, &row.summary, filter));
        Ok(Page {
            sessions: rows.into_iter().map(listed).collect(),
            next_cursor,
            total,
            complete,
        })
    }

    /// Which of these ids of an agent are of sessions that are ours: the agent's entries of them
    /// would tell twice of one session, or of one that was deleted.
    ///
    /// A session without a prompt is in no list of ours. If it was the agent's in the beginning, it
    /// is left to the agent to list.
    pub fn ours(&self, agent: &str, ids: &[String]) -> Result<BTreeSet<String>, ListError> {
        self.with_retries(|| {
            self.bring_up()?;
            Ok(self
                .database
                .read(|tx| complete(tx, || inners::ours(tx, agent, ids)))?)
        })
    }

    /// The session that an agent knows by this id; the one prompted last, if there are several.
    pub fn of_inner(&self, agent: &str, id: &str) -> Result<Option<SessionId>, ListError> {
        self.with_retries(|| {
            self.bring_up()?;
            Ok(self
                .database
                .read(|tx| complete(tx, || inners::session(tx, agent, id)))?)
        })
    }

    /// The session that clients know by this id, which is another one than its own.
    pub fn known_as(&self, name: &str) -> Result<Option<SessionId>, ListError> {
        self.with_retries(|| {
            self.bring_up()?;
            Ok(self
                .database
                .read(|tx| complete(tx, || inners::known_as(tx, name)))?)
        })
    }

    /// An agent knows a session by an id that is not in its log yet.
    pub fn knows(&self, id: &SessionId, inner: &Inner) {
        let inner = std::slice::from_ref(inner);
        let done = self.database.write(|tx| inners::add(tx, id, inner));
        self.note_if_failed(id, done);
    }

    /// What is known of one session, listed or not, brought up to its log; none if the log is not
    /// there or cannot be read.
    pub fn find(&self, id: &SessionId) -> Option<Summary> {
        let known = self.refresh().one(id);
        known.unwrap_or_else(|error| {
            tracing::warn!(
                session = %id,
                error = &error as &dyn std::error::Error,
                "cannot look a session up in the catalog"
            );
            self.logs.summarize(id, None).ok()
        })
    }

    /// A thousand sessions in the order of their ids, beginning after `after`, listed or not; none
    /// at the end. Those whose logs cannot be read are left out, so there may be fewer.
    pub fn every(&self, after: Option<&SessionId>) -> Result<Vec<Listed>, ListError> {
        self.with_retries(|| {
            self.bring_up()?;
            let mut after = after.cloned();
            loop {
                // Twice: what was behind its log is read in between.
                self.refresh().by_id(after.as_ref())?;
                let rows = self
                    .database
                    .read(|tx| rows::by_id(tx, after.as_ref(), BY_ID))?;
                let Some(last) = rows.last().map(|row| row.id.clone()) else {
                    return Ok(Some(Vec::new()));
                };
                let readable = rows.into_iter().filter(|row| row.unreadable.is_none());
                let readable: Vec<_> = readable.map(listed).collect();
                if !readable.is_empty() {
                    return Ok(Some(readable));
                }
                after = Some(last);
            }
        })
    }

    /// Reads words that were not read yet, of about `budget` bytes of logs; returns whether that
    /// was all. Searching does it too, but only for a moment.
    pub fn read_words(&self, budget: usize) -> Result<bool, ListError> {
        self.with_retries(|| {
            self.bring_up()?;
            Ok(Some(self.refresh().words(budget)?))
        })
    }

    /// Looks at a thousand logs in the order of their ids, beginning after `after`, and reads those
    /// that are not as the catalog has them. Returns where to go on; none at the end.
    ///
    /// A list looks at the logs it shows, and at those a process of this program said it writes to.
    /// A log that another program changed, or that a power cut took from the catalog, may thus
    /// stand further down than it should until this has been called: in the background, once for
    /// each process.
    pub fn audit(&self, after: Option<&SessionId>) -> Option<SessionId> {
        let done = self.refresh().by_id(after);
        done.unwrap_or_else(|error| {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "cannot check the catalog"
            );
            None
        })
    }

    /// Runs `list` until the catalog is complete from its beginning to its end. Nothing another
    /// process does to the file makes a list fail: memory is there when all else fails.
    fn with_retries<T>(
        &self,
        mut list: impl FnMut() -> Result<Option<T>, RefreshError>,
    ) -> Result<T, ListError> {
        for attempt in 0..2 * ATTEMPTS {
            if attempt == ATTEMPTS {
                tracing::warn!("others keep the catalog locked or empty it: keeping it in memory");
                self.database.abandon_file().map_err(ListError::Storage)?;
            }
            match list() {
                Ok(Some(done)) => return Ok(done),
                Ok(None) => {}
                Err(RefreshError::Folder(error)) => return Err(ListError::Folder(error)),
                Err(RefreshError::Database(error)) if error.is_busy() => {}
                Err(RefreshError::Database(error)) => return Err(ListError::Storage(error)),
            }
        }
        Err(ListError::Storage(DatabaseError::Unsteady))
    }

    /// Makes the catalog fit the logs, but for rows that no list shows.
    fn bring_up(&self) -> Result<(), RefreshError> {
        let refresh = self.refresh();
        self.tell()?;
        if !refresh.names_are_fresh()? {
            let _comparing = lock(&self.comparing);
            if !refresh.names_are_fresh()? {
                refresh.names()?;
            }
        }
        let now = self.now();
        let retried_at = self.retried_at.load(Ordering::Relaxed);
        if retried_at == 0 || now.abs_diff(retried_at) >= RETRY_AFTER {
            self.retried_at.store(now, Ordering::Relaxed);
            refresh.unreadable()?;
        }
        if self.database.is_private() {
            // Other processes leave no marks here.
            let mut after = None;
            loop {
                after = refresh.by_id(after.as_ref())?;
                if after.is_none() {
                    return Ok(());
                }
            }
        }
        refresh.dirty()
    }

    fn folder_change(&self, id: &SessionId, before: BeforeChange, summary: Option<&Summary>) {
        let after = self.folder_changed();
        let now = self.now();
        let row = summary.map(|summary| written(id, summary, now));
        let done = self.database.write(|tx| {
            match &row {
                Some(row) => rows::put(tx, row)?,
                None => texts::delete(tx, id)?,
            }
            match (before.0, after) {
                (Some(before), Some(after)) => rows::absorb(tx, before, after, now),
                _ => Ok(()),
            }
        });
        self.note_if_failed(id, done);
    }

    fn put_marked(&self, id: &SessionId, summary: &Summary, dirty: i64) {
        let row = written(id, summary, dirty);
        let done = self.database.write(|tx| rows::put(tx, &row));
        self.note_if_failed(id, done);
    }

    fn note_if_failed(&self, id: &SessionId, done: Result<(), DatabaseError>) {
        if let Err(error) = done {
            tracing::warn!(
                session = %id,
                error = &error as &dyn std::error::Error,
                "cannot write to the catalog"
            );
            self.untold().insert(id.clone());
        }
    }

    /// Marks what the catalog could not be told of.
    fn tell(&self) -> Result<(), DatabaseError> {
        let ids = self.untold().clone();
        if ids.is_empty() {
            return Ok(());
        }
        let now = self.now();
        self.database
            .write(|tx| ids.iter().try_for_each(|id| rows::mark_dirty(tx, id, now)))?;
        self.untold().retain(|id| !ids.contains(id));
        Ok(())
    }

    fn untold(&self) -> MutexGuard<'_, BTreeSet<SessionId>> {
        lock(&self.untold)
    }

    fn refresh(&self) -> Refresh<'_> {
        Refresh {
            database: &self.database,
            logs: &*self.logs,
            clock: &*self.sys.clock,
        }
    }

    fn folder_changed(&self) -> Option<i64> {
        let changed = self.logs.folder_changed().ok()?;
        Some(changed.as_millis())
    }

    /// The time for a mark, which is never 0.
    fn now(&self) -> i64 {
        self.sys.clock.now().as_millis().max(1)
    }
}

/// What the rows tell; nothing if they don't have every name.
fn complete<T>(
    tx: &rusqlite::Transaction<'_>,
    tell: impl FnOnce() -> rusqlite::Result<T>,
) -> rusqlite::Result<Option<T>> {
    match rows::names(tx)?.stamp {
        Some(_) => tell().map(Some),
        None => Ok(None),
    }
}

fn listed(row: Row) -> Listed {
    Listed {
        id: row.id,
        summary: row.summary,
    }
}

/// The row for a log as its writer knows it.
fn written(id: &SessionId, summary: &Summary, dirty: i64) -> Row {
    Row {
        id: id.clone(),
        summary: summary.clone(),
        len: rows::int(summary.scanned),
        dirty,
        unreadable: None,
    }
}

impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Catalog")
            .field("database", &self.database)
            .finish_non_exhaustive()
    }
}
