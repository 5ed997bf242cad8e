//! Has the agent behind the engine forget a session that is deleted without having been open.

use std::sync::Arc;

use crate::engine::History;
use crate::record::{AgentSessionId, Kind};
use crate::store::Store;
use crate::sys::SessionId;

use super::Deps;
use super::history::SessionHistory;

/// How the agent behind the engine knows a session, by its log. Nothing if there is no agent, or
/// the session is none of its.
pub(super) fn known_as(deps: &Deps, store: &Store, id: &SessionId) -> Vec<String> {
    if !deps.engine.wraps_agent() {
        return Vec::new();
    }
    let agent = deps.engine.identity().name;
    let mut names = Vec::new();
    let history = SessionHistory::of_log(id.clone(), store.clone());
    let walked = history.walk(&mut |record| {
        if record.kind == Kind::AgentSessionId
            && let Some(inner) = AgentSessionId::read(record.payload)
            && inner.agent == agent
            && !names.contains(&inner.id)
        {
            names.push(inner.id);
        }
    });
    if let Err(error) = walked {
        tracing::debug!(session = %id, %error, "cannot tell how the agent knows a session");
    }
    names
}

/// Tells the agent that these are deleted. Does not wait.
pub(super) fn forget(deps: &Arc<Deps>, names: Vec<String>) {
    for name in names {
        let deleted = deps.engine.delete(&name);
        tokio::spawn(async move {
            if let Err(error) = deleted.await {
                tracing::info!(%error, "the agent does not delete its session");
            }
        });
    }
}
