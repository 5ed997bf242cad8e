//! `_rejoin/rewind`: a session goes on from an earlier place.

use serde::Deserialize;

use crate::record::RewindTarget;
use crate::server::error::{self, Error};
use crate::session::Request;

use super::action::RequestAction;
use super::context::ConnectionContext;
use super::params::decode;

#[derive(Deserialize)]
struct Params {
    #[serde(rename = "sessionId")]
    session: String,
    /// The message before which the conversation goes on.
    #[serde(default, rename = "messageId")]
    message: Option<String>,
    /// The cursor at which it goes on.
    #[serde(default, rename = "cursorId")]
    cursor: Option<String>,
}

pub(super) fn serve(context: &ConnectionContext, params: &str) -> Result<RequestAction, Error> {
    let params = decode::<Params>(params)?;
    let target = match (params.message, params.cursor) {
        (Some(id), None) => RewindTarget::Message(id),
        (None, Some(id)) => RewindTarget::Cursor(id),
        _ => {
            return Err(error::invalid_params(
                "either `messageId` or `cursorId` must be given",
            ));
        }
    };
    let client = context.registry().client().name().map(str::to_owned);
    let id = context.find(&params.session)?;
    Ok(RequestAction::session(id, params.session, move |reply| {
        Request::Rewind {
            reply,
            target,
            client,
        }
    }))
}
