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
    let find = |words: &str| {
        let mut query = query(words)?;
        query.sessions = sessions.filter(arguments.folder.as_deref())?;
        query.limit = arguments.limit.unwrap_or(LIMIT).clamp(1, MOST);
        find(sessions, &query, cursor, cancelled)
    };
    let mut found = find(&arguments.words);
    // A cursor may be of the words that are left of a question.
    let is_found = found
        .as_ref()
        .is_ok_and(|found| !found.hits.is_empty() || cursor.is_some());
    let mut is_of_question = false;
    if !is_found && let Some(words) = meant(&arguments.words) {
        let other = find(&words);
        is_of_question = other.as_ref().is_ok_and(|found| !found.hits.is_empty());
        if is_of_question {
            found = other;
        }
    }
    let found = found?;
    let mut text = if found.hits.is_empty() {
        "Nothing has all of these words; fewer words find more.\n"
    } else if is_of_question {
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

/// Words that are in questions of any kind, and say nothing of what is asked for.
const COMMON: &str = " a about an and any are as at be been but by can could did do does for from had has \
    have how i in is it its me my of on or our should so that the their them then there these they this \
    to us was we were what when where which who why will with would you your ";

/// The words of a question that say what is asked for; none if these are all, or too few.
fn meant(question: &str) -> Option<String> {
    // Words between quotes follow each other.
    if question.contains('"') {
        return None;
    }
    let all: Vec<&str> = question.split_whitespace().collect();
    let is_meant = |word: &&&str| {
        let word = word
            .trim_matches(|c: char| !c.is_alphanumeric())
            .to_lowercase();
        !word.is_empty() && !COMMON.contains(&format!(" {word} "))
    };
    let meant: Vec<&str> = all.iter().filter(is_meant).copied().collect();
    (meant.len() > 1 && meant.len() < all.len()).then(|| meant.join(" "))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_have_words_that_say_nothing() {
        for (question, words) in [
            (
                "What did we decide about telemetry opt out?",
                Some("decide telemetry opt out?"),
            ),
            ("telemetry opt out", None),
            ("what is it", None),
            ("where is the parser", None),
            ("\"to be\" or the parser fix", None),
        ] {
            assert_eq!(meant(question).as_deref(), words, "{question}");
        }
    }
}
