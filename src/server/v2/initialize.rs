//! `initialize`: who is who, and what works.

use serde_json::json;

use crate::server::capabilities;
use crate::server::methods::context::{Context, Responds};
use crate::server::methods::initialize::record_client;
use crate::session::ProtocolVersion;

pub(super) fn serve(context: &Context, params: Option<String>, responder: Responds) {
    let params = params.and_then(|params| serde_json::from_str(&params).ok());
    let deps = context.registry().deps();
    record_client(context, &params.unwrap_or_default(), ProtocolVersion::V2);
    responder.answer(Ok(json!({
        "protocolVersion": 2,
        "info": capabilities::agent_info(),
        "capabilities": capabilities::v2(deps.store.is_some(), deps.unstable),
    })));
}
