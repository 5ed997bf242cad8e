//! `session/list` with a wrapped agent: a page of our sessions and a page of its own, merged.
//!
//! A cursor contains the client's position on both sides. Each page is sorted, newest first; across
//! pages only our own sessions are, since the order of the agent's pages is unknown.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::time::{Instant, timeout_at};

use crate::engine::{AgentListQuery, EngineError, Foreign, Upstream};
use crate::index::{
    Catalog, Filter, ListError, Listed, Order, SessionPage, cursor_after, seal, unseal,
};
use crate::json::{Members, string_member};
use crate::protocol::jetbrains;
use crate::record::{AgentSessionId, title};
use crate::server::error::{self, Error};
use crate::session::Deps;
use crate::sys::{Timestamp, blocking, path};

use super::context::id_of_agents_session;
use super::list::{invalid_cursor, list_error};
use super::row::RowForm;

/// How long the agent may take.
pub(super) const TIMEOUT: Duration = Duration::from_secs(5);

/// An agent with more pages than this repeats them.
pub(super) const PAGES: u32 = 10_000;

/// The requested page.
#[derive(Debug)]
pub(super) struct ListRequest {
    pub(super) filter: Filter,
    pub(super) cursor: Option<String>,
    pub(super) limit: usize,
    /// Whether the result has the number of sessions.
    pub(super) counted: bool,
    /// The form of the list's entries.
    pub(super) form: RowForm,
}

/// The client's position in the list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ListPosition {
    /// The number of pages so far, so that no cursor is given out twice.
    page: u32,
    ours: Side<String>,
    theirs: Side<Theirs>,
    /// How many sessions the agent has on all pages, if they were counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    count: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Side<T> {
    Start,
    At(T),
    Done,
}

/// A place in the agent's list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Theirs {
    /// The agent's cursor of a page.
    cursor: Option<String>,
    /// The last entry of that page that was sent, if any.
    after: Option<Key>,
}

/// The key by which entries are sorted: the time, the latest first, and the id. Without a time, the
/// time is empty.
type Key = (String, String);

/// A key as it sorts.
fn rank(key: &Key) -> (Reverse<&str>, &str) {
    (Reverse(&key.0), &key.1)
}

/// An entry of the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
struct AgentListEntry {
    key: Key,
    text: String,
}

/// A page of the agent, without sessions that are ours and entries that are unusable.
#[derive(Debug, Default)]
struct AgentPage {
    source: String,
    entries: Vec<AgentListEntry>,
    /// The position of the page.
    here: Theirs,
    /// The position of the next one.
    next: Option<Theirs>,
    /// How many pages were read.
    pages: u32,
    /// How many entries all pages have, if they were counted.
    count: Option<u64>,
    /// Why the list is incomplete.
    error: Option<String>,
    /// The titles that the agent gives sessions of ours, by its ids of them.
    titles: BTreeMap<String, String>,
}

/// The result of a list.
pub(super) async fn list(
    deps: &Arc<Deps>,
    agent: &dyn Upstream,
    request: ListRequest,
) -> Result<String, Error> {
    let place = match &request.cursor {
        None => Some(ListPosition {
            page: 0,
            ours: Side::Start,
            theirs: Side::Start,
            count: None,
        }),
        Some(cursor) => unseal(cursor, &request.filter)
            .and_then(|text| serde_json::from_str(&text).ok())
            .filter(|place: &ListPosition| place.page < PAGES),
    };
    let place = place.ok_or_else(invalid_cursor)?;
    let names = agent.names();
    let theirs = theirs(
        deps.library.catalog.as_ref(),
        &names,
        agent,
        &request,
        &place,
    );
    let ours = ours(deps, &request, &place);
    let (ours, theirs) = tokio::join!(ours, theirs);
    let mut ours = ours?;
    let catalog = deps.library.catalog.as_deref();
    if let Some(catalog) = catalog {
        let sessions = &mut ours.sessions;
        let titled = blocking(|| give_titles(catalog, sessions, &names, &theirs.titles));
        titled.map_err(list_error)?;
    }
    let merged = merge(&request, place, ours, theirs);
    Ok(blocking(|| merged.result(catalog, &request.form)))
}

