//! The catalog in SQLite: a cache that is built from the logs and checked against them.
//!
//! The cache may be missing, stale, damaged or impossible to write at any time; that costs only speed.

mod agent_ids;
pub(super) mod database;
pub(super) mod erase_words;
mod generation;
mod index_words;
mod ownership;
mod refresh;
mod reports;
mod schema;
mod session_rows;
mod similar_words;
pub(super) mod tool_files;
mod word_rows;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use rusqlite::Transaction;

use crate::conversation::Field;
use crate::record::AgentSessionId;
use crate::sys::{SessionId, Sys, lock};

use super::apart::Namesake;
use super::backend::{
    BeforeChange, CatalogBackend, FoundPage, ListError, Listed, LocatedSession, READ_AT_ONCE,
    Ranking, RowWindow, TextLocation,
};
use super::filter::Filter;
use super::logs::Logs;
use super::search::{Search, Term};
use super::summary::Summary;
use database::{CatalogDatabase, DatabaseError};
use generation::Generation;
use refresh::Refresh;
use reports::Reporter;
use session_rows::{CatalogRow, Compared};
use word_rows::RankedRow;

/// How often a list starts over because another process emptied the catalog or kept it locked,
/// before the catalog moves to memory, where no other process reaches it. There it may start over
/// as often again.
const ATTEMPTS: usize = 10;

/// How long to wait before unreadable logs are retried, in milliseconds. A change of length shows
/// new content, but nothing shows that a permission was granted.
const RETRY_AFTER: u64 = 60 * 1000;

/// The catalog of a store in a folder.
pub(super) struct SqliteCatalog {
    database: Arc<CatalogDatabase>,
    reporter: Reporter,
    generation: Arc<Mutex<Generation>>,
    logs: Logs,
    /// The tools whose conversations are listed, too.
    tools: Arc<[String]>,
    /// Held while names are compared, so that two lists do not do the same work.
    comparing: Mutex<()>,
    /// When this process last tried to read unreadable logs again, in milliseconds; 0 if never.
    retried_at: AtomicI64,
    /// At which of the database's changes between file and memory this process has checked that the
    /// catalog misses no change, plus 1; 0 if never.
    audited: AtomicU64,
    /// Sessions whose reports failed. The next list checks their logs.
    unreported: Mutex<BTreeSet<SessionId>>,
}

impl SqliteCatalog {
    /// The catalog in this database, whose lists have the conversations of these tools, too.
    pub(super) fn new(database: Arc<CatalogDatabase>, logs: Logs, tools: Arc<[String]>) -> Self {
        let generation = Generation::new(database.path());
        Self {
            reporter: Reporter::new(database.clone()),
            database,
            generation: Arc::new(Mutex::new(generation)),
            logs,
            tools,
            comparing: Mutex::default(),
            retried_at: AtomicI64::new(0),
            audited: AtomicU64::new(0),
            unreported: Mutex::default(),
        }
    }

    fn sys(&self) -> &Sys {
        self.logs.store.sys()
    }

