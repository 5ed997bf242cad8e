//! `initialize`: who is who, and what works.

use serde_json::{Value, json};

use crate::engine::ClientAbilities;
use crate::record::header::Implementation;
use crate::server::capabilities;
use crate::session::ProtocolVersion;

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
    let params = params.and_then(|params| serde_json::from_str(params).ok());
    record_client(context, &params.unwrap_or_default(), ProtocolVersion::V1);
    let deps = context.registry().deps();
    let capabilities = capabilities::v1(deps.store.is_some(), deps.unstable);
    json!({
        "protocolVersion": 1,
        "agentInfo": capabilities::agent_info(),
        "agentCapabilities": capabilities,
        "authMethods": [],
    })
}

/// Remembers who the client is and how it is spoken to. A repeated `initialize` finds both set; the
/// first one counts.
pub(in crate::server) fn record_client(
    context: &Context,
    params: &Value,
    version: ProtocolVersion,
) {
    let deps = context.registry().deps();
    deps.version.set(version).ok();
    // Version 1 calls it `clientInfo`, later versions call it `info`.
    let info = [&params["clientInfo"], &params["info"]]
        .into_iter()
        .find(|info| info.is_object());
    if let Some(name) = info.and_then(|info| info["name"].as_str()) {
        let version = info.and_then(|info| info["version"].as_str());
        if let Some(store) = &deps.store {
            store.serves(name);
        }
        deps.client
            .set(Implementation {
                name: name.to_owned(),
                version: version.map(str::to_owned),
            })
            .ok();
    }
    // Version 2 has no methods for what version 1 calls abilities.
    let abilities = match version {
        ProtocolVersion::V1 => ClientAbilities::read(params),
        ProtocolVersion::V2 => ClientAbilities::default(),
    };
    deps.abilities.set(abilities).ok();
}
