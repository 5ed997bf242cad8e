//! `session/resume`: goes on with a session without replaying it.

use crate::json;
use crate::server::error;

use super::context::{Context, Responds};
use super::open::{How, open};
use super::place::{Servers, existing};
use super::reply::answer;

pub(super) fn serve(context: &Context, params: &str, responder: Responds) {
    let replays = json::text_member(params, "replayFrom").is_some_and(|from| from != "null");
    if replays {
        // Whoever sends it waits for a history that would never come.
        let error = error::invalid_params(
            "`replayFrom` is a parameter of version 2 of the protocol: session/load replays",
        );
        return answer(responder, Err(error));
    }
    match existing(params, Servers::Optional) {
        Ok(config) => open(context, config, How::Resume, responder),
        Err(error) => answer(responder, Err(error)),
    }
}