/// Gives sessions of ours that nobody has given a title those that the agent, which has these names, has in its
/// list. With a second prompt it is recorded (`engine/agent/session/listed_title.rs`); some agents list the last
/// prompt in place of a title, and that is known only of a session with one.
fn give_titles(
    catalog: &Catalog,
    sessions: &mut [Listed],
    names: &[String],
    titles: &BTreeMap<String, String>,
) -> Result<(), ListError> {
    let has_none = |listed: &Listed| {
        let summary = &listed.summary;
        summary.has_made_title() && summary.prompts == 1
    };
    if titles.is_empty() || !sessions.iter().any(has_none) {
        return Ok(());
    }
    catalog.add_agent_ids(sessions)?;
    for listed in sessions.iter_mut().filter(|listed| has_none(listed)) {
        let summary = &mut listed.summary;
        let of_agent = |known: &&AgentSessionId| names.contains(&known.agent);
        let last = summary.agent_ids.iter().rfind(of_agent);
        let title = last.and_then(|known| title::given(titles.get(&known.id)?));
        let is_made = |title: &String| {
            summary
                .made
                .as_ref()
                .is_some_and(|made| made.is_like(title))
        };
        if let Some(title) = title.filter(|title| !is_made(title)) {
            summary.title = Some(title);
        }
    }
    Ok(())
}

/// Our own page.
async fn ours(
    deps: &Arc<Deps>,
    request: &ListRequest,
    place: &ListPosition,
) -> Result<SessionPage, Error> {
    let cursor = match &place.ours {
        Side::At(cursor) => Some(cursor.clone()),
        Side::Start | Side::Done => None,
    };
    let done = place.ours == Side::Done;
    if done && !request.counted {
        return Ok(SessionPage::default());
    }
    let Some(catalog) = deps.library.catalog.clone() else {
        return Ok(SessionPage::empty());
    };
    let (filter, limit) = (request.filter.clone(), request.limit);
    let offers_aliases = deps.offers_aliases();
    let page = tokio::task::spawn_blocking(move || {
        let mut page = catalog.list(&filter, cursor.as_deref(), limit)?;
        if !page.complete {
            catalog.read_words_in_background();
        }
        if offers_aliases {
            catalog.add_agent_ids(&mut page.sessions)?;
        }
        Ok(page)
    });
    let page = page
        .await
        .map_err(|_| error::internal("the list failed"))?
        .map_err(list_error)?;
    Ok(if done {
        // Each page has the total.
        SessionPage {
            total: page.total,
            ..SessionPage::default()
        }
    } else {
        page
    })
}

/// The agent's next page that has entries for the client.
async fn theirs(
    catalog: Option<&Arc<Catalog>>,
    names: &[String],
    agent: &dyn Upstream,
    request: &ListRequest,
    place: &ListPosition,
) -> AgentPage {
    let mut list = AgentPage::default();
    let mut here = match &place.theirs {
        Side::Start => Theirs::default(),
        Side::At(theirs) => theirs.clone(),
        Side::Done => return list,
    };
    let until = Instant::now() + TIMEOUT;
    loop {
        let page = match agent_page(agent, request, &here, until).await {
            Ok(page) => page,
            Err(error) => return list.without(&error),
        };
        let next = page.next_cursor.clone();
        list.pages += 1;
        list.source.clone_from(&page.source);
        list.entries = entries(&page, &request.filter, here.after.as_ref());
        list.hide(agent, catalog.cloned(), names).await;
        let repeats = next == here.cursor || list.pages + place.page >= PAGES;
        list.next = next.filter(|_| !repeats).map(|cursor| Theirs {
            cursor: Some(cursor),
            after: None,
        });
        list.here = here;
        match (&list.next, list.entries.is_empty()) {
            (Some(next), true) => here = next.clone(),
            _ => break,
        }
    }
    if request.counted && place.theirs == Side::Start {
        let rest = count_rest(catalog, names, agent, request, &list, until);
        list.count = Some(list.entries.len() as u64 + rest.await);
    }
    list
}

/// A page of the agent.
async fn agent_page(
    agent: &dyn Upstream,
    request: &ListRequest,
    here: &Theirs,
    until: Instant,
) -> Result<Foreign, EngineError> {
    // The protocol has no list of several folders.
    let one_folder = request.filter.worktrees.iter().flatten().next().is_none();
    let asked = AgentListQuery {
        cwd: request.filter.cwd.clone().filter(|_| one_folder),
        cursor: here.cursor.clone(),
    };
    timeout_at(until, agent.sessions(asked))
        .await
        .unwrap_or_else(|_| {
            let seconds = TIMEOUT.as_secs();
            let message = format!("the agent did not list its sessions within {seconds} seconds");
            Err(EngineError::internal(message))
        })
}

