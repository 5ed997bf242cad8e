//! Finds places by the words of the full-text index.

use std::collections::BTreeMap;

use crate::conversation::{Field, Passage};
use crate::index::catalog::{Catalog, ListError, Listed, READ_AT_ONCE, listed};
use crate::index::kept_text;
use crate::index::refresh::MAX_READERS;
use crate::index::remote::{RankedPlaces, Remote, row_of};
use crate::index::search::Search;
use crate::index::session_rows::{self, CatalogRow};
use crate::index::tokens::{Tokens, in_ascii};
use crate::index::tool_rows;
use crate::index::word_rows::{self, TextLocation};
use crate::store::StoreError;
use crate::sys::in_parallel;

use super::{
    Cancelled, Hit, HitPosition, Hits, HitsBuilder, HitsError, QueriedCalls, Query, hit, wanted,
};

/// The least number of sessions that are read at once.
const BATCH: usize = 4;

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
    /// Its pieces that have some of the words, best first; empty if they were not looked up.
    pub(in crate::index) pieces: Vec<i64>,
}

/// How many sessions have to be known for a page. One more shows whether there are more.
fn most_sessions(from: HitPosition) -> usize {
    from.sessions.saturating_add(SESSIONS + 1)
}

/// A session that is read, and the pieces of it.
type Job = (CatalogRow, Vec<TextLocation>);

impl Catalog {
    /// The hits of a search for words. Sessions are ranked by their best pieces.
    pub(super) fn word_hits(
        &self,
        query: &Query,
        search: &Search,
        from: HitPosition,
        cancelled: Cancelled<'_>,
    ) -> Result<Hits, HitsError> {
        if let Some(remote) = &self.remote {
            return self.remote_hits(&**remote, query, search, from, cancelled);
        }
        let most = most_sessions(from);
        let (ranked, complete) = self.with_retries(|| {
            self.bring_up_to_date()?;
            let complete = self.refresh().index_words(READ_AT_ONCE)?;
            let ranked = self.read_complete(|tx| {
                let counted = tool_rows::are_counted(tx, &self.tools)?;
                let ranked = word_rows::ranked(tx, search, &query.fields, most)?;
                Ok((ranked, counted))
            })?;
            Ok(ranked.map(|(ranked, counted)| (ranked, complete && counted)))
        })?;
        let page = HitsBuilder::new(query, from, complete);
        let find = |batch: &[Ranked]| self.hits_of(query, search, batch);
        Self::page_of_hits(page, &ranked, cancelled, find)
    }

    /// The hits from the words in the database of the store.
    fn remote_hits(
        &self,
        remote: &dyn Remote,
        query: &Query,
        search: &Search,
        from: HitPosition,
        cancelled: Cancelled<'_>,
    ) -> Result<Hits, HitsError> {
        let complete = remote.read_words(READ_AT_ONCE)?;
        let ranked = remote.ranked(search, &query.fields, most_sessions(from))?;
        let filter = query.unsearched();
        let page = HitsBuilder::new(query, from, complete);
        let find = |batch: &[RankedPlaces]| {
            let jobs = batch.iter().map(|session| {
                let listed = remote.listed(&session.id, &filter)?;
                let row = listed.map(row_of).filter(|row| query.admits(row));
                let most = session.places.len().min(PIECES);
                Ok(row.map(|row| (row, session.places[..most].to_vec())))
            });
            let jobs = jobs.collect::<Result<Vec<_>, ListError>>()?;
            Ok(self.hits_of_jobs(query, search, &jobs))
        };
        Self::page_of_hits(page, &ranked, cancelled, find)
    }

