//! The tool `list`: the sessions of a folder, newest first.

use serde::Deserialize;
use serde_json::json;

use crate::index::{ListError, SessionPage};

use super::answer::{Refused, ToolAnswer};
use super::rows::{self, MOST};
use super::scope::Sessions;

/// How many sessions are listed by default.
const LIMIT: usize = 20;

#[derive(Debug, Deserialize)]
pub(super) struct ListArguments {
    folder: Option<String>,
    limit: Option<usize>,
    cursor: Option<String>,
}

pub(super) fn call(sessions: &Sessions, arguments: ListArguments) -> Result<ToolAnswer, Refused> {
    let filter = sessions.filter(arguments.folder.as_deref())?;
    let limit = arguments.limit.unwrap_or(LIMIT).clamp(1, MOST);
    let page = if sessions.exist()? {
        sessions.scan()?;
        let cursor = arguments.cursor.as_deref();
        (sessions.catalog)
            .list(&filter, cursor, limit)
            .map_err(refused)?
    } else {
        SessionPage::empty()
    };
    let place = match &filter.cwd {
        Some(folder) => format!(" in {folder}"),
        None => String::new(),
    };
    let mut text = match page.total {
        Some(0) => format!("There are no conversations{place}.\n"),
        Some(1) => format!("1 conversation{place}:\n"),
        Some(total) => format!("{total} conversations{place}, newest first:\n"),
        None => format!("Conversations{place}, newest first:\n"),
    };
    for listed in &page.sessions {
        text.push('\n');
        text += &rows::lines(listed);
    }
    let listed: Vec<_> = page.sessions.iter().map(rows::object).collect();
    let mut object = json!({ "sessions": listed });
    if let Some(total) = page.total {
        object["total"] = total.into();
    }
    if let Some(cursor) = page.next_cursor {
        text += &rows::more(&cursor);
        object["nextCursor"] = cursor.into();
    }
    Ok(ToolAnswer { text, object })
}

/// Why there is no list.
pub(super) fn refused(error: ListError) -> Refused {
    Refused(match error {
        ListError::Cursor => "`cursor` is not from an answer to the same question".to_owned(),
        error => format!("the conversations cannot be listed: {error}"),
    })
}
