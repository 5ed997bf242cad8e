//! `session/options` of a wrapped agent: the options with which a session would start.

use std::borrow::Cow;

use crate::engine::{Upstream, begun};
use crate::json::{self, string_member, with_members};
use crate::protocol::{ProtocolVersion, v2};
use crate::record::CurrentSettings;
use crate::server::error::{self, Error};
use crate::session::Refusal;
use crate::sys::{SessionId, blocking};
use crate::transport::IncomingRequest;

use super::action::RequestAction;
use super::context::ConnectionContext;
use super::forward;

/// Asks the agent. A session that is not open here is named to it by the agent's own id; if the agent has
/// none for it, the log says what the options were. Opens nothing.
pub(super) fn serve(
    context: &ConnectionContext,
    request: &IncomingRequest,
) -> Result<RequestAction, Error> {
    let IncomingRequest {
        method,
        params,
        responder,
    } = request;
    let Some(agent) = context.upstream() else {
        return forward::request(context, request);
    };
    let converts = context.version() == ProtocolVersion::V2 && !context.is_native();
    let convert = move |result: String| {
        if converts {
            v2::answer(&result, None)
        } else {
            result
        }
    };
    let mut params = Cow::from(params.as_str());
    if let Some(name) = string_member(&params, "sessionId") {
        let id = context.find(&name)?;
        if context.registry().has(&id) {
            return forward::request(context, request);
        }
        if !context.exists(&id) {
            return Err(error::not_found(&name));
        }
        let Some(own) = agents_id(context, &id) else {
            let recorded = recorded(context, agent, &name, &id)?;
            return Ok(RequestAction::Answer(convert(recorded)));
        };
        let named = with_members(&params, &[], &[("sessionId", &json::quoted(&own))]);
        params = named.into();
    }
    let call = begun(context.call(agent, responder, method, &params));
    Ok(RequestAction::Later(Box::pin(async move {
        (call.await.map(convert).map_err(Error::from), None)
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

/// The options according to the log, as the members of a result.
fn recorded(
    context: &ConnectionContext,
    agent: &dyn Upstream,
    name: &str,
    id: &SessionId,
) -> Result<String, Error> {
    let Some(store) = &context.deps().library.store else {
        return Err(error::not_found(name));
    };
    let scan = blocking(|| store.read(id)?.scan());
    let scan = scan.map_err(|error| error::refused(name, Refusal::from(error)))?;
    let CurrentSettings {
        options, answer, ..
    } = &scan.settings;
    let update = options.as_deref();
    let update = update.map(|options| json::text_member(options, "update").unwrap_or(options));
    let list = [update, answer.as_deref()].into_iter().flatten();
    let mut lists = list.filter_map(|object| json::text_member(object, "configOptions"));
    let list = lists.next().unwrap_or("[]");
    let result = json::Object::new().raw("configOptions", list).end();
    Ok(agent.recorded_options(&scan.settings, result))
}
