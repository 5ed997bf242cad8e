//! `session/delete`: moves a session to the trash.

use serde::Deserialize;
use serde_json::json;

use crate::engine::EngineError;
use crate::server::error;
use crate::session::Request;
use crate::sys::SessionId;

use super::context::{Context, Responds};
use super::params::decode;
use super::reply::{answer, reply};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Params {
    session_id: String,
}

pub(in crate::server) fn serve(context: &Context, params: &str, responder: Responds) {
    let text = match decode::<Params>(params) {
        Ok(params) => params.session_id,
        Err(error) => return answer(responder, Err(error)),
    };
    match context.find(&text) {
        Ok(id) if !is_foreign(context, &id) => {
            let requests = context.registry().requests();
            let reply = reply(context, requests, &text, responder, || ());
            context.registry().send(&id, Request::Delete(reply));
        }
        // It may be there, and must not be said to be deleted.
        Err(error) if !error::is_not_found(&error) => answer(responder, Err(error)),
        // Deleting what is not there is no error, unless it looks like an attempt at something
        // else.
        found if found.is_ok() || is_plain(&text) || context.foreign_id(&text).is_some() => {
            match context.relay() {
                Some(relay) => {
                    let (deleted, registry) = (relay.delete(&text), context.registry().clone());
                    let busy = registry.requests().begin();
                    tokio::spawn(async move {
                        let deleted = match deleted.await {
                            Err(error) if error.code != EngineError::NOT_FOUND => {
                                Err(error::engine(error, &registry.deps().wire.raws))
                            }
                            _ => Ok(json!({})),
                        };
                        answer(responder, deleted);
                        drop(busy);
                    });
                }
                None => answer(responder, Ok(json!({}))),
            }
        }
        Ok(_) => answer(responder, Ok(json!({}))),
        Err(error) => answer(responder, Err(error)),
    }
}

/// Whether the agent behind the engine may have it, while we do not.
fn is_foreign(context: &Context, id: &SessionId) -> bool {
    context.relay().is_some() && !context.is_here(id)
}

fn is_plain(id: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | ':');
    !id.is_empty() && id.len() <= 256 && id.chars().all(plain)
}
