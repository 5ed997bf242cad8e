//! Looks for logs that other processes write to. Nothing of it belongs to a connection, so the
//! database is asked again and again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio_postgres::Row;

use crate::store::medium::{LogChanged, StoreError};
use crate::sys::{SessionId, Watch};

use super::Tables;

/// The time between two looks.
const EVERY: Duration = Duration::from_millis(500);

/// The sessions that are open somewhere.
const OPEN: &str = "SELECT s.id, f.end_off, f.epoch FROM @.fence f JOIN @.session s USING (no)
    WHERE f.writer IS NOT NULL AND s.state = 'l'";

/// Those sessions with the ends of their logs and the epochs.
type Open = BTreeMap<SessionId, (i64, i64)>;

/// Stops looking when it is dropped.
struct Looking(AbortHandle);

impl Drop for Looking {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Calls `changed` with each session whose log has grown, or was opened or released.
pub(super) fn watch(tables: &Arc<Tables>, changed: LogChanged) -> Result<Watch, StoreError> {
    let handle = tables.driver.handle();
    let handle = handle.map_err(|failure| tables.failed("watch", failure))?;
    let remote = tables.driver.remote();
    // What is written before the first look is not seen, so that comes before the caller goes on.
    let mut known = open(&tables.ask("watch", OPEN, Vec::new())?);
    let task = handle.spawn(async move {
        let mut was_missed = false;
        loop {
            tokio::time::sleep(EVERY).await;
            match remote.query(OPEN, &[]).await {
                Ok(rows) => {
                    let open = open(&rows);
                    report(&known, &open, &changed);
                    if std::mem::take(&mut was_missed) {
                        changed(None);
                    }
                    known = open;
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

fn open(rows: &[Row]) -> Open {
    let open = rows
        .iter()
        .map(|row| (SessionId::from_uuid(row.get(0)), (row.get(1), row.get(2))));
    open.collect()
}

/// Reports what differs.
fn report(before: &Open, now: &Open, changed: &LogChanged) {
    for (id, state) in now {
        if before.get(id) != Some(state) {
            changed(Some(id.clone()));
        }
    }
    for id in before.keys().filter(|id| !now.contains_key(id)) {
        changed(Some(id.clone()));
    }
}
