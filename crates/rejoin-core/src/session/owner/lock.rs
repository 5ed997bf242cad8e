//! The lock of a session's log: waits until another process has released it, takes it, or reads the log
//! without it.

use std::time::Duration;

use crate::engine::SessionConfig;
use crate::protocol::meta::{TAKE_OVER, is_set};
use crate::session::outcome::{Elsewhere, Refusal};
use crate::store::{OpenedLog, PositionedRecord, Scan, Store, StoreError};
use crate::sys::{SessionId, blocking};

use super::open_session::LogAccess;

/// How long a process may take to release a session after it has announced that it is ending.
const ENDING: Duration = Duration::from_secs(2);
/// How often to check whether it has. Another process cannot notify this one.
const CHECK: Duration = Duration::from_millis(20);

/// Waits until a process that is ending has released the session, but not for long. A holder that
/// is not ending is not waited for.
pub(in crate::session) async fn released(store: Store, id: SessionId) {
    let released = async {
        while blocking(|| store.is_being_released(&id)) {
            tokio::time::sleep(CHECK).await;
        }
    };
    tokio::time::timeout(ENDING, released).await.ok();
}

/// Whether the client has asked to take a session over from a process that has it open.
pub(in crate::session) fn takes_over(config: &SessionConfig) -> bool {
    is_set(&config.params.0, TAKE_OVER)
}

/// Locks the log for this process, `by_force` even if another one has it. While another process has
/// it locked, or if the disk allows no writes, only reads it. Calls `visit` with each record, once.
pub(in crate::session) fn lock_or_read(
    store: &Store,
    id: &SessionId,
    by_force: bool,
    visit: &mut dyn FnMut(&PositionedRecord<'_>),
) -> Result<(LogAccess, Scan), Refusal> {
    let mut is_visited = false;
    let mut visit_once = |entry: &PositionedRecord<'_>| {
        is_visited = true;
        visit(entry);
    };
    let opened = if by_force {
        store.take_over_with(id, &mut visit_once)
    } else {
        store.open_log_with(id, &mut visit_once)
    };
    match opened {
        Ok(OpenedLog {
            log,
            scan,
            kept_aside,
        }) => {
            if let Some(path) = kept_aside {
                tracing::warn!(session = %id, path = %path.display(), "saved a torn end and removed it from the log");
            }
            Ok((LogAccess::Own(log), scan))
        }
        Err(error @ (StoreError::InUse { .. } | StoreError::ReadOnly { .. })) => {
            let mut log = store.read(id)?;
            // Where the recovery has failed, all records were read before.
            let scan = if is_visited {
                log.scan()?
            } else {
                log.scan_with(visit)?
            };
            let access = if let StoreError::InUse { holder, .. } = error {
                let running = scan.turn_open();
                LogAccess::Shared(Elsewhere {
                    holder,
                    running,
                    attached: false,
                })
            } else {
                tracing::warn!(session = %id, %error, "opened for reading only");
                LogAccess::ReadOnly(error.to_string())
            };
            Ok((access, scan))
        }
        Err(error) => Err(error.into()),
    }
}
