//! Reads the words of logs into the full-text index, in small steps.
//!
//! This happens during a search and, in the background, before one; never while a session records
//! something. Like all of the catalog's code, it locks the database for short writes only.

use std::collections::BTreeSet;

use crate::sys::SessionId;

use super::refresh::Refresh;
use super::session_rows::{self, CatalogRow};
use super::word_rows::{self, LogTexts, LogWords};
use crate::index::backend::ListError;
use crate::index::logs::read_all;

/// How many unread logs are queried at once.
const LOGS: usize = 64;

/// How much of one log is read at once, in bytes.
const OF_A_LOG: usize = 256 * 1024;

/// The least that reading a log costs, in bytes that could be read instead.
const LEAST: usize = 1024;

/// How many bytes of logs are read between two writes. A write takes some milliseconds, for which
/// other processes wait.
const WRITTEN_AT_ONCE: usize = 256 * 1024;

/// The result of reading a log for its words.
enum LogReading {
    /// The log was read, perhaps not to its end.
    Read(LogTexts),
    /// Nothing was appended since it was read.
    Same,
    /// The log cannot be read.
    Unreadable,
}

impl Refresh<'_> {
    /// Reads words that were not read yet, the newest sessions first, until it has read about
    /// `budget` bytes of logs. Returns whether all are read now.
    pub(super) fn index_words(self, budget: usize) -> Result<bool, ListError> {
        let mut left = budget;
        // A log that is being written to is behind again at once, so it is read only once.
        let mut done: BTreeSet<SessionId> = BTreeSet::new();
        let mut behind = 0;
        loop {
            let limit = LOGS + behind;
            let mut found = self.database.read(|tx| word_rows::unread(tx, limit))?;
            let all = found.len() < limit;
            behind = found.len();
            found.retain(|(row, _)| !done.contains(&row.id));
            behind -= found.len();
            if found.is_empty() && all {
                return Ok(true);
            }
            if left == 0 {
                return Ok(false);
            }
            // No more than the budget allows and one write takes, by estimate.
            let most = left.min(WRITTEN_AT_ONCE);
            let mut expected = 0;
            let fits = found.iter().take_while(|(row, state)| {
                let fits = expected < most;
                let len = usize::try_from(row.len.saturating_sub(state.from)).unwrap_or(0);
                expected += len.min(OF_A_LOG);
                fits
            });
            let fits = fits.count();
            found.truncate(fits);
            self.read_stale(found.iter().map(|(row, _)| row), false)?;
            let outcomes = read_all(&found, |(row, state)| self.read_words(row, state));
            for ((row, state), outcome) in found.iter().zip(&outcomes) {
                let (bytes, ended) = cost(state, outcome);
                left = left.saturating_sub(bytes.max(LEAST));
                if ended {
                    done.insert(row.id.clone());
                }
            }
            self.write_words(&found, &outcomes)?;
        }
    }

    fn read_words(self, row: &CatalogRow, state: &LogWords) -> LogReading {
        let Ok(Some(len)) = self.logs.store.len_of(&row.id) else {
            return LogReading::Unreadable;
        };
        if session_rows::int(len) == state.len {
            return LogReading::Same;
        }
        let known = u64::try_from(state.from).unwrap_or(0);
        // A log that shrank is a different log.
        let from = if len < known { 0 } else { known };
        match self.logs.texts(&row.id, from, state.len, OF_A_LOG) {
            Ok(texts) => LogReading::Read(LogTexts {
                len: if texts.open.is_some() {
                    session_rows::int(len)
                } else {
                    -1
                },
                anew: len < known || texts.anew,
                texts,
            }),
            Err(error) => {
                tracing::debug!(session = %row.id, %error, "cannot read the words of a log");
                LogReading::Unreadable
            }
        }
    }

    fn write_words(
        self,
        logs: &[(CatalogRow, LogWords)],
        read: &[LogReading],
    ) -> Result<(), ListError> {
        self.database.write(|tx| {
            for ((row, state), outcome) in logs.iter().zip(read) {
                match outcome {
                    LogReading::Read(read) => word_rows::add(tx, &row.id, state, read)?,
                    LogReading::Same => {}
                    LogReading::Unreadable => word_rows::pass_over(tx, &row.id)?,
                }
            }
            Ok(())
        })?;
        Ok(())
    }
}

/// How many bytes of a log were read, and whether to its end.
fn cost(state: &LogWords, outcome: &LogReading) -> (usize, bool) {
    let LogReading::Read(read) = outcome else {
        return (0, true);
    };
    let from = if read.anew { 0 } else { state.from };
    let to = read.len.max(session_rows::int(read.texts.from));
    let bytes = usize::try_from(to.saturating_sub(from)).unwrap_or(0);
    (bytes, read.texts.open.is_some())
}
