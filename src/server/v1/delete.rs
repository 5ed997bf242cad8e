//! `session/delete`: moves a session to the trash.

use serde::Deserialize;
use serde_json::json;

use crate::session::Request;
use crate::sys::SessionId;

use super::context::{Context, Responds};
use super::params::{decode, session_id};
use super::reply::{answer, reply};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Params {
    session_id: String,
}

pub(super) fn serve(context: &Context, params: &str, responder: Responds) {
    let text = match decode::<Params>(params) {
        Ok(params) => params.session_id,
        Err(error) => return answer(responder, Err(error)),
    };
    // Deleting what is not there is no error, unless it looks like an attempt at something else.
    if SessionId::parse(&text).is_none() && is_plain(&text) {
        return answer(responder, Ok(json!({})));
    }
    let id = match session_id(&text) {
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
    context.registry().send(&id, Request::Delete(reply));
}

fn is_plain(id: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | ':');
    !id.is_empty() && id.len() <= 256 && id.chars().all(plain)
}
