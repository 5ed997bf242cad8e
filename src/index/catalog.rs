//! The catalog's interface for sessions: what they report to it, and the lists that it returns.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use rusqlite::Transaction;

use crate::record::ActivityState;
use crate::store::{Store, StoreError};
use crate::sys::{SessionId, Sys, lock};

use super::cursor::{self, CursorPosition};
use super::database::{CatalogDatabase, DatabaseError};
use super::filter::Filter;
use super::generation::Generation;
use super::logs::Logs;
use super::observe::Observer;
use super::refresh::Refresh;
use super::remote::{self, Remote};
use super::reports::Reporter;
use super::search::Search;
use super::session_rows::{self, CatalogRow, Compared, RowWindow};
use super::snippets::add_snippets;
use super::summary::Summary;
use super::tool_rows::{self, ToolTexts};
use super::word_rows;

/// How often a list starts over because another process emptied the catalog or kept it locked,
/// before the catalog moves to memory, where no other process reaches it. There it may start over
/// as often again.
const ATTEMPTS: usize = 10;

/// How long to wait before unreadable logs are retried, in milliseconds. A change of length shows
/// new content, but nothing shows that a permission was granted.
const RETRY_AFTER: u64 = 60 * 1000;

/// How many bytes of logs a search may read before it answers: enough for what was added since the
/// last search, and only a moment's work if nothing was searched before.
pub(super) const READ_AT_ONCE: usize = 4 * 1024 * 1024;

/// How many sessions are read at once in the order of their ids.
const BY_ID: i64 = 1000;

/// The catalog of a store.
pub struct Catalog {
    pub(super) database: Arc<CatalogDatabase>,
    pub(super) reporter: Reporter,
    pub(super) generation: Arc<Mutex<Generation>>,
    pub(super) logs: Logs,
    pub(super) sys: Sys,
    /// The tools whose conversations are listed, too.
    pub(super) tools: Vec<String>,
    pub(super) reader: Option<Arc<dyn ToolTexts>>,
    /// The database of the store, if it answers lists.
    pub(super) remote: Option<Box<dyn Remote>>,
    /// Held while names are compared, so that two lists do not do the same work.
    comparing: Mutex<()>,
    /// When this process last tried to read unreadable logs again, in milliseconds; 0 if never.
    retried_at: AtomicI64,
    /// At which of the database's changes between file and memory this process has checked that the catalog
    /// misses no change, plus 1; 0 if never.
    audited: AtomicU64,
    /// Whether a thread is reading words in the background.
    pub(super) filling: AtomicBool,
    /// The observer of changes.
    pub(super) observer: Observer,
    /// Sessions whose reports failed. The next list checks their logs.
    pub(super) unreported: Mutex<BTreeSet<SessionId>>,
}

/// Part of a list, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionPage {
    /// The sessions.
    pub sessions: Vec<Listed>,
    /// Where the next page begins; absent on the last page.
    pub next_cursor: Option<String>,
    /// How many sessions all pages have together; absent if there may be more than were counted.
    pub total: Option<u64>,
    /// Whether every word of every log could be searched; if not, there may be more matches.
    pub complete: bool,
}

impl SessionPage {
    /// The only page of an empty list.
    pub fn empty() -> Self {
        Self {
            total: Some(0),
            ..Self::default()
        }
    }
}

/// An entry of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The session.
    pub id: SessionId,
    /// The session's summary.
    pub summary: Summary,
    /// A line of text around the first word of the search, if it can be shown.
    pub snippet: Option<String>,
}

