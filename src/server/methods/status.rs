//! `session/status`: whether a session is open here, without touching it.

use serde::Deserialize;

use crate::server::error;
use crate::session::Request;

use super::context::{Context, Responds};
use super::params::decode;
use super::reply::{answer, reply_of_unstable};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Params {
    session_id: String,
}

pub(in crate::server) fn serve(context: &Context, params: &str, responder: Responds) {
    let decoded = decode::<Params>(params).and_then(|params| {
        let id = context.find(&params.session_id).map_err(error::unstable)?;
        Ok((id, params.session_id))
    });
    let (id, name) = match decoded {
        Ok(decoded) => decoded,
        Err(error) => return answer(responder, Err(error)),
    };
    let reply = reply_of_unstable(context, &name, responder);
    context.registry().send(&id, Request::Status(reply));
}
