//! Brings the catalog up to date with the logs, as far as a list needs it.
//!
//! The database is locked for short statements only, never while logs are read. So a session that
//! records its prompt need not wait for a list that rebuilds the catalog. Since rows may change in
//! the meantime, each write states what it expects to replace.

use crate::sys::{Clock, SessionId};

use super::agent_ids;
use super::database::CatalogDatabase;
use super::session_rows::{self, CatalogRow, Compared};
use super::word_rows;
use crate::index::backend::ListError;
use crate::index::logs::{Logs, read_all};
use crate::index::summary::Summary;

/// How many logs are read between two writes. A crash loses that much of a rebuild, and another
/// process waits for one such write.
const BATCH: usize = 256;

/// How many lengths are compared between two queries of the database.
const LENGTHS: i64 = 10_000;

/// How long a process may have a session open and write nothing before its mark is taken for that
/// of a crashed process, in milliseconds. It renews the mark before it writes.
const FORGET_MARK_AFTER: u64 = 24 * 60 * 60 * 1000;

/// The logs and what is known of them.
#[derive(Clone, Copy)]
pub(super) struct Refresh<'a> {
    pub(super) database: &'a CatalogDatabase,
    pub(super) logs: &'a Logs,
    pub(super) clock: &'a dyn Clock,
}

