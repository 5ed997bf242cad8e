//! What the history tells of a session beside what the protocol's own list does.

use serde_json::{Map, Value};

use crate::index::Summary;

use super::aging::last_used;

/// Adds the history's members to a session in a list. Times are in the protocol's own form;
/// `lastModified` is that of the last prompt, or that of the making of a session without one.
pub fn entry(summary: &Summary, session: &mut Map<String, Value>) {
    session.insert("createdAt".to_owned(), summary.created_at.clone().into());
    session.insert("lastModified".to_owned(), last_used(summary).into());
    session.insert("source".to_owned(), summary.source.clone().into());
    session.insert("messageCount".to_owned(), messages(summary).into());
}

/// How many messages a session has, which is how many turns [`page`](super::page) gives: a prompt
/// and its answer are two, also where the answer is empty so far or for ever.
pub fn messages(summary: &Summary) -> u64 {
    summary.prompts.saturating_mul(2)
}
