//! A log that this process appends to.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_postgres::types::Type;

use crate::store::medium::{Image, StoreError, WritableLog};
use crate::sys::{SessionId, Timestamp, blocking};

use super::StoreTables;
use super::claims::{Claim, RELEASE};
use super::driver::{Param, Repeat, flag, int, uuid, uuids};
use super::failure::DatabaseFailure;
use super::image::Pages;

/// How much is kept in memory of what a crash of the database may take, in bytes.
const MOST_KEPT: usize = 8 * 1024 * 1024;
/// The longest block, in bytes. A longer record is several blocks.
const LONGEST: i32 = 16 * 1024 * 1024;
/// How long the end of a claim waits for the database.
const RELEASED: Duration = Duration::from_secs(2);
/// For how long a confirmed append shows that the claim counts.
const CURRENT: Duration = Duration::from_secs(1);

/// A claimed log. Dropping it releases it.
#[derive(Debug)]
pub(super) struct Claimed {
    tables: Arc<StoreTables>,
    id: SessionId,
    claim: Claim,
    pages: Pages,
    /// Whether it has no name yet.
    is_draft: bool,
    /// Whether something was committed that a crash of the database may take.
    is_unsafe: bool,
    /// Whether an append has failed which the database may have, or get, all the same: nothing more
    /// may be appended before the log was read.
    is_in_doubt: bool,
    /// The last of it, to be written again after such a crash: blocks and where they begin.
    kept: VecDeque<(i64, Vec<u8>)>,
    /// How many bytes these are.
    kept_len: usize,
    /// When the last append was confirmed.
    confirmed: Option<Instant>,
}

/// The state of a log in the database: whether it is ours, and its end.
struct Fence {
    is_ours: bool,
    end: i64,
}

impl Claimed {
    pub(super) fn new(
        tables: Arc<StoreTables>,
        id: SessionId,
        claim: Claim,
        is_draft: bool,
    ) -> Self {
        let pages = Pages::new(tables.clone(), claim.no, tables.path_of(&id));
        Self {
            tables,
            id,
            claim,
            pages,
            is_draft,
            is_unsafe: true,
            is_in_doubt: false,
            kept: VecDeque::new(),
            kept_len: 0,
            confirmed: None,
        }
    }

    /// Why a statement of the holder has changed nothing.
    fn fenced(&self) -> StoreError {
        StoreError::Fenced {
            id: self.id.clone(),
            holder: self.tables.holder(&self.id).map(Box::new),
            is_cut: self.is_cut(),
        }
    }

    /// Whether the log lacks what was confirmed last, which a crash of the database may take.
    fn is_cut(&self) -> bool {
        let Some((from, block)) = self.kept.back() else {
            return false;
        };
        let sql = "SELECT 1 FROM @.block WHERE no = $1 AND off = $2 AND bytes = $3";
        let block = (Box::new(block.clone()) as _, Type::BYTEA);
        let params = vec![int(self.claim.no), int(*from), block];
        let rows = self.tables.ask("look at", sql, params);
        rows.is_ok_and(|rows| rows.is_empty())
    }

    /// Asks the database about the log, for so long. Fails if the session is not there: it was removed,
    /// or the database is one of an earlier time.
    fn look(&self, limit: Duration) -> Result<Fence, StoreError> {
        let sql = "SELECT token IS NOT DISTINCT FROM $2, end_off FROM @.fence WHERE no = $1";
        let driver = &self.tables.driver;
        let rows = driver.query_within(limit, sql, self.claimed(), Repeat::Yes);
        let rows = rows.map_err(|failure| self.tables.failed("look at", failure))?;
        let row = rows.first().ok_or_else(|| StoreError::NotFound {
            id: self.id.clone(),
        })?;
        Ok(Fence {
            is_ours: row.get(0),
            end: row.get(1),
        })
    }

    /// The first parameters of each statement that changes the log.
    fn claimed(&self) -> Vec<Param> {
        vec![int(self.claim.no), uuid(self.claim.token)]
    }

    fn append_once(
        &self,
        head: Option<&[u8]>,
        end: i64,
        block: &[u8],
        safe: bool,
        limit: Duration,
    ) -> Result<bool, DatabaseFailure> {
        let to = end.saturating_add(i64::try_from(block.len()).unwrap_or(i64::MAX));
        let mut sql = "SELECT @.append($1, $2, $3, $4, $5, $6, $7)";
        let mut params = self.claimed();
        params.extend([
            int(end),
            int(to),
            flag(safe),
            (Box::new(block.to_vec()), Type::BYTEA),
            (Box::new(LONGEST), Type::INT4),
        ]);
        if let Some(head) = head {
            sql = "SELECT @.append_rewind($1, $2, $3, $4, $5, $6, $7, $8)";
            params.push((Box::new(head.to_vec()), Type::BYTEA));
        }
        let driver = &self.tables.driver;
        let rows = driver.query_within(limit, sql, params, Repeat::No)?;
        Ok(rows.first().is_some_and(|row| row.get(0)))
    }