/// How many entries the pages of the agent have after this one, as far as it names them in time.
async fn count_rest(
    catalog: Option<&Arc<Catalog>>,
    names: &[String],
    agent: &dyn Upstream,
    request: &ListRequest,
    first: &AgentPage,
    until: Instant,
) -> u64 {
    let (mut count, mut pages) = (0, first.pages);
    let mut next = first.next.clone();
    while let Some(here) = next.filter(|_| pages < PAGES) {
        let Ok(page) = agent_page(agent, request, &here, until).await else {
            break;
        };
        pages += 1;
        let mut list = AgentPage {
            entries: entries(&page, &request.filter, None),
            ..AgentPage::default()
        };
        list.hide(agent, catalog.cloned(), names).await;
        count += list.entries.len() as u64;
        let repeats = page.next_cursor == here.cursor;
        next = page.next_cursor.filter(|_| !repeats).map(|cursor| Theirs {
            cursor: Some(cursor),
            after: None,
        });
    }
    count
}

impl AgentPage {
    /// Leaves out subagents, and sessions that are ours, under any name of the agent.
    async fn hide(
        &mut self,
        agent: &dyn Upstream,
        catalog: Option<Arc<Catalog>>,
        names: &[String],
    ) {
        self.entries
            .retain(|entry| !agent.is_subagent(&entry.key.1));
        let Some(catalog) = catalog.filter(|_| !self.entries.is_empty()) else {
            return;
        };
        let ids: Vec<_> = self
            .entries
            .iter()
            .map(|entry| entry.key.1.clone())
            .collect();
        let names = names.to_owned();
        let ours = tokio::task::spawn_blocking(move || {
            let mut ours = BTreeSet::new();
            for name in names {
                ours.extend(catalog.ours(&name, &ids)?);
            }
            Ok::<_, ListError>(ours)
        });
        let ours = ours.await;
        match ours {
            Ok(Ok(ours)) => self.entries.retain(|entry| {
                let is_ours = ours.contains(&entry.key.1);
                let title = string_member(&entry.text, "title").filter(|_| is_ours);
                self.titles
                    .extend(title.map(|title| (entry.key.1.clone(), title)));
                !is_ours
            }),
            Ok(Err(error)) => {
                tracing::warn!(%error, "cannot find the agent's sessions in the catalog");
            }
            Err(error) => {
                tracing::warn!(%error, "cannot find the agent's sessions in the catalog");
            }
        }
    }

    /// Ends the agent's list with an error.
    fn without(mut self, error: &EngineError) -> Self {
        tracing::info!(%error, "the agent's sessions are not listed");
        self.next = None;
        self.error = Some(error.message.clone());
        self
    }
}

/// The entries of a page that are usable and were not sent yet, the newest first.
fn entries(page: &Foreign, filter: &Filter, after: Option<&Key>) -> Vec<AgentListEntry> {
    let mut seen = BTreeSet::new();
    let mut entries: Vec<_> = page
        .sessions
        .iter()
        .filter_map(|text| entry(&page.source, text, filter))
        .filter(|entry| seen.insert(entry.key.1.clone()))
        .filter(|entry| after.is_none_or(|after| rank(&entry.key) > rank(after)))
        .collect();
    entries.sort_by(|a, b| rank(&a.key).cmp(&rank(&b.key)));
    entries
}

fn entry(agent: &str, text: &str, filter: &Filter) -> Option<AgentListEntry> {
    let string = |name: &str| string_member(text, name);
    let id = string("sessionId").filter(|id| id_of_agents_session(agent, id).is_some())?;
    let cwd = string("cwd").filter(|cwd| Path::new(cwd).is_absolute())?;
    if !filter.covers(&path::normalize(&cwd)) {
        return None;
    }
    if let Some(search) = &filter.search
        && !search.matches(&string("title").unwrap_or_default())
    {
        return None;
    }
    let time = |name| string(name).and_then(|time| Timestamp::parse(&time));
    let prompted = match filter.order {
        Order::Active => None,
        Order::Prompted => time("lastPromptAt").or_else(|| {
            let time = string_member(jetbrains::members(text)?, "lastPromptAt")?;
            Timestamp::parse(&time)
        }),
    };
    let time = prompted.or_else(|| time("updatedAt"));
    let time = time.map(|time| time.to_string()).unwrap_or_default();
    Some(AgentListEntry {
        key: (time, id),
        text: text.to_owned(),
    })
}

