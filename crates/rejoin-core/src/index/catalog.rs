//! The catalog's interface for sessions: what they report to it, and the lists that it returns.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use crate::record::{ActivityState, AgentSessionId};
use crate::store::{Store, place};
use crate::sys::SessionId;

use super::apart::distinguish;
use super::backend::{BeforeChange, CatalogBackend, ListError, Listed, RowWindow, ToolBranch};
use super::cursor::{self, CursorPosition};
use super::filter::{Archived, Filter};
use super::logs::Logs;
use super::observe::{Observe, ObservedSession, Observer};
#[cfg(feature = "store-postgres")]
use super::postgres::PostgresCatalog;
use super::search::Search;
use super::snippets::add_snippets;
use super::sqlite::SqliteCatalog;
use super::sqlite::database::CatalogDatabase;
use super::sqlite::tool_files::{ToolFiles, ToolTexts};
use super::summary::Summary;

/// How many sessions are read at once in the order of their ids.
const BY_ID: i64 = 1000;

/// How many bytes of logs one step in the background reads.
const IN_BACKGROUND: usize = 1024 * 1024;

/// The catalog of a store.
pub struct Catalog {
    pub(super) backend: Box<dyn CatalogBackend>,
    pub(super) logs: Logs,
    pub(super) tool_files: ToolFiles,
    /// Reads the conversations of tools whose files are searched.
    pub(super) reader: Option<Arc<dyn ToolTexts>>,
    observer: Arc<Observer>,
    /// Whether a thread is reading words in the background.
    is_reading: AtomicBool,
}

/// Part of a list, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionPage {
    /// The sessions.
    pub sessions: Vec<Listed>,
    /// Where the next page begins; absent on the last page.
    pub next_cursor: Option<String>,
    /// How many sessions all pages have together; absent if there may be more than were counted.
    pub total: Option<u64>,
    /// Whether every word of every log could be searched; if not, there may be more matches.
    pub complete: bool,
}

impl SessionPage {
    /// The only page of an empty list.
    pub fn empty() -> Self {
        Self {
            total: Some(0),
            ..Self::default()
        }
    }
}

impl Catalog {
    /// The catalog of a store; in memory if the store's disk is a simulated one. Does no I/O yet:
    /// the file is opened when it is first needed, so that the program starts fast.
    pub fn open(store: Store) -> Self {
        Self::of(Logs::new(store), None)
    }

    /// The catalog of a store, in whose lists the conversations of these tools are, too, as far as
    /// [`ToolFiles::put`] has reported them.
    pub fn with_tools(store: Store, tools: Option<Arc<impl ToolTexts + 'static>>) -> Self {
        Self::of(
            Logs::new(store),
            tools.map(|tools| tools as Arc<dyn ToolTexts>),
        )
    }

    /// The catalog of these logs and of the conversations that this reads.
    pub(super) fn of(logs: Logs, reader: Option<Arc<dyn ToolTexts>>) -> Self {
        let sys = logs.store.sys();
        let path = logs.store.catalog();
        let path = path.and_then(|path| sys.disk.native_path(path));
        let database = Arc::new(CatalogDatabase::new(path, sys.clone()));
        let tools: Arc<[String]> = reader.iter().flat_map(|reader| reader.names()).collect();
        let observer = Arc::new(Observer::default());
        Self {
            tool_files: ToolFiles::new(database.clone(), tools.clone(), observer.clone()),
            backend: in_tables(&logs)
                .unwrap_or_else(|| Box::new(SqliteCatalog::new(database, logs.clone(), tools))),
            logs,
            reader,
            observer,
            is_reading: AtomicBool::new(false),
        }
    }

    /// Whether the sessions are in a database, beside which the files of other tools are known to this
    /// process alone.
    pub fn is_in_database(&self) -> bool {
        place::is_address(self.logs.store.root())
    }