    /// Fills a page with the hits of sessions, some of which are looked at together.
    fn page_of_hits<T>(
        mut page: HitsBuilder<'_>,
        ranked: &[T],
        cancelled: Cancelled<'_>,
        find: impl Fn(&[T]) -> Result<Vec<Vec<Hit>>, ListError>,
    ) -> Result<Hits, HitsError> {
        let query = page.query;
        let mut left = ranked.get(page.at.sessions..).unwrap_or_default();
        let at_once = query.limit.div_ceil(query.per_session.max(1));
        for batch in left[..left.len().min(SESSIONS)].chunks(at_once.clamp(BATCH, SESSIONS)) {
            if cancelled() {
                return Err(HitsError::Cancelled);
            }
            for hits in find(batch)? {
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
                let mut pieces = session.pieces.clone();
                if pieces.is_empty() {
                    pieces = word_rows::pieces(tx, session.number, search, &query.fields, PIECES)?;
                }
                pieces.truncate(PIECES);
                let places = pieces.iter().map(|piece| word_rows::place(tx, *piece));
                let places = places.filter_map(rusqlite::Result::transpose);
                Ok(Some((row, places.collect::<rusqlite::Result<Vec<_>>>()?)))
            });
            jobs.collect::<rusqlite::Result<Vec<_>>>()
        })?;
        Ok(self.hits_of_jobs(query, search, &jobs))
    }

    /// The hits of each of these sessions in these pieces of it.
    fn hits_of_jobs(&self, query: &Query, search: &Search, jobs: &[Option<Job>]) -> Vec<Vec<Hit>> {
        in_parallel(jobs, MAX_READERS, |job| match job {
            Some((row, places)) => self.hits_in(query, search, row, places),
            None => Vec::new(),
        })
    }

    /// The hits in these pieces of a session: the places that have the most words.
    fn hits_in(
        &self,
        query: &Query,
        search: &Search,
        row: &CatalogRow,
        places: &[TextLocation],
    ) -> Vec<Hit> {
        let session = listed(row.clone());
        let mut found = WordHits::of(query);
        if query.tool.is_some()
            && let Err(error) = self.note_calls(&mut found, query, row, places)
        {
            tracing::debug!(session = %row.id, %error, "cannot search a log");
        }
        for place in places {
            let text = match place {
                TextLocation::Log(start, end) => {
                    self.logs.piece(&session.id, *start, *end, OF_A_LOG).ok()
                }
                TextLocation::Kept(text) => kept_text::unpack(text),
            };
            found.add(query, search, &session, &text.unwrap_or_default());
            if found.complete() >= query.per_session {
                break;
            }
        }
        found.best(query)
    }

    /// Notes the tool calls before the last of these pieces: one of a log may begin within a turn.
    fn note_calls(
        &self,
        found: &mut WordHits,
        query: &Query,
        row: &CatalogRow,
        places: &[TextLocation],
    ) -> Result<(), StoreError> {
        let starts = places.iter().filter_map(|place| match place {
            TextLocation::Log(start, _) => Some(*start),
            TextLocation::Kept(_) => None,
        });
        let Some(last) = starts.max() else {
            return Ok(());
        };
        self.logs.passages(&row.id, last, &mut |passages| {
            found.calls.add(query, &passages);
        })
    }
}

/// The places that were found in a session.
struct WordHits {
    calls: QueriedCalls,
    /// By how many words they lack, then by weight, then in their order.
    found: BTreeMap<(usize, usize, u64, usize), Hit>,
    /// The first place, if there is a text at all.
    first: Option<Hit>,
}

impl WordHits {
    fn of(query: &Query) -> Self {
        Self {
            calls: QueriedCalls::of(query),
            found: BTreeMap::new(),
            first: None,
        }
    }

    /// Looks for places in these passages, and keeps as many as the session may have.
    fn add(&mut self, query: &Query, search: &Search, session: &Listed, passages: &[Passage]) {
        let mut best = BTreeMap::new();
        self.calls.add(query, passages);
        let mut candidates: Vec<_> = wanted(query, &self.calls, passages)
            .enumerate()
            .map(|(n, passage)| {
                let lacking = lacking_at_least(&passage.text, search);
                ((lacking, rank(passage.field), passage.offset, n), passage)
            })
            .collect();
        if self.first.is_none() {
            let first = candidates.first();
            self.first = first.map(|(_, passage)| hit(session, passages, passage, 0));
        }
        candidates.sort_by_key(|(key, _)| *key);
        let mut least = self
            .found
            .keys()
            .next()
            .map_or(search.terms().len(), |key| key.0);
        for (earliest, passage) in candidates {
            let (lacking, rank, offset, n) = earliest;
            // Only the places with the most words are shown.
            if lacking > least || lacking == search.terms().len() {
                break;
            }
            let last = best.keys().nth(query.per_session.saturating_sub(1));
            if last.is_some_and(|last| *last < earliest) {
                break;
            }
            let tokens = Tokens::of(&passage.text);
            let terms = search.terms().iter();
            let places: Vec<usize> = terms.filter_map(|term| term.find(&tokens)).collect();
            if let Some(at) = places.first() {
                let lacking = search.terms().len() - places.len();
                least = least.min(lacking);
                best.insert((lacking, rank, offset, n), (passage, *at));
            }
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

/// How many words of a search a text lacks, or more. This takes less time than to split it into words.
fn lacking_at_least(text: &str, search: &Search) -> usize {
    let Some(plain) = in_ascii(text) else {
        return 0;
    };
    let terms = search.terms().iter();
    terms.filter(|term| !term.may_be_in(&plain)).count()
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
