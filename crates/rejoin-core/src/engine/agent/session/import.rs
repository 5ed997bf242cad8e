//! Imports a session that the agent created without rejoin.

use std::sync::Arc;

use crate::engine::{Block, EngineError, SessionConfig};
use crate::json::{text_member, with_members};
use crate::protocol::method;
use crate::sys::Ids;

use super::not_found::{is_not_found, is_unsupported};
use super::restore::{self, RouteBy, Task, other_session};
use super::restored::{RestoreMethod, Restored};
use crate::engine::agent::members::with_session;
use crate::engine::agent::route::{ImportedHistory, SessionRoute};
use crate::engine::agent::wire::connection::AgentConnection;
use crate::engine::agent::wire::list::{self, AgentListing};

/// Opens a session that the agent created without rejoin, and returns its whole history. If the agent
/// does not have the session, the error says so.
pub(super) async fn import(
    connection: &Arc<AgentConnection>,
    config: &SessionConfig,
    task: Task<'_>,
    ids: Arc<dyn Ids>,
) -> Result<(Restored, Block), EngineError> {
    let route = task.route;
    let capabilities = connection.capabilities();
    let params = with_session(task.params, &config.name);
    let (method, params) = match (capabilities.load, capabilities.resume) {
        (true, _) => restore::load_request(connection, &params),
        (false, true) => (method::SESSION_RESUME, params.as_str().into()),
        (false, false) => return Err(EngineError::unknown_session()),
    };
    route.import(ImportedHistory::new(ids));
    let subscription = TemporaryRoute::new(connection, &config.name, route)?;
    let mut answer = match restore::open(connection, method, &params, task, RouteBy::Request).await
    {
        Ok(answer) if other_session(&answer, &config.name).is_none() => answer,
        Ok(_) => return Err(EngineError::unknown_session()),
        Err(error) => {
            tracing::info!(method, %error, "the agent did not open the session");
            let is_not_found = is_not_found(&error, &config.name) || is_unsupported(&error);
            if is_final(connection, &error) || !is_not_found && is_known(connection, config).await {
                return Err(error);
            }
            return Err(EngineError::unknown_session());
        }
    };
    if capabilities.load {
        restore::wait_for_replay(connection, route).await;
    }
    let replays_later = capabilities.load && !capabilities.is_native;
    let Some(import) = route.imported(replays_later) else {
        return Err(EngineError::internal(
            "the replay of the agent's session was lost",
        ));
    };
    let Some(block) = import.finish() else {
        let message = "the agent's session is too long to be imported";
        return Err(EngineError::internal(message));
    };
    if !capabilities.load {
        answer = without_history(&answer);
    }
    subscription.keep();
    let restored = Restored {
        how: RestoreMethod::Import,
        session_id: config.name.clone(),
        answer,
        snapshots: Vec::new(),
    };
    Ok((restored, block))
}

/// Whether an error leaves open whether the agent knows the session.
fn is_final(connection: &AgentConnection, error: &EngineError) -> bool {
    connection.life.is_dead()
        || error.code == EngineError::SIGN_IN
        || error.is_named("agent_timeout")
}

/// Whether the agent may have the session that it could not open: it lists the session, or has no list.
async fn is_known(connection: &Arc<AgentConnection>, config: &SessionConfig) -> bool {
    list::look_up(connection, &config.name, None).await != AgentListing::NotListed
}

/// A response with a note that the history is not shown, because the agent cannot replay it.
fn without_history(answer: &str) -> String {
    let meta = text_member(answer, "_meta").unwrap_or("{}");
    let note = r#"{"agent":{"historyShown":false}}"#;
    let meta = with_members(meta, &["rejoin"], &[("rejoin", note)]);
    with_members(answer, &["_meta"], &[("_meta", &meta)])
}

/// A session's route while the session is being opened. Dropping it removes the route, unless it is
/// kept.
struct TemporaryRoute<'a> {
    connection: &'a AgentConnection,
    session: &'a str,
    route: &'a Arc<SessionRoute>,
    keep: bool,
}

impl<'a> TemporaryRoute<'a> {
    /// Fails if another open session has the agent's session.
    fn new(
        connection: &'a AgentConnection,
        session: &'a str,
        route: &'a Arc<SessionRoute>,
    ) -> Result<Self, EngineError> {
        if let Some(error) = connection.routes.shared_error(session, route) {
            return Err(error);
        }
        connection.routes.subscribe(session, route);
        Ok(Self {
            connection,
            session,
            route,
            keep: false,
        })
    }

    fn keep(mut self) {
        self.keep = true;
    }
}

impl Drop for TemporaryRoute<'_> {
    fn drop(&mut self) {
        if !self.keep {
            self.connection.routes.unsubscribe(self.session, self.route);
        }
    }
}
