//! `session/new`: makes a session.

use crate::session::Request;

use super::context::{Context, Responds};
use super::place::{Servers, fresh};
use super::reply::{answer, reply};

pub(super) fn serve(context: &Context, params: &str, responder: Responds) {
    make(context, params, Servers::Required, responder);
}

/// Makes a session with MCP servers as the version has them.
pub(in crate::server) fn make(
    context: &Context,
    params: &str,
    servers: Servers,
    responder: Responds,
) {
    let mut config = match fresh(params, servers) {
        Ok(config) => config,
        Err(error) => return answer(responder, Err(error)),
    };
    let id = context.registry().deps().sys.ids.session();
    config.name = id.to_string();
    let requests = context.registry().requests();
    let reply = reply(context, requests, &config.name, responder, || ());
    context.registry().send(&id, Request::New(reply, config));
}
