//! `session/resume`: goes on with a session without replaying it.

use super::context::{Context, Responds};
use super::open::{How, open};
use super::place::{Servers, existing};
use super::reply::answer;

pub(super) fn serve(context: &Context, params: &str, responder: Responds) {
    match existing(params, Servers::Optional, context.relay().is_some()) {
        Ok(wanted) => open(context, wanted, How::Resume, responder),
        Err(error) => answer(responder, Err(error)),
    }
}