    /// The files of other tools, as far as they are known.
    pub fn tool_files(&self) -> &ToolFiles {
        &self.tool_files
    }
}

/// The tables of the store, if a database answers its lists.
fn in_tables(logs: &Logs) -> Option<Box<dyn CatalogBackend>> {
    #[cfg(feature = "store-postgres")]
    if let Some(database) = logs.store.database() {
        return Some(Box::new(PostgresCatalog::new(database, logs.clone())));
    }
    tracing::trace!(store = %logs.store.root().display(), "lists come from the catalog");
    None
}

/// Lists and single sessions.
impl Catalog {
    /// The page of the list that begins at `cursor`, or the first one, with up to `limit` entries.
    pub fn list(
        &self,
        filter: &Filter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<SessionPage, ListError> {
        let after = match cursor {
            Some(cursor) => Some(cursor::decode(cursor, filter).ok_or(ListError::Cursor)?),
            None => None,
        };
        self.page(filter, after.as_ref(), 0, limit)
    }

    /// The part of the list that begins with the entry number `offset`, counted from 0.
    pub fn list_at(
        &self,
        filter: &Filter,
        offset: u64,
        limit: usize,
    ) -> Result<SessionPage, ListError> {
        self.page(filter, None, offset, limit)
    }

    fn page(
        &self,
        filter: &Filter,
        after: Option<&CursorPosition>,
        offset: u64,
        limit: usize,
    ) -> Result<SessionPage, ListError> {
        let limit = limit.max(1);
        let window = RowWindow {
            after,
            offset,
            // An additional row shows whether there is a next page.
            limit: limit.saturating_add(1),
        };
        let mut found = self.backend.page(filter, window)?;
        let mut search = filter.search.clone();
        let is_first = after.is_none() && offset == 0;
        let has_none =
            found.sessions.is_empty() && found.total.map_or(is_first, |total| total == 0);
        // A question has words that say nothing of what is asked for.
        if has_none && let Some(asked) = search.as_ref().and_then(Search::of_question) {
            search = Some(asked);
            let filter = Filter {
                search: search.clone(),
                ..filter.clone()
            };
            found = self.backend.page(&filter, window)?;
        }
        let mut sessions = found.sessions;
        let more = sessions.len() > limit;
        sessions.truncate(limit);
        let last = sessions.last().filter(|_| more);
        let next_cursor = last.map(|last| cursor::cursor_after(&last.id, &last.summary, filter));
        if let Some(term) = search.as_ref().and_then(|search| search.terms().first()) {
            add_snippets(&*self.backend, &self.logs, &mut sessions, term);
        }
        self.add_tool_branches(sessions.iter_mut())?;
        self.add_pins(sessions.iter_mut());
        distinguish(&*self.backend, filter.since.as_deref(), sessions.iter_mut())?;
        Ok(SessionPage {
            sessions,
            next_cursor,
            total: found.total.filter(|_| found.complete),
            complete: found.complete,
        })
    }

    /// Up to a thousand sessions in the order of their ids, beginning after `after`, listed or not;
    /// empty at the end. Sessions whose logs cannot be read are left out.
    pub fn every(&self, after: Option<&SessionId>) -> Result<Vec<Listed>, ListError> {
        self.backend.every(after, BY_ID)
    }

    /// The summary of one session, listed or not, brought up to date with its log; none if the log
    /// does not exist or cannot be read.
    pub fn find(&self, id: &SessionId) -> Option<Summary> {
        self.backend.find(id).unwrap_or_else(|error| {
            tracing::warn!(
                session = %id,
                error = &error as &dyn std::error::Error,
                "cannot look a session up in the catalog"
            );
            self.logs.summarize(id, None).ok()
        })
    }

    /// The state of a session. A process that died left open turns behind.
    pub fn state(&self, listed: &Listed) -> ActivityState {
        match listed.summary.activity.state() {
            ActivityState::Idle => ActivityState::Idle,
            _ if !self.logs.store.is_open(&listed.id) => ActivityState::Idle,
            state => state,
        }
    }

    /// The states of these sessions in the list now. Reads what was added to their logs.
    pub fn look(
        &self,
        ids: &[SessionId],
        since: Option<String>,
    ) -> Result<BTreeMap<SessionId, ObservedSession>, ListError> {
        let filter = Filter {
            archived: Archived::Include,
            since,
            ..Filter::default()
        };
        let mut found = self.backend.look(ids, &filter)?;
        self.fill_in_agent_ids(found.iter_mut().flatten())?;
        self.add_tool_branches(found.iter_mut().flatten())?;
        self.add_pins(found.iter_mut().flatten());
        distinguish(
            &*self.backend,
            filter.since.as_deref(),
            found.iter_mut().flatten(),
        )?;
        let seen = ids.iter().zip(found).map(|(id, found)| {
            let seen = match found {
                Some(listed) => ObservedSession::Listed(Box::new(listed)),
                // A session whose log cannot be checked may exist.
                None if matches!(self.logs.store.len_of(id), Ok(None)) => ObservedSession::Gone,
                None => ObservedSession::Hidden,
            };
            (id.clone(), seen)
        });
        Ok(seen.collect())
    }

    /// The sessions whose logs this or another process may write to, and has written to since they
    /// were read.
    pub fn behind(&self) -> Result<Vec<SessionId>, ListError> {
        self.backend.behind()
    }

    /// Checks a thousand logs in the order of their ids, beginning after `after`, and reads those
    /// that differ from their rows. Returns where to continue; none at the end.
    ///
    /// A list checks only the logs that it shows, and those that a process of this program has
    /// marked before writing. If another program changed a log, its entry may be missing or too far
    /// down until this has run, in the background.
    pub fn audit(&self, after: Option<&SessionId>) -> Option<SessionId> {
        self.backend.audit(after).unwrap_or_else(|error| {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "cannot check the catalog"
            );
            None
        })
    }
}

