//! Lists that a store's database answers itself.
//!
//! Such a store has a summary of each session beside its log. The process that writes to a session
//! keeps it up to date, so that no other process has to read the log for a list. The catalog in SQLite is
//! then in memory, and only for what is searched.

use std::collections::BTreeSet;

use crate::record::AgentSessionId;
use crate::store::Store;
use crate::sys::SessionId;

use super::catalog::{ListError, Listed, Page};
use super::cursor;
use super::filter::Filter;
#[cfg(feature = "store-postgres")]
use super::logs::Logs;
use super::session_rows::Window;
use super::summary::Summary;
#[cfg(feature = "store-postgres")]
use super::tables::Tables;

/// Answers of the database.
pub(super) trait Remote: Send + Sync {
    /// The entries of a list within a window, and how many there are in all, if that is not very
    /// many.
    fn page(&self, filter: &Filter, window: Window<'_>) -> Result<(Vec<Listed>, u64), ListError>;

    /// A session, if the list shows it.
    fn listed(&self, id: &SessionId, filter: &Filter) -> Result<Option<Listed>, ListError>;

    /// The summary of a session.
    fn find(&self, id: &SessionId) -> Result<Option<Summary>, ListError>;

    /// The sessions after this one in the order of their ids.
    fn every(&self, after: Option<&SessionId>, limit: i64) -> Result<Vec<Listed>, ListError>;

    /// The sessions that processes have open and have written to since their summaries.
    fn behind(&self) -> Result<Vec<SessionId>, ListError>;

    /// Which of an agent's ids belong to our sessions, deleted or not.
    fn ours(&self, agent: &str, ids: &[String]) -> Result<BTreeSet<String>, ListError>;

    /// The agents' ids of each session, the oldest first.
    fn agent_ids(&self, sessions: &[&SessionId]) -> Result<Vec<Vec<AgentSessionId>>, ListError>;

    /// The session that an agent knows by this id.
    fn of_inner(&self, agent: &str, id: &str) -> Result<Option<SessionId>, ListError>;

    /// The session that clients know by this id.
    fn known_as(&self, name: &str) -> Result<Option<SessionId>, ListError>;

    /// Keeps the summary of a session that this process has written to.
    fn put(&self, id: &SessionId, summary: &Summary) -> Result<(), ListError>;

    /// Keeps an agent's ids of a session.
    fn knows(&self, id: &SessionId, known: &[AgentSessionId]) -> Result<(), ListError>;
}

/// The database of a store, if it answers lists.
pub(super) fn of(store: &Store) -> Option<Box<dyn Remote>> {
    #[cfg(feature = "store-postgres")]
    if let Some(database) = store.database() {
        return Some(Box::new(Tables::new(database, Logs::new(store.clone()))));
    }
    tracing::trace!(store = %store.root().display(), "lists come from the catalog");
    None
}

/// A page with these entries and perhaps one more, which is that of the next page.
pub(super) fn page_of(
    mut sessions: Vec<Listed>,
    limit: usize,
    total: u64,
    filter: &Filter,
) -> Page {
    let more = sessions.len() > limit;
    sessions.truncate(limit);
    let last = sessions.last().filter(|_| more);
    Page {
        next_cursor: last.map(|last| cursor::cursor_after(&last.id, &last.summary, filter)),
        sessions,
        total,
        complete: true,
    }
}
