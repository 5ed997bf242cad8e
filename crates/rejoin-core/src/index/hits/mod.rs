//! Finds places in conversations, and shows the text around them.
//!
//! Words are looked up in the full-text index (`words`), which says in which pieces of which logs
//! they are; those pieces are read again to find the places. Any other text, and patterns, are
//! looked for in the logs themselves (`scan`), which needs no index.

mod scan;
mod words;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::ControlFlow;

use regex::Regex;

use crate::conversation::{Field, Passage};
use crate::protocol::cursor;
use crate::sys::SessionId;

use super::apart::distinguish;
use super::backend::{ListError, Listed};
use super::catalog::Catalog;
use super::filter::Filter;
use super::search::Search;
use super::snippets::snippet;
use scan::Matcher;

/// The pattern of a search.
#[derive(Clone, Debug)]
pub enum Pattern {
    /// Words and phrases, in the index. A session matches if it has all of them.
    Words(Search),
    /// Exactly this text, in the logs.
    Substring(String),
    /// Text that matches a regular expression, in the logs.
    Regex(Regex),
}

impl Pattern {
    /// A regular expression, in the syntax of the `regex` crate.
    pub fn regex(pattern: &str) -> Result<Self, regex::Error> {
        Regex::new(pattern).map(Self::Regex)
    }
}

/// A search for places.
#[derive(Clone, Debug)]
pub struct Query {
    /// The pattern to look for.
    pub pattern: Pattern,
    /// In which sessions. Its own search and order are not used.
    pub sessions: Filter,
    /// Only in this session.
    pub session: Option<SessionId>,
    /// Only in sessions of these sources; in all if it is empty.
    pub sources: Vec<String>,
    /// Only at this time or later, in the format of [`Timestamp`](crate::sys::Timestamp)'s
    /// `Display`.
    pub since: Option<String>,
    /// Only at this time or earlier.
    pub until: Option<String>,
    /// Only in texts of these kinds; in all if it is empty.
    pub fields: Vec<Field>,
    /// Only in tool calls of this kind, or with these words in their titles or files.
    pub tool: Option<String>,
    /// The maximum number of hits on a page; at least 1.
    pub limit: usize,
    /// The maximum number of hits of one session; at least 1.
    pub per_session: usize,
}

impl Query {
    /// A search in everything, for at most 20 hits on a page and 3 in a session.
    pub fn new(pattern: Pattern) -> Self {
        Self {
            pattern,
            sessions: Filter::default(),
            session: None,
            sources: Vec::new(),
            since: None,
            until: None,
            fields: Vec::new(),
            tool: None,
            limit: 20,
            per_session: 3,
        }
    }

    /// Whether no text of a session is left out.
    fn is_of_all_texts(&self) -> bool {
        self.fields.is_empty()
            && self.tool.is_none()
            && self.since.is_none()
            && self.until.is_none()
    }

    /// The query without the words that are in every question, if there are any.
    fn of_question(&self) -> Option<Self> {
        let Pattern::Words(words) = &self.pattern else {
            return None;
        };
        let pattern = Pattern::Words(words.of_question()?);
        Some(Self {
            pattern,
            ..self.clone()
        })
    }

    /// In which sessions, for lists.
    fn unsearched(&self) -> Filter {
        Filter {
            search: None,
            ..self.sessions.clone()
        }
    }

    /// Whether a session may have hits.
    fn admits(&self, listed: &Listed) -> bool {
        let summary = &listed.summary;
        let begun_late = |until: &String| summary.created_at > *until;
        let ended_early = |since: &String| summary.updated_at.as_ref() < Some(since);
        (self.session.as_ref().is_none_or(|id| *id == listed.id))
            && (self.sources.is_empty() || self.sources.contains(&summary.source))
            && !self.until.as_ref().is_some_and(begun_late)
            && !self.since.as_ref().is_some_and(ended_early)
    }

    /// The query that a cursor belongs to, as text.
    fn scope(&self) -> String {
        format!(
            "Hits {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {}",
            self.pattern,
            self.sessions.cwd,
            self.sessions.worktrees.is_some(),
            self.sessions.archived,
            self.session,
            self.sources,
            self.since,
            self.until,
            self.fields,
            self.tool,
            self.per_session,
        )
    }
}

