//! `session/fork`: creates a session with the history of another one, and opens it.

use serde::Deserialize;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::engine::{Secret, SessionConfig};
use crate::json::with_members;
use crate::server::error::{self, Error};
use crate::session::{Refusal, Registry, Reply, Request};
use crate::store::ForkPoint;
use crate::sys::SessionId;

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
    rejoin: Option<NamedMessage>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NamedMessage {
    #[serde(default)]
    message_id: Option<String>,
}

pub(super) fn serve(context: &ConnectionContext, params: &str) -> Result<RequestAction, Error> {
    let mut config = existing(params, context.servers(McpServersRule::Optional))?;
    let wanted = decode::<Params>(params)?;
    let own = wanted.meta.and_then(|meta| meta.rejoin);
    let message = own.and_then(|own| own.message_id);
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
