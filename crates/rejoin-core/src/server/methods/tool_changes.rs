//! Looks at the files of other tools while a client is notified of changes in its lists: when the
//! system reports a change of a folder where changes are likely, and from time to time.

use std::collections::BTreeSet;
use std::future::pending;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::server::tools::ToolSessions;
use crate::sys::{Watch, blocking, watch_folders};

/// How long changes are gathered: a tool at work writes often.
const GATHER: Duration = Duration::from_secs(1);

/// How often to look where the system reports no changes.
const POLL: Duration = Duration::from_secs(30);

/// Looks again and again. The catalog reports what has changed. Never resolves.
pub(super) async fn follow(tools: Option<Arc<ToolSessions>>) {
    let Some(tools) = tools else {
        return pending().await;
    };
    let changed = Arc::new(Notify::new());
    let (mut folders, mut watched) = (BTreeSet::new(), None);
    loop {
        let looking = tools.clone();
        let looked = spawn_blocking(move || looking.folders());
        match looked.await {
            Ok(Ok(now)) if now != folders => {
                drop(watched);
                watched = watch(&now, &changed);
                folders = now;
                // What changed before the watch began is found now.
                continue;
            }
            Ok(Ok(_)) => {}
            Ok(Err(error)) => tracing::warn!(%error, "changes of other tools are not seen"),
            Err(error) => tracing::warn!(%error, "changes of other tools are not seen"),
        }
        tokio::select! {
            () = changed.notified() => sleep(GATHER).await,
            () = sleep(POLL) => {}
        }
    }
}

/// Watches these folders, as far as they exist and the system can do that.
fn watch(folders: &BTreeSet<PathBuf>, changed: &Arc<Notify>) -> Option<Watch> {
    let changed = changed.clone();
    let watched = blocking(|| watch_folders(folders, move || changed.notify_one()));
    let failed = |error| tracing::info!(%error, "changes of other tools are seen late");
    watched.map_err(failed).ok()
}
