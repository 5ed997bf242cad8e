//! Maintenance of the store in the background, where it delays no request.

use std::time::Duration;

use tokio::task::spawn_blocking;

use crate::history::{Expiry, expire_some, long_before};
use crate::session::Registry;
use crate::store::{LastCleanup, Store};
use crate::sys::Timestamp;

use super::process::Process;

/// How long after the start it begins. A client with a single request is gone by then.
const AFTER: Duration = Duration::from_secs(10);
/// The time between clean-ups.
const AGAIN: Duration = Duration::from_hours(6);
/// The time between clean-ups by processes that are gone before a clean-up of their own.
const EVERY_DAY: Duration = Duration::from_hours(24);
/// The longest time by which a process of a store in a database begins later: many may have begun at
/// the same moment.
const SPREAD: Duration = Duration::from_mins(1);
/// How long a process may clean up at its end.
const AT_THE_END: Duration = Duration::from_millis(300);
/// The pause between two steps.
const PAUSE: Duration = Duration::from_millis(100);
/// How long deleted sessions and torn ends are kept.
const TRASH_KEPT: Duration = Duration::from_hours(30 * 24);
/// Idle time before a session's blocks are compacted.
const RESTS: Duration = Duration::from_hours(24);
/// How much of the logs is indexed in one step, in bytes.
const WORDS: usize = 1024 * 1024;

/// Compares the catalog with the logs, which other programs may have changed, cleans up, and indexes
/// the text of logs for later searches, all in small steps; then cleans up every few hours. Counts
/// what is in conversations of other tools that were listed. Never resolves.
pub(super) async fn run_maintenance(process: &Process) {
    tokio::join!(maintain(process), count(process));
}

/// Reads the conversations of other tools that were listed.
async fn count(process: &Process) {
    let Some(tools) = process.tools() else {
        return;
    };
    loop {
        tools.sources.uncounted().await;
        loop {
            rest(process).await;
            let tools = tools.clone();
            match spawn_blocking(move || tools.sources.count_some(&tools.catalog)).await {
                Ok(Ok(true)) => {}
                Ok(Ok(false)) | Err(_) => break,
                Ok(Err(error)) => {
                    tracing::warn!(%error, "cannot count what is in conversations");
                    break;
                }
            }
        }
    }
}

async fn maintain(process: &Process) {
    tokio::time::sleep(AFTER + delay(process)).await;
    rest(process).await;
    audit(process).await;
    clean_up_if_due(process).await;
    read_words(process).await;
    loop {
        tokio::time::sleep(AGAIN).await;
        rest(process).await;
        clean_up_if_due(process).await;
    }
}

/// By how much this process begins later than others.
fn delay(process: &Process) -> Duration {
    if !process.store().is_some_and(Store::waits) {
        return Duration::ZERO;
    }
    let random = process.sys().ids.uuid().as_u128() % 1000;
    SPREAD.mul_f64(f64::from(u16::try_from(random).unwrap_or_default()) / 1000.0)
}

/// Cleans up at the end of a process, which may be too short-lived for anything else, unless that was
/// done within a day.
pub(super) async fn clean_up_at_the_end(process: &Process) {
    let cleaned = async {
        if is_due(process, EVERY_DAY).await {
            clean_up(process, When::AtOnce).await;
        }
    };
    if tokio::time::timeout(AT_THE_END, cleaned).await.is_err() {
        tracing::debug!("there was not enough time to clean up");
    }
}

/// Whether there is a store that no process has cleaned up for so long.
async fn is_due(process: &Process, age: Duration) -> bool {
    let Some(store) = process.store().cloned() else {
        return false;
    };
    let now = process.sys().clock.now();
    let expire_after = millis(process.options().expire_after);
    let look = spawn_blocking(move || {
        let is_due = |cleaned: LastCleanup| cleaned.is_due(now, age, expire_after);
        store.is_there().unwrap_or(false) && store.last_cleanup().is_none_or(is_due)
    });
    look.await.unwrap_or(false)
}

/// Cleans up. A database has many processes: one of them is enough.
async fn clean_up_if_due(process: &Process) {
    let is_shared = process.store().is_some_and(Store::waits);
    if !is_shared || is_due(process, AGAIN / 2).await {
        clean_up(process, When::Idle).await;
    }
}

/// When steps are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    /// While no request is served.
    Idle,
    /// Without a pause.
    AtOnce,
}

