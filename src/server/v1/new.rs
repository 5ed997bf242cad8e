//! `session/new`: makes a session.

use crate::session::Request;

use super::context::{Context, Responds};
use super::place::fresh;
use super::reply::{answer, reply};

pub(super) fn serve(context: &Context, params: &str, responder: Responds) {
    let place = match fresh(params) {
        Ok(place) => place,
        Err(error) => return answer(responder, Err(error)),
    };
    let id = context.registry().deps().sys.ids.session();
    let reply = reply(
        context,
        context.registry().requests(),
        &id,
        responder,
        || (),
    );
    context.registry().send(&id, Request::New(reply, place));
}
