//! `session/new`, `session/load` and `session/resume`: create a session, or open one that exists,
//! here or only in the wrapped agent.

use serde::Deserialize;

use crate::engine::SessionConfig;
use crate::json;
use crate::protocol::meta::FROM_MESSAGE;
use crate::server::error::{self, Error};
use crate::session::{Refusal, Registry, Reply, Request};
use crate::sys::SessionId;

use super::action::RequestAction;
use super::context::ConnectionContext;
use super::params::decode;
use super::workspace::{McpServersRule, existing, fresh};

/// Creates a session.
pub(super) fn new(context: &ConnectionContext, params: &str) -> Result<RequestAction, Error> {
    let mut config = fresh(params, context.servers(McpServersRule::Required))?;
    let id = context.deps().library.sys.ids.session();
    config.name = id.to_string();
    let name = config.name.clone();
    Ok(RequestAction::session(id, name, |reply| {
        Request::New(reply, config)
    }))
}

/// Replays a session, and goes on with it.
pub(super) fn load(context: &ConnectionContext, params: &str) -> Result<RequestAction, Error> {
    open(
        context,
        existing(params, McpServersRule::Required)?,
        ReplayRange::All,
    )
}

/// Goes on with a session, without a replay.
pub(super) fn resume(context: &ConnectionContext, params: &str) -> Result<RequestAction, Error> {
    if json::text_member(params, "replayFrom").is_some_and(|from| from != "null") {
        // The client would wait for a replay that never comes.
        return Err(error::invalid_params(
            "`replayFrom` is a parameter of version 2 of the protocol: session/load replays",
        ));
    }
    open(
        context,
        existing(params, McpServersRule::Optional)?,
        ReplayRange::Nothing,
    )
}

fn open(
    context: &ConnectionContext,
    mut config: SessionConfig,
    replay: ReplayRange,
) -> Result<RequestAction, Error> {
    let name = config.name.clone();
    let (id, import) =
        find(context, &name).inspect_err(|error| ConnectionContext::log_not_found(&name, error))?;
    if import && matches!(replay, ReplayRange::From(_)) {
        // The messages of the session get their ids when it is imported.
        return Err(error::refused(&name, Refusal::ReplayStartNotFound));
    }
    context.name(&name, &id);
    let name = if import {
        name
    } else {
        context.answered_as(name, &id)
    };
    context.name(&name, &id);
    config.name.clone_from(&name);
    if import {
        let replay = matches!(replay, ReplayRange::All);
        let send = move |registry: &Registry, reply| {
            import_or_open(registry, &id, reply, config, replay);
        };
        return Ok(RequestAction::sent(name, send));
    }
    Ok(RequestAction::session(
        id,
        name,
        move |reply| match replay {
            ReplayRange::Nothing => Request::Resume(reply, config),
            ReplayRange::All => Request::Load(reply, config),
            ReplayRange::From(message) => Request::LoadFrom {
                reply,
                config,
                message,
            },
        },
    ))
}

/// Imports a session that only the wrapped agent has, or opens it if another process is faster.
fn import_or_open(
    registry: &Registry,
    id: &SessionId,
    reply: Reply,
    config: SessionConfig,
    replay: bool,
) {
    let (after, same, again) = (registry.clone(), id.clone(), config.clone());
    let cancellation = reply.cancellation();
    let busy = registry.requests().begin();
    let first = Reply::new(busy, cancellation, move |answer| match answer {
        Err(Refusal::Imported) if replay => after.send(&same, Request::Load(reply, again)),
        Err(Refusal::Imported) => after.send(&same, Request::Resume(reply, again)),
        answer => drop(reply.send(answer)),
    });
    let import = Request::Import {
        reply: first,
        config,
        replay,
    };
    registry.send(id, import);
}

/// The session that a client means, and whether only the wrapped agent has it, so that it must be
/// imported.
pub(super) fn find(context: &ConnectionContext, name: &str) -> Result<(SessionId, bool), Error> {
    if context.wraps_agent() && context.is_deleted(name) {
        // Some agents accept any id, and the session would come back as an empty one.
        return Err(error::not_found(name));
    }
    match (context.find(name), agents_session(context, name)) {
        // The session may be under import now, which may fail.
        (Ok(id), Some(own)) if is_only_the_agents(context, &id, &own) => Ok((own, true)),
        (Ok(id), _) => Ok((id, false)),
        // The session may exist here under this name.
        (Err(error), _) if !error.is_not_found() => Err(error),
        (Err(_), Some(own)) => Ok((own, true)),
        (Err(error), None) => Err(error),
    }
}

/// Whether only the agent has the session with the id `id`, or, if it is imported, `imported`.
fn is_only_the_agents(context: &ConnectionContext, id: &SessionId, imported: &SessionId) -> bool {
    !context.is_stored(id) && (id == imported || !context.registry().has(id))
}

/// The id here of a session that the wrapped agent may have.
fn agents_session(context: &ConnectionContext, name: &str) -> Option<SessionId> {
    // Without a store, none is imported.
    let agent = context.upstream().filter(|_| context.is_persistent())?;
    let may_be_one = agent.may_have_sessions();
    may_be_one
        .then(|| context.id_of_agents_session(name))
        .flatten()
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Params {
    #[serde(default)]
    replay_from: Option<ReplayFrom>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReplayFrom {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    message_id: Option<String>,
}

/// Which part of a session is replayed.
enum ReplayRange {
    Nothing,
    All,
    From(String),
}

/// Goes on with a session in version 2, and replays as much of it as the client asks for.
pub(super) fn resume_from(
    context: &ConnectionContext,
    params: &str,
) -> Result<RequestAction, Error> {
    let config = existing(params, context.servers(McpServersRule::Optional))?;
    let replay = replay(params, context.is_persistent())?;
    open(context, config, replay)
}

fn replay(params: &str, is_persistent: bool) -> Result<ReplayRange, Error> {
    let Some(from) = decode::<Params>(params)?.replay_from else {
        return Ok(ReplayRange::Nothing);
    };
    let problem = match (from.kind.as_str(), from.message_id) {
        ("start", _) if is_persistent => return Ok(ReplayRange::All),
        ("start", _) => "`replayFrom` asks for a history, and with `--no-persist` none is kept",
        (FROM_MESSAGE, Some(message)) if is_persistent => return Ok(ReplayRange::From(message)),
        (FROM_MESSAGE, None) if is_persistent => "`replayFrom.messageId` is missing",
        _ => "`replayFrom.type` is not a known cursor",
    };
    Err(error::invalid_params(problem))
}
