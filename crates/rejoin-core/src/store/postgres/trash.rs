//! The trash: sessions that are in it stay where they are, and are marked.

use crate::store::medium::{StoreError, Trashed};
use crate::sys::{SessionId, Timestamp};

use super::StoreTables;
use super::claims::{Claim, RELEASE, StoredState};
use super::driver::{Repeat, flag, int, uuid, uuids};

/// How many sessions are removed by one statement, and how many bytes of logs, about.
const BATCH: i64 = 50;
const BYTES: i64 = 64 * 1024 * 1024;

impl StoreTables {
    pub(super) fn trashed(&self) -> Result<Vec<Trashed>, StoreError> {
        let sql = "SELECT id, since FROM @.session WHERE state = 't' ORDER BY id, since";
        let rows = self.ask("list the trash of", sql, Vec::new())?;
        let trashed = rows.iter().map(|row| Trashed {
            id: SessionId::from_uuid(row.get(0)),
            at: Timestamp::from_millis(row.get(1)),
        });
        Ok(trashed.collect())
    }

    /// Moves a session out of the trash. Its log is claimed already, unless it could not be read.
    pub(super) fn restore(&self, trashed: &Trashed) -> Result<(), StoreError> {
        let id = &trashed.id;
        if let Some(claim) = self.claims.of(id) {
            return self.move_out(id, claim);
        }
        let state = StoredState::Trashed(trashed.at.as_millis());
        let claim = self.claim(id, state, false)?;
        let moved = self.move_out(id, claim);
        self.claims.let_go(id);
        let params = vec![uuid(self.claims.me), uuids(vec![claim.token])];
        self.ask("release", RELEASE, params)?;
        moved
    }

    fn move_out(&self, id: &SessionId, claim: Claim) -> Result<(), StoreError> {
        let params = vec![int(claim.no), uuid(claim.token), flag(self.is_safe())];
        let sql = "SELECT @.move($1, $2, false, $3)";
        match self.driver.query(sql, params, Repeat::Yes) {
            Ok(rows) if rows.first().is_some_and(|row| row.get(0)) => Ok(()),
            Ok(_) => Err(StoreError::NotFound { id: id.clone() }),
            Err(failure) if failure.is_duplicate() => Err(StoreError::Exists { id: id.clone() }),
            Err(failure) => Err(self.failed("restore", failure)),
        }
    }

    /// Whether this role may remove what is in logs.
    pub(super) fn may_remove(&self) -> Result<bool, StoreError> {
        let allowed = "SELECT has_table_privilege('@.block', 'DELETE')";
        let rows = self.ask("look at", allowed, Vec::new())?;
        Ok(rows.first().is_some_and(|row| row.get(0)))
    }

    pub(super) fn count_trash(&self, before: Timestamp) -> Result<usize, StoreError> {
        let sql = "SELECT (SELECT count(*) FROM @.session WHERE state = 't' AND since < $1)
                        + (SELECT count(*) FROM @.torn WHERE since < $1)";
        let rows = self.ask("look at", sql, vec![int(before.as_millis())])?;
        let count = rows.first().map_or(0, |row| row.get::<_, i64>(0));
        Ok(usize::try_from(count).unwrap_or_default())
    }

    /// Also removes what processes that died have left: sessions half made, and their own rows. Roles that
    /// may only write leave it all to others.
    pub(super) fn empty_trash(&self, before: Timestamp) -> Result<u64, StoreError> {
        if !self.may_remove()? {
            return Ok(0);
        }
        let trash = "
            WITH sized AS (
                SELECT s.no, sum(f.end_off) OVER (ORDER BY s.since, s.no) - f.end_off AS before
                FROM @.session s JOIN @.fence f USING (no)
                WHERE s.state = 't' AND s.since < $1 ORDER BY s.since, s.no LIMIT $2),
            old AS (SELECT s.no FROM @.session s
                WHERE s.no IN (SELECT no FROM sized WHERE before < $3) FOR UPDATE SKIP LOCKED),
            gone AS (DELETE FROM @.session s USING old WHERE s.no = old.no RETURNING s.no),
            logs AS (DELETE FROM @.block b USING gone WHERE b.no = gone.no)
            SELECT no FROM gone";
        let mut removed = 0;
        loop {
            let params = vec![int(before.as_millis()), int(BATCH), int(BYTES)];
            let rows = self.ask_long("empty the trash of", trash, params)?;
            removed += rows.len() as u64;
            if rows.is_empty() {
                break;
            }
        }
        let torn = "DELETE FROM @.torn WHERE since < $1 RETURNING 1";
        let rows = self.ask_long("empty the trash of", torn, vec![int(before.as_millis())])?;
        removed += rows.len() as u64;
        let left =
            "WITH gone AS (DELETE FROM @.session
                 WHERE state = 'm' AND since < extract(epoch from now()) * 1000 - 3600000 RETURNING no),
             logs AS (DELETE FROM @.block b USING gone WHERE b.no = gone.no)
             DELETE FROM @.writer WHERE seen < now() - interval '1 day'";
        self.ask_long("clean up", left, Vec::new())?;
        Ok(removed)
    }

    pub(super) fn has_traces_of(&self, id: &SessionId) -> Result<bool, StoreError> {
        let sql = "SELECT 1 FROM @.session WHERE id = $1 UNION ALL
                   SELECT 1 FROM @.torn WHERE id = $1 LIMIT 1";
        let rows = self.ask("look at", sql, vec![uuid(id.to_uuid())])?;
        Ok(!rows.is_empty())
    }

    pub(super) fn erase(&self, id: &SessionId) -> Result<bool, StoreError> {
        // If the answer is lost, the statement runs again and finds nothing.
        let is_there = self.has_traces_of(id)?;
        let sql =
            "WITH gone AS (DELETE FROM @.session WHERE id = $1 AND state <> 'm' RETURNING no),
            logs AS (DELETE FROM @.block b USING gone WHERE b.no = gone.no),
            ids AS (DELETE FROM @.agent_id WHERE session = $1),
            ends AS (DELETE FROM @.torn WHERE id = $1 RETURNING 1)
            SELECT 1 FROM gone UNION ALL SELECT 1 FROM ends";
        self.ask_long("remove", sql, vec![uuid(id.to_uuid())])?;
        Ok(is_there)
    }
}
