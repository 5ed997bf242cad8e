//! `session/load`: replays a session's whole history, then answers.

use serde::Deserialize;

use crate::session::Request;

use super::params::{decode, nullable, session_id};
use super::place::{Server as McpServer, place};
use super::reply::reply;
use super::{Responds, Served, Server};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Params {
    session_id: String,
    cwd: String,
    #[serde(default, deserialize_with = "nullable")]
    additional_directories: Vec<String>,
    #[serde(deserialize_with = "nullable")]
    mcp_servers: Vec<McpServer>,
}

pub(super) fn serve(server: &Server, params: &str, responder: Responds) -> Served {
    let decoded = decode::<Params>(params).and_then(|p| {
        let place = place(&p.cwd, &p.additional_directories, &p.mcp_servers)?;
        Ok((session_id(&p.session_id)?, place))
    });
    let (id, place) = match decoded {
        Ok(decoded) => decoded,
        Err(error) => return Err((responder, error)),
    };
    let reply = reply(server, &id, responder, || ());
    server.registry().send(&id, Request::Load(reply, place));
    Ok(())
}
