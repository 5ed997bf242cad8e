//! Writes the reports of sessions to the catalog's database, on a thread of its own.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::Transaction;

use crate::sys::lock;

use super::database::{CatalogDatabase, DatabaseError};
use super::erase_words;

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
    pub(super) fn write(
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
