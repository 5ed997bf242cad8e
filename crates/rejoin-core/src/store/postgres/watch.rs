//! Looks for logs that other processes write to. Nothing of it belongs to a connection, so the
//! database is asked again and again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio_postgres::Row;

use crate::store::medium::{LogChanged, StoreError, Wanted};
use crate::sys::{SessionId, Watch};

use super::StoreTables;
use super::driver::{Param, StatementRunner, int, uuids};
use super::failure::DatabaseFailure;

/// The time between two looks.
const EVERY: Duration = Duration::from_millis(500);
/// How long after its time a change may become visible, in milliseconds.
const LATE: i64 = 5000;

/// How these sessions are: where their logs end, and which claim they have.
const THESE: &str = "SELECT s.id, f.end_off, f.epoch + CASE WHEN f.writer IS NULL THEN 0 ELSE 1 END
    FROM @.session s JOIN @.fence f USING (no) WHERE s.id = ANY ($1) AND s.state = 'l'";

/// The sessions for which a list shows something else since this time, or which are no longer, or
/// again, in one. The first row has the time instead.
const ALL: &str = "
    SELECT NULL::uuid, 0::bigint, (extract(epoch from clock_timestamp()) * 1000)::bigint
    UNION ALL SELECT id, noted_at, since FROM @.session WHERE noted_at > $1
    UNION ALL SELECT id, noted_at, since FROM @.session WHERE state = 't' AND since > $1
    UNION ALL SELECT id, noted_at, since FROM @.session WHERE state = 'l' AND since > $1";

/// Sessions with two numbers, which change with them.
type Known = BTreeMap<SessionId, (i64, i64)>;

/// Stops looking when it is dropped.
struct Looking(AbortHandle);

impl Drop for Looking {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A query for changes.
struct Poll {
    wanted: Wanted,
    /// The time since which changes of all sessions are looked for, in milliseconds.
    since: i64,
}

impl Poll {
    /// The statement of the next look; `None` if nothing is wanted.
    fn next(&self) -> Option<(&'static str, Vec<Param>)> {
        let Some(wanted) = &self.wanted else {
            return Some((ALL, vec![int(self.since)]));
        };
        let ids: Vec<_> = wanted().iter().map(SessionId::to_uuid).collect();
        (!ids.is_empty()).then(|| (THESE, vec![uuids(ids)]))
    }

    /// The states of the sessions in the rows.
    fn found(&mut self, rows: &[Row]) -> Known {
        let mut known = Known::new();
        for row in rows {
            let state = (row.get(1), row.get(2));
            match row.get::<_, Option<_>>(0) {
                Some(id) => drop(known.insert(SessionId::from_uuid(id), state)),
                None => self.since = state.1 - LATE,
            }
        }
        known
    }

    async fn look(&mut self, remote: &StatementRunner) -> Result<Known, DatabaseFailure> {
        let Some((sql, params)) = self.next() else {
            return Ok(Known::new());
        };
        let rows = remote.query(sql, params).await?;
        Ok(self.found(&rows))
    }
}

/// Calls `changed` with each wanted session whose log has grown, or was opened or released; if all are
/// wanted, with those for which lists show something else.
pub(super) fn watch(
    tables: &Arc<StoreTables>,
    wanted: Wanted,
    changed: LogChanged,
) -> Result<Watch, StoreError> {
    let handle = tables.driver.handle();
    let handle = handle.map_err(|failure| tables.failed("watch", failure))?;
    let remote = tables.driver.remote();
    let since = i64::MAX;
    let mut look = Poll { wanted, since };
    // What is written before the first look is not seen, so that comes before the caller goes on.
    let mut known = match look.next() {
        Some((sql, params)) => look.found(&tables.ask("watch", sql, params)?),
        None => Known::new(),
    };
    let task = handle.spawn(async move {
        let mut was_missed = false;
        loop {
            tokio::time::sleep(EVERY).await;
            match look.look(&remote).await {
                Ok(found) => {
                    report(&known, &found, &changed);
                    if std::mem::take(&mut was_missed) {
                        changed(None);
                    }
                    known = found;
                }
                Err(error) => {
                    tracing::debug!(%error, "cannot look for changes of other processes");
                    was_missed = true;
                }
            }
        }
    });
    Ok(Box::new(Looking(task.abort_handle())))
}

/// Reports what differs. A session that is no longer among those that were found has not changed: it
/// is no longer wanted, or its change was long ago.
fn report(before: &Known, now: &Known, changed: &LogChanged) {
    for (id, state) in now {
        if before.get(id) != Some(state) {
            changed(Some(id.clone()));
        }
    }
}
