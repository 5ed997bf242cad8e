//! Writes the reports of sessions to the catalog, on a thread of its own.
//!
//! A session reports before and after it records something, while its client waits. SQLite has
//! timeouts that cannot be set: if a lock fails in a way that it does not expect, it retries for
//! ten seconds. A report that is not written in time is withdrawn, and the session continues.
//!
//! While there are no reports, the thread erases the words of deleted sessions.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::Transaction;

use crate::sys::lock;

use super::database::{Database, DatabaseError};
use super::erasing;

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
    database: Arc<Database>,
    /// Started with the first report.
    thread: Mutex<Option<Writer>>,
    /// How many reports were withdrawn and are still with the thread.
    late: Arc<AtomicUsize>,
}

struct Writer {
    reports: Sender<(Operation, Arc<Report>)>,
    thread: JoinHandle<()>,
}

/// A report that is queued or being written.
struct Report {
    progress: Mutex<Progress>,
    changed: Condvar,
}

enum Progress {
    Waiting,
    Writing,
    /// Its session no longer waits for it, and the log may have another lock holder by now.
    Withdrawn,
    Done(Result<(), DatabaseError>),
}

impl Reporter {
    pub(super) fn new(database: Arc<Database>) -> Self {
        Self {
            database,
            thread: Mutex::default(),
            late: Arc::default(),
        }
    }

    /// Runs `operation` as one transaction, soon or not at all.
    pub(super) fn write(
        &self,
        operation: impl FnMut(&Transaction<'_>) -> rusqlite::Result<()> + Send + 'static,
    ) -> Result<(), DatabaseError> {
        if self.late.load(Ordering::Acquire) > 0 {
            // The thread is delayed: another report would only wait as long.
            return Err(DatabaseError::Late);
        }
        let report = Arc::new(Report {
            progress: Mutex::new(Progress::Waiting),
            changed: Condvar::new(),
        });
        self.submit(Box::new(operation), report.clone())?;
        report.wait(&self.late)
    }

    fn submit(&self, operation: Operation, report: Arc<Report>) -> Result<(), DatabaseError> {
        let mut writer = lock(&self.thread);
        let writer = match &mut *writer {
            Some(writer) => writer,
            none => none.insert(self.start()?),
        };
        let sent = writer.reports.send((operation, report));
        sent.map_err(|_| DatabaseError::Late)
    }

    fn start(&self) -> Result<Writer, DatabaseError> {
        let (reports, received) = channel::<(Operation, Arc<Report>)>();
        let (database, late) = (self.database.clone(), self.late.clone());
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
                    Ok((mut operation, report)) => {
                        let done = database.write(|tx| {
                            if report.begin() {
                                operation(tx)
                            } else {
                                Ok(())
                            }
                        });
                        report.finish(done, &late);
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
        Ok(Writer { reports, thread })
    }
}

/// Does one step of erasing; returns whether it was the last. A step that fails is left to the next
/// process.
fn erase_some(database: &Database) -> bool {
    erasing::erase_some(database).unwrap_or_else(|error| {
        tracing::debug!(%error, "cannot erase words of deleted sessions now");
        true
    })
}

impl Report {
    /// Whether it must still be written.
    fn begin(&self) -> bool {
        let mut progress = lock(&self.progress);
        let wanted = !matches!(*progress, Progress::Withdrawn);
        if wanted {
            *progress = Progress::Writing;
        }
        wanted
    }

    fn finish(&self, done: Result<(), DatabaseError>, late: &AtomicUsize) {
        let mut progress = lock(&self.progress);
        if matches!(*progress, Progress::Withdrawn) {
            late.fetch_sub(1, Ordering::AcqRel);
        } else {
            *progress = Progress::Done(done);
            self.changed.notify_all();
        }
    }

    fn wait(&self, late: &AtomicUsize) -> Result<(), DatabaseError> {
        let progress = lock(&self.progress);
        let unfinished = |progress: &mut Progress| !matches!(progress, Progress::Done(_));
        let waited = self
            .changed
            .wait_timeout_while(progress, REPORT_TIMEOUT, unfinished);
        let (mut progress, _) = waited.unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Progress::Done(done) = std::mem::replace(&mut *progress, Progress::Withdrawn) {
            return done;
        }
        late.fetch_add(1, Ordering::AcqRel);
        Err(DatabaseError::Late)
    }
}

impl Drop for Reporter {
    /// Waits for the thread, so that the database is closed properly, unless the thread is delayed.
    fn drop(&mut self) {
        let Some(Writer { reports, thread }) = lock(&self.thread).take() else {
            return;
        };
        drop(reports);
        if self.late.load(Ordering::Acquire) == 0 && thread.join().is_err() {
            tracing::warn!("a report to the catalog failed unexpectedly");
        }
    }
}

impl fmt::Debug for Reporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reporter").finish_non_exhaustive()
    }
}