impl Refresh<'_> {
    /// Whether the rows have every name of the folder, as far as the folder's time shows.
    pub(super) fn names_are_fresh(self) -> Result<bool, ListError> {
        let stamp = self.logs.folder_changed()?;
        let names = self.database.read(session_rows::names)?;
        Ok(names.fresh(stamp, self.now()))
    }

    /// Compares the names of the folder with the rows: reads logs that have no row, and deletes
    /// rows that have no log.
    ///
    /// The order of the steps keeps this correct while other processes add and remove logs. Rows
    /// are read before names, so that a log created in between is not considered deleted. The
    /// folder's time is read before the names, so that a name added too late to be seen changes the
    /// time.
    pub(super) fn compare_names(self) -> Result<(), ListError> {
        let (names, known) = self
            .database
            .read(|tx| Ok((session_rows::names(tx)?, session_rows::ids(tx)?)))?;
        let epoch = names.epoch;
        if names.stamp.is_none() {
            self.read_trash()?;
        }
        let now = self.now();
        let stamp = self.logs.folder_changed()?;
        let found = self.logs.store.ids()?;

        let new = difference(&found, &known);
        self.read_new(&new)?;
        let gone = difference(&known, &found);
        self.database.write(|tx| {
            // If the tables were recreated in between, they lack the rows that were written before.
            if session_rows::names(tx)?.epoch != epoch {
                return Ok(());
            }
            for id in &gone {
                word_rows::delete(tx, id)?;
            }
            session_rows::set_compared(tx, stamp, now)
        })?;
        Ok(())
    }

    /// Reads logs that have no row, as far as they exist.
    pub(super) fn read_new(self, ids: &[SessionId]) -> Result<(), ListError> {
        for batch in ids.chunks(BATCH) {
            let read = read_all(batch, |id| self.read_log(id, None));
            self.database.write(|tx| {
                let mut read = read.iter().flatten();
                read.try_for_each(|row| {
                    // The log may lack words that the file of another tool has: those that are masked.
                    word_rows::forget_of_tool(tx, &row.id)?;
                    session_rows::add(tx, row)
                })
            })?;
        }
        Ok(())
    }

    /// Reads the agents' ids of the sessions in the trash. Sessions that go to the trash later are
    /// in the catalog already.
    fn read_trash(self) -> Result<(), ListError> {
        let trashed = match self.logs.trashed() {
            Ok(trashed) => trashed,
            Err(error) => {
                tracing::debug!(%error, "cannot read the trash");
                return Ok(());
            }
        };
        self.database.write(|tx| {
            let mut trashed = trashed.iter();
            trashed.try_for_each(|(id, known)| agent_ids::add(tx, id, known))
        })?;
        Ok(())
    }

    /// Reads the tails of logs that were or are being written to.
    pub(super) fn read_dirty(self) -> Result<(), ListError> {
        let found = self.database.read(session_rows::dirty)?;
        self.read_stale(&found, false)?;
        let now = self.now();
        let forgotten = |row: &&CatalogRow| now.abs_diff(row.dirty) > FORGET_MARK_AFTER;
        let forgotten: Vec<_> = found.iter().filter(forgotten).collect();
        if !forgotten.is_empty() {
            self.database.write(|tx| {
                let mut forgotten = forgotten.iter();
                forgotten.try_for_each(|row| session_rows::mark_clean(tx, row))
            })?;
        }
        Ok(())
    }

    /// Retries logs that could not be read: a permission may have been missing.
    pub(super) fn retry_unreadable(self) -> Result<(), ListError> {
        let found = self.database.read(session_rows::unreadable)?;
        self.read_stale(&found, true).map(|_| ())
    }

    /// Checks rows in the order of their ids, from the first after `after`. Returns the last id
    /// checked; none at the end.
    pub(super) fn check_next(
        self,
        after: Option<&SessionId>,
    ) -> Result<Option<SessionId>, ListError> {
        let limit = 1000;
        let found = self
            .database
            .read(|tx| session_rows::by_id(tx, after, limit))?;
        self.read_stale(&found, false)?;
        Ok(found.last().map(|row| row.id.clone()))
    }

    /// Compares the lengths of these logs with the rows, and reads the logs that differ.
    pub(super) fn compare_lengths(self, which: Compared) -> Result<(), ListError> {
        let mut after = None;
        loop {
            let found = self
                .database
                .read(|tx| session_rows::lengths(tx, which, after.as_ref(), LENGTHS))?;
            let Some((last, _)) = found.last() else {
                return Ok(());
            };
            after = Some(last.clone());
            let behind = read_all(&found, |(id, len)| self.is_behind(id, *len));
            let behind = found.iter().zip(behind).filter(|(_, behind)| *behind);
            let behind: Vec<_> = behind.map(|((id, _), _)| id).collect();
            for batch in behind.chunks(BATCH) {
                let rows = self.database.read(|tx| {
                    let rows = batch.iter().map(|id| session_rows::one(tx, id));
                    rows.collect::<rusqlite::Result<Vec<_>>>()
                })?;
                self.read_stale(rows.iter().flatten(), true)?;
            }
        }
    }

    /// Whether the length of a log differs from the one when it was read.
    pub(super) fn is_behind(self, id: &SessionId, len: i64) -> bool {
        match self.logs.store.len_of(id) {
            Ok(Some(now)) => session_rows::int(now) != len,
            Ok(None) => true,
            // The log cannot be read now: its row stays as it is.
            Err(_) => false,
        }
    }

    /// The summary of one session, brought up to date with its log.
    pub(super) fn find(self, id: &SessionId) -> Result<Option<Summary>, ListError> {
        let known = self.database.read(|tx| session_rows::one(tx, id))?;
        // A row without a length was never read, and has no time, either.
        let row = match known.filter(|row| row.len >= 0) {
            Some(row) if !self.read_stale([&row], false)? => Some(row),
            Some(_) => self.database.read(|tx| session_rows::one(tx, id))?,
            None => self.read_log(id, None),
        };
        let readable = row.filter(|row| row.unreadable.is_none());
        Ok(readable.map(|row| row.summary))
    }

    /// Reads the logs of these rows whose length differs, or of all. Returns whether any row was
    /// behind its log.
    pub(super) fn read_stale<'r>(
        self,
        found: impl IntoIterator<Item = &'r CatalogRow>,
        all: bool,
    ) -> Result<bool, ListError> {
        // A conversation of another tool has no log.
        let has_log = |row: &&CatalogRow| row.summary.tool.is_none();
        let behind = |row: &&CatalogRow| has_log(row) && (all || self.is_behind(&row.id, row.len));
        let behind: Vec<&CatalogRow> = found.into_iter().filter(behind).collect();
        for batch in behind.chunks(BATCH) {
            let read = read_all(batch, |row| self.read_log(&row.id, Some(row)));
            self.database.write(|tx| {
                for (old, new) in batch.iter().zip(&read) {
                    match new {
                        Some(new) => session_rows::refresh(tx, old, new)?,
                        None => word_rows::delete(tx, &old.id)?,
                    }
                }
                Ok(())
            })?;
        }
        Ok(!behind.is_empty())
    }

    /// The row for a log; none if it is gone. `old` is the previous row.
    fn read_log(self, id: &SessionId, old: Option<&CatalogRow>) -> Option<CatalogRow> {
        // Before reading: what is appended meanwhile makes the length differ from this one.
        let len = match self.logs.store.len_of(id) {
            Ok(Some(len)) => Ok(len),
            Ok(None) => return None,
            Err(error) => Err(error.to_string()),
        };
        let read = len.as_ref().map_err(Clone::clone).and_then(|len| {
            // A log that shrank is a different log.
            let continues = |old: &&CatalogRow| {
                old.unreadable.is_none() && (1..=*len).contains(&old.summary.scanned)
            };
            let from = old.filter(continues).map(|old| &old.summary);
            let read = self.logs.summarize(id, from);
            read.map_err(|error| error.to_string())
        });
        let (summary, unreadable) = match read {
            Ok(summary) => (summary, None),
            // The log may have been removed since.
            Err(_) if matches!(self.logs.store.len_of(id), Ok(None)) => return None,
            Err(reason) => {
                if matches!(self.logs.store.len_of(id), Ok(Some(0))) {
                    // A power cut leaves such a file behind, and no session.
                    tracing::debug!(session = %id, "a log is empty");
                } else if old.and_then(|old| old.unreadable.as_ref()) != Some(&reason) {
                    tracing::warn!(session = %id, reason, "a session's log cannot be read");
                }
                (Summary::default(), Some(reason))
            }
        };
        Some(CatalogRow {
            id: id.clone(),
            summary,
            len: len.map_or(-1, session_rows::int),
            dirty: 0,
            unreadable,
        })
    }

    fn now(self) -> i64 {
        self.clock.now().as_millis()
    }
}

/// The ids in `left` that are not in `right`; both are sorted.
fn difference(left: &[SessionId], right: &[SessionId]) -> Vec<SessionId> {
    let mut right = right.iter().peekable();
    let missing = left.iter().filter(|id| {
        while right.next_if(|other| other < id).is_some() {}
        right.peek() != Some(id)
    });
    missing.cloned().collect()
}