    /// Keeps a block that a crash of the database may take, and only as many as memory allows.
    fn keep(&mut self, from: i64, block: &[u8]) {
        self.kept.push_back((from, block.to_vec()));
        self.kept_len += block.len();
        while self.kept_len > MOST_KEPT
            && let Some((_, block)) = self.kept.pop_front()
        {
            self.kept_len -= block.len();
        }
    }

    fn keep_nothing(&mut self) {
        self.kept.clear();
        self.kept_len = 0;
    }

    /// Writes again what the database has lost of what it had confirmed: the log ends at `end`, and
    /// not at `from`. False if that is not in memory.
    fn restore_end(&mut self, end: i64, from: i64, limit: Duration) -> Result<bool, StoreError> {
        let Some(first) = self.kept.iter().position(|(at, _)| *at == end) else {
            return Ok(false);
        };
        tracing::warn!(session = %self.id, bytes = from - end, "the database has lost the end of a log, which is written again");
        for (at, block) in self.kept.iter().skip(first) {
            match self.append_once(None, *at, block, true, limit) {
                Ok(true) => {}
                // The caller looks again.
                Ok(false) | Err(DatabaseFailure::Unknown(_)) => return Ok(true),
                Err(failure) => return Err(self.tables.failed("append to", failure)),
            }
        }
        Ok(true)
    }

    /// Appends a block, with another beginning of the header if there is one, and returns when the database
    /// has both.
    fn append_all(
        &mut self,
        head: Option<&[u8]>,
        from: i64,
        block: &[u8],
        safe: bool,
    ) -> Result<(), StoreError> {
        let to = from.saturating_add(i64::try_from(block.len()).unwrap_or(i64::MAX));
        let end = Instant::now() + self.tables.driver.patience();
        let mut in_doubt = false;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match self.append_once(head, from, block, safe, left) {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(DatabaseFailure::Unknown(why)) if !left.is_zero() => {
                    tracing::debug!(session = %self.id, why, "the outcome of a write is unknown");
                    in_doubt = true;
                }
                Err(failure) => {
                    self.is_in_doubt = in_doubt || failure.may_have_run();
                    return Err(self.tables.failed("append to", failure));
                }
            }
            self.is_in_doubt = in_doubt;
            let left = end.saturating_duration_since(Instant::now());
            let fence = self.look(left)?;
            match fence.end {
                _ if !fence.is_ours => return Err(self.fenced()),
                // The block was written, and only the answer was lost. It may be on this server alone.
                end if end == to && in_doubt => {
                    return if safe { self.sync_now() } else { Ok(()) };
                }
                end if end == from => {}
                end if end < from && self.restore_end(end, from, left)? => {}
                end => {
                    let lost = format!("it ends at {end} and not at {from} as it did");
                    let cause = io::Error::new(io::ErrorKind::InvalidData, lost);
                    return Err(StoreError::disk("append to", self.path())(cause));
                }
            }
        }
    }

    fn sync_now(&self) -> Result<(), StoreError> {
        self.change("sync", "SELECT @.sync($1, $2)", Vec::new())
    }

    /// Gives a new log its place: among the live ones, or in the trash since a time.
    fn publish_as(&mut self, trashed: Option<Timestamp>) -> Result<(), StoreError> {
        let safe = self.tables.is_safe();
        let trashed = trashed.map(Timestamp::as_millis);
        let more = vec![(Box::new(trashed) as _, Type::INT8), flag(safe)];
        self.change("create", "SELECT @.publish($1, $2, $3, $4)", more)?;
        self.is_draft = false;
        self.is_unsafe &= !safe;
        Ok(())
    }

    /// Runs a function that does nothing and returns false if this is no longer the holder.
    fn change(
        &self,
        operation: &'static str,
        sql: &str,
        more: Vec<Param>,
    ) -> Result<(), StoreError> {
        let mut params = self.claimed();
        params.extend(more);
        match self.tables.driver.query(sql, params, Repeat::Yes) {
            Ok(rows) if rows.first().is_some_and(|row| row.get(0)) => Ok(()),
            Ok(_) => Err(match self.look(self.tables.driver.patience()) {
                Ok(_) => self.fenced(),
                Err(error) => error,
            }),
            Err(failure) if failure.is_duplicate() => Err(StoreError::Exists {
                id: self.id.clone(),
            }),
            Err(failure) => Err(self.tables.failed(operation, failure)),
        }
    }
}

