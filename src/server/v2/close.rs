//! `session/close`: as in version 1, but closing what is not there succeeds.

use serde::Deserialize;
use serde_json::json;

use crate::server::error;
use crate::server::methods::close;
use crate::server::methods::context::{Context, Responds};
use crate::server::methods::params::decode;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Params {
    session_id: String,
}

pub(super) fn serve(context: &Context, params: &str, responder: Responds) {
    let found = decode::<Params>(params).and_then(|params| context.find(&params.session_id));
    match found {
        Ok(id) if context.is_here(&id) => close::serve(context, params, responder),
        Err(error) if !error::is_not_found(&error) => responder.answer(Err(error)),
        _ => responder.answer(Ok(json!({}))),
    }
}
