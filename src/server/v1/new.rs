//! `session/new`: makes a session.

use serde::Deserialize;

use crate::session::Request;

use super::params::{decode, nullable};
use super::place::{Server as McpServer, place};
use super::reply::reply;
use super::{Responds, Served, Server};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Params {
    cwd: String,
    #[serde(default, deserialize_with = "nullable")]
    additional_directories: Vec<String>,
    #[serde(deserialize_with = "nullable")]
    mcp_servers: Vec<McpServer>,
}

pub(super) fn serve(server: &Server, params: &str, responder: Responds) -> Served {
    let place = match decode::<Params>(params)
        .and_then(|p| place(&p.cwd, &p.additional_directories, &p.mcp_servers))
    {
        Ok(place) => place,
        Err(error) => return Err((responder, error)),
    };
    let id = server.registry().deps().sys.ids.session();
    let reply = reply(server, &id, responder, || ());
    server.registry().send(&id, Request::New(reply, place));
    Ok(())
}
