//! `session/get`: what was said in a session, a page of turns at a time, without loading it.

use agent_client_protocol::Error;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::history::entry::{entry, messages};
use crate::history::query::{TurnsParams, TurnsQuery};
use crate::history::{Stopped, page};
use crate::server::error;
use crate::session::refusal::storage;
use crate::session::{Deps, Refusal};
use crate::sys::SessionId;

use super::context::{Context, Responds};
use super::params::decode;
use super::reply::{answer, damage};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Params {
    session_id: String,
    #[serde(default)]
    limit: Option<i64>,
    #[serde(default)]
    offset: Option<i64>,
    #[serde(default)]
    cursor: Option<String>,
}

pub(in crate::server) fn serve(context: &Context, params: &str, responder: Responds) {
    let decoded = decode::<Params>(params).and_then(|params| {
        let id = context.find(&params.session_id)?;
        let turns = TurnsParams {
            limit: params.limit,
            offset: params.offset,
            cursor: params.cursor,
        };
        let query = turns.check(&id).map_err(error::invalid_params)?;
        Ok((id, params.session_id, query))
    });
    let (id, name, query) = match decoded {
        Ok(decoded) => decoded,
        Err(error) => return answer(responder, Err(error)),
    };
    let registry = context.registry().clone();
    let busy = registry.requests().begin();
    tokio::spawn(async move {
        // What was asked for before has at least begun.
        registry.barrier().await;
        let deps = registry.deps().clone();
        let cancellation = responder.cancellation();
        let read = tokio::task::spawn_blocking(move || {
            let cancelled = || cancellation.is_cancelled();
            read(&deps, &id, &name, &query, &cancelled)
                .map_err(|refusal| error::refused(&name, refusal, &deps.wire.raws))
        });
        let result = read
            .await
            .unwrap_or_else(|_| Err(Error::new(-32603, "the session could not be read")));
        let wire = &registry.deps().wire;
        answer(responder, result.map(|text| wire.raws.put(text)));
        drop(busy);
    });
}

/// The result, as text: content is in it as it is in the log.
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
    let mut reader = store.read(id).map_err(|error| storage(&error))?;
    let summary = deps.catalog.as_ref().and_then(|catalog| catalog.find(id));
    let page = page(&mut reader, query, cancelled).map_err(|stopped| match stopped {
        Stopped::Cancelled => Refusal::Cancelled,
        Stopped::Store(error) => storage(&error),
    })?;
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
