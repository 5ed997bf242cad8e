//! `session/cancel` and `$/cancel_request`: end what is under way.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::session::{ProtocolVersion, Request};

use super::context::Context;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Session {
    session_id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Cancelled<'a> {
    #[serde(borrow)]
    request_id: &'a RawValue,
}

/// Ends the running turns of a session, if there are any.
pub(in crate::server) fn session(context: &Context, params: &str) {
    let session = serde_json::from_str::<Session>(params).ok();
    if let Some(id) = session.and_then(|session| context.named(&session.session_id)) {
        // In version 1 it answers by itself what it was asked for.
        let withdraw = context.registry().deps().version() == ProtocolVersion::V2;
        context.registry().send(&id, Request::Cancel { withdraw });
    }
}

/// Ends the turn that answers a request, or withdraws the prompt that it holds. Other requests look
/// at their own mark.
pub(in crate::server) fn request(context: &Context, params: &str) {
    let Ok(cancelled) = serde_json::from_str::<Cancelled<'_>>(params) else {
        return;
    };
    // Brought into the one form in which ids are kept.
    let Ok(id) = serde_json::from_str::<serde_json::Value>(cancelled.request_id.get()) else {
        return;
    };
    let prompted = context.prompts().get(&id.to_string()).cloned();
    if let Some(prompted) = prompted {
        let request = Request::WithdrawPrompt(prompted.message);
        context.registry().send(&prompted.session, request);
    }
}
