//! A log that this process appends to.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_postgres::types::Type;

use crate::store::medium::{Durability, Image, Owned, StoreError};
use crate::sys::{SessionId, Timestamp, blocking};

use super::claims::Claim;
use super::driver::{Failure, Repeat, int, text, uuid};
use super::image::Pages;
use super::{NOW, Tables};

/// How much is kept in memory of what a crash of the database may take, in bytes.
const MOST_KEPT: usize = 8 * 1024 * 1024;
/// The longest block, in bytes. A longer record is several blocks.
const LONGEST: i32 = 16 * 1024 * 1024;
/// How long the end of a claim waits for the database.
const RELEASE: Duration = Duration::from_secs(2);
/// For how long a confirmed append shows that the claim counts.
const CURRENT: Duration = Duration::from_secs(1);

/// A claimed log. Dropping it releases it.
#[derive(Debug)]
pub(super) struct Claimed {
    tables: Arc<Tables>,
    id: SessionId,
    claim: Claim,
    pages: Pages,
    /// Whether it has no name yet.
    is_draft: bool,
    /// Whether something was committed that a crash of the database may take.
    is_unsafe: bool,
    /// The last of it, to be written again after such a crash: blocks and where they begin.
    kept: VecDeque<(i64, Vec<u8>)>,
    /// How many bytes these are.
    kept_len: usize,
    /// When the last append was confirmed.
    confirmed: Option<Instant>,
}

/// What the database says about a log.
struct Fence {
    epoch: i64,
    end: i64,
}

impl Claimed {
    pub(super) fn new(tables: Arc<Tables>, id: SessionId, claim: Claim, is_draft: bool) -> Self {
        let pages = Pages::new(tables.clone(), claim.no, tables.path_of(&id));
        Self {
            tables,
            id,
            claim,
            pages,
            is_draft,
            is_unsafe: true,
            kept: VecDeque::new(),
            kept_len: 0,
            confirmed: None,
        }
    }

    /// Why a statement of the holder has changed nothing.
    fn fenced(&self) -> StoreError {
        StoreError::Fenced {
            id: self.id.clone(),
            holder: self.tables.holder(&self.id),
        }
    }

    fn look(&self) -> Result<Fence, StoreError> {
        let sql = "SELECT epoch, end_off FROM @.fence WHERE no = $1";
        let rows = self.tables.ask("look at", sql, vec![int(self.claim.no)])?;
        // Without a row, the session was removed for good.
        Ok(rows
            .first()
            .map_or(Fence { epoch: -1, end: 0 }, |row| Fence {
                epoch: row.get(0),
                end: row.get(1),
            }))
    }

