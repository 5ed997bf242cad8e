//! Opens a session in the agent: by its `session/resume`, its `session/load`, its `session/fork`, or
//! as a new session that gets a briefing.
//!
//! The capabilities that an agent declares are tried, and may fail, take too long or even end the
//! agent. A method that it does not declare is never called.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::engine::{EngineError, Outlet};
use crate::json::{self, string_member, text_elements, text_member, with_members};
use crate::protocol::{UpdateKind, method};
use crate::sys::Ids;

use super::logged_prompts::LoggedPrompts;
use super::not_found::{is_not_found, is_unsupported};
use super::restored::{RestoreMethod, Restored};
use crate::engine::agent::ids::IdNormalizer;
use crate::engine::agent::members::{of_session, with_session};
use crate::engine::agent::route::settings::{AgentSettings, SettingRequest};
use crate::engine::agent::route::{ReplayedWords, SessionRoute};
use crate::engine::agent::shared_agent::Agent;
use crate::engine::agent::wire::awaited::Awaited;
use crate::engine::agent::wire::connection::{AgentConnection, timed_out};

/// The member of a request that opens a session with the MCP servers for it.
const MCP_SERVERS: &str = "mcpServers";

/// How long an agent is silent after a replay that seems to lack the last turns, so that it is certain.
const LATE: Duration = Duration::from_secs(1);

/// The outcome of continuing a session that the agent once had.
#[derive(Debug)]
pub(super) enum Continued {
    Opened(Restored),
    /// The agent no longer has it, or has no method to open it.
    NotFound,
    /// The agent could not open it, which may be different next time.
    Failed(EngineError),
}

/// Whether the agent's response says that another process has the session open.
pub(super) fn is_held_elsewhere(answer: &str) -> bool {
    let mut path = ["_meta", "rejoin", "holder"].into_iter();
    path.try_fold(answer, text_member).is_some()
}

/// Which methods are tried to continue a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strategy {
    /// `session/resume`, then `session/load`.
    Any,
    /// `session/load`, then `session/resume`, unless the agent says that it does not have the session.
    LoadFirst,
    /// Only `session/load`, since its replay shows whether the agent knows the conversation.
    LoadOnly,
    /// None: what the agent has opened, it has not known.
    Nothing,
}

impl Strategy {
    /// The methods in their order, as far as the agent declares them.
    fn methods(self) -> &'static [RestoreMethod] {
        match self {
            Self::Any => &[RestoreMethod::Resume, RestoreMethod::Load],
            Self::LoadFirst => &[RestoreMethod::Load, RestoreMethod::Resume],
            Self::LoadOnly => &[RestoreMethod::Load],
            Self::Nothing => &[],
        }
    }

    /// How a session is opened next that the agent does not know, although it has opened it like this.
    pub(super) fn after(how: RestoreMethod) -> Self {
        match how {
            RestoreMethod::Resume => Self::LoadOnly,
            _ => Self::Nothing,
        }
    }
}

/// How much of a conversation a session of the agent has, by the log.
#[derive(Clone, Copy, Debug)]
pub(super) struct KnownPrompts<'a> {
    /// How many of its prompts.
    pub(super) count: u64,
    /// What was said with the last ones, if the agent's replay is to be checked for it.
    pub(super) said: Option<&'a LoggedPrompts>,
}

impl KnownPrompts<'_> {
    /// How many of the prompts the agent has kept, if its replay shows that it has lost the last ones.
    fn kept(self, route: &SessionRoute) -> Option<u64> {
        ReplayedWords::of(route, |replayed| self.said?.kept(self.count, replayed))
    }
}

/// A session that is to be opened in the agent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Task<'a> {
    pub(super) agent: &'a Agent,
    /// The parameters of the client's request.
    pub(super) params: &'a str,
    /// Where the agent's updates go.
    pub(super) route: &'a Arc<SessionRoute>,
    /// How long the agent may be silent before it responds.
    pub(super) limit: Duration,
}

