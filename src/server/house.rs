//! What is done for the store in the background, where it can delay no request.

use std::time::Duration;

use tokio::task::spawn_blocking;

use crate::history::{Retired, has_aged, retire};
use crate::index::Catalog;
use crate::session::Registry;
use crate::store::Store;
use crate::sys::SessionId;

/// How long after the start it begins. A client that only asks something is gone by then.
const AFTER: Duration = Duration::from_secs(10);
/// The rest between two parts of it.
const PAUSE: Duration = Duration::from_millis(100);
/// How long deleted sessions and torn ends are kept: 30 days, in milliseconds.
const TRASH_KEPT: u64 = 30 * 24 * 60 * 60 * 1000;
/// How much of logs is read for its words in one part, in bytes.
const WORDS: usize = 1024 * 1024;

/// Compares the catalog with the logs that other programs may have changed, moves what has expired
/// to the trash, reads the words of logs for later searches, all of it a little at a time, and
/// empties the trash of what has long been there. Never resolves.
pub(super) async fn keep_house(registry: &Registry) {
    tokio::time::sleep(AFTER).await;
    rest(registry).await;
    let deps = registry.deps();
    if let (Some(catalog), Some(store)) = (&deps.catalog, &deps.store) {
        let mut from = None;
        loop {
            let catalog = catalog.clone();
            let step = spawn_blocking(move || catalog.audit(from.as_ref()));
            match step.await {
                Ok(Some(next)) => from = Some(next),
                Ok(None) | Err(_) => break,
            }
            rest(registry).await;
        }
        let mut from = None;
        while let Some(before) = deps.expired_before() {
            let (catalog, store) = (catalog.clone(), store.clone());
            let step =
                spawn_blocking(move || retire_some(&store, &catalog, &before, from.as_ref()));
            match step.await {
                Ok(Some(next)) => from = Some(next),
                Ok(None) | Err(_) => break,
            }
            rest(registry).await;
        }
        loop {
            let catalog = catalog.clone();
            let step = spawn_blocking(move || catalog.read_words(WORDS));
            match step.await {
                Ok(Ok(false)) => {}
                Ok(Ok(true)) | Err(_) => break,
                Ok(Err(error)) => {
                    tracing::warn!(%error, "cannot read the words of sessions");
                    break;
                }
            }
            rest(registry).await;
        }
    }
    if let Some(store) = deps.store.clone() {
        let emptied = spawn_blocking(move || store.empty_trash(TRASH_KEPT)).await;
        match emptied {
            Ok(Ok(0)) | Err(_) => {}
            Ok(Ok(files)) => tracing::info!(files, "removed what was in the trash for 30 days"),
            Ok(Err(error)) => tracing::warn!(%error, "cannot empty the trash"),
        }
    }
    std::future::pending::<()>().await;
}

/// Rests until nobody is served: what is done here takes memory and the disk's time.
async fn rest(registry: &Registry) {
    loop {
        tokio::time::sleep(PAUSE).await;
        let (requests, turns, replays) =
            (registry.requests(), registry.turns(), registry.replays());
        if requests.is_idle() && turns.is_idle() && replays.is_idle() {
            return;
        }
        requests.idle().await;
        turns.idle().await;
        replays.idle().await;
    }
}

/// Looks at a thousand sessions, beginning after `after`, and moves those to the trash that were
/// last of use before `before`. Returns where to go on; none at the end.
fn retire_some(
    store: &Store,
    catalog: &Catalog,
    before: &str,
    after: Option<&SessionId>,
) -> Option<SessionId> {
    let sessions = match catalog.every(after) {
        Ok(sessions) => sessions,
        Err(error) => {
            tracing::warn!(%error, "cannot tell which sessions have expired");
            return None;
        }
    };
    for session in sessions.iter().filter(|s| has_aged(&s.summary, before)) {
        match retire(store, catalog, session) {
            Ok(Retired::Trashed) => tracing::info!(session = %session.id, "has expired"),
            Ok(Retired::InUse | Retired::Changed) => {}
            Err(error) => {
                tracing::warn!(session = %session.id, %error, "cannot move to the trash");
            }
        }
    }
    sessions.last().map(|session| session.id.clone())
}
