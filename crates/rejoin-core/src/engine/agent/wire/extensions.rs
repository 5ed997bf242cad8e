//! Ids of sessions and words of briefings in the agents' and clients' own messages and members. The
//! ids differ on the two sides; the words, which come from agents, are never shown to clients.
//!
//! Methods of their own begin with `_`, members of their own are in `_meta`.

use memchr::memmem;

use crate::json::{text_member, with_members, with_strings};
use crate::sys::lock;

use super::routes::AgentRoutes;
use crate::engine::agent::route::hidden_briefing::Briefed;

/// The name of a member that names a session.
const SESSION_ID: &str = "sessionId";

/// The name of the member for extensions.
const META: &str = "_meta";

/// Whether the parameters and the result of a method are an extension as a whole.
fn is_extension(method: &str) -> bool {
    method.starts_with('_')
}

/// The parameters or the result of a method for the client.
pub(in crate::engine::agent) fn for_client(
    routes: &AgentRoutes,
    method: &str,
    text: String,
) -> String {
    let changed = if is_extension(method) {
        translated(routes, &text)
    } else {
        meta_for_client(routes, &text)
    };
    changed.unwrap_or(text)
}

/// An object of the protocol with its `_meta` for the client; `None` if that does not differ.
fn meta_for_client(routes: &AgentRoutes, object: &str) -> Option<String> {
    let meta = text_member(object, META)?;
    let meta = translated(routes, meta)?;
    Some(with_members(object, &[], &[(META, &meta)]))
}

/// The parameters of a method for the agent.
pub(in crate::engine::agent) fn for_agent(
    routes: &AgentRoutes,
    method: &str,
    params: String,
) -> String {
    if !is_extension(method) || !mentions(&params, SESSION_ID) {
        return params;
    }
    let open = routes.all();
    let mut agent_id = |name: &str, value: &str| {
        let route = open.iter().find(|route| route.name() == value);
        let route = route.filter(|_| name == SESSION_ID)?;
        Some(lock(&route.agent_id).clone()).filter(|id| id != value)
    };
    with_strings(&params, &mut agent_id).unwrap_or(params)
}

fn translated(routes: &AgentRoutes, text: &str) -> Option<String> {
    let has_briefing = Briefed::may_be_in(text);
    if !has_briefing && !mentions(text, SESSION_ID) {
        return None;
    }
    let briefed: Vec<_> = if has_briefing {
        let open = routes.all();
        open.iter().filter_map(|route| route.briefed()).collect()
    } else {
        Vec::new()
    };
    let mut change = |name: &str, value: &str| {
        if name == SESSION_ID {
            let route = routes.get(value)?;
            return Some(route.name().to_owned()).filter(|name| name != value);
        }
        has_briefing.then(|| Briefed::hide(&briefed, value))?
    };
    with_strings(text, &mut change)
}

fn mentions(text: &str, word: &str) -> bool {
    memmem::find(text.as_bytes(), word.as_bytes()).is_some()
}