    fn append_once(&self, end: i64, block: &[u8], safe: bool) -> Result<bool, Failure> {
        let to = end.saturating_add(i64::try_from(block.len()).unwrap_or(i64::MAX));
        let sql = "SELECT @.append($1, $2, $3, $4, $5, $6, $7)";
        let params = vec![
            int(self.claim.no),
            int(self.claim.epoch),
            int(end),
            int(to),
            text(if safe { "on" } else { "off" }.to_owned()),
            (Box::new(block.to_vec()), Type::BYTEA),
            (Box::new(LONGEST), Type::INT4),
        ];
        let rows = self.tables.driver.query(sql, params, Repeat::No)?;
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
    fn restore_end(&mut self, end: i64, from: i64) -> Result<bool, StoreError> {
        let Some(first) = self.kept.iter().position(|(at, _)| *at == end) else {
            return Ok(false);
        };
        tracing::warn!(session = %self.id, bytes = from - end, "the database has lost the end of a log, which is written again");
        for (at, block) in self.kept.iter().skip(first) {
            match self.append_once(*at, block, true) {
                Ok(true) => {}
                // The caller looks again.
                Ok(false) | Err(Failure::Unknown(_)) => return Ok(true),
                Err(failure) => return Err(self.tables.failed("append to", failure)),
            }
        }
        Ok(true)
    }

    /// Gives a new log a state, in which it is since then.
    fn publish_as(&mut self, state: &str, since: &str) -> Result<(), StoreError> {
        let sql = format!(
            "WITH mode AS MATERIALIZED (SELECT set_config('synchronous_commit', $3, true)),
             held AS (UPDATE @.fence SET end_off = end_off FROM mode
                 WHERE no = $1 AND epoch = $2 RETURNING no)
             UPDATE @.session s SET state = {state}, since = {since} FROM held
             WHERE s.no = held.no RETURNING 1"
        );
        let safe = self.tables.durability != Durability::Os;
        let mode = text(if safe { "on" } else { "off" }.to_owned());
        self.change("create", &sql, vec![mode])?;
        self.is_draft = false;
        self.is_unsafe &= !safe;
        Ok(())
    }

    /// Runs a statement that changes something only if this is still the holder.
    fn change(
        &self,
        operation: &'static str,
        sql: &str,
        more: Vec<super::driver::Param>,
    ) -> Result<(), StoreError> {
        let mut params = vec![int(self.claim.no), int(self.claim.epoch)];
        params.extend(more);
        match self.tables.driver.query(sql, params, Repeat::Yes) {
            Ok(rows) if rows.is_empty() => Err(self.fenced()),
            Ok(_) => Ok(()),
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

impl Owned for Claimed {
    /// If the connection breaks before the answer, the database is asked whether it has the block.
    fn append(&mut self, end: u64, block: &[u8], safe: bool) -> Result<(), StoreError> {
        if block.is_empty() {
            return Ok(());
        }
        let from = i64::try_from(end).unwrap_or(i64::MAX);
        let to = from.saturating_add(i64::try_from(block.len()).unwrap_or(i64::MAX));
        let mut in_doubt = false;
        self.confirmed = None;
        loop {
            match self.append_once(from, block, safe) {
                Ok(true) => break,
                Ok(false) => {}
                Err(Failure::Unknown(why)) => {
                    tracing::debug!(session = %self.id, why, "the outcome of a write is unknown");
                    in_doubt = true;
                }
                Err(failure) => return Err(self.tables.failed("append to", failure)),
            }
            let fence = self.look()?;
            match fence.end {
                _ if fence.epoch != self.claim.epoch => return Err(self.fenced()),
                // It was written, and only the answer was lost.
                end if end == to && in_doubt => break,
                end if end == from => {}
                end if end < from && self.restore_end(end, from)? => {}
                end => {
                    let lost = format!("it ends at {end} and not at {from} as it did");
                    let cause = io::Error::new(io::ErrorKind::InvalidData, lost);
                    return Err(StoreError::disk("append to", self.path())(cause));
                }
            }
        }
        self.is_unsafe = !safe;
        if safe {
            self.keep_nothing();
        } else {
            self.keep(from, block);
        }
        self.confirmed = Some(Instant::now());
        Ok(())
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        if !self.is_unsafe {
            return Ok(());
        }
        let sql = "
            WITH mode AS MATERIALIZED (SELECT set_config('synchronous_commit', 'on', true))
            UPDATE @.fence SET end_off = end_off FROM mode WHERE no = $1 AND epoch = $2 RETURNING 1";
        self.change("sync", sql, Vec::new())?;
        self.is_unsafe = false;
        self.keep_nothing();
        Ok(())
    }

    fn cut(&mut self, end: u64) -> Result<(), StoreError> {
        self.pages.forget();
        self.keep_nothing();
        let end = i64::try_from(end).unwrap_or(i64::MAX);
        let sql = "
            WITH held AS (UPDATE @.fence SET end_off = least(end_off, $3)
                WHERE no = $1 AND epoch = $2 RETURNING 1),
            gone AS (DELETE FROM @.block USING held
                WHERE no = $1 AND off + length(bytes) > $3 RETURNING off, bytes),
            back AS (INSERT INTO @.block
                SELECT $1, off, $2, substring(bytes FOR ($3 - off)::int) FROM gone WHERE off < $3)
            SELECT 1 FROM held";
        self.change("truncate", sql, vec![int(end)])
    }

    fn keep_aside(&self, offset: u64) -> Result<PathBuf, StoreError> {
        let offset = i64::try_from(offset).unwrap_or(i64::MAX);
        let sql = format!(
            "INSERT INTO @.torn
             SELECT $3, $2, {NOW}, string_agg(
                 substring(bytes FROM greatest($2 - off, 0)::int + 1), ''::bytea ORDER BY off)
             FROM @.block WHERE no = $1 AND off + length(bytes) > $2"
        );
        let params = vec![int(self.claim.no), int(offset), uuid(self.id.to_uuid())];
        self.tables.ask("copy a torn end of", &sql, params)?;
        Ok(self.path().to_owned())
    }

    fn publish(&mut self) -> Result<(), StoreError> {
        self.publish_as("'l'", NOW)
    }

    fn publish_in_trash(&mut self, at: Timestamp) -> Result<(), StoreError> {
        self.publish_as("'t'", &at.as_millis().to_string())
    }

    fn is_current(&self) -> Result<bool, StoreError> {
        if self.confirmed.is_some_and(|at| at.elapsed() < CURRENT) {
            return Ok(true);
        }
        let sql =
            "SELECT epoch FROM @.fence JOIN @.session USING (no) WHERE no = $1 AND state = 'l'";
        let rows = self.tables.ask("look at", sql, vec![int(self.claim.no)])?;
        match rows.first().map(|row| row.get::<_, i64>(0)) {
            None => Ok(false),
            Some(epoch) if epoch == self.claim.epoch => Ok(true),
            Some(_) => Err(self.fenced()),
        }
    }

    fn bury(&self) -> Result<bool, StoreError> {
        let sql = format!(
            "WITH held AS (UPDATE @.fence SET end_off = end_off
                 WHERE no = $1 AND epoch = $2 RETURNING no)
             UPDATE @.session s SET state = 't', since = {NOW} FROM held
             WHERE s.no = held.no RETURNING 1"
        );
        self.change("move to the trash", &sql, Vec::new())?;
        Ok(true)
    }
}

impl Drop for Claimed {
    fn drop(&mut self) {
        let sql = if self.is_draft {
            "WITH gone AS (DELETE FROM @.session WHERE no = $1 AND state = 'm' RETURNING no)
             DELETE FROM @.block b USING gone WHERE b.no = gone.no AND $2 > 0"
        } else {
            "UPDATE @.fence SET writer = NULL WHERE no = $1 AND epoch = $2"
        };
        let params = vec![int(self.claim.no), int(self.claim.epoch)];
        let released = match self.tables.driver.begin(sql, params, Repeat::No) {
            Ok(rows) => match blocking(|| rows.recv_timeout(RELEASE)) {
                Ok(Ok(_)) => Ok(()),
                Ok(Err(failure)) => Err(failure.to_string()),
                Err(_) => Err("the database does not answer".to_owned()),
            },
            Err(failure) => Err(failure.to_string()),
        };
        if let Err(why) = released {
            tracing::debug!(session = %self.id, why, "cannot release a session; others wait until its lease ends");
        }
        self.tables.claims.let_go(&self.id);
    }
}
