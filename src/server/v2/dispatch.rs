//! Which method is served by which file.

use agent_client_protocol::UntypedMessage;

use crate::server::error;
use crate::server::methods::context::{Context, Responds};
use crate::server::methods::place::Servers;
use crate::server::methods::{archive, cancel, delete, fork, get, new, prompt, set_title, status};

use super::{close, initialize, list, resume, set_config_option};

/// Serves a request. Returns at once: whatever takes time goes on elsewhere and answers by
/// itself.
pub fn request(context: &Context, message: &UntypedMessage, responder: Responds) {
    if message.method() == "initialize" {
        let params = context.registry().deps().wire.stash.take_initialize();
        return initialize::serve(context, params, responder);
    }
    let params = context.params(message);
    let persistent = context.registry().deps().store.is_some();
    match message.method() {
        "session/new" => new::make(context, &params, Servers::Typed, responder),
        "session/prompt" => prompt::serve(context, &params, responder),
        "session/resume" => resume::serve(context, &params, responder),
        "session/close" => close::serve(context, &params, responder),
        "session/list" => list::serve(context, &params, responder),
        "session/delete" if persistent => delete::serve(context, &params, responder),
        "session/get" if persistent => get::serve(context, &params, responder),
        "session/fork" if context.offers("fork") => {
            fork::make(context, &params, Servers::Typed, responder);
        }
        "session/set_title" if context.offers("title") => {
            set_title::serve(context, &params, responder);
        }
        "session/archive" if context.offers("archive") => {
            archive::serve(context, true, &params, responder);
        }
        "session/unarchive" if context.offers("archive") => {
            archive::serve(context, false, &params, responder);
        }
        "session/status" if context.offers("status") => status::serve(context, &params, responder),
        "session/set_config_option" => set_config_option::serve(context, &params, responder),
        method @ ("session/delete" | "session/fork") => {
            let capability = method.replace('/', ".");
            responder.answer(Err(error::undeclared(method, &capability)));
        }
        method @ "session/get" => {
            let capability = "_meta.rejoin.sessionHistory";
            responder.answer(Err(error::undeclared(method, capability)));
        }
        // Both are known, but there is nothing that could be cancelled so.
        "tool_call/cancel" => responder.answer(Err(error::not_cancellable("toolCallId"))),
        "terminal/cancel" => responder.answer(Err(error::not_cancellable("terminalId"))),
        method => responder.answer(Err(error::unknown_method(method))),
    }
}

/// Serves a notification. What is unknown or makes no sense is ignored, as JSON-RPC has it.
pub fn notification(context: &Context, message: &UntypedMessage) {
    let params = context.params(message);
    match message.method() {
        "session/cancel" => cancel::session(context, &params),
        "$/cancel_request" => cancel::request(context, &params),
        method => tracing::debug!(method, "unknown notification"),
    }
}
