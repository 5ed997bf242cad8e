//! Which function serves which method.

use crate::protocol::ProtocolVersion::{V1, V2};
use crate::protocol::method::{
    AUTHENTICATE, CANCEL_REQUEST, CURSORS, LOGOUT, REWIND, SEARCH, SESSION_ARCHIVE, SESSION_CANCEL,
    SESSION_CLOSE, SESSION_DELETE, SESSION_EDIT_PROMPT, SESSION_FORK, SESSION_GET, SESSION_LIST,
    SESSION_LIST_SUBSCRIBE, SESSION_LIST_UNSUBSCRIBE, SESSION_LOAD, SESSION_NEW, SESSION_OPTIONS,
    SESSION_PROMPT, SESSION_RESUME, SESSION_REWIND, SESSION_SET_CONFIG_OPTION, SESSION_SET_MODE,
    SESSION_SET_TITLE, SESSION_STATUS, SESSION_UNARCHIVE, TERMINAL_CANCEL, TOOL_CALL_CANCEL,
};
use crate::server::error::{self, Error};
use crate::transport::IncomingRequest;

use super::action::RequestAction;
use super::context::ConnectionContext;
use super::{
    cancel, cursors, delete, fork, forward, get, list, open, options, prompt, rewind, search,
    session, session_index, settings, subscribe,
};

/// Serves a request. Returns at once: what takes time is done elsewhere and answered later.
pub(in crate::server) fn request(context: &ConnectionContext, request: IncomingRequest) {
    let action = action(context, &request);
    RequestAction::perform(action, context, request);
}

fn action(context: &ConnectionContext, request: &IncomingRequest) -> Result<RequestAction, Error> {
    let (version, params) = (context.version(), request.params.as_str());
    let is_persistent = context.is_persistent();
    if context.has_session_index()
        && let Some(served) = session_index::serve(context, request)
    {
        return served;
    }
    match (request.method.as_str(), version) {
        (SESSION_NEW, _) => open::new(context, params),
        (SESSION_PROMPT, _) => prompt::serve(context, request),
        (SESSION_CLOSE, _) => session::close(context, params),
        (SESSION_LOAD, V1) if is_persistent => open::load(context, params),
        (SESSION_RESUME, V1) if is_persistent => open::resume(context, params),
        (SESSION_RESUME, V2) => open::resume_from(context, params),
        (SESSION_LIST, _) if is_persistent || version == V2 => list::serve(context, params),
        (SESSION_LIST_SUBSCRIBE, _) if context.offers("list.subscribe") => {
            subscribe::subscribe(context, params)
        }
        (SESSION_LIST_UNSUBSCRIBE, _) if context.offers("list.subscribe") => {
            subscribe::unsubscribe(context, params)
        }
        (SESSION_DELETE, _) if is_persistent => delete::serve(context, params),
        (SESSION_GET, _) if is_persistent => get::serve(context, request),
        (CURSORS, _) if context.offers("fork") => cursors::serve(context, request),
        (SEARCH, _) if is_persistent => search::serve(context, request),
        (REWIND, _) if is_persistent => rewind::serve(context, params),
        (SESSION_REWIND, _) if context.offers("rewind") => rewind::behind(context, params),
        (SESSION_EDIT_PROMPT, _) if context.offers("rewind") => rewind::edit(context, request),
        (SESSION_FORK, _) if context.offers("fork") => fork::serve(context, params),
        (SESSION_SET_TITLE, _) if context.offers("title") => session::set_title(context, params),
        (SESSION_ARCHIVE, _) if context.offers("archive") => {
            session::archive(context, true, params)
        }
        (SESSION_UNARCHIVE, _) if context.offers("archive") => {
            session::archive(context, false, params)
        }
        (SESSION_STATUS, _) if context.offers("status") => session::status(context, params),
        (SESSION_OPTIONS, _) if context.wraps_agent() || context.offers("options") => {
            options::serve(context, request)
        }
        (SESSION_SET_CONFIG_OPTION | TOOL_CALL_CANCEL | TERMINAL_CANCEL, V2)
            if context.is_native() =>
        {
            forward::request(context, request)
        }
        (SESSION_SET_CONFIG_OPTION, V2) => settings::set_config_option(context, params),

        (SESSION_LOAD, V1) => Err(error::undeclared(SESSION_LOAD, "loadSession")),
        (method @ (SESSION_RESUME | SESSION_LIST | SESSION_DELETE | SESSION_FORK), V1) => {
            let capability = method.replace("session/", "sessionCapabilities.");
            Err(error::undeclared(method, &capability))
        }
        (method @ (SESSION_DELETE | SESSION_FORK), V2) => {
            Err(error::undeclared(method, &method.replace('/', ".")))
        }
        (CURSORS, _) => Err(error::unknown_method(CURSORS)),
        (SESSION_GET, V1) => Err(error::undeclared(SESSION_GET, "sessionHistory")),
        (SESSION_GET, V2) => Err(error::undeclared(
            SESSION_GET,
            "_meta.rejoin.sessionHistory",
        )),
        // Both are known, but nothing can be cancelled by them.
        (TOOL_CALL_CANCEL, V2) => Err(error::not_cancellable("toolCallId")),
        (TERMINAL_CANCEL, V2) => Err(error::not_cancellable("terminalId")),

        // Only version 1 has them.
        (method @ (AUTHENTICATE | LOGOUT | SESSION_LOAD | SESSION_SET_MODE), V2) => {
            Err(error::unknown_method(method))
        }
        (method @ (SESSION_SET_MODE | SESSION_SET_CONFIG_OPTION), V1) if !context.wraps_agent() => {
            settings::serve(context, method, params)
        }
        _ => forward::request(context, request),
    }
}

/// Serves a notification. One that is unknown or invalid is ignored, as JSON-RPC has it.
pub(in crate::server) fn notification(context: &ConnectionContext, method: &str, params: &str) {
    match method {
        SESSION_CANCEL => cancel::session(context, params),
        CANCEL_REQUEST => cancel::request(context, params),
        method => forward::notification(context, method, params),
    }
}
