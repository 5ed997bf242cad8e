//! `session/resume`: goes on with a session without replaying it.

use crate::session::Request;

use super::place::{Servers, existing};
use super::reply::{answer, reply};
use super::{Responds, Server};

pub(super) fn serve(server: &Server, params: &str, responder: Responds) {
    let (id, place) = match existing(params, Servers::Optional) {
        Ok(decoded) => decoded,
        Err(error) => return answer(responder, Err(error)),
    };
    let reply = reply(server, &id, responder, || ());
    server.registry().send(&id, Request::Resume(reply, place));
}
