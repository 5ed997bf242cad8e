//! `session/list`: a page of the catalog, newest first, by cursors or by the history's `limit` and
//! `offset`. What an agent behind the engine lists is merged into it elsewhere.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::time::timeout;

use agent_client_protocol::Error;

use crate::history::query::{ListParams, ListQuery};
use crate::index::{Archived, Filter};
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
    archived: Option<String>,
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
    let archives = context.offers("archive");
    let decoded = decode::<Params>(params).and_then(|p| {
        let cwd = p.cwd.map(|cwd| absolute("cwd", &cwd)).transpose()?;
        let history = ListParams {
            limit: p.limit,
            offset: p.offset,
            search: p.search,
        };
        let query = history.check(p.cursor.is_some());
        let query = query.map_err(error::invalid_params)?;
        // Whoever was not told of it may mean anything by it.
        let archived = p.archived.filter(|_| archives);
        Ok((cwd, archive_filter(archived.as_deref())?, p.cursor, query))
    });
    let (cwd, archived, cursor, query) = match decoded {
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
            archived,
            search: query.search.clone(),
            since: deps.expired_before(),
        };
        // What was said in the agent's sessions is not known, nor how many there are, nor which
        // of them are archived.
        let only = archived == Archived::Only;
        let alone = only || query.search.is_some() || query.offset.is_some();
        let page = match deps.engine.relay().filter(|_| !alone) {
            Some(relay) => {
                let wanted = foreign::Wanted {
                    filter,
                    cursor,
                    limit: query.limit,
                    counted: query.counted,
                    archives,
                };
                foreign::list(&deps, relay, wanted).await
            }
            None => ours(&deps, filter, cursor, query, archives).await,
        };
        answer(responder, page.map(shape));
        drop(busy);
    });
}

/// What a list is to do with archived sessions.
fn archive_filter(wanted: Option<&str>) -> Result<Archived, Error> {
    match wanted {
        None | Some("exclude") => Ok(Archived::Exclude),
        Some("include") => Ok(Archived::Include),
        Some("only") => Ok(Archived::Only),
        Some(_) => Err(error::invalid_params(
            "`archived` is no filter that is known here",
        )),
    }
}

/// A page of our own sessions.
async fn ours(
    deps: &Arc<Deps>,
    filter: Filter,
    cursor: Option<String>,
    query: ListQuery,
    archives: bool,
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
    let sessions = sessions.map(|listed| session(listed, agent.as_deref(), archives));
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
