//! The agent's own list of its sessions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::time::timeout;

use crate::engine::{AgentListQuery, EngineError, Foreign, ListedTimes};
use crate::json::{self, string_member};
use crate::protocol::method;
use crate::sys::Timestamp;

use super::connection::AgentConnection;
use crate::engine::agent::route::hidden_briefing;

/// How long the search for an entry may take.
const TIMEOUT: Duration = Duration::from_secs(5);

/// A page of the list of an agent that has one. `source` is the agent's name.
pub(in crate::engine::agent) async fn page(
    connection: &Arc<AgentConnection>,
    source: &str,
    asked: AgentListQuery,
) -> Result<Foreign, EngineError> {
    let mut params = Map::new();
    if let Some(cwd) = asked.cwd {
        params.insert("cwd".to_owned(), cwd.into());
    }
    if let Some(cursor) = asked.cursor {
        params.insert("cursor".to_owned(), cursor.into());
    }
    let params = Value::Object(params).to_string();
    let page = connection
        .request(method::SESSION_LIST, &params)
        .outcome()
        .await?;
    let mut sessions = Vec::new();
    if let Some(mut parts) = json::member_elements(page.as_bytes(), 0, "sessions") {
        while let Some(at) = parts.element() {
            let entry = page.get(at).map(str::to_owned);
            sessions.extend(entry.map(hidden_briefing::listed));
        }
    }
    Ok(Foreign {
        source: source.to_owned(),
        sessions,
        next_cursor: string_member(&page, "nextCursor"),
    })
}

/// What an agent's list has of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::engine::agent) struct EntryOfAgent {
    pub(in crate::engine::agent) times: Option<ListedTimes>,
    pub(in crate::engine::agent) title: Option<String>,
}

/// The agent's answer to whether its list has a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::engine::agent) enum AgentListing {
    /// The list has the session.
    Listed(EntryOfAgent),
    /// The list does not have the session.
    NotListed,
    /// The agent has no list, or does not answer soon enough.
    Unknown,
}

impl AgentListing {
    /// What the list has of the session, which is nothing if it does not have it.
    pub(in crate::engine::agent) fn entry(self) -> EntryOfAgent {
        match self {
            Self::Listed(entry) => entry,
            Self::NotListed | Self::Unknown => EntryOfAgent::default(),
        }
    }
}

/// Looks up a session in the agent's list; `cwd` restricts the list to a folder.
pub(in crate::engine::agent) async fn look_up(
    connection: &Arc<AgentConnection>,
    id: &str,
    cwd: Option<&str>,
) -> AgentListing {
    let of_it = |entry: &str| {
        let is_it = string_member(entry, "sessionId").as_deref() == Some(id);
        is_it.then(|| EntryOfAgent {
            times: times(entry),
            title: string_member(entry, "title"),
        })
    };
    match find(connection, cwd, of_it).await {
        Ok(Some(entry)) => AgentListing::Listed(entry),
        Ok(None) => AgentListing::NotListed,
        Err(_) => AgentListing::Unknown,
    }
}

/// The titles of all sessions in this folder by their ids, if the agent lists them soon enough.
pub(super) async fn titles(
    connection: &Arc<AgentConnection>,
    cwd: &str,
) -> Option<BTreeMap<String, String>> {
    let mut titles = BTreeMap::new();
    let take = |entry: &str| {
        let title = string_member(entry, "title").unwrap_or_default();
        titles.extend(string_member(entry, "sessionId").map(|id| (id, title)));
        None::<()>
    };
    find(connection, Some(cwd), take).await.ok()?;
    Some(titles)
}

/// The first result of `visit` for an entry of the agent's list, or of this folder's part of it, if
/// the list can be read that far.
async fn find<T>(
    connection: &Arc<AgentConnection>,
    cwd: Option<&str>,
    mut visit: impl FnMut(&str) -> Option<T>,
) -> Result<Option<T>, EngineError> {
    if !connection.capabilities().list {
        return Err(EngineError::unknown_method(method::SESSION_LIST));
    }
    let search = async {
        let mut asked = AgentListQuery {
            cwd: cwd.map(str::to_owned),
            cursor: None,
        };
        loop {
            let page = page(connection, "", asked.clone()).await?;
            let mut entries = page.sessions.iter();
            let found = entries.find_map(|entry| visit(entry));
            let next = page
                .next_cursor
                .filter(|next| asked.cursor.as_ref() != Some(next));
            if found.is_some() || next.is_none() {
                return Ok(found);
            }
            asked.cursor = next;
        }
    };
    let late = || EngineError::internal("the agent did not list its sessions in time");
    timeout(TIMEOUT, search)
        .await
        .unwrap_or_else(|_| Err(late()))
}

fn times(entry: &str) -> Option<ListedTimes> {
    let time = |name| Timestamp::parse(&string_member(entry, name)?);
    let updated_at = time("updatedAt")?;
    let created_at = time("createdAt").unwrap_or(updated_at).min(updated_at);
    Some(ListedTimes {
        created_at,
        updated_at,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_not_younger_than_its_last_activity() {
        let times = |entry: &str| {
            let times = times(entry)?;
            Some((times.created_at.as_millis(), times.updated_at.as_millis()))
        };
        let (one, two) = ("1970-01-01T00:00:00.001Z", "1970-01-01T01:00:00.002+01:00");
        for (entry, expected) in [
            (
                format!(r#"{{"createdAt":"{one}","updatedAt":"{two}"}}"#),
                Some((1, 2)),
            ),
            (
                format!(r#"{{"createdAt":"{two}","updatedAt":"{one}"}}"#),
                Some((1, 1)),
            ),
            (
                format!(r#"{{"createdAt":"yesterday","updatedAt":"{two}"}}"#),
                Some((2, 2)),
            ),
            (format!(r#"{{"createdAt":"{one}"}}"#), None),
            ("{}".to_owned(), None),
        ] {
            assert_eq!(times(&entry), expected, "{entry}");
        }
    }
}