/// Looks for logs that differ from the catalog.
async fn audit(process: &Process) {
    let Some(catalog) = process.catalog().cloned() else {
        return;
    };
    let mut from = None;
    loop {
        let catalog = catalog.clone();
        match spawn_blocking(move || catalog.audit(from.as_ref())).await {
            Ok(Some(next)) => from = Some(next),
            Ok(None) | Err(_) => return,
        }
        rest(process).await;
    }
}

/// Indexes the text of logs.
async fn read_words(process: &Process) {
    let Some(catalog) = process.catalog().cloned() else {
        return;
    };
    loop {
        let catalog = catalog.clone();
        match spawn_blocking(move || catalog.read_words(WORDS)).await {
            Ok(Ok(false)) => {}
            Ok(Ok(true)) | Err(_) => return,
            Ok(Err(error)) => {
                tracing::warn!(%error, "cannot read the words of sessions");
                return;
            }
        }
        rest(process).await;
    }
}

/// Removes what has long been in the trash and what killed processes have left, and moves to the trash
/// what has expired.
async fn clean_up(process: &Process, when: When) {
    let (Some(store), Some(catalog)) = (process.store(), process.catalog()) else {
        return;
    };
    let now = process.sys().clock.now();
    let mut cleaned = store.last_cleanup().unwrap_or(LastCleanup {
        at: 0,
        expire_after: None,
        words_left: false,
    });
    let emptied = {
        let store = store.clone();
        spawn_blocking(move || store.empty_trash(long_before(now, TRASH_KEPT))).await
    };
    match emptied {
        Ok(Ok(0)) | Err(_) => {}
        Ok(Ok(files)) => {
            tracing::info!(files, "removed what was in the trash for 30 days");
            cleaned.words_left = true;
            note(process, &cleaned).await;
        }
        Ok(Err(error)) => tracing::warn!(%error, "cannot empty the trash"),
    }
    let removed = {
        let store = store.clone();
        spawn_blocking(move || store.remove_unused_sockets()).await
    };
    match removed {
        Ok(Ok(0)) | Err(_) => {}
        Ok(Ok(sockets)) => tracing::info!(sockets, "removed what killed processes have left"),
        Ok(Err(error)) => tracing::debug!(%error, "cannot remove unused sockets"),
    }
    let mut from = None;
    loop {
        if when == When::Idle {
            rest(process).await;
        }
        let expiry = Expiry::at(now, process.options().expire_after);
        let (store, catalog) = (store.clone(), catalog.clone());
        let step = spawn_blocking(move || expire_some(&store, &catalog, &expiry, from.as_ref()));
        match step.await {
            Ok(Some(next)) => from = Some(next),
            Ok(None) | Err(_) => break,
        }
    }
    if cleaned.words_left {
        let catalog = catalog.clone();
        match spawn_blocking(move || catalog.erase_deleted()).await {
            Ok(Ok(())) => cleaned.words_left = false,
            Ok(Err(error)) => {
                tracing::debug!(%error, "words of removed sessions may be left in the index");
            }
            Err(_) => {}
        }
    }
    if when == When::Idle {
        join_blocks(process, store, now).await;
    }
    cleaned.at = now.as_millis();
    cleaned.expire_after = millis(process.options().expire_after);
    note(process, &cleaned).await;
}

/// Joins what was streamed, once its session rests.
async fn join_blocks(process: &Process, store: &Store, now: Timestamp) {
    loop {
        rest(process).await;
        let store = store.clone();
        let step = spawn_blocking(move || store.join_blocks(long_before(now, RESTS))).await;
        match step {
            Ok(Ok(true)) => {}
            Ok(Ok(false)) | Err(_) => return,
            Ok(Err(error)) => return tracing::warn!(%error, "cannot join small blocks of logs"),
        }
    }
}

/// Records how far the clean-up is.
async fn note(process: &Process, cleaned: &LastCleanup) {
    if let Some(store) = process.store().cloned() {
        let cleaned = cleaned.clone();
        if let Ok(Err(error)) = spawn_blocking(move || store.set_last_cleanup(&cleaned)).await {
            tracing::debug!(%error, "cannot note that the store was cleaned up");
        }
    }
}

fn millis(age: Option<Duration>) -> Option<u64> {
    age.map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX))
}

/// Waits until no request is served: maintenance takes memory and disk bandwidth.
async fn rest(process: &Process) {
    loop {
        tokio::time::sleep(PAUSE).await;
        if process.connections().iter().all(Registry::is_idle) {
            return;
        }
        process.idle().await;
    }
}
