//! `session/load`: replays a session's whole history, then answers.

use super::context::{Context, Responds};
use super::open::{How, open};
use super::place::{Servers, existing};
use super::reply::answer;

pub(super) fn serve(context: &Context, params: &str, responder: Responds) {
    match existing(params, Servers::Required) {
        Ok(config) => open(context, config, How::Load, responder),
        Err(error) => answer(responder, Err(error)),
    }
}