    /// Runs `list` until the catalog is complete from the beginning of the list to its end. Nothing
    /// that another process does to the file makes a list fail: the last resort is a catalog in
    /// memory.
    fn with_retries<T>(
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
    fn query<T>(
        &self,
        query: impl Fn(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, ListError> {
        self.with_retries(|| {
            self.refresh_once()?;
            Ok(self.read_complete(&query)?)
        })
    }

    /// The result of a query; none if the rows lack names of the folder.
    fn read_complete<T>(
        &self,
        query: impl Fn(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>, DatabaseError> {
        self.database.read(|tx| {
            let compared = session_rows::names(tx)?.stamp;
            compared.map(|_| query(tx)).transpose()
        })
    }

    /// Brings the catalog up to date with the logs, except for rows that no list shows.
    fn refresh_once(&self) -> Result<(), ListError> {
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
        let disk = &*self.sys().disk;
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

    fn refresh(&self) -> Refresh<'_> {
        Refresh {
            database: &self.database,
            logs: &self.logs,
            clock: &*self.sys().clock,
        }
    }

    /// The current time as a mark; never 0, which means unmarked.
    fn now(&self) -> i64 {
        self.sys().clock.now().as_millis().max(1)
    }

    /// Reports that a log was added, with its row, or removed.
    fn report_folder_change(&self, id: &SessionId, before: BeforeChange, row: Option<CatalogRow>) {
        let after = self.logs.folder_changed().ok();
        let (session, now) = (id.clone(), self.now());
        self.report(id, move |tx| {
            match &row {
                Some(row) => {
                    word_rows::forget_of_tool(tx, &session)?;
                    session_rows::put(tx, row)?;
                }
                None => word_rows::delete(tx, &session)?,
            }
            match (before.0, after) {
                (Some(before), Some(after)) => session_rows::absorb(tx, before, after, now),
                _ => Ok(()),
            }
        });
    }

    fn report_row(&self, row: CatalogRow) {
        let id = row.id.clone();
        self.report(&id, move |tx| session_rows::put(tx, &row));
    }

    fn report(
        &self,
        id: &SessionId,
        operation: impl FnMut(&Transaction<'_>) -> rusqlite::Result<()> + Send + 'static,
    ) {
        let done = self.reporter.write(operation);
        if done.is_err() || self.database.is_private() {
            // Other processes must check the logs, and so must the next one if this one ends before
            // its next list.
            lock(&self.generation).missed(&*self.sys().disk);
        }
        if let Err(error) = done {
            tracing::warn!(
                session = %id,
                error = &error as &dyn std::error::Error,
                "cannot write to the catalog"
            );
            lock(&self.unreported).insert(id.clone());
        }
    }

    /// The given sessions of a search, each with the best of its pieces.
    fn located(
        &self,
        rows: &[RankedRow],
        search: &Search,
        fields: &[Field],
        filter: &Filter,
        admits: &dyn Fn(&Listed) -> bool,
    ) -> Result<Vec<Option<LocatedSession>>, ListError> {
        let located = self.database.read(|tx| {
            let located = rows.iter().map(|ranked| {
                let row = session_rows::by_number(tx, ranked.number, filter, &self.tools)?;
                let session = row.map(Listed::from).filter(|session| admits(session));
                let Some(session) = session else {
                    return Ok(None);
                };
                let mut pieces = if fields.is_empty() {
                    word_rows::said(tx, ranked.number, search)?
                } else {
                    Vec::new()
                };
                let best = if ranked.pieces.is_empty() {
                    &word_rows::pieces(tx, ranked.number, search, fields)?
                } else {
                    &ranked.pieces
                };
                let others = best.iter().filter(|piece| !pieces.contains(piece));
                let others: Vec<_> = others.copied().collect();
                pieces.extend(others);
                let places = pieces.iter().map(|piece| word_rows::place(tx, *piece));
                let places = places.filter_map(rusqlite::Result::transpose);
                let places = places.collect::<rusqlite::Result<Vec<_>>>()?;
                Ok(Some((session, places)))
            });
            located.collect::<rusqlite::Result<Vec<_>>>()
        });
        Ok(located?)
    }
}

impl CatalogBackend for SqliteCatalog {
    fn page(&self, filter: &Filter, window: RowWindow<'_>) -> Result<FoundPage, ListError> {
        // Rows that were checked are not checked again, so the loop ends.
        let mut checked = BTreeSet::new();
        self.with_retries(|| {
            self.refresh_once()?;
            let complete = filter.search.is_none() || self.refresh().index_words(READ_AT_ONCE)?;
            loop {
                let found = self.read_complete(|tx| {
                    let search = filter.search.as_ref();
                    let found = search.map(|search| word_rows::found(tx, search));
                    let found = found.transpose()?;
                    let page = session_rows::page(tx, filter, &self.tools, found.as_ref(), window)?;
                    let total =
                        session_rows::count_listed(tx, filter, &self.tools, found.as_ref())?;
                    let counted = search.is_none() || tool_files::are_counted(tx, &self.tools)?;
                    Ok((page, total, counted))
                })?;
                let Some((rows, total, counted)) = found else {
                    return Ok(None);
                };
                let unchecked = rows.iter().filter(|row| !checked.contains(&row.id));
                if !self.refresh().read_stale(unchecked, false)? {
                    return Ok(Some(FoundPage {
                        sessions: rows.into_iter().map(Listed::from).collect(),
                        total: Some(total),
                        complete: complete && counted,
                    }));
                }
                checked.extend(rows.into_iter().map(|row| row.id));
            }
        })
    }

    fn bring_up_to_date(&self) -> Result<(), ListError> {
        self.with_retries(|| self.refresh_once().map(Some))
    }

    fn entries(&self, filter: &Filter, window: RowWindow<'_>) -> Result<Vec<Listed>, ListError> {
        let rows = self
            .database
            .read(|tx| session_rows::page(tx, filter, &self.tools, None, window))?;
        Ok(rows.into_iter().map(Listed::from).collect())
    }

    fn every(&self, after: Option<&SessionId>, limit: i64) -> Result<Vec<Listed>, ListError> {
        self.with_retries(|| {
            self.refresh_once()?;
            let mut after = after.cloned();
            loop {
                // The first query refreshes the rows that are behind their logs; the second reads
                // them.
                self.refresh().check_next(after.as_ref())?;
                let rows = self
                    .database
                    .read(|tx| session_rows::by_id(tx, after.as_ref(), limit))?;
                let Some(last) = rows.last().map(|row| row.id.clone()) else {
                    return Ok(Some(Vec::new()));
                };
                let readable = rows.into_iter().filter(|row| row.unreadable.is_none());
                let readable: Vec<_> = readable.map(Listed::from).collect();
                if !readable.is_empty() {
                    return Ok(Some(readable));
                }
                after = Some(last);
            }
        })
    }

    fn find(&self, id: &SessionId) -> Result<Option<Summary>, ListError> {
        self.refresh().find(id)
    }

    fn look(&self, ids: &[SessionId], filter: &Filter) -> Result<Vec<Option<Listed>>, ListError> {
        let refresh = self.refresh();
        let known = self.database.read(|tx| {
            let rows = ids.iter().map(|id| session_rows::one(tx, id));
            rows.collect::<rusqlite::Result<Vec<_>>>()
        })?;
        let is_new =
            |row: &Option<CatalogRow>| row.as_ref().is_none_or(|row| row.summary.tool.is_some());
        let new = ids.iter().zip(&known).filter(|(_, row)| is_new(row));
        refresh.read_new(&new.map(|(id, _)| id.clone()).collect::<Vec<_>>())?;
        refresh.read_stale(known.iter().flatten(), false)?;
        let rows = self.database.read(|tx| {
            let rows = ids.iter();
            let rows = rows.map(|id| session_rows::listed(tx, id, filter, &self.tools));
            rows.collect::<rusqlite::Result<Vec<_>>>()
        })?;
        Ok(rows.into_iter().map(|row| row.map(Listed::from)).collect())
    }

    fn behind(&self) -> Result<Vec<SessionId>, ListError> {
        let dirty = self.database.read(session_rows::dirty)?;
        let refresh = self.refresh();
        let behind = dirty
            .into_iter()
            .filter(|row| refresh.is_behind(&row.id, row.len));
        Ok(behind.map(|row| row.id).collect())
    }

    fn audit(&self, after: Option<&SessionId>) -> Result<Option<SessionId>, ListError> {
        self.refresh().check_next(after)
    }

    fn read_words(&self, budget: usize) -> Result<bool, ListError> {
        self.with_retries(|| {
            self.refresh_once()?;
            Ok(Some(self.refresh().index_words(budget)?))
        })
    }

    fn ranked<'a>(
        &'a self,
        search: &'a Search,
        fields: &'a [Field],
        most: usize,
    ) -> Result<Ranking<'a>, ListError> {
        let (rows, complete) = self.with_retries(|| {
            self.refresh_once()?;
            let complete = self.refresh().index_words(READ_AT_ONCE)?;
            let ranked = self.read_complete(|tx| {
                let counted = tool_files::are_counted(tx, &self.tools)?;
                let ranked = word_rows::ranked(tx, search, fields, most)?;
                Ok((ranked, counted))
            })?;
            Ok(ranked.map(|(ranked, counted)| (ranked, complete && counted)))
        })?;
        Ok(Ranking {
            count: rows.len(),
            complete,
            locate: Box::new(move |part, filter, admits| {
                self.located(&rows[part], search, fields, filter, admits)
            }),
        })
    }

    fn places(
        &self,
        ids: &[&SessionId],
        term: &Term,
    ) -> Result<Vec<Option<TextLocation>>, ListError> {
        Ok(self.database.read(|tx| word_rows::places(tx, ids, term))?)
    }

    fn similar(&self, term: &Term, word: &str) -> Result<Option<String>, ListError> {
        Ok(self
            .database
            .read(|tx| similar_words::find(tx, term, word))?)
    }

    fn namesakes(
        &self,
        titles: &[&(String, String)],
        since: Option<&str>,
    ) -> Result<Vec<Vec<Namesake>>, ListError> {
        Ok(self.database.read(|tx| {
            let each = titles
                .iter()
                .map(|titled| session_rows::namesakes(tx, titled, since, &self.tools));
            each.collect::<rusqlite::Result<Vec<_>>>()
        })?)
    }

    fn erase_deleted(&self) -> Result<(), ListError> {
        self.with_retries(|| {
            // A log may be gone without a report of it.
            self.refresh().compare_names()?;
            Ok(Some(()))
        })?;
        Ok(self.database.compact()?)
    }

    fn ours(&self, agent: &str, ids: &[String]) -> Result<BTreeSet<String>, ListError> {
        self.query(|tx| agent_ids::ours(tx, agent, &self.tools, ids))
    }

    fn agent_ids(&self, sessions: &[&SessionId]) -> Result<Vec<Vec<AgentSessionId>>, ListError> {
        Ok(self.database.read(|tx| {
            let each = sessions.iter().map(|id| agent_ids::of(tx, id));
            each.collect::<rusqlite::Result<Vec<_>>>()
        })?)
    }

    fn of_inner(&self, agent: &str, id: &str) -> Result<Option<SessionId>, ListError> {
        self.query(|tx| agent_ids::session(tx, agent, id))
    }

    fn known_as(&self, name: &str) -> Result<Option<SessionId>, ListError> {
        self.query(|tx| agent_ids::known_as(tx, name))
    }

    fn before_change(&self) -> BeforeChange {
        BeforeChange(self.logs.folder_changed().ok())
    }

    fn created(&self, id: &SessionId, summary: &Summary, before: BeforeChange) {
        let row = written(id, summary, self.now());
        self.report_folder_change(id, before, Some(row));
    }

    fn removed(&self, id: &SessionId, before: BeforeChange) {
        self.report_folder_change(id, before, None);
    }

    fn mark_dirty(&self, id: &SessionId) {
        let (session, now) = (id.clone(), self.now());
        let (generation, disk) = (self.generation.clone(), self.sys().disk.clone());
        self.report(id, move |tx| {
            session_rows::mark_dirty(tx, &session, now)?;
            lock(&generation).advance(&*disk, tx)
        });
    }

    fn put(&self, id: &SessionId, summary: &Summary) {
        self.report_row(written(id, summary, self.now()));
    }

    fn closed(&self, id: &SessionId, summary: &Summary) {
        self.report_row(written(id, summary, 0));
    }

    fn knows(&self, id: &SessionId, inner: &AgentSessionId) {
        let (session, known) = (id.clone(), [inner.clone()]);
        self.report(id, move |tx| agent_ids::add(tx, &session, &known));
    }
}

/// The row for a log, with what its writer knows.
fn written(id: &SessionId, summary: &Summary, dirty: i64) -> CatalogRow {
    CatalogRow {
        id: id.clone(),
        summary: summary.clone(),
        len: session_rows::int(summary.scanned),
        dirty,
        unreadable: None,
    }
}
