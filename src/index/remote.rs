//! Lists that a store's database answers itself.
//!
//! Such a store has a summary of each session beside its log. The process that writes to a session
//! keeps it up to date, so that no other process has to read the log for a list. Words are in the
//! database, too: a search reads those that no process has read yet. The catalog in SQLite is not
//! used.

use std::collections::BTreeSet;

use crate::conversation::Field;
use crate::record::AgentSessionId;
use crate::store::Store;
use crate::sys::SessionId;

use super::catalog::{ListError, Listed, SessionPage};
use super::cursor;
use super::filter::Filter;
#[cfg(feature = "store-postgres")]
use super::logs::Logs;
use super::search::{Search, Term};
use super::session_rows::{CatalogRow, RowWindow};
use super::summary::Summary;
#[cfg(feature = "store-postgres")]
use super::tables::CatalogTables;
use super::word_rows::TextLocation;

/// A session that has all words of a search, and where, best first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RankedPlaces {
    pub(super) id: SessionId,
    pub(super) places: Vec<TextLocation>,
}

/// Answers of the database.
pub(super) trait Remote: Send + Sync {
    /// Reads words that were not read yet, from about `budget` bytes of logs; whether all are read now.
    fn read_words(&self, budget: usize) -> Result<bool, ListError>;

    /// Where in the logs of these sessions the first piece with a term begins.
    fn places(
        &self,
        ids: &[&SessionId],
        term: &Term,
    ) -> Result<Vec<Option<TextLocation>>, ListError>;

    /// The sessions that have all words of a search in these fields, or in any if there are none, best
    /// first, at most `most`, with the places of their pieces: where each begins, and where it ends if
    /// that is known.
    fn ranked(
        &self,
        search: &Search,
        fields: &[Field],
        most: usize,
    ) -> Result<Vec<RankedPlaces>, ListError>;

    /// The entries of a list within a window, and how many there are in all, if that is not very
    /// many.
    fn page(
        &self,
        filter: &Filter,
        window: RowWindow<'_>,
    ) -> Result<(Vec<Listed>, Option<u64>), ListError>;

    /// The entries of a list within a window, without their number: counting may take longer.
    fn entries(&self, filter: &Filter, window: RowWindow<'_>) -> Result<Vec<Listed>, ListError>;

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
        return Some(Box::new(CatalogTables::new(
            database,
            Logs::new(store.clone()),
        )));
    }
    tracing::trace!(store = %store.root().display(), "lists come from the catalog");
    None
}

/// A row for what a list shows of a session.
pub(super) fn row_of(listed: Listed) -> CatalogRow {
    CatalogRow {
        id: listed.id,
        summary: listed.summary,
        len: -1,
        dirty: 0,
        unreadable: None,
    }
}

/// A page with these entries and perhaps one more, which is that of the next page.
pub(super) fn page_of(
    mut sessions: Vec<Listed>,
    limit: usize,
    total: Option<u64>,
    complete: bool,
    filter: &Filter,
) -> SessionPage {
    let more = sessions.len() > limit;
    sessions.truncate(limit);
    let last = sessions.last().filter(|_| more);
    SessionPage {
        next_cursor: last.map(|last| cursor::cursor_after(&last.id, &last.summary, filter)),
        sessions,
        total,
        complete,
    }
}