/// Branches of tools, which have written to conversations since they were continued here.
impl Catalog {
    /// The branch of a session: turns that its tool has written since it was continued here.
    pub fn tool_branch(&self, id: &SessionId) -> Option<ToolBranch> {
        let mut session = Listed {
            id: id.clone(),
            summary: self.find(id)?,
            snippet: None,
            tool_branch: None,
            is_pinned: false,
        };
        self.add_tool_branches(std::iter::once(&mut session)).ok()?;
        session.tool_branch
    }

    /// Adds branches to sessions of a list. A file is read if something was said in it at another time than in
    /// the session last, and if it has changed since it was read for that.
    fn add_tool_branches<'a>(
        &self,
        sessions: impl Iterator<Item = &'a mut Listed>,
    ) -> Result<(), ListError> {
        let Some(reader) = &self.reader else {
            return Ok(());
        };
        // A copy has the tool's id of the conversation.
        let is_copy = |summary: &Summary| summary.tool.is_none() && summary.known_as.is_some();
        let sessions: Vec<_> = sessions.filter(|listed| is_copy(&listed.summary)).collect();
        let ids: Vec<_> = sessions.iter().map(|listed| &listed.id).collect();
        if ids.is_empty() {
            return Ok(());
        }
        let beside = self.tool_files.beside(&ids)?;
        for (listed, beside) in sessions.into_iter().zip(beside) {
            let Some(beside) = beside.filter(|beside| beside.ends != listed.summary.updated_at)
            else {
                continue;
            };
            let at = &listed.summary.updated_at;
            let turns = match &beside.since {
                Some((turns, counted_at)) if counted_at == at => *turns,
                _ => {
                    let log = self.logs.store.read_all(&listed.id).ok();
                    let since = log.and_then(|mut log| {
                        reader.turns_since(&beside.tool, &beside.file, &mut log)
                    });
                    let Some(turns) = since else {
                        continue;
                    };
                    self.tool_files.keep_since(&beside, turns, at.as_deref())?;
                    turns
                }
            };
            listed.tool_branch = (turns > 0).then_some(ToolBranch {
                tool: beside.tool,
                turns,
            });
        }
        Ok(())
    }
}

