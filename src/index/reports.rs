//! What sessions report to the catalog.
//!
//! A report never fails for its session: the next list finds in the log what the catalog missed.

use rusqlite::Transaction;

use crate::record::AgentSessionId;
use crate::sys::{SessionId, lock};

use super::catalog::Catalog;
use super::inners;
use super::rows::{self, Row};
use super::summary::Summary;
use super::texts;

/// The state of the sessions' folder before a change, see [`Catalog::before_change`].
#[derive(Clone, Copy, Debug)]
#[must_use = "tell `created` or `removed`"]
pub struct BeforeChange(Option<i64>);

impl Catalog {
    /// To be called before this program adds or removes a log; the result goes to
    /// [`created`](Self::created) or [`removed`](Self::removed).
    ///
    /// A list compares names with the folder only if the folder changed since they were last
    /// compared. Our own changes must not make every list compare them. So if the catalog had every
    /// name before such a change, it moves the folder's time that it has recorded along with the
    /// change. This hides a change that another program makes in between, but not for long: after
    /// some minutes the names are compared in any case.
    pub fn before_change(&self) -> BeforeChange {
        BeforeChange(self.folder_changed())
    }

    /// A log was created, and this process may write to it.
    pub fn created(&self, id: &SessionId, summary: &Summary, before: BeforeChange) {
        self.folder_change(id, before, Some(summary));
    }

    /// A log was removed.
    pub fn removed(&self, id: &SessionId, before: BeforeChange) {
        self.folder_change(id, before, None);
    }

    /// This process is about to write something to a log that the list shows. To be called while it
    /// has the log's lock, each time before a prompt or a change of folder is recorded. If the
    /// process dies before it calls [`closed`](Self::closed), the next list reads the end of the
    /// log.
    pub fn opened(&self, id: &SessionId) {
        let (session, now) = (id.clone(), self.now());
        let (generation, disk) = (self.generation.clone(), self.sys.disk.clone());
        self.report(id, move |tx| {
            rows::mark_dirty(tx, &session, now)?;
            lock(&generation).advance(&*disk, tx)
        });
    }

    /// The log of an open session changed: a prompt, a new folder, a title.
    pub fn put(&self, id: &SessionId, summary: &Summary) {
        self.put_marked(id, summary, self.now());
    }

    /// This process will not write to the log again. To be called while it still has the log's
    /// lock; otherwise it may overwrite what the next lock holder reports.
    pub fn closed(&self, id: &SessionId, summary: &Summary) {
        self.put_marked(id, summary, 0);
    }

    /// An agent knows a session by an id that is not in its log yet.
    pub fn knows(&self, id: &SessionId, inner: &AgentSessionId) {
        let (session, known) = (id.clone(), [inner.clone()]);
        self.report(id, move |tx| inners::add(tx, &session, &known));
    }

    fn folder_change(&self, id: &SessionId, before: BeforeChange, summary: Option<&Summary>) {
        let after = self.folder_changed();
        let (session, now) = (id.clone(), self.now());
        let row = summary.map(|summary| written(id, summary, now));
        self.report(id, move |tx| {
            match &row {
                Some(row) => rows::put(tx, row)?,
                None => texts::delete(tx, &session)?,
            }
            match (before.0, after) {
                (Some(before), Some(after)) => rows::absorb(tx, before, after, now),
                _ => Ok(()),
            }
        });
    }

    fn put_marked(&self, id: &SessionId, summary: &Summary, dirty: i64) {
        let row = written(id, summary, dirty);
        self.report(id, move |tx| rows::put(tx, &row));
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
            lock(&self.generation).missed(&*self.sys.disk);
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

    fn folder_changed(&self) -> Option<i64> {
        let changed = self.logs.folder_changed().ok()?;
        Some(changed.as_millis())
    }
}

/// The row for a log, with what its writer knows.
fn written(id: &SessionId, summary: &Summary, dirty: i64) -> Row {
    Row {
        id: id.clone(),
        summary: summary.clone(),
        len: rows::int(summary.scanned),
        dirty,
        unreadable: None,
    }
}
