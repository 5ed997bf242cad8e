//! `session/fork`: makes a session with the history of another one, which is open then.

use serde::Deserialize;

use crate::server::error;

use super::context::{Context, Responds};
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

/// Whether it is served.
pub(super) fn is_offered(context: &Context) -> bool {
    let deps = context.registry().deps();
    let theirs = context.relay().is_some_and(|relay| relay.forks());
    deps.store.is_some() && (deps.unstable || theirs)
}

pub(super) fn serve(context: &Context, params: &str, responder: Responds) {
    let lenient = context.relay().is_some();
    let decoded = existing(params, Servers::Optional, lenient).and_then(|wanted| {
        let own = decode::<Params>(params)?.meta.and_then(|meta| meta.rejoin);
        let at = own.and_then(|own| own.message_id);
        if at.as_ref().is_some_and(|at| at.len() > ID_LIMIT) {
            return Err(error::no_such_message(&wanted.name));
        }
        Ok((context.find(&wanted.name)?, wanted, at))
    });
    let (source, mut wanted, at) = match decoded {
        Ok(decoded) => decoded,
        Err(error) => return answer(responder, Err(error)),
    };
    let registry = context.registry();
    let id = registry.deps().sys.ids.session();
    let from = std::mem::replace(&mut wanted.name, id.to_string());
    let requests = registry.requests();
    let reply = reply_about(context, requests, &wanted.name, &from, responder, || ());
    registry.fork(&source, &id, reply, wanted, at);
}
