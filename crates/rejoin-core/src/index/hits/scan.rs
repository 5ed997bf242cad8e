//! Finds places by reading the logs, on several threads.
//!
//! Patterns are compared with text as people read it: strings of the logs without escapes, and
//! messages as a whole, however many chunks they came in.

use std::ops::{ControlFlow, Range};
use std::panic::resume_unwind;
use std::thread;

use memchr::memmem::{self, Finder};
use regex::Regex;

use crate::conversation::{Passage, SearchText};
use crate::index::backend::{ListError, Listed, RowWindow};
use crate::index::cursor;
use crate::index::filter::Filter;
use crate::index::logs::MAX_READERS;
use crate::index::sqlite::tool_files::FileOfTool;
use crate::record::{Kind, Record};
use crate::store::StoreError;
use crate::sys::in_parallel;

use super::{Hit, HitSearch, Hits, HitsBuilder, HitsError, QueriedCalls, Query, hit, wanted};

/// How many sessions are read before the catalog is queried again: twice as many each time, since a
/// page is often full soon.
const SESSIONS: Range<usize> = 64..1024;

/// How many bytes of logs are read for one page, or a little more.
const FOR_A_PAGE: u64 = 2 << 30;

/// Text is examined when there are this many bytes of it.
const EXAMINED: usize = 256 * 1024;

/// A message that is longer than this is examined in parts.
const LONGEST: usize = 8 * 1024 * 1024;

/// A payload that is longer than this is not parsed if it cannot match.
const LONG: usize = 4096;

/// How many records are read between two checks for cancellation.
const CHECK_INTERVAL: u64 = 1024;

/// A pattern, prepared for the search in logs.
pub(super) enum Matcher<'q> {
    /// A text.
    Literal(Box<Literal<'q>>),
    /// A regular expression.
    Regex(&'q Regex),
}

/// A text, and the same as JSON has it.
pub(super) struct Literal<'q> {
    text: Finder<'q>,
    escaped: Finder<'static>,
    has_slash: bool,
    plain: &'q str,
}

impl<'q> Matcher<'q> {
    pub(super) fn literal(text: &'q str) -> Self {
        let quoted = serde_json::Value::from(text).to_string();
        let escaped = quoted.get(1..quoted.len() - 1).unwrap_or_default();
        Self::Literal(Box::new(Literal {
            text: Finder::new(text),
            escaped: Finder::new(escaped).into_owned(),
            has_slash: text.contains('/'),
            plain: text,
        }))
    }

    pub(super) fn regex(regex: &'q Regex) -> Self {
        Self::Regex(regex)
    }

    /// The text to look for; none if it is a regular expression.
    fn as_text(&self) -> Option<&str> {
        match self {
            Self::Literal(literal) => Some(literal.plain),
            Self::Regex(_) => None,
        }
    }

    /// Where a text has it first.
    fn find(&self, text: &str) -> Option<usize> {
        match self {
            Self::Literal(literal) => literal.text.find(text.as_bytes()),
            Self::Regex(regex) => regex.find(text).map(|found| found.start()),
        }
    }

    /// Whether a string of a JSON text may have it.
    fn may_be_in(&self, json: &[u8]) -> bool {
        let Self::Literal(literal) = self else {
            return true;
        };
        literal.escaped.find(json).is_some()
            // Each character can be written in this way, and a slash in another.
            || memmem::find(json, b"\\u").is_some()
            || literal.has_slash && memmem::find(json, b"\\/").is_some()
    }
}

/// A session, and the file that it is if another tool keeps it.
type Job = (Listed, Option<(String, FileOfTool)>);

