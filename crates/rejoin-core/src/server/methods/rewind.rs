//! `_rejoin/rewind`, and `session/rewind` of the protocol's drafts: a session goes on from an earlier place.

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
    rewind(context, params.session, target)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToMessage {
    session_id: String,
    /// The message with which the history ends then.
    to_message_id: String,
}

/// Goes back to behind a message, by `session/rewind`.
pub(super) fn behind(context: &ConnectionContext, params: &str) -> Result<RequestAction, Error> {
    let params = decode::<ToMessage>(params)?;
    let target = RewindTarget::Behind(params.to_message_id);
    rewind(context, params.session_id, target)
}

fn rewind(
    context: &ConnectionContext,
    session: String,
    target: RewindTarget,
) -> Result<RequestAction, Error> {
    let client = context.registry().client().name().map(str::to_owned);
    let id = context.find(&session)?;
    Ok(RequestAction::session(id, session, move |reply| {
        Request::Rewind {
            reply,
            target,
            client,
        }
    }))
}
