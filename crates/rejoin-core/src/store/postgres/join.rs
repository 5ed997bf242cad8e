//! Joins small blocks: a log that was streamed has a row for each update or two, which take more room
//! and longer to read than a few large ones. The bytes of a log and their offsets stay as they are.

use crate::store::medium::StoreError;
use crate::sys::{SessionId, Timestamp};

use super::StoreTables;
use super::driver::{int, text, uuid};

/// How many logs one call looks at.
const LOGS: i64 = 16;
/// How long joined blocks are, in bytes: those that begin between two multiples of it are joined.
const PLACE: i64 = 64 * 1024;
/// How many blocks may begin there before they are joined.
const FEW: i64 = 8;
/// How many blocks one statement makes at most.
const AT_ONCE: i64 = 256;

/// The name of the note which says how far this role is. Each sees other sessions.
const NOTE: &str = "joined";

impl StoreTables {
    /// Joins small blocks of some logs in which nobody has prompted since `before`; false if none is
    /// left. Roles that may only write leave it to others.
    pub(super) fn join_blocks(&self, before: Timestamp) -> Result<bool, StoreError> {
        if !self.may_remove()? {
            return Ok(false);
        }
        let note = self.note(NOTE)?.unwrap_or_default();
        let (at, id) = note.split_once(' ').unwrap_or_default();
        let after = SessionId::parse(id).map(|id| id.to_uuid());
        let sql = "SELECT s.no, s.updated_at, s.id FROM @.session s
                   WHERE s.state = 'l' AND s.updated_at < $1
                       AND (s.updated_at, s.id) > ($2, $3)
                   ORDER BY s.updated_at, s.id LIMIT $4";
        let params = vec![
            text(before.to_string()),
            text(at.to_owned()),
            uuid(after.unwrap_or_default()),
            int(LOGS),
        ];
        let rows = self.ask("look at", sql, params)?;
        for row in &rows {
            self.join_blocks_of(row.get(0))?;
        }
        let Some(last) = rows.last() else {
            return Ok(false);
        };
        let (at, id): (String, _) = (last.get(1), SessionId::from_uuid(last.get(2)));
        self.set_note(NOTE, &format!("{at} {id}"))?;
        Ok(true)
    }

    /// Joins the blocks of a log that no process has, or one that was gone for a day.
    fn join_blocks_of(&self, no: i64) -> Result<(), StoreError> {
        let sql = "SELECT @.join_blocks($1, $2, $3, $4)";
        loop {
            let params = vec![int(no), int(PLACE), int(FEW), int(AT_ONCE)];
            let rows = self.ask_long("join blocks in", sql, params)?;
            if rows
                .first()
                .is_none_or(|row| row.get::<_, i64>(0) < AT_ONCE)
            {
                return Ok(());
            }
        }
    }
}
