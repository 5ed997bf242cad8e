//! `session/list`: a page of the catalog, newest first, by cursors or by the history's `limit` and
//! `offset`.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use agent_client_protocol::Error;

use crate::history::entry;
use crate::history::query::ListParams;
use crate::index::{Filter, ListError, Listed};
use crate::server::error;
use crate::sys::with_causes;

use super::context::{Context, Responds};
use super::params::decode;
use super::place::absolute;
use super::reply::answer;

#[derive(Deserialize)]
struct Params {
    #[serde(default)]
    cwd: Option<String>,
    #[serde(default)]
    cursor: Option<String>,
    #[serde(default)]
    limit: Option<i64>,
    #[serde(default)]
    offset: Option<i64>,
    #[serde(default)]
    search: Option<String>,
}

pub(super) fn serve(context: &Context, params: &str, responder: Responds) {
    let decoded = decode::<Params>(params).and_then(|p| {
        let cwd = p.cwd.map(|cwd| absolute("cwd", &cwd)).transpose()?;
        let history = ListParams {
            limit: p.limit,
            offset: p.offset,
            search: p.search,
        };
        let query = history.check(p.cursor.is_some());
        Ok((cwd, p.cursor, query.map_err(error::invalid_params)?))
    });
    let (cwd, cursor, query) = match decoded {
        Ok(decoded) => decoded,
        Err(error) => return answer(responder, Err(error)),
    };
    let registry = context.registry().clone();
    let busy = registry.requests().begin();
    tokio::spawn(async move {
        // What was asked for before the list is in it.
        registry.barrier().await;
        let catalog = registry.deps().catalog.clone();
        let since = registry.deps().expired_before();
        let page = tokio::task::spawn_blocking(move || {
            let Some(catalog) = catalog else {
                return Ok(json!({ "sessions": [] }));
            };
            let filter = Filter {
                cwd,
                search: query.search,
                since,
            };
            let page = match query.offset {
                Some(offset) => catalog.list_at(&filter, offset, query.limit),
                None => catalog.list(&filter, cursor.as_deref(), query.limit),
            };
            let page = page.map_err(refused)?;
            let mut result = Map::new();
            result.insert(
                "sessions".to_owned(),
                page.sessions.into_iter().map(session).collect(),
            );
            if let Some(cursor) = page.next_cursor {
                result.insert("nextCursor".to_owned(), cursor.into());
            }
            if query.counted {
                result.insert("total".to_owned(), page.total.into());
            }
            if !page.complete {
                let meta = json!({ "rejoin": { "searchIncomplete": true } });
                result.insert("_meta".to_owned(), meta);
            }
            Ok(Value::Object(result))
        });
        let page = page
            .await
            .unwrap_or_else(|_| Err(Error::new(-32603, "the list failed")));
        answer(responder, page);
        drop(busy);
    });
}

fn session(listed: Listed) -> Value {
    let Listed { id, summary } = listed;
    let mut session = Map::new();
    session.insert("sessionId".to_owned(), id.as_str().into());
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
    entry(&summary, &mut session);
    Value::Object(session)
}

fn refused(refusal: ListError) -> Error {
    match refusal {
        ListError::Cursor => {
            error::invalid_params("`cursor` is not one that this list has given out")
        }
        _ => Error::new(-32603, with_causes(&refusal)),
    }
}
