//! The state of an open session that is not in its log.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::engine::SessionConfig;

use super::always::Always;
use super::chosen::Chosen;
use super::mcp::Servers;

/// The state of one open session.
#[derive(Debug)]
pub(super) struct Kept {
    /// The mode and the options.
    pub(super) chosen: Chosen,
    /// The user's permanent permissions and rejections.
    pub(super) always: Always,
    /// Its MCP servers.
    pub(super) servers: Arc<Servers>,
    /// Whether the servers were started.
    started: AtomicBool,
    /// The guard program for commands, if there is one.
    pub(super) guard: Option<PathBuf>,
}

impl Kept {
    /// The state of a session that was just opened. `guard` is the guard program for its processes.
    pub(super) fn new(guard: Option<PathBuf>) -> Self {
        Self {
            chosen: Chosen::default(),
            always: Always::default(),
            servers: Arc::new(Servers::new(guard.clone())),
            started: AtomicBool::new(false),
            guard,
        }
    }

    /// Starts the MCP servers of the session, and waits a while for them.
    pub(super) async fn start_servers(&self, config: &SessionConfig) {
        self.servers.want(config);
        self.started.store(true, Ordering::Release);
        self.servers.settle().await;
    }

    /// Whether the servers were started.
    pub(super) fn are_servers_started(&self) -> bool {
        self.started.load(Ordering::Acquire)
    }
}
