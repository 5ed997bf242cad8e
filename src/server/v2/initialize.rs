//! `initialize`: who is who, and what works.

use serde_json::json;

use crate::server::capabilities;
use crate::server::v1::context::{Context, Responds};
use crate::server::v1::initialize::greeted;
use crate::session::Dialect;

pub(super) fn serve(context: &Context, params: Option<String>, responder: Responds) {
    let params = params.and_then(|params| serde_json::from_str(&params).ok());
    let deps = context.registry().deps();
    greeted(context, &params.unwrap_or_default(), Dialect::Told);
    responder.answer(Ok(json!({
        "protocolVersion": 2,
        "info": capabilities::agent_info(),
        "capabilities": capabilities::v2(deps.store.is_some(), deps.unstable),
    })));
}
