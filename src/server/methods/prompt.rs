//! `session/prompt`: has a prompt answered.

use std::borrow::Cow;
use std::collections::HashMap;

use agent_client_protocol::Error;
use serde_json::value::RawValue;

use crate::server::error;
use crate::session::Request;

use super::content;
use super::context::{Context, Prompted, Responds};
use super::params::decode;
use super::reply::{answer, reply};

/// The members of the parameters, as text.
type Members<'a> = HashMap<Cow<'a, str>, &'a RawValue>;

pub(in crate::server) fn serve(context: &Context, params: &str, responder: Responds) {
    let lenient = context.relay().is_some();
    let decoded = decode_prompt(params, lenient)
        .and_then(|(name, prompt)| Ok((context.find(&name)?, name, prompt)));
    let (id, name, params) = match decoded {
        Ok(decoded) => decoded,
        Err(error) => return answer(responder, Err(error)),
    };
    let request = responder.id();
    let message_id = context.registry().deps().sys.ids.message();
    let prompted = Prompted {
        session: id.clone(),
        message: message_id.clone(),
    };
    context.prompts().insert(request.clone(), prompted);
    let answered = context.clone();
    let reply = reply(
        context,
        context.registry().turns(),
        &name,
        responder,
        move || {
            answered.prompts().remove(&request);
        },
    );
    context.registry().send(
        &id,
        Request::Prompt {
            reply,
            message_id,
            params,
        },
    );
}

/// The session's id, and the parameters without it, in the client's own words. Whoever is
/// `lenient` leaves it to somebody else to understand the blocks, and passes on all members.
fn decode_prompt(params: &str, lenient: bool) -> Result<(String, String), Error> {
    let members = decode::<Members<'_>>(params)?;
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
    let mut rest = format!(r#"{{"prompt":{blocks}"#);
    if lenient {
        let known = |name: &str| matches!(name, "sessionId" | "prompt");
        let mut others: Vec<_> = members.iter().filter(|(name, _)| !known(name)).collect();
        others.sort_unstable_by_key(|(name, _)| *name);
        for (name, value) in others {
            let name = serde_json::Value::from(name.as_ref());
            for part in [",", &name.to_string(), ":", value.get()] {
                rest.push_str(part);
            }
        }
    } else if let Some(meta) = members
        .get("_meta")
        .filter(|meta| meta.get().starts_with('{'))
    {
        rest.push_str(r#","_meta":"#);
        rest.push_str(meta.get());
    }
    rest.push('}');
    // A line break cannot be part of a JSON string, so it can only stand between two tokens.
    if rest.contains('\r') {
        rest = rest.replace('\r', " ");
    }
    Ok((id, rest))
}
