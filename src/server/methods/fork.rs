//! `session/fork`: makes a session with the history of another one, which is open then.

use serde::Deserialize;
use tokio::sync::oneshot;

use crate::engine::SessionConfig;
use crate::server::error;
use crate::session::reply::Delivery;
use crate::session::{Answer, Refusal, Registry, Reply, Request};
use crate::sys::SessionId;

use super::context::{Context, Responds};
use super::open::find;
use super::params::{ID_LIMIT, decode};
use super::place::{Servers, existing};
use super::reply::{answer, reply_about};

#[derive(Deserialize)]
struct Params {
    #[serde(default, rename = "_meta")]
    meta: Option<Meta>,
}

#[derive(Deserialize)]
struct Meta {
    #[serde(default)]
    rejoin: Option<Own>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Own {
    #[serde(default)]
    message_id: Option<String>,
}

pub(super) fn serve(context: &Context, params: &str, responder: Responds) {
    make(context, params, Servers::Optional, responder);
}

/// Makes the session, with MCP servers as the version of the protocol describes them.
pub(in crate::server) fn make(
    context: &Context,
    params: &str,
    servers: Servers,
    responder: Responds,
) {
    let decoded = existing(params, servers).and_then(|config| {
        let own = decode::<Params>(params)?.meta.and_then(|meta| meta.rejoin);
        let at = own.and_then(|own| own.message_id);
        if at.as_ref().is_some_and(|at| at.len() > ID_LIMIT) {
            return Err(error::unknown_message(&config.name));
        }
        Ok((find(context, &config.name)?, config, at))
    });
    let ((source, import), mut config, at) = match decoded {
        Ok(decoded) => decoded,
        Err(error) => return answer(responder, Err(error)),
    };
    let registry = context.registry().clone();
    let from = config.clone();
    let id = registry.deps().sys.ids.session();
    config.name = id.to_string();
    let requests = registry.requests();
    let reply = reply_about(
        context,
        requests,
        &config.name,
        &from.name,
        responder,
        || (),
    );
    if !import {
        return registry.fork(&source, &id, reply, config, at);
    }
    let imported = imported(&registry, &source, from);
    tokio::spawn(async move {
        if let Ok(Err(refusal)) = imported.await {
            return drop(reply.send(Err(refusal)));
        }
        registry.fork(&source, &id, reply, config, at);
        // Nobody has asked for it to be open.
        let unheard = Reply::new(registry.requests().begin(), || false, unheard);
        registry.send(&source, Request::Close(unheard));
    });
}

/// Takes over a session that is the agent's alone. Resolves when that has been done.
fn imported(
    registry: &Registry,
    source: &SessionId,
    config: SessionConfig,
) -> oneshot::Receiver<Result<Answer, Refusal>> {
    let (tell, told) = oneshot::channel();
    let busy = registry.requests().begin();
    let reply = Reply::new(
        busy,
        || false,
        |answer| {
            tell.send(answer).ok();
            Box::pin(async {})
        },
    );
    let import = Request::Import {
        reply,
        config,
        replay: false,
    };
    registry.send(source, import);
    told
}

fn unheard(answer: Result<Answer, Refusal>) -> Delivery {
    drop(answer);
    Box::pin(async {})
}
