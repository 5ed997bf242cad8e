//! Passes messages that rejoin does not implement on to the wrapped agent.

use crate::engine::begun;
use crate::json::string_member;
use crate::protocol::ProtocolVersion;
use crate::protocol::method::{AUTH_LOGIN, AUTH_LOGOUT, AUTHENTICATE, LOGOUT};
use crate::server::error::{self, Error};
use crate::session::Request as SessionRequest;
use crate::transport::IncomingRequest;

use super::action::RequestAction;
use super::context::ConnectionContext;

/// Forwards a request to the wrapped agent; without one, the method is unknown. A request about a
/// session goes through that session, so that it is served in order with the session's others.
pub(super) fn request(
    context: &ConnectionContext,
    request: &IncomingRequest,
) -> Result<RequestAction, Error> {
    let IncomingRequest {
        method,
        params,
        responder,
    } = request;
    let Some(agent) = context.upstream() else {
        return Err(error::unknown_method(method));
    };
    if let Some(name) = string_member(params, "sessionId") {
        return to_session(context, name, method, params);
    }
    let method = if context.is_native() {
        method
    } else {
        in_v1(context.version(), method)
    };
    // Sent before what the client sends next, if the agent runs.
    let call = begun(context.call(agent, responder, method, params));
    Ok(RequestAction::Later(Box::pin(async move {
        (call.await.map_err(Error::from), None)
    })))
}

/// The name of a method in version 1, which wrapped agents speak.
fn in_v1(version: ProtocolVersion, method: &str) -> &str {
    match (version, method) {
        (ProtocolVersion::V2, AUTH_LOGIN) => AUTHENTICATE,
        (ProtocolVersion::V2, AUTH_LOGOUT) => LOGOUT,
        _ => method,
    }
}

/// Has the engine of the session that the client knows as `name` serve a request.
pub(super) fn to_session(
    context: &ConnectionContext,
    name: String,
    method: &str,
    params: &str,
) -> Result<RequestAction, Error> {
    let id = context.find(&name)?;
    let (method, params) = (method.to_owned(), params.to_owned());
    Ok(RequestAction::session(id, name, move |reply| {
        SessionRequest::Call {
            reply,
            method,
            params,
        }
    }))
}

/// Forwards a notification to the wrapped agent. Without one it is ignored, as JSON-RPC has it.
pub(super) fn notification(context: &ConnectionContext, method: &str, params: &str) {
    let Some(agent) = context.upstream() else {
        return tracing::debug!(method, "unknown notification");
    };
    let Some(name) = string_member(params, "sessionId") else {
        return agent.notify(method, params);
    };
    if let Some(id) = context.named(&name) {
        let (method, params) = (method.to_owned(), params.to_owned());
        let notify = SessionRequest::Notify { method, params };
        context.registry().send(&id, notify);
    }
}
