//! `session/new`: makes a session.

use crate::session::Request;

use super::place::fresh;
use super::reply::{answer, reply};
use super::{Responds, Server};

pub(super) fn serve(server: &Server, params: &str, responder: Responds) {
    let place = match fresh(params) {
        Ok(place) => place,
        Err(error) => return answer(responder, Err(error)),
    };
    let id = server.registry().deps().sys.ids.session();
    let reply = reply(server, &id, responder, || ());
    server.registry().send(&id, Request::New(reply, place));
}
