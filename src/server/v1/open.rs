//! Opens a session that exists: here, or with the agent behind the engine.

use crate::engine::Wanted;
use crate::session::Request;
use crate::sys::{SessionId, blocking};

use super::context::{Context, Responds};
use super::reply::{answer, reply};

/// What a session is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// To be shown, and to go on.
    Load,
    /// To go on.
    Resume,
}

pub(super) fn open(context: &Context, wanted: Wanted, how: How, responder: Responds) {
    let name = wanted.name.clone();
    let found = context.find(&name);
    let here = found.as_ref().is_ok_and(|id| is_here(context, id));
    let foreign = if here { None } else { may_know(context, &name) };
    let (id, import) = match (foreign, found) {
        (Some(id), _) => (id, true),
        (None, Ok(id)) => (id, false),
        (None, Err(error)) => return answer(responder, Err(error)),
    };
    context.name(&name, &id);
    let requests = context.registry().requests();
    let reply = reply(context, requests, &name, responder, || ());
    let request = match (import, how) {
        (true, _) => Request::Import {
            reply,
            wanted,
            replay: how == How::Load,
        },
        (false, How::Load) => Request::Load(reply, wanted),
        (false, How::Resume) => Request::Resume(reply, wanted),
    };
    context.registry().send(&id, request);
}

/// Whether it is one of ours, or was made one.
fn is_here(context: &Context, id: &SessionId) -> bool {
    let store = context.registry().deps().store.as_ref();
    context.registry().has(id) || store.is_some_and(|store| blocking(|| store.exists(id)))
}

/// The id here of a session that the agent may have.
fn may_know(context: &Context, name: &str) -> Option<SessionId> {
    let relay = context.relay()?;
    relay.may_know().then(|| context.foreign_id(name)).flatten()
}
