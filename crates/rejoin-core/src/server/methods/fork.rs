//! `session/fork`: creates a session with the history of another one, and opens it.

use std::sync::Arc;

use serde::Deserialize;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::engine::{Secret, SessionConfig};
use crate::json::with_members;
use crate::server::error::{self, Error};
use crate::server::tools::ToolSessions;
use crate::session::{Refusal, Registry, Reply, Request};
use crate::store::ForkPoint;
use crate::sys::{SessionId, blocking};

use super::action::RequestAction;
use super::context::ConnectionContext;
use super::open::find;
use super::params::{ID_LIMIT, decode};
use super::workspace::{McpServersRule, existing};

#[derive(Deserialize)]
struct Params {
    #[serde(default, rename = "_meta")]
    meta: Option<Meta>,
    #[serde(default, rename = "cursorId")]
    cursor_id: Option<String>,
}

#[derive(Deserialize)]
struct Meta {
    #[serde(default)]
    rejoin: Option<NamedPlace>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NamedPlace {
    #[serde(default)]
    message_id: Option<String>,
    #[serde(default)]
    tool_branch: bool,
}

pub(super) fn serve(context: &ConnectionContext, params: &str) -> Result<RequestAction, Error> {
    let mut config = existing(params, context.servers(McpServersRule::Optional))?;
    let wanted = decode::<Params>(params)?;
    let own = wanted.meta.and_then(|meta| meta.rejoin);
    let of_tool = own.as_ref().is_some_and(|own| own.tool_branch);
    let message = own.and_then(|own| own.message_id);
    if of_tool {
        if message.is_some() || wanted.cursor_id.is_some() {
            return Err(error::invalid_params(
                "`_meta.rejoin.toolBranch` excludes a message and a cursor",
            ));
        }
        return fork_tool_branch(context, config);
    }
    let is_too_long = |id: &Option<String>| id.as_ref().is_some_and(|id| id.len() > ID_LIMIT);
    if is_too_long(&message) {
        return Err(error::unknown_message(&config.name));
    }
    if is_too_long(&wanted.cursor_id) {
        return Err(error::unknown_cursor(&config.name));
    }
    let at = match (wanted.cursor_id, message) {
        (Some(_), Some(_)) => {
            return Err(error::invalid_params(
                "`cursorId` and `_meta.rejoin.messageId` exclude each other",
            ));
        }
        (Some(cursor), None) => Some(ForkPoint::Cursor(cursor)),
        (None, message) => message.map(ForkPoint::Message),
    };
    let (source, import) = find(context, &config.name)?;
    let id = context.deps().library.sys.ids.session();
    // The agent has cursors of its own.
    config.params = Secret::new(&with_members(&config.params.0, &["cursorId"], &[]));
    let from = config.clone();
    config.name = id.to_string();
    let (name, source_name) = (config.name.clone(), from.name.clone());
    let hold = context.changes().hold(Some(&id));
    Ok(RequestAction::fork(
        name,
        source_name,
        hold,
        move |registry, reply| {
            if !import {
                return registry.fork(&source, &id, reply, config, at);
            }
            let imported = imported(registry, &source, from);
            let registry = registry.clone();
            tokio::spawn(async move {
                if let Ok(Err(refusal)) = imported.await {
                    return drop(reply.send(Err(refusal)));
                }
                registry.fork(&source, &id, reply, config, at);
                // The client has not opened the source.
                let unheard =
                    Reply::new(registry.requests().begin(), CancellationToken::new(), drop);
                registry.send(&source, Request::Close(unheard));
            });
        },
    ))
}

/// Forks a conversation as its own tool has it now.
fn fork_tool_branch(
    context: &ConnectionContext,
    mut config: SessionConfig,
) -> Result<RequestAction, Error> {
    let source_name = config.name.clone();
    let (source, _) = find(context, &source_name)?;
    let has_it = |tools: &Arc<ToolSessions>| blocking(|| tools.has(&source));
    let tools = context.tools().filter(has_it).ok_or_else(|| {
        error::invalid_params("no tool that is listed has the conversation of this session")
    })?;
    let id = context.deps().library.sys.ids.session();
    config.name = id.to_string();
    let name = config.name.clone();
    let hold = context.changes().hold(Some(&id));
    let send = move |registry: &Registry, reply: Reply| {
        let registry = registry.clone();
        tokio::spawn(async move {
            let fork = id.clone();
            let forked = tokio::task::spawn_blocking(move || tools.fork_branch(&source, &fork));
            let failed = match forked.await {
                Ok(Ok(())) => return registry.send(&id, Request::Resume(reply, config)),
                Ok(Err(error)) => error,
                Err(_) => "the fork failed unexpectedly".to_owned(),
            };
            drop(reply.send(Err(Refusal::Storage(failed))));
        });
    };
    Ok(RequestAction::fork(name, source_name, hold, send))
}

/// Imports a session that only the wrapped agent has. Resolves when that is done.
pub(super) fn imported(
    registry: &Registry,
    source: &SessionId,
    config: SessionConfig,
) -> oneshot::Receiver<Result<(), Refusal>> {
    let (sender, outcome) = oneshot::channel();
    let reply = Reply::new(
        registry.requests().begin(),
        CancellationToken::new(),
        |answer| {
            let imported = match answer {
                Ok(_) | Err(Refusal::Imported) => Ok(()),
                Err(refusal) => Err(refusal),
            };
            sender.send(imported).ok();
        },
    );
    let import = Request::Import {
        reply,
        config,
        replay: false,
    };
    registry.send(source, import);
    outcome
}
