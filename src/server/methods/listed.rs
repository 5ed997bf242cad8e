//! What a list says of a session of ours, and why there is no list.

use serde_json::{Map, Value};

use agent_client_protocol::Error;

use crate::history::entry;
use crate::index::{ListError, Listed};
use crate::server::error;
use crate::sys::with_causes;

use super::context::foreign_id;

/// An entry of the list. `agent` has the names of the agent behind the engine: sessions that it made
/// go by its ids. `archives` says whether the client is to know of archives.
pub(super) fn session(listed: Listed, agent: &[String], archives: bool) -> Value {
    let Listed {
        id,
        summary,
        snippet,
    } = listed;
    let name = summary.known_as.as_deref();
    let name = name.filter(|name| {
        let mut foreign = agent.iter().filter_map(|agent| foreign_id(agent, name));
        foreign.any(|foreign| foreign == id)
    });
    let name = name.unwrap_or(id.as_str());
    let mut session = Map::new();
    session.insert("sessionId".to_owned(), name.into());
    session.insert("cwd".to_owned(), summary.cwd.clone().into());
    if !summary.additional_directories.is_empty() {
        let directories = summary.additional_directories.clone().into();
        session.insert("additionalDirectories".to_owned(), directories);
    }
    if let Some(title) = &summary.title {
        session.insert("title".to_owned(), title.clone().into());
    }
    if let Some(updated_at) = &summary.updated_at {
        session.insert("updatedAt".to_owned(), updated_at.clone().into());
    }
    if archives {
        session.insert("archived".to_owned(), summary.archived.into());
    }
    entry(&summary, &mut session);
    if let Some(snippet) = snippet {
        let meta = serde_json::json!({ "rejoin": { "snippet": snippet } });
        session.insert("_meta".to_owned(), meta);
    }
    Value::Object(session)
}

/// Why there is no list.
pub(super) fn refused(refusal: ListError) -> Error {
    match refusal {
        ListError::Cursor => lost(),
        _ => error::storage_failed(with_causes(&refusal)),
    }
}

/// The cursor is none.
pub(super) fn lost() -> Error {
    error::invalid_params("`cursor` is not one that this list has given out")
}
