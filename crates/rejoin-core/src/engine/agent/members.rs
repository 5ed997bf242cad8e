//! The parameters of requests about a session of the agent.

use crate::json::{quoted, with_members};

/// The parameters of a request, about the session with this id.
pub(super) fn with_session(params: &str, session_id: &str) -> String {
    let id = quoted(session_id);
    with_members(params, &[], &[("sessionId", &id)])
}

/// The parameters of a request that has only a session's id.
pub(super) fn of_session(session_id: &str) -> String {
    with_session("{}", session_id)
}
