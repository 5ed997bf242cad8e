//! What an open session has beside what it was opened with.

use std::path::PathBuf;
use std::sync::Arc;

use super::always::Always;
use super::chosen::Chosen;
use super::mcp::Servers;

/// The belongings of one open session.
#[derive(Debug)]
pub(super) struct Kept {
    /// Mode and options.
    pub(super) chosen: Chosen,
    /// What the user has allowed and rejected for good.
    pub(super) always: Always,
    /// Its MCP servers.
    pub(super) servers: Arc<Servers>,
    /// The program that guards commands, if one is to.
    pub(super) guard: Option<PathBuf>,
}

impl Kept {
    /// What a session has when it is opened. `guard` guards the processes that it starts.
    pub(super) fn new(guard: Option<PathBuf>) -> Self {
        Self {
            chosen: Chosen::default(),
            always: Always::default(),
            servers: Arc::new(Servers::new(guard.clone())),
            guard,
        }
    }
}
