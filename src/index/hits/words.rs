//! Finds places by the words of the full-text index.

use std::collections::BTreeMap;

use crate::index::catalog::{Catalog, ListError, READ_AT_ONCE, listed};
use crate::index::refresh::read_all;
use crate::index::search::Search;
use crate::index::session_rows::{self, Row};
use crate::index::tokens::Tokens;
use crate::index::word_rows;
use crate::record::Field;

use super::{Cancelled, Hit, Hits, HitsError, PageBuilder, Position, Query, hit, wanted};

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
            let ranked = self.read_complete(|tx| word_rows::ranked(tx, search, &query.fields))?;
            Ok(ranked.map(|ranked| (ranked, complete)))
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
        Ok(read_all(&jobs, |job| match job {
            Some((row, places)) => self.hits_in(query, search, row, places),
            None => Vec::new(),
        }))
    }

    /// The hits in these pieces of a log: the places that have the most words.
    fn hits_in(
        &self,
        query: &Query,
        search: &Search,
        row: &Row,
        places: &[Option<(u64, Option<u64>)>],
    ) -> Vec<Hit> {
        let session = listed(row.clone());
        // By the number of words that they lack, then by weight, then by place.
        let mut found: BTreeMap<(usize, usize, u64, usize), Hit> = BTreeMap::new();
        for (start, end) in places.iter().flatten() {
            let Ok(texts) = self.logs.piece(&session.id, *start, *end, OF_A_LOG) else {
                continue;
            };
            for (n, (passage, call)) in wanted(query, &texts).enumerate() {
                let tokens = Tokens::of(&passage.text);
                let terms = search.terms().iter();
                let places: Vec<usize> = terms.filter_map(|term| term.find(&tokens)).collect();
                let Some(first) = places.first() else {
                    continue;
                };
                let lacking = search.terms().len() - places.len();
                let key = (lacking, rank(passage.field), passage.offset, n);
                found.insert(key, hit(&session, passage, call, *first));
            }
            let is_enough = found.keys().filter(|key| key.0 == 0).count() >= query.per_session;
            if is_enough {
                break;
            }
        }
        if found.is_empty()
            && query.is_of_all_texts()
            && let Some((start, end)) = places.iter().flatten().next()
        {
            // The index knows more accents than are compared here. The piece has the words.
            let texts = self.logs.piece(&session.id, *start, *end, OF_A_LOG);
            let texts = texts.unwrap_or_default();
            let first = wanted(query, &texts).next();
            return first
                .map(|(passage, call)| hit(&session, passage, call, 0))
                .into_iter()
                .collect();
        }
        let least = found.keys().next().map_or(0, |key| key.0);
        let best = found.into_iter().filter(|(key, _)| key.0 == least);
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