/// A page of both sides.
#[derive(Debug)]
struct Merged {
    sessions: Vec<One>,
    next: Option<String>,
    total: Option<u64>,
    /// Whether every word of our sessions could be searched.
    complete: bool,
    source: String,
    error: Option<String>,
}

#[derive(Debug)]
enum One {
    Ours(Box<Listed>),
    Theirs(String),
}

/// Takes the newest of both sides until the page is full.
fn merge(
    request: &ListRequest,
    place: ListPosition,
    ours: SessionPage,
    theirs: AgentPage,
) -> Merged {
    let mut next = ListPosition {
        page: place.page + theirs.pages.max(1),
        ours: place.ours,
        theirs: Side::Done,
        count: theirs.count.or(place.count),
    };
    let mut here = theirs.here;
    let mut sessions = Vec::new();
    let complete = ours.complete || request.filter.search.is_none();
    let more = ours.next_cursor.is_some();
    let counted = ours.total.filter(|_| request.counted);
    let total = counted.map(|ours| ours + next.count.unwrap_or_default());
    let mut ours = ours.sessions.into_iter().peekable();
    let mut others = theirs.entries.into_iter().peekable();
    while sessions.len() < request.limit {
        let time = |listed: &Listed| {
            let time = request.filter.order.time(&listed.summary);
            time.unwrap_or_default().to_owned()
        };
        let own = match (ours.peek(), others.peek()) {
            (Some(ours), Some(other)) => time(ours) >= other.key.0,
            (ours, _) => ours.is_some(),
        };
        if own && let Some(listed) = ours.next() {
            next.ours = Side::At(cursor_after(&listed.id, &listed.summary, &request.filter));
            sessions.push(One::Ours(Box::new(listed)));
        } else if let Some(entry) = others.next() {
            here.after = Some(entry.key);
            sessions.push(One::Theirs(entry.text));
        } else {
            break;
        }
    }
    if ours.peek().is_none() && !more {
        next.ours = Side::Done;
    }
    if others.peek().is_some() {
        next.theirs = Side::At(here);
    } else if let Some(page) = theirs.next {
        next.theirs = Side::At(page);
    }
    let ends = next.ours == Side::Done && next.theirs == Side::Done;
    // Only a cursor of the agent can make ours too long. Then it is left out.
    let sealed = |place: &ListPosition| {
        let text = serde_json::to_string(place).ok()?;
        seal(&text, &request.filter)
    };
    let mut error = theirs.error;
    let mut cursor = None;
    // An empty page has no last entry after which another page could begin.
    if !ends && request.limit > 0 {
        cursor = sealed(&next);
        if cursor.is_none() {
            error = Some("the agent's cursor is too long".to_owned());
            next.theirs = Side::Done;
            cursor = (next.ours != Side::Done).then(|| sealed(&next)).flatten();
        }
    }
    Merged {
        sessions,
        next: cursor,
        total,
        complete,
        source: theirs.source,
        error,
    }
}

impl Merged {
    fn result(self, catalog: Option<&Catalog>, form: &RowForm) -> String {
        let source = Value::from(self.source);
        let sessions = self.sessions.into_iter().map(|one| match one {
            One::Ours(listed) => form.row(catalog, *listed).to_string(),
            One::Theirs(text) => {
                let mut entry = Members::of(&text);
                entry.set("source", &source);
                if form.archives {
                    entry.set_default("archived", false);
                }
                entry.text()
            }
        });
        let sessions: Vec<_> = sessions.collect();
        let mut result = Members::default();
        result.set("sessions", format!("[{}]", sessions.join(",")));
        if let Some(cursor) = self.next {
            result.set("nextCursor", Value::from(cursor));
        }
        if let Some(total) = self.total {
            result.set("total", total);
        }
        let mut notes = Map::new();
        if let Some(error) = self.error {
            notes.insert("agent".to_owned(), json!({ "error": error }));
        }
        if !self.complete {
            notes.insert("searchIncomplete".to_owned(), true.into());
        }
        if !notes.is_empty() {
            result.set("_meta", json!({ "rejoin": notes }));
        }
        result.text()
    }
}

#[cfg(test)]
#[path = "agent_list_tests.rs"]
mod tests;
