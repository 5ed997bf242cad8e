//! Members that the history adds to an entry of the protocol's own list.

use serde_json::{Map, Value};

use crate::index::Summary;

use super::retention::last_used;

/// Adds the history's members to a session in a list. Times are in the protocol's format;
/// `lastModified` is the time of the last activity, or of the creation if there was none. How many
/// messages there are is not known of a conversation of another tool before it was counted.
pub fn entry(summary: &Summary, session: &mut Map<String, Value>) {
    session.insert("createdAt".to_owned(), summary.created_at.clone().into());
    session.insert("lastModified".to_owned(), last_used(summary).into());
    session.insert("source".to_owned(), summary.source.clone().into());
    if let Some(messages) = messages(summary) {
        session.insert("messageCount".to_owned(), messages.into());
    }
}

/// How many messages a session has, if they were counted, which is how many turns
/// [`page`](super::page) returns. A prompt and its answer are two, even if the answer is still empty
/// or stays so.
pub fn messages(summary: &Summary) -> Option<u64> {
    let prompts = summary.counted_prompts();
    prompts.map(|prompts| prompts.saturating_mul(2))
}