/// Creates a session with the client's own parameters.
pub(super) async fn create(
    connection: &Arc<AgentConnection>,
    task: Task<'_>,
) -> Result<Restored, EngineError> {
    let params = with_members(task.params, &["sessionId"], &[]);
    let params = without_replay(connection, &params);
    let params = with_mcp_servers(connection, &params);
    let answer = open(
        connection,
        method::SESSION_NEW,
        &params,
        task,
        RouteBy::Response,
    )
    .await?;
    let Some(session_id) = string_member(&answer, "sessionId") else {
        let message = "the agent created a session without an id";
        return Err(EngineError::internal(message));
    };
    if let Some(error) = connection.routes.shared_error(&session_id, task.route) {
        return Err(error);
    }
    Ok(Restored {
        how: RestoreMethod::New,
        session_id,
        answer,
        snapshots: Vec::new(),
    })
}

/// Continues a session that the agent once had as `session_id`. Fails if the agent cannot be started or
/// requires its user to sign in. An agent that ends while it opens the session is restarted for the
/// next method, and `connection` is replaced.
pub(super) async fn continue_session(
    connection: &mut Arc<AgentConnection>,
    task: Task<'_>,
    session_id: &str,
    known: KnownPrompts<'_>,
    strategy: Strategy,
) -> Result<Continued, EngineError> {
    let route = task.route;
    let params = with_session(task.params, session_id);
    let mut failure = None;
    for &how in strategy.methods() {
        let mut tries = 0;
        loop {
            if connection.life.is_dead() {
                *connection = task.agent.connection().await?;
            }
            let capabilities = connection.capabilities();
            let possible = match how {
                RestoreMethod::Resume => capabilities.resume,
                _ => capabilities.load,
            };
            if !possible {
                break;
            }
            let (method, params) = match how {
                RestoreMethod::Resume => {
                    (method::SESSION_RESUME, without_replay(connection, &params))
                }
                _ => load_request(connection, &params),
            };
            // Subscribed before the request: agents replay before they respond.
            route.discard_replay();
            if !connection.routes.subscribe(session_id, route) {
                route.go_live(false);
                let shared = connection.routes.shared_error(session_id, route);
                return Ok(shared.map_or(Continued::NotFound, Continued::Failed));
            }
            let answer = open(connection, method, &params, task, RouteBy::Request).await;
            let error = match answer {
                Ok(answer) => match other_session(&answer, session_id) {
                    None => {
                        let opened =
                            opened(connection, route, how, session_id, answer, known).await;
                        return Ok(Continued::Opened(opened));
                    }
                    Some(other) => {
                        tracing::info!(method, other, "the agent opened another session");
                        None
                    }
                },
                Err(error) => Some(error),
            };
            connection.routes.unsubscribe(session_id, route);
            if let Some(error) = error
                .as_ref()
                .filter(|error| error.code == EngineError::SIGN_IN)
            {
                return Err(error.clone());
            }
            route.go_live(false);
            let Some(error) = error else { break };
            if !connection.life.is_dead() {
                tracing::info!(method, %error, "the agent did not open the session");
                let is_not_found = is_not_found(&error, session_id);
                if is_not_found && strategy == Strategy::LoadFirst {
                    return Ok(Continued::NotFound);
                }
                let is_lost = is_not_found || is_unsupported(&error);
                failure = failure.or((!is_lost).then_some(error));
                break;
            }
            tracing::warn!(method, %error, "the agent ended while it opened a session");
            tries += 1;
            // Another pending request may have ended it, so this one is tried again.
            if connection.life.ended_alone() || tries > 1 {
                failure = failure.or(Some(error));
                break;
            }
        }
    }
    Ok(failure.map_or(Continued::NotFound, Continued::Failed))
}

