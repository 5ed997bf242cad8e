//! `_rejoin/rewind`, and `session/rewind` and `session/edit_prompt` of the protocol's drafts: a session goes
//! on from an earlier place.

use serde::Deserialize;

use crate::json::{self, Members};
use crate::record::RewindTarget;
use crate::record::prompt_keys::KEY;
use crate::server::error::{self, Error};
use crate::session::{Reply, Request};
use crate::transport::IncomingRequest;

use super::action::RequestAction;
use super::context::ConnectionContext;
use super::params::decode;
use super::prompt;

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

/// Puts another prompt in the place of one of the user's messages, by `session/edit_prompt`: goes back to
/// before the message, and sends the prompt.
pub(super) fn edit(
    context: &ConnectionContext,
    request: &IncomingRequest,
) -> Result<RequestAction, Error> {
    let edited = decode::<Edited>(&request.params)?;
    // The drafts have two names for the blocks.
    let params = Members::of(&request.params).without(&["messageId"]);
    let params = params.renamed("newContent", "prompt");
    let params = params.renamed("content", "prompt").text();
    if json::text_member(&params, KEY).is_some_and(|key| key != "null") {
        // To go back again is not to send the prompt again.
        return Err(error::invalid_params(format!(
            "`{KEY}` is for `session/prompt`"
        )));
    }
    let (id, name, prompt) = prompt::prompt(context, request, &params)?;
    let client = context.registry().client().name().map(str::to_owned);
    let target = RewindTarget::Prompt(edited.message_id);
    Ok(RequestAction::sent(name, move |registry, reply| {
        let (busy, cancellation) = (registry.requests().begin(), reply.cancellation());
        let (next, session) = (registry.clone(), id.clone());
        let went_back = Reply::new(busy, cancellation, move |outcome| match outcome {
            Ok(_) => next.send(&session, prompt(reply)),
            Err(refusal) => drop(reply.send(Err(refusal))),
        });
        let rewind = Request::Rewind {
            reply: went_back,
            target,
            client,
        };
        registry.send(&id, rewind);
    }))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Edited {
    /// The message that another prompt replaces.
    message_id: String,
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
