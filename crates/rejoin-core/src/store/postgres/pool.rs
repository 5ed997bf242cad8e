//! The open connections: which of them are idle, and for how long.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

use crate::sys::lock;

use super::address::Address;
use super::connect::{OpenConnection, connect};
use super::failure::DatabaseFailure;

/// How long an idle connection stays open: the last one, and any other.
const LAST_IDLE: Duration = Duration::from_mins(1);
const IDLE: Duration = Duration::from_secs(5);
/// How long an idle connection stays open if the server has few connections left.
const CROWDED: Duration = Duration::from_secs(1);
/// How often idle connections are looked at.
const LOOK: Duration = Duration::from_millis(500);
/// How long to wait for a connection that is in use, before another one is opened: most statements take
/// less, and to connect takes longer.
const IN_USE: Duration = Duration::from_millis(20);

/// The connections to a database.
#[derive(Default)]
pub(super) struct Pool {
    idle: Mutex<Vec<Idle>>,
    /// Notified when a connection is idle again.
    returned: Notify,
    /// How many are in use.
    used: AtomicUsize,
    /// The server that has let us in last.
    server: AtomicUsize,
    /// Whether the server has few connections left.
    pub(super) is_crowded: AtomicBool,
    /// Whether a task closes idle connections.
    is_watched: AtomicBool,
}

struct Idle {
    connection: OpenConnection,
    since: Instant,
}

/// A connection in use.
pub(super) struct UsedConnection {
    pub(super) connection: OpenConnection,
    pub(super) counted: Counted,
}

/// Counts as a connection in use.
pub(super) struct Counted(Arc<Pool>);

impl Pool {
    /// A connection that nobody uses, or a new one.
    pub(super) async fn take(
        self: &Arc<Self>,
        address: &Address,
        until: Instant,
    ) -> Result<UsedConnection, DatabaseFailure> {
        if let Some(connection) = self.take_idle() {
            return Ok(connection);
        }
        if self.used.load(Ordering::Relaxed) > 0 {
            let returned = timeout(IN_USE, self.returned.notified()).await;
            if let (Ok(()), Some(connection)) = (returned, self.take_idle()) {
                return Ok(connection);
            }
        }
        let first = self.server.load(Ordering::Relaxed);
        let connection = connect(address, first, until, false).await?;
        self.server.store(connection.server, Ordering::Relaxed);
        Ok(self.use_it(connection))
    }

    fn take_idle(self: &Arc<Self>) -> Option<UsedConnection> {
        loop {
            let Idle { connection, .. } = lock(&self.idle).pop()?;
            if !connection.client.is_closed() {
                return Some(self.use_it(connection));
            }
        }
    }

    fn use_it(self: &Arc<Self>, connection: OpenConnection) -> UsedConnection {
        self.used.fetch_add(1, Ordering::Relaxed);
        let counted = Counted(self.clone());
        UsedConnection {
            connection,
            counted,
        }
    }

    /// Closes all that nobody uses: they lead to a server that has failed.
    pub(super) fn clear(&self) {
        lock(&self.idle).clear();
    }

    /// Closes connections that were idle for long. Returns whether any is left.
    fn close_idle(&self) -> bool {
        let is_crowded = self.is_crowded.load(Ordering::Relaxed);
        let mut idle = lock(&self.idle);
        let mut left = idle.len();
        // The one that was used last is at the end.
        idle.retain(|idle| {
            let most = match left {
                _ if is_crowded => CROWDED,
                1 => LAST_IDLE,
                _ => IDLE,
            };
            left -= 1;
            idle.since.elapsed() < most && !idle.connection.client.is_closed()
        });
        !idle.is_empty()
    }
}

impl UsedConnection {
    /// Keeps it for the next statement.
    pub(super) fn keep(self) {
        let Self {
            connection,
            counted,
        } = self;
        let pool = counted.0.clone();
        let since = Instant::now();
        lock(&pool.idle).push(Idle { connection, since });
        drop(counted);
        if !pool.is_watched.swap(true, Ordering::AcqRel) {
            tokio::spawn(async move {
                loop {
                    sleep(LOOK).await;
                    if pool.close_idle() {
                        continue;
                    }
                    pool.is_watched.store(false, Ordering::Release);
                    // A connection may have been returned just now.
                    if lock(&pool.idle).is_empty() || pool.is_watched.swap(true, Ordering::AcqRel) {
                        return;
                    }
                }
            });
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.used.fetch_sub(1, Ordering::Relaxed);
        self.0.returned.notify_one();
    }
}
