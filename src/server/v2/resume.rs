//! `session/resume`: goes on with a session, and replays as much of it as is asked for.

use agent_client_protocol::Error;
use serde::Deserialize;

use crate::protocol::meta::FROM_MESSAGE;
use crate::server::error;
use crate::server::methods::context::{Context, Responds};
use crate::server::methods::params::decode;
use crate::server::methods::place::{Servers, existing};
use crate::server::methods::reply::reply;
use crate::session::Request;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Params {
    #[serde(default)]
    replay_from: Option<Cursor>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Cursor {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    message_id: Option<String>,
}

/// Where a replay begins.
enum From {
    /// There is none.
    Nowhere,
    Start,
    Message(String),
}

pub(super) fn serve(context: &Context, params: &str, responder: Responds) {
    let persistent = context.registry().deps().store.is_some();
    let decoded = existing(params, Servers::Typed).and_then(|config| {
        Ok((
            from(params, persistent)?,
            context
                .find(&config.name)
                .inspect_err(|error| Context::note_error(&config.name, error))?,
            config,
        ))
    });
    let (from, id, config) = match decoded {
        Ok(decoded) => decoded,
        Err(error) => return responder.answer(Err(error)),
    };
    let requests = context.registry().requests();
    let reply = reply(context, requests, &config.name, responder, || ());
    let request = match from {
        From::Start => Request::Load(reply, config),
        From::Message(message) => Request::LoadFrom {
            reply,
            config,
            message,
        },
        From::Nowhere => Request::Resume(reply, config),
    };
    context.registry().send(&id, request);
}

fn from(params: &str, persistent: bool) -> Result<From, Error> {
    let Some(cursor) = decode::<Params>(params)?.replay_from else {
        return Ok(From::Nowhere);
    };
    match (cursor.kind.as_str(), cursor.message_id) {
        ("start", _) if !persistent => Err(error::invalid_params(
            "`replayFrom` asks for a history, and with `--no-persist` none is kept",
        )),
        ("start", _) => Ok(From::Start),
        (FROM_MESSAGE, Some(message)) if persistent => Ok(From::Message(message)),
        (FROM_MESSAGE, None) if persistent => {
            Err(error::invalid_params("`replayFrom.messageId` is missing"))
        }
        _ => Err(error::invalid_params(
            "`replayFrom.type` is not a known cursor",
        )),
    }
}
