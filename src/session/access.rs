//! How a session gets at its log: with the lock, or only to read it.

use std::time::Duration;

use crate::store::{Entry, Opened, Scan, Store, StoreError};
use crate::sys::{SessionId, blocking};

use super::open_session::{Elsewhere, LogAccess};
use super::outcome::Refusal;
use super::refusal::storage;

/// How long a process may take to release a session, once it says that it is ending.
const ENDING: Duration = Duration::from_secs(2);
/// How often it is looked whether it has.
const AGAIN: Duration = Duration::from_millis(20);

/// Waits until a process that is ending has released the session, but not for long. A holder that
/// is alive and well is not waited for.
pub(super) async fn released(store: &Store, id: &SessionId) {
    let released = async {
        while blocking(|| store.is_being_released(id)) {
            tokio::time::sleep(AGAIN).await;
        }
    };
    tokio::time::timeout(ENDING, released).await.ok();
}

/// Locks the log for this process. While another process has it locked, or where the disk takes no
/// writes, only reads it. Calls `visit` with each record.
pub(super) fn lock_or_read(
    store: &Store,
    id: &SessionId,
    visit: &mut dyn FnMut(&Entry<'_>),
) -> Result<(LogAccess, Scan), Refusal> {
    match store.open_log_with(id, visit) {
        Ok(Opened {
            log,
            scan,
            kept_aside,
        }) => {
            if let Some(path) = kept_aside {
                tracing::warn!(session = %id, path = %path.display(), "cut a torn end, kept aside");
            }
            Ok((LogAccess::Own(log), scan))
        }
        Err(error @ (StoreError::InUse { .. } | StoreError::ReadOnly { .. })) => {
            let scan = store.read(id).and_then(|mut log| log.scan_with(visit));
            let scan = scan.map_err(|error| storage(&error))?;
            let access = if let StoreError::InUse { holder, .. } = error {
                let running = scan.turn_open();
                LogAccess::Shared(Elsewhere { holder, running })
            } else {
                tracing::warn!(session = %id, %error, "opened for reading only");
                LogAccess::ReadOnly(error.to_string())
            };
            Ok((access, scan))
        }
        Err(error) => Err(storage(&error)),
    }
}
