//! Reports of sessions to the catalog, and the thread that writes them.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::Transaction;

use crate::record::AgentSessionId;
use crate::sys::{SessionId, lock};

use super::agent_ids;
use super::catalog::{Catalog, ListError};
use super::database::{CatalogDatabase, DatabaseError};
use super::erase_words;
use super::session_rows::{self, CatalogRow};
use super::summary::Summary;
use super::word_rows;

/// The state of the sessions' folder before a change, see [`Catalog::before_change`].
#[derive(Clone, Copy, Debug)]
#[must_use = "pass it to `created` or `removed`"]
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
        if self.remote.is_some() {
            return BeforeChange(None);
        }
        BeforeChange(self.logs.folder_changed().ok())
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
        if self.remote.is_some() {
            return self.observer.changed(id);
        }
        let (session, now) = (id.clone(), self.now());
        let (generation, disk) = (self.generation.clone(), self.sys.disk.clone());
        self.report(id, move |tx| {
            session_rows::mark_dirty(tx, &session, now)?;
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

    /// An agent has an id for a session that is not in its log yet.
    pub fn knows(&self, id: &SessionId, inner: &AgentSessionId) {
        if let Some(remote) = &self.remote {
            return self.reported(id, remote.knows(id, std::slice::from_ref(inner)));
        }
        let (session, known) = (id.clone(), [inner.clone()]);
        self.report(id, move |tx| agent_ids::add(tx, &session, &known));
    }

    fn folder_change(&self, id: &SessionId, before: BeforeChange, summary: Option<&Summary>) {
        if let Some(remote) = &self.remote {
            let kept = summary.map_or(Ok(()), |summary| remote.put(id, summary));
            return self.reported(id, kept);
        }
        let after = self.logs.folder_changed().ok();
        let (session, now) = (id.clone(), self.now());
        let row = summary.map(|summary| written(id, summary, now));
        self.report(id, move |tx| {
            match &row {
                Some(row) => session_rows::put(tx, row)?,
                None => word_rows::delete(tx, &session)?,
            }
            match (before.0, after) {
                (Some(before), Some(after)) => session_rows::absorb(tx, before, after, now),
                _ => Ok(()),
            }
        });
    }

    fn put_marked(&self, id: &SessionId, summary: &Summary, dirty: i64) {
        if let Some(remote) = &self.remote {
            return self.reported(id, remote.put(id, summary));
        }
        let row = written(id, summary, dirty);
        self.report(id, move |tx| session_rows::put(tx, &row));
    }

    /// Logs why a report to a database failed, and notifies of the change in any case. A list finds
    /// in the log what is missing.
    fn reported(&self, id: &SessionId, done: Result<(), ListError>) {
        if let Err(error) = done {
            tracing::warn!(session = %id, error = &error as &dyn std::error::Error, "cannot keep a summary");
        }
        self.observer.changed(id);
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
        self.observer.changed(id);
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

/// How long a report may delay its session. Longer than the database waits for a lock.
const REPORT_TIMEOUT: Duration = Duration::from_millis(500);

/// How long the thread must be idle before it erases something.
const PAUSE: Duration = Duration::from_millis(50);

/// How many steps of erasing the end of the process may wait for. A step takes some milliseconds;
/// this is enough for the index of some thousand sessions. The next process does the rest.
const STEPS_AT_END: usize = 16;

type Operation = Box<dyn FnMut(&Transaction<'_>) -> rusqlite::Result<()> + Send>;

/// Writes reports one after the other.
pub(super) struct Reporter {
    database: Arc<CatalogDatabase>,
    /// Started with the first report.
    thread: Mutex<Option<ReportWriter>>,
    /// The report that was withdrawn last. It is alive while the thread has it.
    withdrawn: Mutex<Weak<AtomicBool>>,
}

struct ReportWriter {
    reports: Sender<CatalogReport>,
    thread: JoinHandle<()>,
}

/// A report for the thread.
struct CatalogReport {
    operation: Operation,
    /// Its session no longer waits for it, and the log may have another lock holder by now.
    withdrawn: Arc<AtomicBool>,
    done: SyncSender<Result<(), DatabaseError>>,
}

impl Reporter {
    pub(super) fn new(database: Arc<CatalogDatabase>) -> Self {
        Self {
            database,
            thread: Mutex::default(),
            withdrawn: Mutex::default(),
        }
    }

    /// Runs `operation` as one transaction, soon or not at all.
    fn write(
        &self,
        operation: impl FnMut(&Transaction<'_>) -> rusqlite::Result<()> + Send + 'static,
    ) -> Result<(), DatabaseError> {
        if self.is_delayed() {
            // Another report would only wait as long.
            return Err(DatabaseError::Late);
        }
        let withdrawn = Arc::new(AtomicBool::new(false));
        let (done, result) = sync_channel(1);
        self.submit(CatalogReport {
            operation: Box::new(operation),
            withdrawn: withdrawn.clone(),
            done,
        })?;
        result.recv_timeout(REPORT_TIMEOUT).unwrap_or_else(|_| {
            withdrawn.store(true, Ordering::Release);
            *lock(&self.withdrawn) = Arc::downgrade(&withdrawn);
            Err(DatabaseError::Late)
        })
    }

    /// Whether the thread still has a report that was withdrawn.
    fn is_delayed(&self) -> bool {
        lock(&self.withdrawn).strong_count() > 0
    }

    fn submit(&self, report: CatalogReport) -> Result<(), DatabaseError> {
        let mut writer = lock(&self.thread);
        let writer = match &mut *writer {
            Some(writer) => writer,
            none => none.insert(self.start()?),
        };
        let sent = writer.reports.send(report);
        sent.map_err(|_| DatabaseError::Late)
    }

    fn start(&self) -> Result<ReportWriter, DatabaseError> {
        let (reports, received) = channel();
        let database = self.database.clone();
        let thread = std::thread::Builder::new().name("catalog".to_owned());
        let thread = thread.spawn(move || {
            // An earlier process may have left something to erase.
            let mut erased = false;
            loop {
                let next = if erased {
                    received.recv().map_err(|_| RecvTimeoutError::Disconnected)
                } else {
                    received.recv_timeout(PAUSE)
                };
                match next {
                    Ok(report) => {
                        write(&database, report);
                        erased = false;
                    }
                    Err(RecvTimeoutError::Timeout) => erased = erase_some(&database),
                    Err(RecvTimeoutError::Disconnected) => break,
                }
            }
            for _ in 0..STEPS_AT_END {
                if erased {
                    break;
                }
                erased = erase_some(&database);
            }
        });
        let thread = thread.map_err(DatabaseError::Create)?;
        Ok(ReportWriter { reports, thread })
    }
}

/// Writes a report, unless it was withdrawn.
fn write(database: &CatalogDatabase, mut report: CatalogReport) {
    let done = database.write_file(|tx| {
        if report.withdrawn.load(Ordering::Acquire) {
            return Ok(());
        }
        (report.operation)(tx)
    });
    // Nobody receives it if the report was withdrawn.
    report.done.send(done).ok();
}

/// Does one step of erasing; returns whether it was the last. A step that fails is left to the next
/// process.
fn erase_some(database: &CatalogDatabase) -> bool {
    erase_words::erase_some(database).unwrap_or_else(|error| {
        tracing::debug!(%error, "cannot erase words of deleted sessions now");
        true
    })
}

impl Drop for Reporter {
    /// Waits for the thread, so that the database is closed properly, unless the thread is delayed.
    fn drop(&mut self) {
        let Some(ReportWriter { reports, thread }) = lock(&self.thread).take() else {
            return;
        };
        drop(reports);
        if !self.is_delayed() && thread.join().is_err() {
            tracing::warn!("a report to the catalog failed unexpectedly");
        }
    }
}

impl fmt::Debug for Reporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reporter").finish_non_exhaustive()
    }
}