/// A session that the agent has opened, once it has replayed it.
async fn opened(
    connection: &AgentConnection,
    route: &SessionRoute,
    how: RestoreMethod,
    session_id: &str,
    answer: String,
    known: KnownPrompts<'_>,
) -> Restored {
    let replays = how == RestoreMethod::Load && known.count > 0;
    if replays {
        wait_for_replay(connection, route).await;
    }
    let mut kept = known.kept(route).filter(|_| replays);
    if kept.is_some() {
        // The rest may come late.
        route.wait_for_silence(LATE).await;
        kept = known.kept(route);
    }
    let discarded = route.go_live(replays && !connection.is_native());
    let empty = replays && discarded.history == 0;
    let how = match kept {
        // An agent that replays nothing may not know the conversation.
        _ if empty => RestoreMethod::EmptyLoad,
        Some(kept) => RestoreMethod::PartialLoad(kept),
        None => how,
    };
    Restored {
        how,
        session_id: session_id.to_owned(),
        answer,
        snapshots: discarded.snapshots(),
    }
}

/// The request that loads a session with a replay of all of it.
pub(super) fn load_request<'a>(
    connection: &AgentConnection,
    params: &'a str,
) -> (&'static str, Cow<'a, str>) {
    if connection.is_native() {
        let start = r#"{"type":"start"}"#;
        let params = with_members(params, &[], &[("replayFrom", start)]);
        (method::SESSION_RESUME, params.into())
    } else {
        (method::SESSION_LOAD, with_mcp_servers(connection, params))
    }
}

/// The parameters of a request that makes or loads a session, with the MCP servers that version 1 wants
/// there: the client may have asked for a resume or a fork, which need not name any.
fn with_mcp_servers<'a>(connection: &AgentConnection, params: &'a str) -> Cow<'a, str> {
    let given = text_member(params, MCP_SERVERS).filter(|servers| *servers != "null");
    if connection.is_native() || given.is_some() {
        params.into()
    } else {
        with_members(params, &[], &[(MCP_SERVERS, "[]")]).into()
    }
}

/// The parameters of a request that opens a session, without the replay that the client may want:
/// the log has the history.
pub(super) fn without_replay<'a>(connection: &AgentConnection, params: &'a str) -> Cow<'a, str> {
    if connection.is_native() && text_member(params, "replayFrom").is_some() {
        with_members(params, &["replayFrom"], &[]).into()
    } else {
        params.into()
    }
}

/// Waits for the replay of a session that the agent has loaded. In version 2 it has come before the
/// response.
pub(super) async fn wait_for_replay(connection: &AgentConnection, route: &SessionRoute) {
    if connection.is_native() {
        return;
    }
    let before = route.replayed() > 0;
    let replays_first = connection.replays_first(before);
    route.wait_for_replay(replays_first).await;
}

/// The id of another session that an agent has opened instead, if its response has one: in
/// `sessionId`, or in an `acpSessionId` somewhere in `_meta`, as some agents report it.
pub(super) fn other_session(answer: &str, session_id: &str) -> Option<String> {
    fn reported(value: &Value, session_id: &str) -> Option<String> {
        match value {
            Value::Object(members) => members.iter().find_map(|(name, value)| {
                let id = value.as_str().filter(|id| *id != session_id);
                match (name.as_str(), id) {
                    ("acpSessionId", Some(id)) => Some(id.to_owned()),
                    _ => reported(value, session_id),
                }
            }),
            _ => None,
        }
    }
    let own = string_member(answer, "sessionId").filter(|id| id != session_id);
    own.or_else(|| reported(&json::tree(text_member(answer, "_meta")?)?, session_id))
}

/// The member of a request to fork with the cursor of the place.
const CURSOR: &str = "cursorId";

/// The session of the agent that a fork begins with.
#[derive(Clone, Copy, Debug)]
pub(super) struct ForkOrigin<'a> {
    /// The agent's session id.
    pub(super) session_id: &'a str,
    /// The agent's cursor of the place. Without one it is the end.
    pub(super) cursor: Option<&'a str>,
    /// How many prompts it has.
    pub(super) prompts: u64,
}

