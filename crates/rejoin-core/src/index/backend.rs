//! What a database does for the catalog: it keeps the summaries and the words of sessions, and answers
//! lists and searches.
//!
//! SQLite does this for stores in folders (`sqlite`), as a cache of the logs. A store in PostgreSQL has
//! a summary of each session and the words beside its log (`postgres`): the process that writes to a
//! session keeps the summary up to date, so that no other process has to read the log for a list.

use std::collections::BTreeSet;
use std::ops::Range;

use serde::Serialize;

use crate::conversation::Field;
use crate::record::AgentSessionId;
use crate::store::StoreError;
use crate::sys::SessionId;

use super::apart::Namesake;
use super::cursor::CursorPosition;
use super::filter::Filter;
use super::search::{Search, Term};
use super::sqlite::database::DatabaseError;
use super::summary::Summary;

/// How many bytes of logs a search may read before it answers: enough for what was added since the
/// last search, and only a moment's work if nothing was searched before.
pub(super) const READ_AT_ONCE: usize = 4 * 1024 * 1024;

/// The weight of each column of words in a ranking.
pub(super) const WEIGHTS: &str = "4, 3, 1.5, 4, 0.6, 0.8, 1, 0.5";

/// So many sessions are ranked: the newest that have all words. Others follow, newest first. To rank
/// what is everywhere takes long, and its number says little.
pub(super) const RANKED: usize = 512;

/// An entry of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The session.
    pub id: SessionId,
    /// The session's summary.
    pub summary: Summary,
    /// A line of text around the first word of the search, if it can be shown.
    pub snippet: Option<String>,
    /// The branch of its tool, if there is one.
    pub tool_branch: Option<ToolBranch>,
    /// Whether the user has pinned it in its tool.
    pub is_pinned: bool,
}

/// The name of the member with a [`ToolBranch`].
pub const TOOL_BRANCH: &str = "toolBranch";

/// The name of the member that says that a session is pinned in its tool.
pub const PINNED: &str = "pinned";

/// Turns that a tool has written to a conversation since it was continued here.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct ToolBranch {
    /// The name of the tool, as a source.
    pub tool: String,
    /// How many turns.
    pub turns: u64,
}

/// Why there is no list.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    /// The cursor is malformed, or belongs to a list with another filter.
    #[error("the cursor is malformed or belongs to another list")]
    Cursor,
    /// The folder of the sessions cannot be read.
    #[error("cannot read the folder of the sessions")]
    Folder(#[from] StoreError),
    /// The database of the store has failed.
    #[error(transparent)]
    Database(StoreError),
    /// The catalog cannot be kept in memory, either.
    #[error(transparent)]
    Storage(#[from] DatabaseError),
}

/// Which entries of a list to return.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowWindow<'a> {
    /// The position after which the entries are; `None` for the beginning of the list.
    pub(super) after: Option<&'a CursorPosition>,
    /// The number of entries to skip after `after`.
    pub(super) offset: u64,
    /// The maximum number of entries.
    pub(super) limit: usize,
}

/// Entries of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FoundPage {
    /// The entries within the window, without the agents' ids of them.
    pub(super) sessions: Vec<Listed>,
    /// How many entries the list has, if that is not very many.
    pub(super) total: Option<u64>,
    /// Whether every word of every log could be searched, if the list is that of a search.
    pub(super) complete: bool,
}

/// Where the text of a piece is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TextLocation {
    /// In a log, from this byte to that one; to the end of the log if it is the last piece.
    Log(u64, Option<u64>),
    /// Here, packed by [`kept_text`](super::kept_text).
    Kept(Vec<u8>),
}

/// An entry of a list that is searched, and the pieces of it to look at, the best ones first.
pub(super) type LocatedSession = (Listed, Vec<TextLocation>);

/// How many pieces of a session are looked at.
pub(super) const PIECES_OF_SESSION: usize = 8;

/// The sessions that have all words of a search, best first.
pub(super) struct Ranking<'a> {
    /// How many there are.
    pub(super) count: usize,
    /// Whether every word of every log could be searched.
    pub(super) complete: bool,
    pub(super) locate: Box<Locate<'a>>,
}

/// Finds the sessions in a part of a ranking, each with up to [`PIECES_OF_SESSION`] of its pieces. A
/// session is left out if the list with this filter does not show it, or if it is not admitted.
pub(super) type Locate<'a> = dyn Fn(
        Range<usize>,
        &Filter,
        &dyn Fn(&Listed) -> bool,
    ) -> Result<Vec<Option<LocatedSession>>, ListError>
    + 'a;

/// The state of the sessions' folder before a change, see
/// [`Catalog::before_change`](super::Catalog::before_change).
#[derive(Clone, Copy, Debug)]
#[must_use = "pass it to `created` or `removed`"]
pub struct BeforeChange(pub(super) Option<i64>);

