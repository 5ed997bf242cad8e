//! The tool `search`: places that have all of some words.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::conversation::Field;
use crate::index::{Hit, Hits, HitsError, Pattern, Query, Search};

use super::answer::{Refused, ToolAnswer};
use super::list::refused;
use super::rows::{self, MOST};
use super::scope::{Cancelled, Sessions};

/// How many places are shown by default.
const LIMIT: usize = 20;
/// How many bytes of logs that were not indexed yet are read for one search.
const READ: usize = 64 * 1024 * 1024;

#[derive(Debug, Deserialize)]
pub(super) struct SearchArguments {
    words: String,
    folder: Option<String>,
    limit: Option<usize>,
    cursor: Option<String>,
}

pub(super) fn call(
    sessions: &Sessions,
    arguments: SearchArguments,
    cancelled: Cancelled<'_>,
) -> Result<ToolAnswer, Refused> {
    let cursor = arguments.cursor.as_deref();
    let mut query = query(&arguments.words)?;
    query.sessions = sessions.filter(arguments.folder.as_deref())?;
    query.limit = arguments.limit.unwrap_or(LIMIT).clamp(1, MOST);
    let found = find(sessions, &query, cursor, cancelled)?;
    let mut text = if found.hits.is_empty() {
        "Nothing has all of these words; fewer words find more.\n"
    } else if found.of_question {
        "Nothing has all of these words; this has those that are not in every question. Best first; \
         `read` with the session and a `place` shows more of it.\n"
    } else {
        "Best first; `read` with the session and a `place` shows more of it.\n"
    }
    .to_owned();
    if !found.complete {
        text += "Not all conversations are indexed yet; a later search may find more.\n";
    }
    let mut object: Vec<Value> = Vec::new();
    for hits in found
        .hits
        .chunk_by(|one, other| one.session.id == other.session.id)
    {
        let Some(first) = hits.first() else { continue };
        text.push('\n');
        text += &rows::lines(&first.session);
        text.extend(hits.iter().map(line));
        let mut session = rows::object(&first.session);
        session["hits"] = hits.iter().map(hit).collect();
        object.push(session);
    }
    let mut object = json!({ "sessions": object, "complete": found.complete });
    if let Some(cursor) = found.next_cursor {
        text += &rows::more(&cursor);
        object["nextCursor"] = cursor.into();
    }
    Ok(ToolAnswer { text, object })
}

/// A search for words in everything.
pub(super) fn query(words: &str) -> Result<Query, Refused> {
    let search =
        Search::parse(words).ok_or_else(|| Refused("there is no word to search for".to_owned()))?;
    Ok(Query::new(Pattern::Words(search)))
}

/// The places that a query finds.
pub(super) fn find(
    sessions: &Sessions,
    query: &Query,
    cursor: Option<&str>,
    cancelled: Cancelled<'_>,
) -> Result<Hits, Refused> {
    if !sessions.exist()? {
        return Ok(Hits {
            complete: true,
            ..Hits::default()
        });
    }
    sessions.scan_words(cancelled)?;
    sessions.catalog.read_words(READ).map_err(refused)?;
    let hits = sessions.catalog.hits(query, cursor, cancelled);
    hits.map_err(|error| match error {
        HitsError::List(error) => refused(error),
        HitsError::Cancelled => Refused("the call was cancelled".to_owned()),
    })
}

/// Where `read` finds it.
pub(super) fn place(hit: &Hit) -> u64 {
    hit.offset.or(hit.number).unwrap_or_default()
}

fn line(hit: &Hit) -> String {
    let what = match hit.field {
        Field::Prompt => "the user",
        Field::Answer => "the agent",
        Field::Thought => "a thought of the agent",
        Field::Title => "a title",
        Field::Tool => "a tool call",
        Field::ToolInput => "given to a tool",
        Field::ToolOutput => "returned by a tool",
    };
    let tool = hit.tool_call.as_ref();
    let tool = tool.and_then(|call| call.title.as_ref());
    let tool = tool.map_or_else(String::new, |title| format!(" ({title})"));
    format!("  place {}, {what}{tool}: {}\n", place(hit), hit.snippet)
}

fn hit(hit: &Hit) -> Value {
    let mut object = json!({
        "place": place(hit),
        "kind": hit.field.name(),
        "at": hit.at,
        "snippet": hit.snippet,
    });
    let tool = hit.tool_call.as_ref();
    if let Some(title) = tool.and_then(|call| call.title.as_ref()) {
        object["tool"] = title.clone().into();
    }
    object
}
