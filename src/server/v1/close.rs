//! `session/close`: ends a session's work and releases its log.

use serde::Deserialize;

use crate::session::Request;

use super::context::{Context, Responds};
use super::params::{decode, session_id};
use super::reply::{answer, reply};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Params {
    session_id: String,
}

pub(super) fn serve(context: &Context, params: &str, responder: Responds) {
    let id = match decode::<Params>(params).and_then(|p| session_id(&p.session_id)) {
        Ok(id) => id,
        Err(error) => return answer(responder, Err(error)),
    };
    let reply = reply(
        context,
        context.registry().requests(),
        &id,
        responder,
        || (),
    );
    context.registry().send(&id, Request::Close(reply));
}
