//! `session/prompt`: has a prompt answered.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::value::RawValue;

use crate::json;
use crate::protocol::ProtocolVersion;
use crate::server::error::{self, Error};
use crate::session::{AnswerDue, Request as SessionRequest};
use crate::transport::IncomingRequest;

use super::action::RequestAction;
use super::content;
use super::context::ConnectionContext;
use super::params::decode;

/// The members of the parameters, as text.
type RawMembers<'a> = HashMap<Cow<'a, str>, &'a RawValue>;

pub(super) fn serve(
    context: &ConnectionContext,
    request: &IncomingRequest,
) -> Result<RequestAction, Error> {
    let (name, params) = decode_prompt(&request.params, context.wraps_agent())?;
    let id = context.find(&name)?;
    let message_id = context.deps().library.sys.ids.message();
    let (registry, session, message) = (context.registry().clone(), id.clone(), message_id.clone());
    request.responder.on_cancel(move || {
        registry.send(&session, SessionRequest::WithdrawPrompt(message));
    });
    let due = match context.version() {
        ProtocolVersion::V1 => AnswerDue::TurnEnds,
        ProtocolVersion::V2 => AnswerDue::Logged,
    };
    Ok(RequestAction::session(id, name, move |reply| {
        SessionRequest::Prompt {
            reply,
            due,
            message_id,
            params,
        }
    }))
}

/// The session's id, and the parameters without it, verbatim. If `lenient`, the wrapped agent checks
/// the blocks, and gets all other members.
fn decode_prompt(params: &str, lenient: bool) -> Result<(String, String), Error> {
    let members = decode::<RawMembers<'_>>(params)?;
    let member = |name: &str| {
        let missing = || error::invalid_params(format!("`{name}` is missing"));
        members
            .get(name)
            .map(|value| value.get())
            .ok_or_else(missing)
    };
    let id: String = serde_json::from_str(member("sessionId")?)
        .map_err(|_| error::invalid_params("`sessionId` must be a string"))?;
    let blocks = member("prompt")?;
    if !lenient {
        content::check(blocks).map_err(error::invalid_params)?;
    } else if !blocks.starts_with('[') {
        return Err(error::invalid_params("`prompt` must be an array"));
    }
    let mut rest = json::Object::new().raw("prompt", blocks);
    if lenient {
        let known = |name: &str| matches!(name, "sessionId" | "prompt");
        let mut others: Vec<_> = members.iter().filter(|(name, _)| !known(name)).collect();
        others.sort_unstable_by_key(|(name, _)| *name);
        for (name, value) in others {
            rest = rest.raw(name, value.get());
        }
    } else {
        let meta = members.get("_meta").map(|meta| meta.get());
        rest = rest.optional("_meta", meta.filter(|meta| meta.starts_with('{')));
    }
    let mut rest = rest.end();
    // A line break cannot be part of a JSON string, so it can only be between two tokens.
    if rest.contains('\r') {
        rest = rest.replace('\r', " ");
    }
    Ok((id, rest))
}
