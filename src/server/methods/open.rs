//! Opens a session that exists: here, or with the agent behind the engine.

use agent_client_protocol::Error;

use crate::engine::SessionConfig;
use crate::server::error;
use crate::session::Request;
use crate::sys::SessionId;

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

pub(super) fn open(context: &Context, config: SessionConfig, how: How, responder: Responds) {
    let name = config.name.clone();
    let (id, import) = match find(context, &name) {
        Ok(found) => found,
        Err(error) => {
            Context::note_error(&name, &error);
            return answer(responder, Err(error));
        }
    };
    context.name(&name, &id);
    let requests = context.registry().requests();
    let reply = reply(context, requests, &name, responder, || ());
    let request = match (import, how) {
        (true, _) => Request::Import {
            reply,
            config,
            replay: how == How::Load,
        },
        (false, How::Load) => Request::Load(reply, config),
        (false, How::Resume) => Request::Resume(reply, config),
    };
    context.registry().send(&id, request);
}

/// The session that a client means, and whether it is the agent's alone and must be imported.
pub(super) fn find(context: &Context, name: &str) -> Result<(SessionId, bool), Error> {
    if context.relay().is_some() && context.is_deleted(name) {
        // Some agents accept any id, and the session would come back as an empty one.
        return Err(error::not_found(name));
    }
    match (context.find(name), may_know(context, name)) {
        // It may be that it is being imported just now, and that this comes to nothing.
        (Ok(id), Some(foreign)) if is_foreign(context, &id, &foreign) => Ok((foreign, true)),
        (Ok(id), _) => Ok((id, false)),
        // It may be here already, under this name.
        (Err(error), _) if !error::is_not_found(&error) => Err(error),
        (Err(_), Some(foreign)) => Ok((foreign, true)),
        (Err(error), None) => Err(error),
    }
}

/// Whether a session that goes by this id, or would by that one, is the agent's alone.
fn is_foreign(context: &Context, id: &SessionId, foreign: &SessionId) -> bool {
    !context.is_kept(id) && (id == foreign || !context.registry().has(id))
}

/// The id here of a session that the agent may have.
fn may_know(context: &Context, name: &str) -> Option<SessionId> {
    let relay = context.relay()?;
    relay.may_know().then(|| context.foreign_id(name)).flatten()
}