/// A page of hits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hits {
    /// The hits, those of one session together, best first.
    pub hits: Vec<Hit>,
    /// Whether everything that the query covers could be searched; if not, there may be more hits.
    pub complete: bool,
    /// Where the next page begins; absent on the last page. A page that has fewer hits than allowed
    /// may have one, too.
    pub next_cursor: Option<String>,
    /// Whether nothing has all words of the search, and these are hits of those that are not in every question.
    pub of_question: bool,
}

/// A place in a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hit {
    /// The session.
    pub session: Listed,
    /// The kind of text.
    pub field: Field,
    /// When it was recorded, in the format of [`Timestamp`](crate::sys::Timestamp)'s `Display`.
    pub at: String,
    /// The byte offset in the log of the record with which the text begins; none in a conversation
    /// that another tool keeps.
    pub offset: Option<u64>,
    /// In such a conversation, the number of that record, from 0.
    pub number: Option<u64>,
    /// The id of the message, if it has one.
    pub message_id: Option<String>,
    /// The tool call that it belongs to.
    pub tool_call: Option<HitCall>,
    /// A line of text around the first place that matches.
    pub snippet: String,
}

/// The tool call that a hit belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct HitCall {
    /// Its id.
    pub id: Option<String>,
    /// Its title, if that is recorded nearby.
    pub title: Option<String>,
    /// Its kind, if that is recorded nearby.
    pub kind: Option<String>,
}

/// Why there are no hits.
#[derive(Debug, thiserror::Error)]
pub enum HitsError {
    /// The search was cancelled.
    #[error("the search was cancelled")]
    Cancelled,
    /// The sessions cannot be listed, or the cursor is not one of this query.
    #[error(transparent)]
    List(#[from] ListError),
}

/// Whether a search has been cancelled. It is called now and then.
pub type Cancelled<'a> = &'a (dyn Fn() -> bool + Sync);

impl Catalog {
    /// The hits from `from` on, which is the cursor of an earlier page of the same query, or the
    /// first ones. If nothing has all words of a question, only those count that say what is asked for.
    pub fn hits(
        &self,
        query: &Query,
        from: Option<&str>,
        cancelled: Cancelled<'_>,
    ) -> Result<Hits, HitsError> {
        let found = self.hits_of(query, from, cancelled);
        let is_found = match &found {
            Ok(page) => !page.hits.is_empty() || from.is_some(),
            // The cursor may be one of the words that are left of a question.
            Err(error) => !matches!(error, HitsError::List(ListError::Cursor)),
        };
        match query.of_question().filter(|_| !is_found) {
            Some(query) => {
                let page = self.hits_of(&query, from, cancelled)?;
                let of_question = !page.hits.is_empty();
                Ok(Hits {
                    of_question,
                    ..page
                })
            }
            None => found,
        }
    }

    fn hits_of(
        &self,
        query: &Query,
        from: Option<&str>,
        cancelled: Cancelled<'_>,
    ) -> Result<Hits, HitsError> {
        let from = match from {
            Some(text) => {
                let from =
                    cursor::open(text, &query.scope()).and_then(|text| HitPosition::parse(&text));
                from.ok_or(ListError::Cursor)?
            }
            None => HitPosition::default(),
        };
        let search = HitSearch {
            catalog: self,
            query,
            from,
            cancelled,
        };
        let mut page = match &query.pattern {
            Pattern::Words(words) => search.in_words(words),
            Pattern::Substring(text) => search.in_texts(&Matcher::literal(text)),
            Pattern::Regex(regex) => search.in_texts(&Matcher::regex(regex)),
        }?;
        let sessions = page.hits.iter_mut().map(|hit| &mut hit.session);
        distinguish(&*self.backend, query.sessions.since.as_deref(), sessions)?;
        Ok(page)
    }
}

/// A search for a page of hits.
struct HitSearch<'a> {
    catalog: &'a Catalog,
    query: &'a Query,
    /// Where the page begins.
    from: HitPosition,
    cancelled: Cancelled<'a>,
}

/// Where a page begins: how many sessions come before it, and how many hits of the next one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct HitPosition {
    sessions: usize,
    hits: usize,
}

impl HitPosition {
    fn parse(text: &str) -> Option<Self> {
        let (sessions, hits) = text.split_once('-')?;
        Some(Self {
            sessions: sessions.parse().ok()?,
            hits: hits.parse().ok()?,
        })
    }
}

/// Puts a page together.
struct HitsBuilder<'a> {
    query: &'a Query,
    /// Where the next session begins.
    at: HitPosition,
    page: Hits,
}

