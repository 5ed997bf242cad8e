//! `session/get`: the conversation of a session, a page of turns at a time, without loading it.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::history::entry::{entry, messages};
use crate::history::query::{Begin, TurnsParams, TurnsQuery};
use crate::history::{Place, Stopped, count, page};
use crate::server::error::{self, Error};
use crate::session::{Deps, Refusal};
use crate::sys::SessionId;
use crate::transport::{Load, Request};

use super::action::Action;
use super::context::Context;
use super::params::{Integer, decode};
use super::result::damage;

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
    let id = context.find(&params.session_id)?;
    let turns = TurnsParams {
        limit: params.limit.map(|Integer(limit)| limit),
        offset: params.offset.map(|Integer(offset)| offset),
        cursor: params.cursor,
    };
    let query = turns.check(&id).map_err(error::invalid_params)?;
    let name = context.answered_as(params.session_id, &id);
    let registry = context.registry().clone();
    let cancellation = request.responder.cancellation();
    Ok(Action::Later(Box::pin(async move {
        // Earlier requests have at least begun.
        registry.barrier().await;
        let deps = registry.deps().clone();
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

/// The result, as text: it contains content as it is in the log.
fn read(
    deps: &Deps,
    id: &SessionId,
    name: &str,
    query: &TurnsQuery,
    cancelled: &dyn Fn() -> bool,
) -> Result<String, Refusal> {
    let store = deps.store.as_ref().ok_or(Refusal::NotFound)?;
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
