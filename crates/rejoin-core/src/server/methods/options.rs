//! `session/options`: the options with which a session would start.

use serde::Deserialize;

use crate::engine::begun;
use crate::json::{self, Members, text_member, with_members};
use crate::protocol::{ProtocolVersion, v2};
use crate::record::CurrentSettings;
use crate::server::error::{self, Error};
use crate::session::Refusal;
use crate::sys::{SessionId, blocking};
use crate::transport::IncomingRequest;

use super::action::RequestAction;
use super::context::ConnectionContext;
use super::forward::{self, to_session};
use super::params::decode;

#[derive(Deserialize)]
struct Params {
    #[serde(default, rename = "sessionId")]
    session_id: Option<String>,
}

/// Asks the session or the agent. A session that is not open here is named to the agent by the agent's own
/// id; if the agent has none for it, or there is no agent, the log says what the options were. Opens
/// nothing.
pub(super) fn serve(
    context: &ConnectionContext,
    request: &IncomingRequest,
) -> Result<RequestAction, Error> {
    let IncomingRequest {
        method,
        params,
        responder,
    } = request;
    let Some(name) = decode::<Params>(params)?.session_id else {
        if context.wraps_agent() {
            return forward::request(context, request);
        }
        let new = CurrentSettings::default();
        return Ok(RequestAction::Answer(recorded(context, &new)));
    };
    let id = context.find(&name)?;
    if context.registry().has(&id) {
        return to_session(context, name, method, params);
    }
    if !context.exists(&id) {
        return Err(error::not_found(&name));
    }
    let agent = context.upstream();
    let Some((agent, own)) = agent.zip(agents_id(context, &id)) else {
        let settings = settings(context, &name, &id)?;
        return Ok(RequestAction::Answer(recorded(context, &settings)));
    };
    let converts = context.version() == ProtocolVersion::V2 && !context.is_native();
    // Agents of version 1 need not say their modes, which are an option in version 2.
    let modes = converts.then(|| modes(context, &name, &id)).transpose()?;
    let params = with_members(params, &[], &[("sessionId", &json::quoted(&own))]);
    let call = begun(context.call(agent, responder, method, &params));
    Ok(RequestAction::Later(Box::pin(async move {
        let result = call.await.map(|result| match modes {
            Some(modes) => {
                let mut all = Members::of(&result);
                if let Some(modes) = modes {
                    all.set_default("modes", modes);
                }
                v2::answer(&all.text(), None)
            }
            None => result,
        });
        (result.map_err(Error::from), None)
    })))
}

/// The last id that the agent has for a session.
fn agents_id(context: &ConnectionContext, id: &SessionId) -> Option<String> {
    let deps = context.deps();
    let catalog = deps.library.catalog.as_ref()?;
    let summary = blocking(|| catalog.find(id))?;
    let agent = deps.engine.identity().name;
    let mut known = summary.agent_ids.into_iter().rev();
    known
        .find(|known| known.agent == agent)
        .map(|known| known.id)
}

/// The settings in the log of a session.
fn settings(
    context: &ConnectionContext,
    name: &str,
    id: &SessionId,
) -> Result<CurrentSettings, Error> {
    let Some(store) = &context.deps().library.store else {
        return Err(error::not_found(name));
    };
    let scan = blocking(|| store.read(id)?.scan());
    let scan = scan.map_err(|error| error::refused(name, Refusal::from(error)))?;
    Ok(scan.settings)
}

/// The modes in the log of a session.
fn modes(context: &ConnectionContext, name: &str, id: &SessionId) -> Result<Option<String>, Error> {
    let engine = &context.deps().engine;
    let recorded = engine.recorded_options(&settings(context, name, id)?);
    Ok(text_member(&recorded, "modes").map(str::to_owned))
}

/// The options of a session with these settings, as a result.
fn recorded(context: &ConnectionContext, settings: &CurrentSettings) -> String {
    let recorded = context.deps().engine.recorded_options(settings);
    let mut all = Members::of(&recorded).without(&["models"]);
    all.set_default("configOptions", "[]");
    match context.version() {
        ProtocolVersion::V1 => all.text(),
        ProtocolVersion::V2 => v2::answer(&all.text(), None),
    }
}
