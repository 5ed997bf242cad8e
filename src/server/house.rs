//! What is done for the store in the background, where it can delay no request.

use std::time::Duration;

use crate::session::Deps;

/// How long after the start it begins. A client that only asks something is gone by then.
const AFTER: Duration = Duration::from_secs(10);
/// The rest between two parts of it.
const PAUSE: Duration = Duration::from_millis(100);
/// How long deleted sessions and torn ends are kept: 30 days, in milliseconds.
const TRASH_KEPT: u64 = 30 * 24 * 60 * 60 * 1000;

/// Compares the catalog with the logs that other programs may have changed, a few at a time, and
/// empties the trash of what has long been there. Never resolves.
pub(super) async fn keep_house(deps: &Deps) {
    tokio::time::sleep(AFTER).await;
    let mut from = None;
    while let Some(catalog) = deps.catalog.clone() {
        let step = tokio::task::spawn_blocking(move || catalog.audit(from.as_ref()));
        match step.await {
            Ok(Some(next)) => from = Some(next),
            Ok(None) | Err(_) => break,
        }
        tokio::time::sleep(PAUSE).await;
    }
    if let Some(store) = deps.store.clone() {
        let emptied = tokio::task::spawn_blocking(move || store.empty_trash(TRASH_KEPT)).await;
        match emptied {
            Ok(Ok(0)) | Err(_) => {}
            Ok(Ok(files)) => tracing::info!(files, "removed what was in the trash for 30 days"),
            Ok(Err(error)) => tracing::warn!(%error, "cannot empty the trash"),
        }
    }
    std::future::pending::<()>().await;
}
