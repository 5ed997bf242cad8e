//! `initialize`: who is who, and what works.

use serde_json::{Value, json};

use crate::engine::ClientAbilities;
use crate::record::header::Party;
use crate::server::capabilities;

use super::context::{Context, Responds};
use super::{forward, reply};

pub(super) fn serve(context: &Context, params: Option<String>, responder: Responds) {
    let ours = ours(context, params.as_deref());
    match context.relay() {
        Some(relay) => {
            let params = params.unwrap_or_else(|| "{}".to_owned());
            forward::initialize(context, relay, params, ours, responder);
        }
        None => reply::answer(responder, Ok(ours)),
    }
}

fn ours(context: &Context, params: Option<&str>) -> Value {
    let params: Value = params
        .and_then(|params| serde_json::from_str(params).ok())
        .unwrap_or_default();
    // Version 1 calls it `clientInfo`, later versions call it `info`.
    let info = [&params["clientInfo"], &params["info"]]
        .into_iter()
        .find(|info| info.is_object());
    if let Some(name) = info.and_then(|info| info["name"].as_str()) {
        let version = info
            .and_then(|info| info["version"].as_str())
            .map(str::to_owned);
        // A repeated `initialize` finds it set; the first one counts.
        context
            .registry()
            .deps()
            .client
            .set(Party {
                name: name.to_owned(),
                version,
            })
            .ok();
    }
    let abilities = ClientAbilities::read(&params);
    context.registry().deps().abilities.set(abilities).ok();
    json!({
        "protocolVersion": 1,
        "agentInfo": capabilities::agent_info(),
        "agentCapabilities": capabilities::v1(context.registry().deps().store.is_some()),
        "authMethods": [],
    })
}
