//! Which method is served by which file.

use agent_client_protocol::UntypedMessage;

use crate::server::error;

use super::context::{Context, Responds};
use super::{
    archive, cancel, close, delete, fork, forward, get, initialize, list, load, new, prompt, reply,
    resume, set_title, settings, status,
};

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
        "session/new" => new::serve(context, &params, responder),
        "session/prompt" => prompt::serve(context, &params, responder),
        "session/close" => close::serve(context, &params, responder),
        "session/load" if persistent => load::serve(context, &params, responder),
        "session/resume" if persistent => resume::serve(context, &params, responder),
        "session/list" if persistent => list::serve(context, &params, responder),
        "session/delete" if persistent => delete::serve(context, &params, responder),
        "session/get" if persistent => get::serve(context, &params, responder),
        "session/fork" if context.offers("fork") => fork::serve(context, &params, responder),
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
        "session/load" => {
            reply::answer(
                responder,
                Err(error::undeclared("session/load", "loadSession")),
            );
        }
        method @ ("session/resume" | "session/list" | "session/delete" | "session/fork") => {
            let capability = method.replace("session/", "sessionCapabilities.");
            reply::answer(responder, Err(error::undeclared(method, &capability)));
        }
        method @ "session/get" => {
            reply::answer(responder, Err(error::undeclared(method, "sessionHistory")));
        }
        method @ ("session/set_mode" | "session/set_config_option")
            if context.relay().is_none() =>
        {
            settings::serve(context, method, &params, responder);
        }
        method => match context.relay() {
            Some(relay) => forward::request(context, relay, method, &params, responder),
            None => reply::answer(responder, Err(error::unknown_method(method))),
        },
    }
}

/// Serves a notification. What is unknown or makes no sense is ignored, as JSON-RPC has it.
pub fn notification(context: &Context, message: &UntypedMessage) {
    let params = context.params(message);
    match message.method() {
        "session/cancel" => cancel::session(context, &params),
        "$/cancel_request" => cancel::request(context, &params),
        method => {
            if let Some(relay) = context.relay() {
                forward::notification(context, relay, method, &params);
            } else {
                tracing::debug!(method, "unknown notification");
            }
        }
    }
}
