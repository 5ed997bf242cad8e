//! `session/prompt`: has a prompt answered.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::value::RawValue;

use crate::json;
use crate::protocol::ProtocolVersion;
use crate::protocol::meta::REJOIN;
use crate::record::prompt_keys::KEY;
use crate::server::error::{self, Error};
use crate::session::{AnswerDue, Reply, Request as SessionRequest};
use crate::sys::SessionId;
use crate::transport::IncomingRequest;

use super::action::RequestAction;
use super::content;
use super::context::ConnectionContext;
use super::params::decode;

/// The most characters that an idempotency key may have, by the protocol.
const LONGEST_KEY: usize = 255;

/// The members of the parameters, as text.
type RawMembers<'a> = HashMap<Cow<'a, str>, &'a RawValue>;

pub(super) fn serve(
    context: &ConnectionContext,
    request: &IncomingRequest,
) -> Result<RequestAction, Error> {
    let (id, name, prompt) = prompt(context, request, &request.params)?;
    Ok(RequestAction::session(id, name, prompt))
}

/// The prompt with these parameters: its session, the name by which the client knows that, and the request
/// to the session.
pub(super) fn prompt(
    context: &ConnectionContext,
    request: &IncomingRequest,
    params: &str,
) -> Result<
    (
        SessionId,
        String,
        impl FnOnce(Reply) -> SessionRequest<Reply> + Send + 'static,
    ),
    Error,
> {
    let version = context.version();
    let (name, params) = decode_prompt(params, version, context.wraps_agent())?;
    let id = context.find(&name)?;
    let message_id = context.deps().library.sys.ids.message();
    let (registry, session, message) = (context.registry().clone(), id.clone(), message_id.clone());
    request.responder.on_cancel(move || {
        registry.send(&session, SessionRequest::WithdrawPrompt(message));
    });
    let due = match version {
        ProtocolVersion::V1 => AnswerDue::TurnEnds,
        ProtocolVersion::V2 => AnswerDue::Logged,
    };
    let prompt = move |reply| SessionRequest::Prompt {
        reply,
        due,
        message_id,
        params,
    };
    Ok((id, name, prompt))
}

/// The session's id, and the parameters without it, verbatim, but with the idempotency key in front. If
/// `lenient`, the wrapped agent checks the blocks, and gets all other members.
fn decode_prompt(
    params: &str,
    version: ProtocolVersion,
    lenient: bool,
) -> Result<(String, String), Error> {
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
    let meta = members.get("_meta").map(|meta| meta.get());
    let key = match version {
        ProtocolVersion::V1 => meta
            .and_then(|meta| json::text_member(meta, REJOIN))
            .and_then(|ours| json::text_member(ours, KEY)),
        ProtocolVersion::V2 => members.get(KEY).map(|key| key.get()),
    };
    let key = key.map(idempotency_key).transpose()?.flatten();
    let mut rest = json::Object::new();
    if let Some(key) = &key {
        rest = rest.string(KEY, key);
    }
    rest = rest.raw("prompt", blocks);
    if lenient {
        let has_key = key.is_some() || version == ProtocolVersion::V2;
        let known = |name: &str| matches!(name, "sessionId" | "prompt") || name == KEY && has_key;
        let mut others: Vec<_> = members.iter().filter(|(name, _)| !known(name)).collect();
        others.sort_unstable_by_key(|(name, _)| *name);
        for (name, value) in others {
            rest = rest.raw(name, value.get());
        }
    } else {
        rest = rest.optional("_meta", meta.filter(|meta| meta.starts_with('{')));
    }
    let mut rest = rest.end();
    // A line break cannot be part of a JSON string, so it can only be between two tokens.
    if rest.contains('\r') {
        rest = rest.replace('\r', " ");
    }
    Ok((id, rest))
}

/// The idempotency key with this JSON text; none for `null`.
fn idempotency_key(value: &str) -> Result<Option<String>, Error> {
    if value == "null" {
        return Ok(None);
    }
    let key = serde_json::from_str::<String>(value).ok();
    let key = key.filter(|key| (1..=LONGEST_KEY).contains(&key.chars().count()));
    let wrong = || {
        let message = format!("`{KEY}` must be a string of 1 to {LONGEST_KEY} characters");
        error::invalid_params(message)
    };
    key.map(Some).ok_or_else(wrong)
}
