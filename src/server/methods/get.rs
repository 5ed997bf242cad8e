//! `session/get`: the conversation of a session, a page of turns at a time, without loading it.

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::engine::Asked;
use crate::history::entry::{entry, messages};
use crate::history::query::{Begin, TurnsParams, TurnsQuery};
use crate::history::{Place, Stopped, count, page};
use crate::json::string_member;
use crate::server::error::{self, Error};
use crate::session::{Deps, Refusal, Registry, Reply, Request as SessionRequest};
use crate::sys::SessionId;
use crate::transport::{Load, Request};

use super::action::Action;
use super::agent_list::{PAGES, TIMEOUT};
use super::context::Context;
use super::fork::imported;
use super::open::find;
use super::params::{Integer, decode};
use super::result::damage;
use super::workspace::{Servers, existing};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Params {
    session_id: String,
    #[serde(default)]
    limit: Option<Integer>,
    #[serde(default)]
    offset: Option<Integer>,
    #[serde(default)]
    cursor: Option<String>,
}

pub(super) fn serve(context: &Context, request: &Request) -> Result<Action, Error> {
    let params = decode::<Params>(&request.params)?;
    let (id, import) = find(context, &params.session_id)?;
    let turns = TurnsParams {
        limit: params.limit.map(|Integer(limit)| limit),
        offset: params.offset.map(|Integer(offset)| offset),
        cursor: params.cursor,
    };
    let query = turns.check(&id).map_err(error::invalid_params)?;
    let name = if import {
        params.session_id
    } else {
        context.answered_as(params.session_id, &id)
    };
    let registry = context.registry().clone();
    let cancellation = request.responder.cancellation();
    Ok(Action::Later(Box::pin(async move {
        // Earlier requests have at least begun.
        registry.barrier().await;
        let deps = registry.deps().clone();
        if import && let Err(error) = import_from_agent(&registry, &id, &name).await {
            return (Err(error), None);
        }
        let wire = deps.wire.clone();
        // The page is in memory until it is written.
        let permit = tokio::select! {
            permit = wire.flow.read(Load::Heavy) => permit,
            () = cancellation.cancelled() => {
                return (Err(error::refused(&name, Refusal::Cancelled)), None);
            }
        };
        let read = tokio::task::spawn_blocking(move || {
            let cancelled = || cancellation.is_cancelled();
            let result = if cancelled() {
                Err(Refusal::Cancelled)
            } else {
                read(&deps, &id, &name, &query, &cancelled)
            };
            result.map_err(|refusal| error::refused(&name, refusal))
        });
        let result = read
            .await
            .unwrap_or_else(|_| Err(error::internal("the session could not be read")));
        (result, permit)
    })))
}

/// Imports a session that only the wrapped agent has, so that it can be read.
async fn import_from_agent(registry: &Registry, id: &SessionId, name: &str) -> Result<(), Error> {
    let Some(cwd) = folder(registry.deps(), name).await else {
        return Err(error::not_found(name));
    };
    let params = json!({ "sessionId": name, "cwd": cwd, "mcpServers": [] });
    let config = existing(&params.to_string(), Servers::Optional)?;
    if let Ok(Err(refusal)) = imported(registry, id, config).await {
        return Err(error::refused(name, refusal));
    }
    // The client has not opened it.
    let unheard = Reply::new(registry.requests().begin(), CancellationToken::new(), drop);
    registry.send(id, SessionRequest::Close(unheard));
    registry.barrier().await;
    Ok(())
}

/// The working directory of a session that the agent lists.
async fn folder(deps: &Deps, name: &str) -> Option<String> {
    let until = Instant::now() + TIMEOUT;
    let mut cursor = None;
    for _ in 0..PAGES {
        let asked = Asked {
            cwd: None,
            cursor: cursor.clone(),
        };
        let page = timeout_at(until, deps.engine.sessions(asked)).await;
        let page = page.ok()?.ok()?;
        let is_it = |entry: &&String| string_member(entry, "sessionId").as_deref() == Some(name);
        if let Some(entry) = page.sessions.iter().find(is_it) {
            return string_member(entry, "cwd");
        }
        let next = page
            .next_cursor
            .filter(|next| Some(next) != cursor.as_ref());
        cursor = Some(next?);
    }
    None
}

/// The result, as text: it contains content as it is in the log.
fn read(
    deps: &Deps,
    id: &SessionId,
    name: &str,
    query: &TurnsQuery,
    cancelled: &dyn Fn() -> bool,
) -> Result<String, Refusal> {
    let store = deps.store.as_ref().ok_or(Refusal::NotFound)?;
    deps.follow_tool(id);
    if deps.has_expired(id) {
        return Err(Refusal::NotFound);
    }
    let open = || store.read(id).map_err(Refusal::from);
    let stopped = |stopped| match stopped {
        Stopped::Cancelled => Refusal::Cancelled,
        Stopped::Store(error) => error.into(),
    };
    let begin = match query.begin {
        Begin::Place(place) => (place, 0),
        Begin::Number(number) => (Place::START, number),
        Begin::End(back) => {
            let turns = count(&mut open()?, cancelled).map_err(stopped)?;
            (Place::START, turns.saturating_sub(back))
        }
    };
    let summary = deps.catalog.as_ref().and_then(|catalog| catalog.find(id));
    let limit = query.limit.unwrap_or(usize::MAX);
    let page = page(&mut open()?, begin, limit, deps.line_limit, cancelled).map_err(stopped)?;
    let mut session = Map::new();
    session.insert("sessionId".to_owned(), name.into());
    if let Some(summary) = summary {
        session.insert("cwd".to_owned(), summary.cwd.clone().into());
        if let Some(title) = &summary.title {
            session.insert("title".to_owned(), title.clone().into());
        }
        entry(&summary, &mut session);
        session.insert("total".to_owned(), messages(&summary).into());
    }
    if matches!(query.begin, Begin::End(_)) {
        session.insert("offset".to_owned(), page.first.into());
    }
    if let Some(next) = page.next {
        session.insert("nextCursor".to_owned(), next.cursor(id).into());
    }
    if !page.damage.is_empty() {
        let meta = json!({ "rejoin": { "damage": damage(&page.damage) } });
        session.insert("_meta".to_owned(), meta);
    }
    let mut text = Value::Object(session).to_string();
    text.pop();
    text.push_str(",\"turns\":");
    text.push_str(&page.turns);
    text.push('}');
    Ok(text)
}