impl HitSearch<'_> {
    /// The hits in the logs, those of the newest session first, in their order there.
    pub(super) fn in_texts(&self, matcher: &Matcher<'_>) -> Result<Hits, HitsError> {
        let query = self.query;
        self.catalog.backend.bring_up_to_date()?;
        let filter = query.unsearched();
        let mut page = HitsBuilder::new(query, self.from, true);
        let mut read = 0;
        let mut at_once = SESSIONS.start;
        let first = RowWindow {
            after: None,
            offset: page.at.sessions as u64,
            limit: at_once + 1,
        };
        let mut jobs = self.jobs(&filter, first)?;
        loop {
            let more = jobs.len() > at_once;
            jobs.truncate(at_once);
            at_once = (2 * at_once).min(SESSIONS.end);
            let last = jobs.last();
            let after = last.map(|(listed, _)| {
                cursor::CursorPosition::of(&listed.id, &listed.summary, filter.order)
            });
            let window = RowWindow {
                after: after.as_ref(),
                offset: 0,
                limit: at_once + 1,
            };
            // The next sessions are looked up while these are read.
            let (found, next) = thread::scope(|scope| {
                let next = more.then(|| scope.spawn(|| self.jobs(&filter, window)));
                let found = in_parallel(&jobs, MAX_READERS, |job| self.in_session(matcher, job));
                let next =
                    next.map(|next| next.join().unwrap_or_else(|panic| resume_unwind(panic)));
                (found, next)
            });
            if (self.cancelled)() {
                return Err(HitsError::Cancelled);
            }
            let count = jobs.len();
            for (n, ((listed, _), found)) in jobs.iter().zip(found).enumerate() {
                read += listed.summary.scanned;
                page.page.complete &= found.is_some();
                let hits = found.unwrap_or_default();
                if page.session(hits).is_break() {
                    let is_last = page.at.hits == 0 && n + 1 == count && !more;
                    return Ok(page.finish(!is_last));
                }
            }
            jobs = match next {
                Some(next) if read < FOR_A_PAGE => next?,
                _ => return Ok(page.finish(more)),
            };
        }
    }

    /// The sessions within a window of the list that the query is about.
    fn jobs(&self, filter: &Filter, window: RowWindow<'_>) -> Result<Vec<Job>, ListError> {
        let sessions = self.catalog.backend.entries(filter, window)?;
        let has_file = |listed: &Listed| listed.summary.tool.is_some() && self.query.admits(listed);
        let ids = sessions.iter().filter(|listed| has_file(listed));
        let ids: Vec<_> = ids.map(|listed| &listed.id).collect();
        let mut files = self.catalog.tool_files.files_of(&ids)?.into_iter();
        let jobs = sessions.into_iter().map(|listed| {
            let file = has_file(&listed).then(|| files.next().flatten());
            (listed, file.flatten())
        });
        Ok(jobs.collect())
    }

    /// The hits in a session; none if it cannot be read.
    fn in_session(&self, matcher: &Matcher<'_>, (listed, file): &Job) -> Option<Vec<Hit>> {
        if (self.cancelled)() || !self.query.admits(listed) {
            return Some(Vec::new());
        }
        if listed.summary.tool.is_some() {
            let (tool, file) = file.as_ref()?;
            let reader = self.catalog.reader.as_ref()?;
            let text = reader.text(tool, file, matcher.as_text())?;
            let mut places = ScanHits::of(self.query, matcher, listed);
            _ = places.add(&text);
            return Some(places.hits);
        }
        let failed = |error: &_| {
            tracing::debug!(session = %listed.id, %error, "cannot search a log");
        };
        self.in_log(matcher, listed).inspect_err(failed).ok()
    }

    fn in_log(&self, matcher: &Matcher<'_>, listed: &Listed) -> Result<Vec<Hit>, StoreError> {
        let mut reader = self.catalog.logs.store.read(&listed.id)?;
        let mut text = SearchText::whole();
        let mut places = ScanHits::of(self.query, matcher, listed);
        let mut records = 0_u64;
        while let Some(entry) = reader.next()? {
            records += 1;
            if records.is_multiple_of(CHECK_INTERVAL) && (self.cancelled)() {
                break;
            }
            let record = without_what_cannot_match(&entry.record, matcher);
            text.record(entry.offset, &record);
            let is_due = text.len() >= EXAMINED && !text.within_message() || text.len() >= LONGEST;
            if is_due && places.add(&text.take()).is_break() {
                return Ok(places.hits);
            }
        }
        _ = places.add(&text.take());
        Ok(places.hits)
    }
}

/// The places that were found in a session.
struct ScanHits<'a> {
    query: &'a Query,
    matcher: &'a Matcher<'a>,
    session: &'a Listed,
    calls: QueriedCalls,
    hits: Vec<Hit>,
}

impl<'a> ScanHits<'a> {
    fn of(query: &'a Query, matcher: &'a Matcher<'_>, session: &'a Listed) -> Self {
        Self {
            query,
            matcher,
            session,
            calls: QueriedCalls::of(query),
            hits: Vec::new(),
        }
    }

    /// Looks for places in these passages; breaks if there are enough.
    fn add(&mut self, passages: &[Passage]) -> ControlFlow<()> {
        self.calls.add(self.query, passages);
        for passage in wanted(self.query, &self.calls, passages) {
            if self.hits.len() >= self.query.per_session {
                return ControlFlow::Break(());
            }
            if let Some(at) = self.matcher.find(&passage.text) {
                self.hits.push(hit(self.session, passages, passage, at));
            }
        }
        ControlFlow::Continue(())
    }
}

/// The record, or an empty one of its kind if it is long and cannot match. Chunks are always kept:
/// what is sought may begin in one and end in the next.
fn without_what_cannot_match<'r>(record: &Record<'r>, matcher: &Matcher<'_>) -> Record<'r> {
    let is_whole = match record.kind {
        Kind::Update => record.parts.is_some_and(|parts| parts.kind.is_call()),
        Kind::Prompt | Kind::Output => true,
        _ => false,
    };
    let payload = record.payload.as_bytes();
    if is_whole && payload.len() > LONG && !matcher.may_be_in(payload) {
        return Record {
            payload: "{}",
            parts: None,
            ..*record
        };
    }
    *record
}
