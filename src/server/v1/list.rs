//! `session/list`: a page of the catalog, newest first, by cursors or by the history's `limit` and
//! `offset`. What an agent behind the engine lists is merged into it elsewhere.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::time::timeout;

use agent_client_protocol::Error;

use crate::history::query::{ListParams, ListQuery};
use crate::index::Filter;
use crate::server::error;
use crate::session::Deps;

use super::context::{Context, Responds};
use super::foreign;
use super::listed::{refused, session};
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
    list(context, params, responder, |page| page);
}

/// Lists sessions; `shape` gives the result its form.
pub(in crate::server) fn list(
    context: &Context,
    params: &str,
    responder: Responds,
    shape: fn(Value) -> Value,
) {
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
        let begun = registry.barrier();
        let deps = registry.deps().clone();
        if deps.engine.relay().is_some() {
            // An agent that hangs holds up what is asked of its sessions, and not this.
            timeout(foreign::PATIENCE, begun).await.ok();
        } else {
            begun.await;
        }
        let filter = Filter {
            cwd,
            search: query.search.clone(),
            since: deps.expired_before(),
        };
        // What was said in the agent's sessions is not known, nor how many there are.
        let alone = query.search.is_some() || query.offset.is_some();
        let page = match deps.engine.relay().filter(|_| !alone) {
            Some(relay) => {
                let wanted = foreign::Wanted {
                    filter,
                    cursor,
                    limit: query.limit,
                    counted: query.counted,
                };
                foreign::list(&deps, relay, wanted).await
            }
            None => ours(&deps, filter, cursor, query).await,
        };
        answer(responder, page.map(shape));
        drop(busy);
    });
}

/// A page of our own sessions.
async fn ours(
    deps: &Arc<Deps>,
    filter: Filter,
    cursor: Option<String>,
    query: ListQuery,
) -> Result<Value, Error> {
    let Some(catalog) = deps.catalog.clone() else {
        return Ok(json!({ "sessions": [] }));
    };
    let agent = deps.engine.relay().map(|_| deps.engine.identity().name);
    let page = tokio::task::spawn_blocking(move || match query.offset {
        Some(offset) => catalog.list_at(&filter, offset, query.limit),
        None => catalog.list(&filter, cursor.as_deref(), query.limit),
    });
    let page = page
        .await
        .map_err(|_| Error::new(-32603, "the list failed"))?
        .map_err(refused)?;
    let mut result = Map::new();
    let sessions = page.sessions.into_iter();
    let sessions = sessions.map(|listed| session(listed, agent.as_deref()));
    result.insert("sessions".to_owned(), sessions.collect());
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
}