/// A database with the summaries and words of sessions.
///
/// A report that cannot be kept is no failure of the session: the backend logs it, and finds in the log
/// later what is missing.
pub(super) trait CatalogBackend: Send + Sync {
    /// The entries of a list within a window, and their number. A search first reads words that were
    /// not read yet, but only for a moment.
    fn page(&self, filter: &Filter, window: RowWindow<'_>) -> Result<FoundPage, ListError>;

    /// Reads what was added to logs, as far as lists show it: to be called before
    /// [`entries`](Self::entries).
    fn bring_up_to_date(&self) -> Result<(), ListError>;

    /// The entries of a list within a window, as far as they are known, without their number: counting
    /// may take longer.
    fn entries(&self, filter: &Filter, window: RowWindow<'_>) -> Result<Vec<Listed>, ListError>;

    /// The sessions after this one in the order of their ids, listed or not; none at the end.
    fn every(&self, after: Option<&SessionId>, limit: i64) -> Result<Vec<Listed>, ListError>;

    /// The summary of a session, listed or not; none if its log does not exist or cannot be read.
    fn find(&self, id: &SessionId) -> Result<Option<Summary>, ListError>;

    /// The entries of these sessions, as far as the list with this filter shows them. Reads what was
    /// added to their logs.
    fn look(&self, ids: &[SessionId], filter: &Filter) -> Result<Vec<Option<Listed>>, ListError>;

    /// The sessions whose logs a process may write to, and has written to since they were read.
    fn behind(&self) -> Result<Vec<SessionId>, ListError>;

    /// Checks some logs in the order of their ids, beginning after `after`. Returns where to continue;
    /// none at the end.
    fn audit(&self, after: Option<&SessionId>) -> Result<Option<SessionId>, ListError>;

    /// Reads words that were not read yet, from about `budget` bytes of logs; whether all are read now.
    fn read_words(&self, budget: usize) -> Result<bool, ListError>;

    /// The sessions that have all words of a search in these fields, or in any if there are none, at
    /// most `most`. First reads words that were not read yet, but only for a moment.
    fn ranked<'a>(
        &'a self,
        search: &'a Search,
        fields: &'a [Field],
        most: usize,
    ) -> Result<Ranking<'a>, ListError>;

    /// Where in these sessions the first piece with a term is.
    fn places(
        &self,
        ids: &[&SessionId],
        term: &Term,
    ) -> Result<Vec<Option<TextLocation>>, ListError>;

    /// The word that is most like this one, if no text has the term of this one; none where that is not known.
    fn similar(&self, term: &Term, word: &str) -> Result<Option<String>, ListError> {
        tracing::trace!(?term, word, "similar words are not known");
        Ok(None)
    }

    /// All sessions with each of these folders and titles, the oldest first, as far as lists show those
    /// from `since` on. There may be none for a title that one session alone has.
    fn namesakes(
        &self,
        titles: &[&(String, String)],
        since: Option<&str>,
    ) -> Result<Vec<Vec<Namesake>>, ListError>;

    /// Makes sure that no words of sessions whose logs are gone remain.
    fn erase_deleted(&self) -> Result<(), ListError>;

    /// Which of an agent's ids belong to our sessions, deleted or not.
    fn ours(&self, agent: &str, ids: &[String]) -> Result<BTreeSet<String>, ListError>;

    /// The agents' ids of each session, the oldest first.
    fn agent_ids(&self, sessions: &[&SessionId]) -> Result<Vec<Vec<AgentSessionId>>, ListError>;

    /// The session that an agent knows by this id; the one prompted last, if there are several.
    fn of_inner(&self, agent: &str, id: &str) -> Result<Option<SessionId>, ListError>;

    /// The session that clients know by this id, which is not the session's own id.
    fn known_as(&self, name: &str) -> Result<Option<SessionId>, ListError>;

    /// The state before this process adds or removes a log.
    fn before_change(&self) -> BeforeChange;

    /// A log was created, and this process may write to it.
    fn created(&self, id: &SessionId, summary: &Summary, before: BeforeChange);

    /// A log was removed.
    fn removed(&self, id: &SessionId, before: BeforeChange);

    /// This process is about to write something to a log that the list shows.
    fn mark_dirty(&self, id: &SessionId);

    /// The log of an open session changed.
    fn put(&self, id: &SessionId, summary: &Summary);

    /// This process will not write to the log again.
    fn closed(&self, id: &SessionId, summary: &Summary);

    /// An agent has an id for a session that is not in its log yet.
    fn knows(&self, id: &SessionId, inner: &AgentSessionId);
}
