//! Signs in to the agent that wants it. The client learns of no agent's own ways to sign in before it
//! has chosen one, so it gets one of ours, which begins theirs.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::engine::agent::WrappedEngine;
use crate::engine::known::FoundAgent;
use crate::engine::{BoxFuture, Caller, EngineError, Upstream};
use crate::json::{self, Members, string_member, text_elements};
use crate::protocol::method;
use crate::sys::lock;

use super::Agents;

/// The id of our own way to sign in.
const OWN: &str = "rejoin";

/// Our own way to sign in.
pub(super) fn method() -> Value {
    json!({
        "id": OWN,
        "name": "Sign in to the agent",
        "description": "Agents keep their own sign-in: this begins that of the agent which asks for it.",
        "type": "agent",
    })
}

/// Serves `authenticate`: in the agent that has this method, or, for our own, in the one that wants a
/// sign-in. Nothing is to be done if none does.
pub(super) async fn serve(
    agents: Arc<Agents>,
    caller: Caller,
    params: String,
    cancelled: BoxFuture<'static, ()>,
) -> Result<String, EngineError> {
    let wanted = string_member(&params, "methodId").unwrap_or_default();
    let waiting = lock(&agents.wants_sign_in).clone();
    let (engine, params) = if wanted == OWN {
        let Some(found) = waiting else {
            return Ok("{}".to_owned());
        };
        let Some(engine) = agents.engine_of(&found.id) else {
            return Ok("{}".to_owned());
        };
        let methods = engine.sign_in_methods().await.unwrap_or_default();
        let Some(own) = in_agent(&methods).find_map(|method| string_member(method, "id")) else {
            return Err(elsewhere(&found));
        };
        (engine, json!({ "methodId": own }).to_string())
    } else {
        let first = waiting.and_then(|found| agents.engine_of(&found.id));
        let all = first.into_iter().chain(agents.engines());
        let engine = with_method(all, &wanted).await.ok_or_else(|| {
            let message = format!("no agent has the sign-in `{}`", wanted.escape_debug());
            EngineError::invalid_params(message)
        })?;
        (engine, params)
    };
    let result = engine
        .call(caller, method::AUTHENTICATE, &params, cancelled)
        .await?;
    lock(&agents.wants_sign_in).take();
    Ok(result)
}

async fn with_method(
    engines: impl Iterator<Item = Arc<WrappedEngine>>,
    id: &str,
) -> Option<Arc<WrappedEngine>> {
    for engine in engines {
        let methods = engine.sign_in_methods().await.unwrap_or_default();
        if text_elements(&methods).any(|method| string_member(method, "id").as_deref() == Some(id))
        {
            return Some(engine);
        }
    }
    None
}

/// The methods that the agent carries out itself. In one of type `terminal` the client would start
/// rejoin with the agent's arguments, and one of type `env_var` needs another environment.
fn in_agent(methods: &str) -> impl Iterator<Item = &str> {
    text_elements(methods).filter(|method| {
        let kind = string_member(method, "type");
        matches!(kind.as_deref(), None | Some("agent"))
    })
}

/// The agent's sign-in cannot be begun from here.
fn elsewhere(found: &FoundAgent) -> EngineError {
    let message = format!(
        "{} cannot be signed in to from here: start `{}` in a terminal and sign in there, or set its \
         key in the environment of rejoin",
        found.name,
        found.program()
    );
    EngineError::named(EngineError::INTERNAL, "sign_in_elsewhere", message)
}

impl Agents {
    fn engine_of(&self, id: &str) -> Option<Arc<WrappedEngine>> {
        lock(&self.running).get(id).map(|one| one.engine.clone())
    }

    /// An error of an agent. If it wants its user to sign in, the error names its ways to do so, and
    /// the next sign-in is for this agent.
    pub(super) async fn failed(
        &self,
        found: &FoundAgent,
        engine: &WrappedEngine,
        mut error: EngineError,
    ) -> EngineError {
        if error.code != EngineError::SIGN_IN {
            return error;
        }
        *lock(&self.wants_sign_in) = Some(found.clone());
        let methods = engine.sign_in_methods().await.unwrap_or_default();
        let methods: Vec<&str> = in_agent(&methods).collect();
        let methods = format!("[{}]", methods.join(","));
        let data = error.data.as_deref().unwrap_or("{}");
        if data.starts_with('{') && json::text_member(data, "authMethods").is_none() {
            let own = Members::of(data).with("authMethods", methods);
            error.data = Some(own.with("agent", json!(found.name)).text());
        }
        error
    }
}
