//! `session/set_mode` and `session/set_config_option` of an engine that is no agent of its own.

use serde::Deserialize;

use super::context::{Context, Responds};
use super::forward::to_session;
use super::params::decode;
use super::reply::answer;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Params {
    session_id: String,
}

pub(super) fn serve(context: &Context, method: &str, params: &str, responder: Responds) {
    match decode::<Params>(params) {
        Ok(Params { session_id }) => to_session(context, &session_id, method, params, responder),
        Err(error) => answer(responder, Err(error)),
    }
}
