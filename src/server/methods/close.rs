//! `session/close`: ends a session's work and releases its log.

use serde::Deserialize;

use crate::session::Request;

use super::context::{Context, Responds};
use super::params::decode;
use super::reply::{answer, reply};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Params {
    session_id: String,
}

pub(in crate::server) fn serve(context: &Context, params: &str, responder: Responds) {
    let found = decode::<Params>(params)
        .and_then(|params| Ok((context.find(&params.session_id)?, params.session_id)));
    let (id, name) = match found {
        Ok(found) => found,
        Err(error) => return answer(responder, Err(error)),
    };
    let requests = context.registry().requests();
    let reply = reply(context, requests, &name, responder, || ());
    context.registry().send(&id, Request::Close(reply));
}