impl<'a> HitsBuilder<'a> {
    fn new(query: &'a Query, from: HitPosition, complete: bool) -> Self {
        Self {
            query,
            at: from,
            page: Hits {
                complete,
                ..Hits::default()
            },
        }
    }

    /// Adds the hits of the next session; breaks if the page is full.
    fn session(&mut self, hits: Vec<Hit>) -> ControlFlow<()> {
        let count = hits.len();
        let room = self.query.limit.max(1).saturating_sub(self.page.hits.len());
        self.page
            .hits
            .extend(hits.into_iter().skip(self.at.hits).take(room));
        let shown = self.at.hits + room;
        if shown < count {
            self.at.hits = shown;
            return ControlFlow::Break(());
        }
        self.at = HitPosition {
            sessions: self.at.sessions + 1,
            hits: 0,
        };
        if self.page.hits.len() >= self.query.limit {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    /// The page. `more` is whether sessions are left.
    fn finish(mut self, more: bool) -> Hits {
        if more {
            let HitPosition { sessions, hits } = self.at;
            let text = format!("{sessions}-{hits}");
            self.page.next_cursor = Some(cursor::seal(&text, &self.query.scope()));
        }
        self.page
    }
}

/// The passages of a part of a log that a query is about. `calls` has seen them, and what comes before
/// them.
fn wanted<'p>(
    query: &Query,
    calls: &QueriedCalls,
    passages: &'p [Passage],
) -> impl Iterator<Item = &'p Passage> {
    passages.iter().filter(move |passage| {
        (query.fields.is_empty() || query.fields.contains(&passage.field))
            && query
                .since
                .as_ref()
                .is_none_or(|since| passage.at >= *since)
            && query
                .until
                .as_ref()
                .is_none_or(|until| passage.at <= *until)
            && (query.tool.is_none() || is_of_tool(passage) && calls.like.contains(&passage.id))
    })
}

fn is_of_tool(passage: &Passage) -> bool {
    passage.field.role() == Field::Tool.role()
}

/// The tool calls that a query is about. Their titles may come long before what they returned.
#[derive(Debug)]
struct QueriedCalls {
    /// The kind, or words of titles and files; none if every call is meant.
    tool: Option<Search>,
    /// The ids of those of this kind, or with these words.
    like: BTreeSet<Option<String>>,
}

impl QueriedCalls {
    fn of(query: &Query) -> Self {
        Self {
            tool: query.tool.as_deref().and_then(Search::parse),
            like: BTreeSet::new(),
        }
    }

    /// Takes the next passages of a session.
    fn add(&mut self, query: &Query, passages: &[Passage]) {
        if query.tool.is_none() {
            return;
        }
        let of_tools = passages.iter().filter(|passage| is_of_tool(passage));
        let like = of_tools.filter(|passage| {
            self.tool.as_ref().is_none_or(|tool| {
                let kind = passage.tool_kind.as_ref();
                kind.is_some_and(|kind| tool.matches(kind))
                    || passage.field == Field::Tool && tool.matches(&passage.text)
            })
        });
        self.like.extend(like.map(|passage| passage.id.clone()));
    }
}

/// The tool call of a passage, as far as the other passages show it.
fn call_of(passages: &[Passage], passage: &Passage) -> HitCall {
    let of_call = || passages.iter().filter(|other| other.id == passage.id);
    let titles = of_call().filter(|other| other.field == Field::Tool);
    let mut titles = titles.filter_map(|other| other.text.lines().next());
    HitCall {
        id: passage.id.clone(),
        title: titles.next().map(str::to_owned),
        kind: of_call().find_map(|other| other.tool_kind.clone()),
    }
}

/// The hit at the byte `at` of one of these passages.
fn hit(session: &Listed, passages: &[Passage], passage: &Passage, at: usize) -> Hit {
    let text: Cow<'_, str> = match passage.field {
        // The words of a command are strings of their own.
        Field::ToolInput => Cow::Owned(passage.text.replace('\n', " ")),
        _ => Cow::Borrowed(passage.text.as_str()),
    };
    let tool_call = is_of_tool(passage).then(|| call_of(passages, passage));
    Hit {
        session: session.clone(),
        field: passage.field,
        at: passage.at.clone(),
        offset: Some(passage.offset).filter(|_| session.summary.tool.is_none()),
        number: Some(passage.offset).filter(|_| session.summary.tool.is_some()),
        message_id: passage.id.clone().filter(|_| tool_call.is_none()),
        tool_call,
        snippet: snippet(&text, at).unwrap_or_default(),
    }
}
