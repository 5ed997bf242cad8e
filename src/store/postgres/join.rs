//! Joins small blocks: a log that was streamed has a row for each update or two, which take more room
//! and longer to read than a few large ones. The bytes of a log and their offsets stay as they are.

use crate::store::medium::StoreError;
use crate::sys::{SessionId, Timestamp};

use super::Tables;
use super::driver::{int, text, uuid};

/// How many logs one call looks at.
const LOGS: i64 = 16;
/// How long joined blocks are, in bytes: those that begin between two multiples of it are joined.
const PLACE: i64 = 64 * 1024;
/// How many blocks may begin there before they are joined.
const FEW: i64 = 8;
/// How many blocks one statement makes at most.
const AT_ONCE: usize = 256;

/// The name of the note which says how far this role is. Each sees other sessions.
const NOTE: &str = "'joined by ' || session_user";

impl Tables {
    /// Joins small blocks of some logs in which nobody has prompted since `before`; false if none is
    /// left. Roles that may only write leave it to others.
    pub(super) fn join_blocks(&self, before: Timestamp) -> Result<bool, StoreError> {
        if !self.may_remove()? {
            return Ok(false);
        }
        let sql = format!("SELECT text FROM @.note WHERE name = {NOTE}");
        let rows = self.ask("look at", &sql, Vec::new())?;
        let note: String = rows.first().map_or(String::new(), |row| row.get(0));
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
        let sql = format!(
            "INSERT INTO @.note VALUES ({NOTE}, $1)
             ON CONFLICT (name) DO UPDATE SET text = excluded.text"
        );
        self.ask("write to", &sql, vec![text(format!("{at} {id}"))])?;
        Ok(true)
    }

    /// Joins the blocks of a log that no process has, or one that was gone for a day: it is taken over
    /// for this moment.
    fn join_blocks_of(&self, no: i64) -> Result<(), StoreError> {
        let sql = format!(
            "WITH small AS MATERIALIZED (SELECT off / {PLACE} AS place FROM @.block WHERE no = $1
                 GROUP BY 1 HAVING count(*) > {FEW} ORDER BY 1 LIMIT {AT_ONCE}),
             held AS (UPDATE @.fence f SET epoch = epoch + 1, writer = NULL
                 WHERE no = $1 AND EXISTS (SELECT FROM small) AND (writer IS NULL OR NOT EXISTS
                     (SELECT FROM @.writer w
                      WHERE w.id = f.writer AND w.seen > now() - interval '1 day'))
                 RETURNING no),
             gone AS (DELETE FROM @.block b USING held, small
                 WHERE b.no = held.no AND b.off / {PLACE} = small.place
                 RETURNING b.off, b.epoch, b.bytes)
             INSERT INTO @.block
             SELECT $1, min(off), max(epoch), string_agg(bytes, ''::bytea ORDER BY off)
             FROM gone GROUP BY off / {PLACE}
             RETURNING 1"
        );
        loop {
            let made = self.ask("join blocks in", &sql, vec![int(no)])?;
            if made.len() < AT_ONCE {
                return Ok(());
            }
        }
    }
}
