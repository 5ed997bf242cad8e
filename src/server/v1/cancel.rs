//! `session/cancel` and `$/cancel_request`: end what is under way.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::session::Request;

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

/// Ends the running turn of a session, if there is one.
pub(super) fn session(context: &Context, params: &str) {
    let session = serde_json::from_str::<Session>(params).ok();
    if let Some(id) = session.and_then(|session| context.named(&session.session_id)) {
        context
            .registry()
            .send(&id, Request::Cancel { withdraw: false });
    }
}

/// Ends the turn that answers a request. Other requests look at their own mark.
pub(super) fn request(context: &Context, params: &str) {
    let Ok(cancelled) = serde_json::from_str::<Cancelled<'_>>(params) else {
        return;
    };
    // Brought into the one form in which ids are kept.
    let Ok(id) = serde_json::from_str::<serde_json::Value>(cancelled.request_id.get()) else {
        return;
    };
    let session = context.prompts().get(&id.to_string()).cloned();
    if let Some(session) = session {
        context
            .registry()
            .send(&session, Request::Cancel { withdraw: true });
    }
}
