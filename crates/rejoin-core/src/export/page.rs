//! The export as a page: the built page from `web/`, with the conversation inside.

use serde_json::{Value, json};

use crate::protocol::UpdateKind;
use crate::store::{LogReader, StoreError};

use super::conversation::{ConversationEvent, Options, Range, about, read, scan};

/// The page without a conversation, as `web/build.mjs` builds it.
const PAGE: &str = include_str!("../../pages/page.html");
/// The page with statistics, built by the same.
const STATS: &str = include_str!("../../pages/stats.html");
/// Where a page's title belongs.
const TITLE: &str = "@TITLE@";
/// Where a page's data belongs.
const DATA: &str = "@DATA@";
/// How much data is in one element, in bytes: the page shows what has arrived.
const ELEMENT: usize = 256 * 1024;
/// Ends an element with data and begins the next.
const NEXT_ELEMENT: &str = "</script>\n<script type=\"application/json\">\n";

pub(super) fn write<E: From<StoreError>>(
    reader: &mut LogReader,
    options: Options<'_>,
    put: &mut dyn FnMut(&str) -> Result<(), E>,
) -> Result<(), E> {
    let (scan, permissions) = scan(reader, options)?;
    let mut session = about(reader, &scan, options)?;
    session["kinds"] = kinds();
    let title = session["title"].as_str().unwrap_or("Conversation");
    let (before, after) = split(PAGE, title);
    put(&before)?;
    let mut length = 0;
    let mut line = |text: &str| {
        let text = data(text);
        length += text.len();
        if length > ELEMENT {
            length = 0;
            put(NEXT_ELEMENT)?;
        }
        put(&text)?;
        put("\n")
    };
    line(&session.to_string())?;
    let skipped = options.skipped(&scan);
    let range = Range {
        skipped,
        permissions: permissions.all(),
        ..Range::default()
    };
    read(reader, options, range, &mut |event| match event {
        ConversationEvent::Update(text) | ConversationEvent::Turn(text) => line(text),
        ConversationEvent::Permission(asked) => line(&asked.as_json().to_string()),
        ConversationEvent::Damage(_) => Ok(()),
    })?;
    put(after)
}

/// What the page has to know of kinds of updates, by their names: whether an update is a snapshot,
/// and which member has its text.
fn kinds() -> Value {
    let kinds = UpdateKind::all().map(|kind| {
        let text = kind.text().map(|text| text.member);
        let known = json!({ "snapshot": kind.is_snapshot(), "text": text });
        (kind.name().to_owned(), known)
    });
    Value::Object(kinds.collect())
}

/// The page that shows these statistics.
pub fn stats_page(stats: &Value) -> String {
    let (before, after) = split(STATS, "Statistics");
    [&before, data(&stats.to_string()).as_str(), after].concat()
}

/// The text before the data of a page, with its title, and the text after it.
fn split<'a>(page: &'a str, title: &str) -> (String, &'a str) {
    let (before, after) = page.split_once(DATA).unwrap_or((page, ""));
    (before.replacen(TITLE, &escaped(title), 1), after)
}

/// JSON text that ends no element of a page: this character occurs only in strings, where an escape
/// means the same.
fn data(json: &str) -> String {
    json.replace('<', "\\u003c")
}

/// Text as the content of an element.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_have_a_place_for_their_title_and_their_data() {
        for page in [PAGE, STATS] {
            assert_eq!(page.matches(TITLE).count(), 1);
            assert_eq!(page.matches(DATA).count(), 1);
        }
    }

    #[test]
    fn pages_have_the_names_of_agents_that_lists_have() {
        for known in crate::engine::known::known() {
            let name = format!("\"{}\"", known.title());
            let is_there = PAGE.contains(&name) && STATS.contains(&name);
            assert!(is_there, "{name}: build `web` again");
        }
    }

    #[test]
    fn data_ends_no_element() {
        assert_eq!(
            data(r#"{"a":"</script><!--"}"#),
            r#"{"a":"\u003c/script>\u003c!--"}"#
        );
        let (before, _) = split(PAGE, "</title><script>&");
        assert!(before.contains("&lt;/title>&lt;script>&amp;"));
    }
}
