//! `session/delete`: moves a session to the trash.

use crate::protocol::meta::{FORCE, is_set};
use crate::server::error::Error;
use crate::session::Request;

use super::action::RequestAction;
use super::context::ConnectionContext;
use super::params::{ID_LIMIT, SessionParams, decode};

pub(super) fn serve(context: &ConnectionContext, params: &str) -> Result<RequestAction, Error> {
    let name = decode::<SessionParams>(params)?.session_id;
    match context.find(&name) {
        Ok(id) if !context.wraps_agent() || context.exists(&id) => {
            let request = if is_set(params, FORCE) {
                Request::DeleteForAll
            } else {
                Request::Delete
            };
            return Ok(RequestAction::session(id, name, request));
        }
        // The session may exist, so it must not be reported as deleted.
        Err(error) if !error.is_not_found() => return Err(error),
        // Deleting what does not exist succeeds, unless the id looks like an attempt at something
        // else.
        Err(error) if !is_plain(&name) && context.id_of_agents_session(&name).is_none() => {
            return Err(error);
        }
        _ => {}
    }
    let Some(agent) = context.upstream() else {
        return Ok(RequestAction::Answer("{}".to_owned()));
    };
    let deleted = agent.delete(&name);
    Ok(RequestAction::Later(Box::pin(async move {
        let deleted = deleted.await.map(|()| "{}".to_owned());
        (deleted.map_err(Error::from), None)
    })))
}

fn is_plain(id: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | ':');
    !id.is_empty() && id.len() <= ID_LIMIT && id.chars().all(plain)
}
