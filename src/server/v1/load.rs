//! `session/load`: replays a session's whole history, then answers.

use crate::session::Request;

use super::context::{Context, Responds};
use super::place::{Servers, existing};
use super::reply::{answer, reply};

pub(super) fn serve(context: &Context, params: &str, responder: Responds) {
    let (id, place) = match existing(params, Servers::Required) {
        Ok(decoded) => decoded,
        Err(error) => return answer(responder, Err(error)),
    };
    let reply = reply(
        context,
        context.registry().requests(),
        &id,
        responder,
        || (),
    );
    context.registry().send(&id, Request::Load(reply, place));
}
