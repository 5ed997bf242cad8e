//! Has an agent fork a session that it knows.

use std::collections::HashMap;
use std::sync::Arc;

use crate::engine::{EngineError, Outlet};
use crate::json::string_member;
use crate::sys::Ids;

use super::link::Link;
use super::restore::{self, Hears, How, Restored, Task, Ways};
use super::route::Route;
use super::said::with_members;
use super::shape::IdNormalizer;

/// A session of the agent that is to be forked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin<'a> {
    /// The agent's id of it.
    pub(super) inner: &'a str,
    /// How many prompts it has.
    pub(super) prompts: u64,
}

/// Forks a session of the agent with the client's own request. What the agent shows of the fork
/// goes to `route`. Answers with `None` if the agent cannot; fails if it is gone or wants its user
/// to sign in.
pub(super) async fn fork(
    link: &mut Arc<Link>,
    task: Task<'_>,
    origin: Origin<'_>,
    ids: Arc<dyn Ids>,
) -> Result<Option<Restored>, EngineError> {
    if !link.abilities().fork {
        return Ok(None);
    }
    let id = serde_json::Value::from(origin.inner).to_string();
    let params = with_members(task.params, &[], &[("sessionId", &id)]);
    if let Some(forked) = ask(link, &params, task, origin).await? {
        return Ok(Some(forked));
    }
    if link.route(origin.inner).is_some() {
        return Ok(None);
    }
    // Some agents fork only what they have open. Nobody listens to what this one says of it.
    let nobody = Route::new(
        Outlet::new().0,
        IdNormalizer::new(ids),
        Arc::default(),
        HashMap::new(),
    );
    let open = Task {
        params: &params,
        route: &nobody,
        ..task
    };
    let opened = restore::again(link, open, origin.inner, origin.prompts, Ways::All).await?;
    let forked = match opened {
        Some(opened) if opened.how != How::EmptyLoad => ask(link, &params, task, origin).await,
        _ => Ok(None),
    };
    link.forget(origin.inner);
    if link.abilities().close {
        let params = serde_json::json!({ "sessionId": origin.inner }).to_string();
        // Nobody waits for the answer.
        drop(link.request("session/close", &params));
    }
    forked
}

async fn ask(
    link: &Arc<Link>,
    params: &str,
    task: Task<'_>,
    origin: Origin<'_>,
) -> Result<Option<Restored>, EngineError> {
    let route = task.route;
    let heard = link.route(origin.inner);
    // What it may show of the history is in the log already.
    route.swallow();
    let answer = restore::ask(link, "session/fork", params, task, Hears::Born).await;
    let shown = route.go_live(true);
    let why = match answer {
        Ok(answer) => match string_member(&answer, "sessionId") {
            Some(inner) if inner != origin.inner => {
                return Ok(Some(Restored {
                    how: How::Fork,
                    inner,
                    answer,
                    snapshots: shown.snapshots(),
                }));
            }
            Some(inner) => {
                // The same session in two places would not be two sessions.
                match heard {
                    Some(heard) => link.hear(&inner, &heard),
                    None => link.forget(&inner),
                }
                EngineError::internal("the fork has the id of the session that was forked")
            }
            None => EngineError::internal("the fork has no id"),
        },
        Err(error) if link.is_dead() || error.code == EngineError::SIGN_IN => return Err(error),
        Err(error) => error,
    };
    tracing::info!(error = %why, "the agent does not fork the session");
    Ok(None)
}
