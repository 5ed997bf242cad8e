//! `session/set_title`: gives a session a title, which it keeps.

use serde::Deserialize;

use crate::record::metadata::MetadataChange;
use crate::server::error;
use crate::session::Request;

use super::context::{Context, Responds};
use super::params::decode;
use super::reply::{answer, reply_of_unstable};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Params {
    session_id: String,
    title: String,
}

pub(in crate::server) fn serve(context: &Context, params: &str, responder: Responds) {
    let decoded = decode::<Params>(params).and_then(|params| {
        let nothing = || error::invalid_params("`title` has nothing in it that can be seen");
        let note = MetadataChange::title(&params.title).ok_or_else(nothing)?;
        let id = context.find(&params.session_id).map_err(error::unstable)?;
        Ok((id, params.session_id, note))
    });
    let (id, name, note) = match decoded {
        Ok(decoded) => decoded,
        Err(error) => return answer(responder, Err(error)),
    };
    let reply = reply_of_unstable(context, &name, responder);
    context
        .registry()
        .send(&id, Request::MetadataChange(reply, note));
}
