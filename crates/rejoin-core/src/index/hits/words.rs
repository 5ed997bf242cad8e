//! Finds places by the words of the full-text index.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::conversation::{Field, Passage};
use crate::index::backend::{Listed, TextLocation};
use crate::index::kept_text;
use crate::index::logs::MAX_READERS;
use crate::index::search::Search;
use crate::index::tokens::{Tokens, in_ascii};
use crate::store::StoreError;
use crate::sys::in_parallel;

use super::{
    Hit, HitPosition, HitSearch, Hits, HitsBuilder, HitsError, QueriedCalls, Query, hit, wanted,
};

/// The least number of sessions that are read at once.
const BATCH: usize = 4;

/// How many sessions are read for a page. A filter may leave out most of what they have.
const SESSIONS: usize = 1024;

/// How many bytes behind a word a snippet shows, at least.
const SHOWN: usize = 48;

/// How many bytes of a log are read for a piece that has no known end.
const OF_A_LOG: usize = 256 * 1024;

/// How many sessions have to be known for a page. One more shows whether there are more.
fn most_sessions(from: HitPosition) -> usize {
    from.sessions.saturating_add(SESSIONS + 1)
}

impl HitSearch<'_> {
    /// The hits of a search for words. Sessions are ranked by their best pieces.
    pub(super) fn in_words(&self, search: &Search) -> Result<Hits, HitsError> {
        let query = self.query;
        let (backend, most) = (&self.catalog.backend, most_sessions(self.from));
        let ranking = backend.ranked(search, &query.fields, most)?;
        let filter = query.unsearched();
        let mut page = HitsBuilder::new(query, self.from, ranking.complete);
        let count = ranking.count;
        let mut at = count.min(page.at.sessions);
        let last = count.min(at + SESSIONS);
        let at_once = query.limit.div_ceil(query.per_session.max(1));
        let at_once = at_once.clamp(BATCH, SESSIONS);
        while at < last {
            if (self.cancelled)() {
                return Err(HitsError::Cancelled);
            }
            let part = at..last.min(at + at_once);
            let admits = |listed: &Listed| query.admits(listed);
            let sessions = (ranking.locate)(part, &filter, &admits)?;
            let found = in_parallel(&sessions, MAX_READERS, |session| match session {
                Some((session, places)) => self.in_pieces(search, session, places),
                None => Vec::new(),
            });
            for hits in found {
                at += 1;
                if page.session(hits).is_break() {
                    let is_shown = page.at.hits == 0;
                    return Ok(page.finish(!is_shown || at < count));
                }
            }
        }
        Ok(page.finish(at < count))
    }

    /// The hits in these pieces of a session: the places that have the most words.
    fn in_pieces(&self, search: &Search, session: &Listed, places: &[TextLocation]) -> Vec<Hit> {
        let (query, logs) = (self.query, &self.catalog.logs);
        let mut found = WordHits::of(query);
        if query.tool.is_some()
            && let Err(error) = self.note_calls(&mut found, session, places)
        {
            tracing::debug!(session = %session.id, %error, "cannot search a log");
        }
        for place in places {
            let text = match place {
                TextLocation::Log(start, end) => {
                    logs.piece(&session.id, *start, *end, OF_A_LOG).ok()
                }
                TextLocation::Kept(text) => kept_text::unpack(text),
            };
            found.add(query, search, session, &text.unwrap_or_default());
            if found.is_settled(query) {
                break;
            }
        }
        found.best(query)
    }

    /// Notes the tool calls before the last of these pieces: one of a log may begin within a turn.
    fn note_calls(
        &self,
        found: &mut WordHits,
        session: &Listed,
        places: &[TextLocation],
    ) -> Result<(), StoreError> {
        let starts = places.iter().filter_map(|place| match place {
            TextLocation::Log(start, _) => Some(*start),
            TextLocation::Kept(_) => None,
        });
        let Some(last) = starts.max() else {
            return Ok(());
        };
        let logs = &self.catalog.logs;
        logs.passages(&session.id, last, &mut |passages| {
            found.calls.add(self.query, &passages);
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
            let places = terms.filter(|term| term.find(&tokens).is_some()).count();
            if places > 0 {
                let lacking = search.terms().len() - places;
                least = least.min(lacking);
                best.insert((lacking, rank, offset, n), passage);
            }
        }
        let best = best.into_iter().take(query.per_session);
        self.found.extend(best.map(|(key, passage)| {
            let at = densest(passage, search);
            (key, hit(session, passages, passage, at))
        }));
    }

    /// Whether no other piece can have better places: as many as are shown have all words, and are
    /// of the kind that counts most.
    fn is_settled(&self, query: &Query) -> bool {
        let kinds = query.fields.iter().map(|field| rank(*field));
        let best = (0, kinds.min().unwrap_or(0));
        let best = self.found.keys().take_while(|key| (key.0, key.1) <= best);
        best.count() >= query.per_session
    }

    /// The places with the most words, those with equal snippets last.
    fn best(self, query: &Query) -> Vec<Hit> {
        if self.found.is_empty() && query.is_of_all_texts() {
            // The index knows more accents than are compared here. The session has the words.
            return self.first.into_iter().collect();
        }
        let least = self.found.keys().next().map_or(0, |key| key.0);
        let best = self.found.into_iter().filter(|(key, _)| key.0 == least);
        // What has been shown already comes last.
        let mut shown = BTreeSet::new();
        let (new, again): (Vec<_>, Vec<_>) = best
            .map(|(_, hit)| hit)
            .partition(|hit| shown.insert(hit.snippet.clone()));
        new.into_iter()
            .chain(again)
            .take(query.per_session)
            .collect()
    }
}

/// Where a text has the most words of a search next to each other, on one line: the first of these words.
fn densest(passage: &Passage, search: &Search) -> usize {
    let text = &passage.text;
    let tokens = Tokens::of(text);
    let terms = search.terms().iter().enumerate();
    let places = terms.flat_map(|(term, sought)| {
        let places = sought.places(&tokens);
        places.map(move |at| (at, term))
    });
    let places: BTreeSet<(usize, usize)> = places.collect();
    let places: Vec<_> = places.into_iter().collect();
    let windows = places.iter().enumerate().map(|(n, (at, _))| {
        // The words of a command are lines of their own.
        let line = match passage.field {
            Field::ToolInput => None,
            _ => memchr::memchr(b'\n', &text.as_bytes()[*at..]),
        };
        let end = at + line.unwrap_or(SHOWN).min(SHOWN);
        let near = places[n..].iter().take_while(|(at, _)| *at < end);
        let mut seen = BTreeSet::new();
        let last = near.filter(|(_, term)| seen.insert(term)).last();
        let length = last.map_or(0, |(last, _)| last - at);
        (Reverse(seen.len()), length, *at)
    });
    windows.min().map_or(0, |(_, _, at)| at)
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
        Field::Thought => 2,
        Field::ToolInput | Field::ToolOutput => 3,
        // Mostly a path or a command.
        Field::Tool => 4,
    }
}