/// Has the agent fork a session. Returns `None` if it cannot; fails if it has ended or requires its
/// user to sign in.
pub(super) async fn fork(
    connection: &mut Arc<AgentConnection>,
    task: Task<'_>,
    origin: ForkOrigin<'_>,
    ids: Arc<dyn Ids>,
) -> Result<Option<Restored>, EngineError> {
    if !connection.capabilities().fork {
        return Ok(None);
    }
    let params = with_session(task.params, origin.session_id);
    let params = without_replay(connection, &params).into_owned();
    if let Some(forked) = request_fork(connection, &params, task, origin).await? {
        return Ok(Some(forked));
    }
    if connection.routes.get(origin.session_id).is_some() {
        return Ok(None);
    }
    // Some agents fork only sessions that they have open. Its messages about this one are ignored.
    let ignored = SessionRoute::new(
        Outlet::new().0,
        None,
        Default::default(),
        connection.is_native(),
        IdNormalizer::new(ids),
        Arc::default(),
        HashMap::new(),
    );
    let opening = Task {
        params: &params,
        route: &ignored,
        ..task
    };
    let known = KnownPrompts {
        count: origin.prompts,
        said: None,
    };
    let session_id = origin.session_id;
    let opened = continue_session(connection, opening, session_id, known, Strategy::Any).await?;
    let forked = match opened {
        Continued::Opened(opened) if opened.how != RestoreMethod::EmptyLoad => {
            request_fork(connection, &params, task, origin).await
        }
        _ => Ok(None),
    };
    connection.routes.unsubscribe(origin.session_id, &ignored);
    if connection.capabilities().close {
        // The response does not matter.
        drop(connection.request(method::SESSION_CLOSE, &of_session(origin.session_id)));
    }
    forked
}

async fn request_fork(
    connection: &Arc<AgentConnection>,
    params: &str,
    task: Task<'_>,
    origin: ForkOrigin<'_>,
) -> Result<Option<Restored>, EngineError> {
    let route = task.route;
    let params = match origin.cursor {
        Some(cursor) => with_members(params, &[], &[(CURSOR, &json::quoted(cursor))]).into(),
        None => Cow::Borrowed(params),
    };
    // The log already has the history that the agent may replay.
    route.discard_replay();
    let answer = open(
        connection,
        method::SESSION_FORK,
        &params,
        task,
        RouteBy::Response,
    )
    .await;
    let discarded = route.go_live(!connection.is_native());
    let why = match answer {
        Ok(answer) => match string_member(&answer, "sessionId") {
            Some(session_id) => match connection.routes.shared_error(&session_id, route) {
                None if session_id != origin.session_id => {
                    return Ok(Some(Restored {
                        how: RestoreMethod::Fork,
                        session_id,
                        answer,
                        snapshots: discarded.snapshots(),
                    }));
                }
                None => {
                    connection.routes.unsubscribe(&session_id, route);
                    EngineError::internal("the fork has the id of the session that was forked")
                }
                Some(shared) => shared,
            },
            None => EngineError::internal("the fork has no id"),
        },
        Err(error) if connection.life.is_dead() || error.code == EngineError::SIGN_IN => {
            return Err(error);
        }
        Err(error) => error,
    };
    tracing::info!(error = %why, "the agent did not fork the session");
    Ok(None)
}

/// Which id routes the messages about a session that is being opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RouteBy {
    /// The one in the request.
    Request,
    /// The one in the response.
    Response,
}