/// Pins, which are never kept: they are what the tools say now.
impl Catalog {
    /// Says which sessions of a list are pinned in their tools.
    fn add_pins<'a>(&self, sessions: impl Iterator<Item = &'a mut Listed>) {
        let Some(reader) = &self.reader else {
            return;
        };
        let of_tools: Vec<_> = sessions
            .filter(|listed| listed.summary.known_as.is_some())
            .collect();
        // A tool is asked only if a session that it may know is listed.
        let agents = of_tools
            .iter()
            .map(|listed| listed.summary.source.as_str())
            .collect();
        let pins = reader.pins(&agents);
        for listed in of_tools {
            let pins = pins.get(listed.summary.source.as_str());
            let known_as = listed.summary.known_as.as_ref();
            let is_pinned = pins.zip(known_as).map(|(pins, id)| pins.contains(id));
            listed.is_pinned = is_pinned.unwrap_or(false);
        }
    }
}

/// Words.
impl Catalog {
    /// Reads words that were not read yet, from about `budget` bytes of logs; returns whether all
    /// are read now. A search does it too, but only for a moment.
    pub fn read_words(&self, budget: usize) -> Result<bool, ListError> {
        self.backend.read_words(budget)
    }

    /// Reads words on a thread of its own until all are read, unless such a thread is running. A
    /// search that could not wait for them is often followed by another one.
    pub fn read_words_in_background(self: &Arc<Self>) -> Option<JoinHandle<()>> {
        if self.is_reading.swap(true, Ordering::AcqRel) {
            return None;
        }
        let catalog = Arc::downgrade(self);
        let thread = thread::Builder::new().name("words".to_owned());
        let started = thread.spawn(move || {
            // The thread does not keep the catalog alive: it stops when nobody else has it.
            while let Some(catalog) = catalog.upgrade() {
                let read = catalog.read_words(IN_BACKGROUND);
                if let Err(error) = &read {
                    tracing::warn!(%error, "cannot read the words of sessions");
                }
                if !matches!(read, Ok(false)) {
                    catalog.is_reading.store(false, Ordering::Release);
                    return;
                }
            }
        });
        if let Err(error) = &started {
            tracing::warn!(%error, "cannot read the words of sessions in the background");
            self.is_reading.store(false, Ordering::Release);
        }
        started.ok()
    }

    /// What a user may have meant by a search that finds nothing: words that conversations have in the place of
    /// those that none has. None if no word has another one that is like it.
    pub fn corrected(&self, search: &Search) -> Option<String> {
        search.corrected(|term, word| {
            let similar = self.backend.similar(term, word);
            similar.unwrap_or_else(|error| {
                tracing::debug!(%error, "cannot look for similar words");
                None
            })
        })
    }

    /// Makes sure that no word or title of a session whose log is gone remains in the catalog's
    /// file or in one beside it. Takes as long as rewriting that file.
    pub fn erase_deleted(&self) -> Result<(), ListError> {
        self.backend.erase_deleted()
    }
}

/// Agents' ids of sessions.
impl Catalog {
    /// Which of these ids of an agent belong to sessions of ours. If a list showed the agent's
    /// entries for them, it would show a session twice, or one that was deleted.
    ///
    /// Our lists leave out a session without a prompt. If it was the agent's in the beginning, the
    /// agent lists it.
    pub fn ours(&self, agent: &str, ids: &[String]) -> Result<BTreeSet<String>, ListError> {
        self.backend.ours(agent, ids)
    }

    /// Adds the agents' ids to sessions of a list, each session's oldest first.
    pub fn add_agent_ids(&self, sessions: &mut [Listed]) -> Result<(), ListError> {
        self.fill_in_agent_ids(sessions.iter_mut())
    }