/// Why there is no list.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    /// The cursor is malformed, or belongs to a list with another filter.
    #[error("the cursor is malformed or belongs to another list")]
    Cursor,
    /// The folder of the sessions cannot be read.
    #[error("cannot read the folder of the sessions")]
    Folder(#[from] StoreError),
    /// The database of the store has failed.
    #[error(transparent)]
    Database(StoreError),
    /// The catalog cannot be kept in memory, either.
    #[error(transparent)]
    Storage(#[from] DatabaseError),
}

impl Catalog {
    /// The catalog of a store; in memory if the store's disk is a simulated one. Does no I/O yet:
    /// the file is opened when it is first needed, so that the program starts fast.
    pub fn open(store: Store) -> Self {
        let sys = store.sys().clone();
        let path = store.catalog();
        let path = path.and_then(|path| sys.disk.native_path(path));
        let generation = Generation::new(path.as_deref());
        let database = Arc::new(CatalogDatabase::new(path, sys.clone()));
        Self {
            reporter: Reporter::new(database.clone()),
            database,
            generation: Arc::new(Mutex::new(generation)),
            remote: remote::of(&store),
            logs: Logs::new(store),
            sys,
            tools: Vec::new(),
            reader: None,
            comparing: Mutex::default(),
            retried_at: AtomicI64::new(0),
            audited: AtomicU64::new(0),
            filling: AtomicBool::new(false),
            observer: Observer::default(),
            unreported: Mutex::default(),
        }
    }

    /// Adds the conversations of these tools to the lists, as far as [`put_files`](Self::put_files)
    /// has reported them.
    #[must_use]
    pub fn with_tools(mut self, tools: Arc<dyn ToolTexts>) -> Self {
        self.tools = tools.names();
        self.reader = Some(tools);
        self
    }

    /// The page of the list that begins at `cursor`, or the first one, with up to `limit` entries.
    pub fn list(
        &self,
        filter: &Filter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<SessionPage, ListError> {
        let after = match cursor {
            Some(cursor) => Some(cursor::decode(cursor, filter).ok_or(ListError::Cursor)?),
            None => None,
        };
        self.page(filter, after.as_ref(), 0, limit)
    }

    /// The part of the list that begins with the entry number `offset`, counted from 0.
    pub fn list_at(
        &self,
        filter: &Filter,
        offset: u64,
        limit: usize,
    ) -> Result<SessionPage, ListError> {
        self.page(filter, None, offset, limit)
    }

    fn page(
        &self,
        filter: &Filter,
        after: Option<&CursorPosition>,
        offset: u64,
        limit: usize,
    ) -> Result<SessionPage, ListError> {
        let limit = limit.max(1);
        let window = RowWindow {
            after,
            offset,
            // An additional row shows whether there is a next page.
            limit: limit.saturating_add(1),
        };
        if let Some(remote) = &self.remote {
            let complete = filter.search.is_none() || remote.read_words(READ_AT_ONCE)?;
            let (sessions, total) = remote.page(filter, window)?;
            let total = total.filter(|_| complete);
            let mut page = remote::page_of(sessions, limit, total, complete, filter);
            let search = filter.search.as_ref();
            if let Some(term) = search.and_then(|search| search.terms().first()) {
                add_snippets(&**remote, &self.logs, &mut page.sessions, term);
            }
            return Ok(page);
        }
        // Rows that were checked are not checked again, so the loop ends.
        let mut checked = BTreeSet::new();
        let (mut rows, total, complete) = self.with_retries(|| {
            self.bring_up_to_date()?;
            let complete = filter.search.is_none() || self.refresh().index_words(READ_AT_ONCE)?;
            loop {
                let found = self.read_complete(|tx| {
                    let search = filter.search.as_ref();
                    let found = search.map(|search| word_rows::found(tx, search));
                    let found = found.transpose()?;
                    let page = session_rows::page(tx, filter, &self.tools, found.as_ref(), window)?;
                    let total =
                        session_rows::count_listed(tx, filter, &self.tools, found.as_ref())?;
                    let counted = search.is_none() || tool_rows::are_counted(tx, &self.tools)?;
                    Ok((page, total, counted))
                })?;
                let Some((found, total, counted)) = found else {
                    return Ok(None);
                };
                let unchecked = found.iter().filter(|row| !checked.contains(&row.id));
                if !self.refresh().read_stale(unchecked, false)? {
                    return Ok(Some((found, total, complete && counted)));
                }
                checked.extend(found.into_iter().map(|row| row.id));
            }
        })?;
        let more = rows.len() > limit;
        rows.truncate(limit);
        let mut snippets = match &filter.search {
            Some(search) => self.snippets(&rows, search),
            None => BTreeMap::new(),
        };
        let last = rows.last().filter(|_| more);
        let next_cursor = last.map(|row| cursor::cursor_after(&row.id, &row.summary, filter));
        Ok(SessionPage {
            sessions: rows
                .into_iter()
                .enumerate()
                .map(|(at, row)| Listed {
                    snippet: snippets.remove(&at),
                    ..listed(row)
                })
                .collect(),
            next_cursor,
            total: complete.then_some(total),
            complete,
        })
    }

    /// The text around the words that were found. A search succeeds without it.
    fn snippets(&self, rows: &[CatalogRow], search: &Search) -> BTreeMap<usize, String> {
        let snippets = self.refresh().snippets(rows, search);
        snippets.unwrap_or_else(|error| {
            tracing::debug!(%error, "cannot show where words were found");
            BTreeMap::new()
        })
    }

    /// The summary of one session, listed or not, brought up to date with its log; none if the log
    /// does not exist or cannot be read.
    pub fn find(&self, id: &SessionId) -> Option<Summary> {
        let known = match &self.remote {
            Some(remote) => remote.find(id),
            None => self.refresh().find(id),
        };
        known.unwrap_or_else(|error| {
            tracing::warn!(
                session = %id,
                error = &error as &dyn std::error::Error,
                "cannot look a session up in the catalog"
            );
            self.logs.summarize(id, None).ok()
        })
    }

    /// The state of a session. A process that died left open turns behind.
    pub fn state(&self, listed: &Listed) -> ActivityState {
        match listed.summary.activity.state() {
            ActivityState::Idle => ActivityState::Idle,
            _ if !self.logs.store.is_open(&listed.id) => ActivityState::Idle,
            state => state,
        }
    }

    /// Up to a thousand sessions in the order of their ids, beginning after `after`, listed or not;
    /// empty at the end. Sessions whose logs cannot be read are left out.
    pub fn every(&self, after: Option<&SessionId>) -> Result<Vec<Listed>, ListError> {
        if let Some(remote) = &self.remote {
            return remote.every(after, BY_ID);
        }
        self.with_retries(|| {
            self.bring_up_to_date()?;
            let mut after = after.cloned();
            loop {
                // The first query refreshes the rows that are behind their logs; the second reads
                // them.
                self.refresh().check_next(after.as_ref())?;
                let rows = self
                    .database
                    .read(|tx| session_rows::by_id(tx, after.as_ref(), BY_ID))?;
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

    /// Reads words that were not read yet, from about `budget` bytes of logs; returns whether all
    /// are read now. A search does it too, but only for a moment.
    pub fn read_words(&self, budget: usize) -> Result<bool, ListError> {
        if let Some(remote) = &self.remote {
            return remote.read_words(budget);
        }
        self.with_retries(|| {
            self.bring_up_to_date()?;
            Ok(Some(self.refresh().index_words(budget)?))
        })
    }

    /// Makes sure that no word or title of a session whose log is gone remains in the catalog's
    /// file or in one beside it. Takes as long as rewriting that file.
    pub fn erase_deleted(&self) -> Result<(), ListError> {
        if self.remote.is_some() {
            return Ok(());
        }
        self.with_retries(|| {
            // A log may be gone without a report of it.
            self.refresh().compare_names()?;
            Ok(Some(()))
        })?;
        Ok(self.database.compact()?)
    }

    /// Checks a thousand logs in the order of their ids, beginning after `after`, and reads those
    /// that differ from their rows. Returns where to continue; none at the end.
    ///
    /// A list checks only the logs that it shows, and those that a process of this program has
    /// marked before writing. If another program changed a log, its entry may be missing or too far
    /// down until this has run, in the background.
    pub fn audit(&self, after: Option<&SessionId>) -> Option<SessionId> {
        if self.remote.is_some() {
            return None;
        }
        let done = self.refresh().check_next(after);
        done.unwrap_or_else(|error| {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "cannot check the catalog"
            );
            None
        })
    }

    /// Runs `list` until the catalog is complete from the beginning of the list to its end. Nothing
    /// that another process does to the file makes a list fail: the last resort is a catalog in
    /// memory.
    pub(super) fn with_retries<T>(
        &self,
        mut list: impl FnMut() -> Result<Option<T>, ListError>,
    ) -> Result<T, ListError> {
        for attempt in 0..2 * ATTEMPTS {
            if attempt == ATTEMPTS {
                tracing::warn!(
                    "other processes keep the catalog locked or reset it: using a catalog in memory"
                );
                self.database.abandon_file()?;
            }
            let switches = self.database.switches();
            match list() {
                // What was brought up to date is not what was read, if the catalog has changed its place.
                Ok(_) if self.database.switches() != switches => {}
                Ok(Some(done)) => return Ok(done),
                Ok(None) => {}
                Err(ListError::Storage(error)) if error.is_busy() => {}
                Err(error) => return Err(error),
            }
        }
        Err(ListError::Storage(DatabaseError::Contended))
    }

    /// The result of a query, with the catalog up to date.
    pub(super) fn query<T>(
        &self,
        query: impl Fn(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, ListError> {
        self.with_retries(|| {
            self.bring_up_to_date()?;
            Ok(self.read_complete(&query)?)
        })
    }

    /// The result of a query; none if the rows lack names of the folder.
    pub(super) fn read_complete<T>(
        &self,
        query: impl Fn(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>, DatabaseError> {
        self.database.read(|tx| {
            let compared = session_rows::names(tx)?.stamp;
            compared.map(|_| query(tx)).transpose()
        })
    }

    /// Brings the catalog up to date with the logs, except for rows that no list shows.
    pub(super) fn bring_up_to_date(&self) -> Result<(), ListError> {
        let refresh = self.refresh();
        self.mark_unreported()?;
        if !refresh.names_are_fresh()? {
            let _comparing = lock(&self.comparing);
            if !refresh.names_are_fresh()? {
                refresh.compare_names()?;
            }
        }
        let now = self.now();
        let retried_at = self.retried_at.load(Ordering::Relaxed);
        if retried_at == 0 || now.abs_diff(retried_at) >= RETRY_AFTER {
            self.retried_at.store(now, Ordering::Relaxed);
            refresh.retry_unreadable()?;
        }
        if self.database.is_private() {
            // Other processes cannot mark rows here, so all rows are checked.
            let mut after = None;
            loop {
                after = refresh.check_next(after.as_ref())?;
                if after.is_none() {
                    return Ok(());
                }
            }
        }
        self.audit_once()?;
        refresh.read_dirty()
    }

    /// Marks the sessions whose reports failed.
    fn mark_unreported(&self) -> Result<(), DatabaseError> {
        let ids = lock(&self.unreported).clone();
        if ids.is_empty() {
            return Ok(());
        }
        let now = self.now();
        self.database.write(|tx| {
            ids.iter()
                .try_for_each(|id| session_rows::mark_dirty(tx, id, now))
        })?;
        lock(&self.unreported).retain(|id| !ids.contains(id));
        Ok(())
    }

    /// Compares the lengths of all logs with the rows, unless the database is as it was left. Even
    /// then it may be an older copy together with its generation. The rows that a list shows are
    /// compared when it shows them, so the others are compared here.
    fn audit_once(&self) -> Result<(), ListError> {
        let audited = self.database.switches() + 1;
        if self.audited.load(Ordering::Relaxed) == audited {
            return Ok(());
        }
        let disk = &*self.sys.disk;
        let is_current = self
            .database
            .read(|tx| lock(&self.generation).is_current(disk, tx))?;
        if is_current {
            self.refresh().compare_lengths(Compared::Unlisted)?;
        } else {
            lock(&self.generation).begin_audit(disk);
            self.refresh().compare_lengths(Compared::All)?;
            self.database
                .write(|tx| lock(&self.generation).renew(disk, tx))?;
        }
        self.audited.store(audited, Ordering::Relaxed);
        Ok(())
    }

    pub(super) fn refresh(&self) -> Refresh<'_> {
        Refresh {
            database: &self.database,
            logs: &self.logs,
            clock: &*self.sys.clock,
        }
    }

    /// The current time as a mark; never 0, which means unmarked.
    pub(super) fn now(&self) -> i64 {
        self.sys.clock.now().as_millis().max(1)
    }
}

pub(super) fn listed(row: CatalogRow) -> Listed {
    Listed {
        id: row.id,
        summary: row.summary,
        snippet: None,
    }
}

impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Catalog")
            .field("database", &self.database)
            .finish_non_exhaustive()
    }
}