/// Sends a request that opens a session, and waits for the response. Fails if the agent is silent for
/// too long.
pub(super) async fn open(
    connection: &Arc<AgentConnection>,
    method: &str,
    params: &str,
    task: Task<'_>,
    route_by: RouteBy,
) -> Result<String, EngineError> {
    let mut pending = match route_by {
        RouteBy::Request => {
            let opened = Awaited::Opened(task.route.clone());
            connection.request_awaited(method, params, opened)
        }
        RouteBy::Response => connection.request_for(method, params, task.route),
    };
    tokio::select! {
        biased;
        outcome = pending.wait() => return outcome,
        () = task.route.wait_for_silence(task.limit) => {}
    }
    pending.abandon();
    Err(timed_out(method, task.limit))
}

/// Restores the settings that the session had `before`. Returns the agent's response with the current
/// settings, and these settings.
pub(super) async fn restore_settings(
    connection: &Arc<AgentConnection>,
    session_id: &str,
    answer: &str,
    before: &AgentSettings,
    limit: Duration,
) -> (String, AgentSettings) {
    let mut now = AgentSettings::default();
    now.opened(answer);
    for request in before.restore_requests(answer) {
        set(connection, session_id, request, limit, &mut now).await;
    }
    (now.apply(answer), now)
}

/// Gives the settings of a session the values that the client wants, in their order: each as if the client
/// set it then. What the agent does not offer is passed over. Returns the payloads of `info` records, too.
pub(super) async fn give(
    connection: &Arc<AgentConnection>,
    session_id: &str,
    given: Option<&str>,
    (mut answer, mut now): (String, AgentSettings),
    limit: Duration,
) -> (String, AgentSettings, Vec<String>) {
    let mut changes: Vec<String> = Vec::new();
    for entry in text_elements(given.unwrap_or("[]")) {
        for request in AgentSettings::given(entry, &answer).restore_requests(&answer) {
            let change = set(connection, session_id, request, limit, &mut now).await;
            if let Some(change) = change {
                // Each has all options.
                let kind = |update: &str| UpdateKind::of(update.as_bytes());
                changes.retain(|earlier| kind(earlier) != kind(&change));
                changes.push(change);
            }
            answer = now.apply(&answer);
        }
    }
    (answer, now, changes)
}

/// Sets a setting, and notes it in `now` if the agent has accepted that. Returns the payload of its `info`
/// record.
async fn set(
    connection: &Arc<AgentConnection>,
    session_id: &str,
    request: SettingRequest,
    limit: Duration,
    now: &mut AgentSettings,
) -> Option<String> {
    let mut params = request.params;
    params["sessionId"] = session_id.into();
    let params = params.to_string();
    let set = connection.request(request.method, &params).outcome();
    match tokio::time::timeout(limit, set).await {
        Ok(Ok(result)) => return now.apply_request(request.method, &params, &result),
        // What the agent has reported of it is not so.
        Ok(Err(error)) if is_so_already(&error) => return now.set_already(request.method, &params),
        Ok(Err(error)) => {
            tracing::warn!(method = request.method, %error, "could not restore a setting");
        }
        Err(_) => tracing::warn!(method = request.method, "timed out restoring a setting"),
    }
    None
}

/// Whether an agent refuses a setting because the session has it.
fn is_so_already(error: &EngineError) -> bool {
    let data = error.data.as_deref().unwrap_or_default();
    let texts = [error.message.as_str(), data].map(str::to_lowercase);
    texts.iter().any(|text| text.contains("already"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_may_name_another_session() {
        for (answer, other) in [
            ("{}", None),
            ("null", None),
            (r#"{"sessionId":"a"}"#, None),
            (r#"{"sessionId":"b"}"#, Some("b")),
            (
                r#"{"_meta":{"hermes":{"sessionProvenance":{"acpSessionId":"b"}}}}"#,
                Some("b"),
            ),
            (
                r#"{"_meta":{"hermes":{"acpSessionId":"a","sessionId":"x","n":1e400}}}"#,
                None,
            ),
            (r#"{"acpSessionId":"b"}"#, None),
        ] {
            assert_eq!(other_session(answer, "a").as_deref(), other, "{answer}");
        }
    }
}