impl Image for Claimed {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.pages.read_at(buffer, offset)
    }

    fn path(&self) -> &Path {
        self.pages.path()
    }
}

impl Claimed {
    /// If the connection breaks before the answer, the database is asked whether it has the block.
    fn append_behind(
        &mut self,
        head: Option<&[u8]>,
        end: u64,
        block: &[u8],
        safe: bool,
    ) -> Result<(), StoreError> {
        if block.is_empty() {
            return Ok(());
        }
        if self.is_in_doubt {
            return Err(StoreError::Poisoned {
                id: self.id.clone(),
            });
        }
        let from = i64::try_from(end).unwrap_or(i64::MAX);
        self.confirmed = None;
        self.append_all(head, from, block, safe)?;
        self.is_in_doubt = false;
        self.is_unsafe = !safe;
        if safe {
            self.keep_nothing();
        } else {
            self.keep(from, block);
        }
        self.confirmed = Some(Instant::now());
        Ok(())
    }
}

impl WritableLog for Claimed {
    fn append(&mut self, end: u64, block: &[u8], safe: bool) -> Result<(), StoreError> {
        self.append_behind(None, end, block, safe)
    }

    fn append_with_head(
        &mut self,
        head: &[u8],
        end: u64,
        block: &[u8],
        safe: bool,
    ) -> Result<(), StoreError> {
        self.pages.forget();
        self.append_behind(Some(head), end, block, safe)
    }

    /// Nothing is left of an append that has failed, or all of it: who opens the log next reads it.
    fn undo(&mut self, _end: u64) -> Result<(), StoreError> {
        Ok(())
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        if !self.is_unsafe {
            return Ok(());
        }
        self.sync_now()?;
        self.is_unsafe = false;
        self.keep_nothing();
        Ok(())
    }

    fn cut(&mut self, end: u64) -> Result<(), StoreError> {
        self.pages.forget();
        self.keep_nothing();
        let end = i64::try_from(end).unwrap_or(i64::MAX);
        let more = vec![int(end), flag(self.tables.is_safe())];
        self.change("truncate", "SELECT @.cut($1, $2, $3, $4)", more)
    }

    fn keep_aside(&self, offset: u64) -> Result<PathBuf, StoreError> {
        let offset = i64::try_from(offset).unwrap_or(i64::MAX);
        let sql = "SELECT @.keep_aside($1, $2, $3)";
        self.change("copy a torn end of", sql, vec![int(offset)])?;
        Ok(self.path().to_owned())
    }

    fn publish(&mut self) -> Result<(), StoreError> {
        self.publish_as(None)
    }

    fn publish_in_trash(&mut self, at: Timestamp) -> Result<(), StoreError> {
        self.publish_as(Some(at))
    }

    fn is_current(&self) -> Result<bool, StoreError> {
        if self.confirmed.is_some_and(|at| at.elapsed() < CURRENT) {
            return Ok(true);
        }
        let sql = "SELECT token IS NOT DISTINCT FROM $2, state = 'l'
                   FROM @.fence JOIN @.session USING (no) WHERE no = $1";
        let rows = self.tables.ask("look at", sql, self.claimed())?;
        match rows.first().map(|row| (row.get(0), row.get(1))) {
            None => Err(StoreError::NotFound {
                id: self.id.clone(),
            }),
            Some((true, is_live)) => Ok(is_live),
            Some((false, _)) => Err(self.fenced()),
        }
    }

    fn bury(&self) -> Result<bool, StoreError> {
        let more = vec![flag(true), flag(self.tables.is_safe())];
        self.change("move to the trash", "SELECT @.move($1, $2, $3, $4)", more)?;
        Ok(true)
    }
}

impl Drop for Claimed {
    fn drop(&mut self) {
        let Self { tables, claim, .. } = &*self;
        let begun = if self.is_draft {
            let sql = "SELECT @.abandon($1, $2)";
            tables.driver.begin(sql, self.claimed(), Repeat::No)
        } else {
            let params = vec![uuid(tables.claims.me), uuids(vec![claim.token])];
            tables.driver.begin(RELEASE, params, Repeat::No)
        };
        let released = match begun {
            Ok(rows) => match blocking(|| rows.recv_timeout(RELEASED)) {
                Ok(Ok(_)) => Ok(()),
                Ok(Err(failure)) => Err(failure.to_string()),
                Err(_) => Err("the database does not answer".to_owned()),
            },
            Err(failure) => Err(failure.to_string()),
        };
        if let Err(why) = released {
            tracing::debug!(session = %self.id, why, "cannot release a session now");
            if !self.is_draft {
                tables.claims.leave_behind(claim.token);
            }
        }
        tables.claims.let_go(&self.id);
    }
}
