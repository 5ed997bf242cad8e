//! `session/cancel` and `$/cancel_request`: end what is under way.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::protocol::ProtocolVersion;
use crate::session::Request;

use super::context::ConnectionContext;
use super::params::SessionParams;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Cancelled<'a> {
    #[serde(borrow)]
    request_id: &'a RawValue,
}

/// Ends the running turns of a session, if there are any.
pub(super) fn session(context: &ConnectionContext, params: &str) {
    let Ok(session) = serde_json::from_str::<SessionParams>(params) else {
        return;
    };
    if let Some(id) = context.named(&session.session_id) {
        // In version 1 the client answers what it was asked for.
        let withdraw = context.version() == ProtocolVersion::V2;
        context.registry().send(&id, Request::Cancel { withdraw });
    } else if let Some(agent) = context.upstream() {
        agent.cancel_subagent(&session.session_id, params);
    }
}

/// Cancels a request.
pub(super) fn request(context: &ConnectionContext, params: &str) {
    if let Ok(cancelled) = serde_json::from_str::<Cancelled<'_>>(params) {
        let requests = &context.deps().client.requests;
        requests.cancel(cancelled.request_id.get());
    }
}
