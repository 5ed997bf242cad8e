//! Sessions in lists, as lines for a model and as objects.

use serde_json::{Value, json};

use crate::history::entry::messages;
use crate::history::last_used;
use crate::index::Listed;

/// The most sessions of a page.
pub(super) const MOST: usize = 100;

/// Says that a list goes on.
pub(super) fn more(cursor: &str) -> String {
    format!("\nThere are more: ask again with cursor {cursor:?}.\n")
}

/// The id by which clients know a session.
fn id(listed: &Listed) -> String {
    let known_as = listed.summary.known_as.clone();
    known_as.unwrap_or_else(|| listed.id.to_string())
}

/// A session on two lines.
pub(super) fn lines(listed: &Listed) -> String {
    let summary = &listed.summary;
    let title = summary.title.as_deref().unwrap_or("(no text)");
    let when = last_used(summary).get(..16).unwrap_or_default();
    let messages =
        messages(summary).map_or_else(String::new, |count| format!(", {count} messages"));
    format!(
        "{title}\n  session {}{messages}, with {}, last used {}, in {}\n",
        id(listed),
        summary.source,
        when.replace('T', " "),
        summary.cwd
    )
}

/// A session as an object.
pub(super) fn object(listed: &Listed) -> Value {
    let summary = &listed.summary;
    json!({
        "session": id(listed),
        "title": summary.title,
        "folder": summary.cwd,
        "agent": summary.source,
        "messages": messages(summary),
        "createdAt": summary.created_at,
        "lastUsedAt": last_used(summary),
    })
}
