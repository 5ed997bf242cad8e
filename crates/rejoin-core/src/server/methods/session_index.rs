//! The session index by the names of JetBrains' clients, over what serves the protocol's own methods.
//! A wrapped agent that has an index, too, is asked about its sessions that rejoin has not imported.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;

use crate::index::{Filter, ObservedSession};
use crate::json::{string_member, text_elements, text_member};
use crate::protocol::method::{
    INDEX_ARCHIVE, INDEX_BATCH_GET, INDEX_RENAME, INDEX_SUBSCRIBE, INDEX_UNARCHIVE,
    INDEX_UNSUBSCRIBE,
};
use crate::server::error::{self, Error};
use crate::sys::SessionId;
use crate::sys::worktrees::counterparts;
use crate::transport::{IncomingRequest, Load};

use super::action::RequestAction;
use super::context::ConnectionContext;
use super::list::list_error;
use super::params::decode;
use super::row::{Names, RowForm};
use super::workspace::absolute;
use super::{session, subscribe};

/// How many sessions one request may name.
const MOST: usize = 1000;

/// Serves a request of a client that wants the index; none if it is not about that.
pub(super) fn serve(
    context: &ConnectionContext,
    request: &IncomingRequest,
) -> Option<Result<RequestAction, Error>> {
    let params = request.params.as_str();
    let capability = match request.method.as_str() {
        INDEX_SUBSCRIBE => return Some(subscribe(context, params)),
        INDEX_UNSUBSCRIBE => return Some(subscribe::unsubscribe(context, params)),
        INDEX_BATCH_GET => return Some(batch_get(context, request)),
        INDEX_RENAME => "jetbrains.sessionRename",
        INDEX_ARCHIVE | INDEX_UNARCHIVE => "jetbrains.sessionArchive",
        _ => return None,
    };
    let is_ours = || {
        let named = string_member(params, "sessionId");
        named.is_some_and(|name| context.find(&name).is_ok_and(|id| context.exists(&id)))
    };
    if let Some(agent) = context.upstream_with(capability)
        && !is_ours()
    {
        let call = context.call(agent, &request.responder, &request.method, params);
        return Some(Ok(RequestAction::Later(Box::pin(async move {
            (call.await.map_err(Error::from), None)
        }))));
    }
    Some(match request.method.as_str() {
        INDEX_RENAME => session::set_title(context, params),
        method => session::archive(context, method == INDEX_ARCHIVE, params),
    })
}

#[derive(Deserialize)]
struct FolderParams {
    cwd: String,
}

/// Subscribes to the sessions of a folder and its worktrees. The client lists them by itself.
fn subscribe(context: &ConnectionContext, params: &str) -> Result<RequestAction, Error> {
    let cwd = absolute("cwd", &decode::<FolderParams>(params)?.cwd)?;
    let mut form = RowForm::of(context);
    form.names = Names::JetBrains;
    let registry = context.registry().clone();
    let changes = context.changes().clone();
    Ok(RequestAction::Held(Box::pin(async move {
        let hold = changes.hold(None);
        let disk = registry.deps().library.sys.disk.clone();
        let folder = cwd.clone();
        let worktrees = tokio::task::spawn_blocking(move || counterparts(&*disk, folder.as_ref()));
        let scope = Filter {
            cwd: Some(cwd),
            worktrees: Some(worktrees.await.unwrap_or_default()),
            ..Filter::default()
        };
        let subscribed = changes.subscribe(&registry, scope, form);
        let result = subscribed.map(|id| json!({ "subscriptionId": id }).to_string());
        ((result.ok_or_else(subscribe::too_many), None), hold)
    })))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SessionIdsParams {
    session_ids: Vec<String>,
}

/// The entries of the named sessions, listed or not in a folder, archived or not.
fn batch_get(
    context: &ConnectionContext,
    request: &IncomingRequest,
) -> Result<RequestAction, Error> {
    let names = decode::<SessionIdsParams>(&request.params)?.session_ids;
    let distinct: BTreeSet<_> = names.iter().collect();
    if names.len() > MOST
        || distinct.len() < names.len()
        || names.iter().any(|id| id.trim().is_empty())
    {
        let problem = format!("`sessionIds` must be up to {MOST} distinct ids");
        return Err(error::invalid_params(problem));
    }
    let mut ids: Vec<SessionId> = Vec::new();
    let mut others = Vec::new();
    for name in names {
        match context.find(&name) {
            Ok(id) if context.exists(&id) => ids.push(id),
            _ => others.push(name),
        }
    }
    let agent = context.upstream_with("jetbrains.sessionBatchGet");
    let theirs = agent.filter(|_| !others.is_empty()).map(|agent| {
        let params = json!({ "sessionIds": others }).to_string();
        context.call(agent, &request.responder, &request.method, &params)
    });
    let form = RowForm::of(context);
    let registry = context.registry().clone();
    Ok(RequestAction::Later(Box::pin(async move {
        registry.barrier().await;
        let deps = Arc::clone(registry.deps());
        let room = match deps.client.flow.read(Load::Light).await {
            Ok(room) => room,
            Err(full) => return (Err(error::overloaded(full)), None),
        };
        let ours = tokio::task::spawn_blocking(move || {
            let Some(catalog) = &deps.library.catalog else {
                return Ok(Vec::new());
            };
            let mut seen = catalog.look(&ids, deps.library.expired_before())?;
            let seen = ids.iter().filter_map(|id| match seen.remove(id)? {
                ObservedSession::Listed(listed) => {
                    let state = catalog.state(&listed);
                    Some(form.text(Some(catalog), *listed, state))
                }
                ObservedSession::Hidden | ObservedSession::Gone => None,
            });
            Ok(seen.collect())
        });
        let ours = ours.await.unwrap_or_else(|_| Ok(Vec::new()));
        let mut entries: Vec<String> = match ours {
            Ok(ours) => ours,
            Err(error) => return (Err(list_error(error)), Some(room)),
        };
        if let Some(theirs) = theirs {
            match theirs.await {
                Ok(answer) => {
                    let sessions = text_member(&answer, "sessions").unwrap_or_default();
                    entries.extend(text_elements(sessions).map(str::to_owned));
                }
                Err(error) => {
                    tracing::info!(?error, "the agent names no sessions");
                }
            }
        }
        (
            Ok(format!(r#"{{"sessions":[{}]}}"#, entries.join(","))),
            Some(room),
        )
    })))
}
