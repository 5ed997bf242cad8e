//! The agent's own list of its sessions.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::time::timeout;

use crate::engine::{Asked, EngineError, Foreign, ListedTimes};
use crate::json::{self, string_member};
use crate::protocol::method;
use crate::sys::Timestamp;

use super::connection::Connection;
use super::titles;

/// How long the search for an entry may take.
const TIMEOUT: Duration = Duration::from_secs(5);

/// A page of the list of an agent that has one. `source` is the agent's name.
pub(super) async fn page(
    connection: &Arc<Connection>,
    source: &str,
    asked: Asked,
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
            sessions.extend(entry.map(titles::listed));
        }
    }
    Ok(Foreign {
        source: source.to_owned(),
        sessions,
        next_cursor: string_member(&page, "nextCursor"),
    })
}

/// The times of one session in the list, if the agent lists it in this folder soon enough.
pub(super) async fn times(
    connection: &Arc<Connection>,
    id: &str,
    cwd: &str,
) -> Option<ListedTimes> {
    if !connection.capabilities().list {
        return None;
    }
    let search = async {
        let mut asked = Asked {
            cwd: Some(cwd.to_owned()),
            cursor: None,
        };
        loop {
            let page = page(connection, "", asked.clone()).await.ok()?;
            let is_it = |entry: &&String| string_member(entry, "sessionId").as_deref() == Some(id);
            if let Some(entry) = page.sessions.iter().find(is_it) {
                return of_entry(entry);
            }
            let repeats = page.next_cursor == asked.cursor;
            asked.cursor = Some(page.next_cursor.filter(|_| !repeats)?);
        }
    };
    timeout(TIMEOUT, search).await.ok().flatten()
}

fn of_entry(entry: &str) -> Option<ListedTimes> {
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
            let times = of_entry(entry)?;
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
