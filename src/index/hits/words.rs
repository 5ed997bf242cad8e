//! Finds places by the words of the full-text index.

use std::collections::BTreeMap;

use crate::index::catalog::{Catalog, ListError, Listed, READ_AT_ONCE, listed};
use crate::index::refresh::MAX_READERS;
use crate::index::search::Search;
use crate::index::session_rows::{self, Row};
use crate::index::tokens::Tokens;
use crate::index::tool_rows;
use crate::index::word_rows;
use crate::record::{Field, Passage};
use crate::store::StoreError;
use crate::sys::in_parallel;

use super::{Calls, Cancelled, Hit, Hits, HitsError, PageBuilder, Position, Query, hit, wanted};

/// How many sessions are read at once.
const BATCH: usize = 16;

/// How many sessions are read for a page. A filter may leave out most of what they have.
const SESSIONS: usize = 1024;

/// How many pieces of a session are read.
const PIECES: usize = 8;

/// How many bytes of a log are read for a piece that has no known end.
const OF_A_LOG: usize = 256 * 1024;

/// A session with all words of a search.
#[derive(Clone, Debug)]
pub(in crate::index) struct Ranked {
    /// The number of its row.
    pub(in crate::index) number: i64,
    /// Its pieces that have some of the words, best first.
    pub(in crate::index) pieces: Vec<i64>,
}

impl Catalog {
    /// The hits of a search for words. Sessions are ranked by their best pieces.
    pub(super) fn word_hits(
        &self,
        query: &Query,
        search: &Search,
        from: Position,
        cancelled: Cancelled<'_>,
    ) -> Result<Hits, HitsError> {
        let (ranked, complete) = self.with_retries(|| {
            self.bring_up_to_date()?;
            let complete = self.refresh().index_words(READ_AT_ONCE)?;
            let ranked = self.read_complete(|tx| {
                let counted = tool_rows::are_counted(tx, &self.tools)?;
                Ok((word_rows::ranked(tx, search, &query.fields)?, counted))
            })?;
            Ok(ranked.map(|(ranked, counted)| (ranked, complete && counted)))
        })?;
        let mut page = PageBuilder::new(query, from, complete);
        let mut left = ranked.get(from.sessions..).unwrap_or_default();
        let most = left.len().min(SESSIONS);
        for batch in left[..most].chunks(BATCH) {
            if cancelled() {
                return Err(HitsError::Cancelled);
            }
            let hits = self.hits_of(query, search, batch)?;
            for hits in hits {
                left = &left[1..];
                if page.session(hits).is_break() {
                    let is_shown = page.at.hits == 0;
                    return Ok(page.finish(!is_shown || !left.is_empty()));
                }
            }
        }
        Ok(page.finish(!left.is_empty()))
    }

    /// The hits of each of these sessions.
    fn hits_of(
        &self,
        query: &Query,
        search: &Search,
        ranked: &[Ranked],
    ) -> Result<Vec<Vec<Hit>>, ListError> {
        let jobs = self.database.read(|tx| {
            let jobs = ranked.iter().map(|session| {
                let filter = &query.sessions;
                let row = session_rows::by_number(tx, session.number, filter, &self.tools)?;
                let Some(row) = row.filter(|row| query.admits(row)) else {
                    return Ok(None);
                };
                let pieces = session.pieces.iter().take(PIECES);
                let places = pieces.map(|piece| word_rows::place(tx, *piece));
                let places = places.collect::<rusqlite::Result<Vec<_>>>()?;
                Ok(Some((row, places)))
            });
            jobs.collect::<rusqlite::Result<Vec<_>>>()
        })?;
        Ok(in_parallel(&jobs, MAX_READERS, |job| match job {
            Some((row, places)) => self.hits_in(query, search, row, places),
            None => Vec::new(),
        }))
    }

    /// The hits in these pieces of a session: the places that have the most words.
    fn hits_in(
        &self,
        query: &Query,
        search: &Search,
        row: &Row,
        places: &[Option<(u64, Option<u64>)>],
    ) -> Vec<Hit> {
        let session = listed(row.clone());
        let mut found = Places::of(query);
        if session.summary.tool.is_some() {
            // A tool's file is read as a whole.
            let text = self.text_of_tool(&session.id, None);
            found.add(query, search, &session, &text.unwrap_or_default());
        } else {
            if query.tool.is_some()
                && let Err(error) = self.note_calls(&mut found, query, row, places)
            {
                tracing::debug!(session = %row.id, %error, "cannot search a log");
            }
            for (start, end) in places.iter().flatten() {
                let text = self.logs.piece(&session.id, *start, *end, OF_A_LOG);
                found.add(query, search, &session, &text.unwrap_or_default());
                if found.complete() >= query.per_session {
                    break;
                }
            }
        }
        found.best(query)
    }

    /// Notes the tool calls before the last of these pieces: a piece may begin within a turn.
    fn note_calls(
        &self,
        found: &mut Places,
        query: &Query,
        row: &Row,
        places: &[Option<(u64, Option<u64>)>],
    ) -> Result<(), StoreError> {
        let last = places.iter().flatten().map(|(start, _)| *start).max();
        let last = last.unwrap_or_default();
        self.logs.passages(&row.id, last, &mut |passages| {
            found.calls.add(query, &passages);
        })
    }
}

/// The places that were found in a session.
struct Places {
    calls: Calls,
    /// By how many words they lack, then by weight, then in their order.
    found: BTreeMap<(usize, usize, u64, usize), Hit>,
    /// The first place, if there is a text at all.
    first: Option<Hit>,
}

impl Places {
    fn of(query: &Query) -> Self {
        Self {
            calls: Calls::of(query),
            found: BTreeMap::new(),
            first: None,
        }
    }

    /// Looks for places in these passages, and keeps as many as the session may have.
    fn add(&mut self, query: &Query, search: &Search, session: &Listed, passages: &[Passage]) {
        let mut best = BTreeMap::new();
        self.calls.add(query, passages);
        for (n, passage) in wanted(query, &self.calls, passages).enumerate() {
            let tokens = Tokens::of(&passage.text);
            let terms = search.terms().iter();
            let places: Vec<usize> = terms.filter_map(|term| term.find(&tokens)).collect();
            let Some(first) = places.first() else {
                if self.first.is_none() {
                    self.first = Some(hit(session, passages, passage, 0));
                }
                continue;
            };
            let lacking = search.terms().len() - places.len();
            let key = (lacking, rank(passage.field), passage.offset, n);
            best.insert(key, (passage, *first));
        }
        let best = best.into_iter().take(query.per_session);
        self.found
            .extend(best.map(|(key, (passage, at))| (key, hit(session, passages, passage, at))));
    }

    /// How many places have all words.
    fn complete(&self) -> usize {
        self.found.keys().filter(|key| key.0 == 0).count()
    }

    /// The places with the most words.
    fn best(self, query: &Query) -> Vec<Hit> {
        if self.found.is_empty() && query.is_of_all_texts() {
            // The index knows more accents than are compared here. The session has the words.
            return self.first.into_iter().collect();
        }
        let least = self.found.keys().next().map_or(0, |key| key.0);
        let best = self.found.into_iter().filter(|(key, _)| key.0 == least);
        best.map(|(_, hit)| hit).take(query.per_session).collect()
    }
}

/// The order in which hits of one session are shown that have the same words.
fn rank(field: Field) -> usize {
    match field {
        Field::Title | Field::Prompt => 0,
        Field::Answer => 1,
        Field::Tool => 2,
        Field::Thought => 3,
        Field::ToolInput | Field::ToolOutput => 4,
    }
}
