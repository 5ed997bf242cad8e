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
use crate::transport::Load;

use super::context::{Context, Responds};
use super::foreign;
use super::listed::{refused, session};
use super::params::{Integer, decode};
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
    limit: Option<Integer>,
    #[serde(default)]
    offset: Option<Integer>,
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
            limit: p.limit.map(|Integer(limit)| limit),
            offset: p.offset.map(|Integer(offset)| offset),
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
        let wire = deps.wire.clone();
        let place = wire.flow.read(Load::Light).await;
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
                let request = foreign::ListRequest {
                    filter,
                    cursor,
                    limit: query.limit,
                    counted: query.counted,
                    archives,
                };
                foreign::list(&deps, relay, request).await
            }
            None => ours(&deps, filter, cursor, query, archives).await,
        };
        let passed = wire.answers.expect(&responder.id());
        answer(responder, page.map(shape));
        drop(busy);
        // The page is in memory until it is written.
        passed.await.ok();
        drop(place);
    });
}

/// What a list is to do with archived sessions.
fn archive_filter(request: Option<&str>) -> Result<Archived, Error> {
    match request {
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
    let relay = deps.engine.relay();
    let agent = relay.map(|relay| foreign::names(deps, relay));
    let page = tokio::task::spawn_blocking(move || {
        let page = match query.offset {
            Some(offset) => catalog.list_at(&filter, offset, query.limit),
            None => catalog.list(&filter, cursor.as_deref(), query.limit),
        }?;
        if !page.complete {
            catalog.read_words_in_background();
        }
        Ok(page)
    });
    let page = page
        .await
        .map_err(|_| error::internal("the list failed"))?
        .map_err(refused)?;
    let mut result = Map::new();
    // A page of nothing has no end where another one could begin.
    let next_cursor = page.next_cursor.filter(|_| query.limit > 0);
    let sessions = page.sessions.into_iter().take(query.limit);
    let sessions =
        sessions.map(|listed| session(listed, agent.as_deref().unwrap_or_default(), archives));
    result.insert("sessions".to_owned(), sessions.collect());
    if let Some(cursor) = next_cursor {
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