    fn fill_in_agent_ids<'a>(
        &self,
        sessions: impl Iterator<Item = &'a mut Listed>,
    ) -> Result<(), ListError> {
        let mut sessions: Vec<_> = sessions.collect();
        let ids: Vec<_> = sessions.iter().map(|listed| &listed.id).collect();
        if ids.is_empty() {
            return Ok(());
        }
        let known = self.backend.agent_ids(&ids)?;
        for (listed, ids) in sessions.iter_mut().zip(known) {
            listed.summary.agent_ids = ids;
        }
        Ok(())
    }

    /// The ids that agents have or had for a session, which may be deleted.
    pub fn agent_ids(&self, id: &SessionId) -> Vec<AgentSessionId> {
        let known = self.backend.agent_ids(&[id]);
        let known = known.map(|mut ids| ids.pop().unwrap_or_default());
        known.unwrap_or_else(|error| {
            tracing::debug!(session = %id, %error, "cannot find the agent's ids of a session");
            Vec::new()
        })
    }

    /// The session that an agent knows by this id; the one prompted last, if there are several.
    pub fn of_inner(&self, agent: &str, id: &str) -> Result<Option<SessionId>, ListError> {
        self.backend.of_inner(agent, id)
    }

    /// The session that clients know by this id, which is not the session's own id.
    pub fn known_as(&self, name: &str) -> Result<Option<SessionId>, ListError> {
        self.backend.known_as(name)
    }
}

/// Reports of sessions. One that fails is logged, and a list finds in the log what is missing.
impl Catalog {
    /// From now on, `observe` is called with each session that this process changes. It must not wait,
    /// and must not use the catalog. `None` ends this.
    pub fn observe(&self, observe: Option<Observe>) {
        self.observer.set(observe);
    }

    /// To be called before this program adds or removes a log; the result goes to
    /// [`created`](Self::created) or [`removed`](Self::removed).
    ///
    /// A list compares names with the folder only if the folder changed since they were last
    /// compared. Our own changes must not make every list compare them. So if the catalog had every
    /// name before such a change, it moves the folder's time that it has recorded along with the
    /// change. This hides a change that another program makes in between, but not for long: after
    /// some minutes the names are compared in any case.
    pub fn before_change(&self) -> BeforeChange {
        self.backend.before_change()
    }

    /// A log was created, and this process may write to it.
    pub fn created(&self, id: &SessionId, summary: &Summary, before: BeforeChange) {
        self.backend.created(id, summary, before);
        self.observer.changed(id);
    }

    /// A log was removed.
    pub fn removed(&self, id: &SessionId, before: BeforeChange) {
        self.backend.removed(id, before);
        self.observer.changed(id);
    }

    /// This process is about to write something to a log that the list shows. To be called while it
    /// has the log's lock, each time before a prompt or a change of folder is recorded. If the
    /// process dies before it calls [`closed`](Self::closed), the next list reads the end of the
    /// log.
    pub fn opened(&self, id: &SessionId) {
        self.backend.mark_dirty(id);
        self.observer.changed(id);
    }

    /// The log of an open session changed: a prompt, a new folder, a title.
    pub fn put(&self, id: &SessionId, summary: &Summary) {
        self.backend.put(id, summary);
        self.observer.changed(id);
    }

    /// This process will not write to the log again. To be called while it still has the log's
    /// lock; otherwise it may overwrite what the next lock holder reports.
    pub fn closed(&self, id: &SessionId, summary: &Summary) {
        self.backend.closed(id, summary);
        self.observer.changed(id);
    }

    /// An agent has an id for a session that is not in its log yet.
    pub fn knows(&self, id: &SessionId, inner: &AgentSessionId) {
        self.backend.knows(id, inner);
        self.observer.changed(id);
    }
}

impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Catalog")
            .field("logs", &self.logs)
            .finish_non_exhaustive()
    }
}
