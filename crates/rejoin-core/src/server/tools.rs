//! The conversations of other tools beside the sessions of a store.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::engine::known::title;
use crate::index::{Catalog, ListError, Summary};
use crate::session::ListedTools;
use crate::sources::LiveSources;
use crate::store::{LogReader, Store, StoreError};
use crate::sys::{SessionId, with_causes};

/// The tools whose conversations are listed with the sessions of a store.
#[derive(Debug)]
pub(super) struct ToolSessions {
    pub(super) sources: Arc<LiveSources>,
    pub(super) store: Store,
    pub(super) catalog: Arc<Catalog>,
}

impl ToolSessions {
    /// Brings the conversations in the catalog up to date, unless that was done within this time.
    pub(super) fn scan(&self, again_after: Duration) -> Result<(), ListError> {
        let (sources, catalog) = (&self.sources, &self.catalog);
        sources.scan_again_after(again_after, &self.store, catalog)
    }

    /// The log of a session with what its tool has written since it was continued here.
    pub(super) fn with_branch(&self, log: LogReader) -> Result<LogReader, StoreError> {
        let id = log.id().clone();
        let log = self.sources.with_branch(&self.catalog, log, title);
        log.or_else(|error| {
            let error = with_causes(&error);
            tracing::warn!(session = %id, error, "cannot read what its tool has written");
            self.store.read_all(&id)
        })
    }

    /// Whether a tool has the conversation of this session.
    pub(super) fn has(&self, id: &SessionId) -> bool {
        matches!(self.sources.find(&self.catalog, id), Ok(Some(_)))
    }

    /// Creates the session `id` with the conversation of another session as its tool has it now; or why that
    /// cannot be done.
    pub(super) fn fork_branch(&self, of: &SessionId, id: &SessionId) -> Result<(), String> {
        let (sources, catalog) = (&self.sources, &self.catalog);
        let before = catalog.before_change();
        match sources.fork_branch(&self.store, catalog, of, id) {
            Ok(true) => {}
            Ok(false) => return Err("its tool's file no longer has a conversation".to_owned()),
            Err(error) => return Err(with_causes(&error)),
        }
        let scan = self.store.read(id).and_then(|mut log| log.scan());
        let scan = scan.map_err(|error| with_causes(&error))?;
        catalog.created(id, &Summary::of(&scan), before);
        Ok(())
    }

    /// The folders where changes are likely, after a scan.
    pub(super) fn folders(&self) -> Result<BTreeSet<PathBuf>, ListError> {
        self.scan(Duration::ZERO)?;
        self.sources.folders(&self.catalog)
    }
}

impl ListedTools for ToolSessions {
    fn follow(&self, id: &SessionId) {
        let (sources, catalog) = (&self.sources, &self.catalog);
        sources.follow_logged(&self.store, catalog, id, false);
    }
}
