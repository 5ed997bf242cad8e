//! Another agent, run as a child process or reached through a conductor, as the engine of our
//! sessions.
//!
//! One agent serves all sessions. It is started when it is needed, and again when it has ended.
//! What it says is read as text (`intake`, `shape`), and goes by way of each session's outlet into
//! its log and to its client. Sessions are made in the agent, or brought back to it (`restore`),
//! when the client opens them.

mod abilities;
mod shared_agent;
mod command;
mod conversation;
mod transport;
mod fold;
mod fork;
mod identity;
mod import;
mod intake;
mod link;
mod live;
mod past;
mod policy;
mod restore;
mod route;
mod said;
mod screens;
mod settings;
pub mod shape;
mod titles;
mod transcript;
mod unclaimed;

use std::sync::Arc;

use serde_json::{Map, Value, json};

pub use identity::Names;
pub use policy::Policy;
pub use transport::Program;

use crate::engine::proxy::Port;
use crate::engine::{
    Asked, BoxFuture, Conversation, Engine, EngineError, Foreign, Greeted, Opening, Patience,
};
use crate::json::{self, string_member};
use crate::record::header::Implementation;
use crate::transport::Wire;

use conversation::AgentSession;
use shared_agent::Agent;
use transport::Source;

/// The name of a successor that does not say what it is called.
const NAMELESS: &str = "successor";

/// The engine that is another agent.
#[derive(Debug)]
pub struct WrappedEngine {
    agent: Arc<Agent>,
    policy: Policy,
}

impl WrappedEngine {
    /// An agent that is started by this program. Its sessions are known by its names, which must
    /// stay the same.
    pub fn new(program: Program, names: Names, policy: Policy) -> Self {
        Self::of(Source::Program(program), names, policy)
    }

    /// The agent that is our successor. Without a name, its sessions are known by the name that it
    /// gives itself.
    pub fn successor(port: Port, name: Option<String>, policy: Policy) -> Self {
        let names = name.map_or_else(|| Names::asked(NAMELESS), Names::chosen);
        Self::of(Source::Successor(port), names, policy)
    }

    fn of(source: Source, names: Names, policy: Policy) -> Self {
        let agent = Arc::new(Agent::new(source, names, policy.start_timeout));
        Self { agent, policy }
    }
}

impl Engine for WrappedEngine {
    fn identity(&self) -> Implementation {
        let current = self.agent.current();
        Implementation {
            name: self.agent.name().to_owned(),
            version: current.and_then(|link| link.abilities().version),
        }
    }

    fn open(&self, opening: Opening) -> Arc<dyn Conversation> {
        Arc::new(AgentSession::new(self.agent.clone(), self.policy, opening))
    }

    /// Some agents queue them, some answer them at once, some refuse.
    fn takes_prompts_in_turns(&self) -> bool {
        true
    }

    fn may_want_sign_in(&self) -> bool {
        self.agent.may_want_sign_in()
    }

    fn wraps_agent(&self) -> bool {
        true
    }

    fn connect(&self, client: Arc<Wire>) {
        self.agent.connect(client);
    }

    fn initialize(&self, params: String) -> BoxFuture<'static, Greeted> {
        let agent = self.agent.clone();
        Box::pin(async move { agent.greet(&params).await })
    }

    fn call(
        &self,
        id: &str,
        method: &str,
        params: &str,
        cancelled: BoxFuture<'static, ()>,
    ) -> BoxFuture<'static, Result<String, EngineError>> {
        let agent = self.agent.clone();
        let (id, method, params) = (id.to_owned(), method.to_owned(), params.to_owned());
        Box::pin(async move { agent.call(&id, &method, &params, cancelled).await })
    }

    fn notify(&self, method: &str, params: &str) {
        // An agent that does not run needs no notification.
        if let Some(link) = self.agent.current() {
            link.notify(method, params);
        }
    }

    fn sessions(&self, asked: Asked) -> BoxFuture<'static, Result<Foreign, EngineError>> {
        let agent = self.agent.clone();
        Box::pin(async move {
            let link = agent.current();
            let link = link.ok_or_else(|| EngineError::internal("the agent does not run"))?;
            if !link.abilities().list {
                // An agent need not have a list.
                return Ok(Foreign {
                    source: agent.name().to_owned(),
                    ..Foreign::default()
                });
            }
            let mut params = Map::new();
            if let Some(cwd) = asked.cwd {
                params.insert("cwd".to_owned(), cwd.into());
            }
            if let Some(cursor) = asked.cursor {
                params.insert("cursor".to_owned(), cursor.into());
            }
            let params = Value::Object(params).to_string();
            let page = link.request("session/list", &params).outcome().await?;
            let mut sessions = Vec::new();
            if let Some(mut parts) = json::member_elements(page.as_bytes(), 0, "sessions") {
                while let Some(at) = parts.element() {
                    let entry = page.get(at).map(str::to_owned);
                    sessions.extend(entry.map(titles::listed));
                }
            }
            Ok(Foreign {
                source: agent.name().to_owned(),
                sessions,
                next_cursor: string_member(&page, "nextCursor"),
            })
        })
    }

    fn agent_names(&self) -> Vec<String> {
        let mut names = self.agent.other_names();
        names.push(self.agent.name().to_owned());
        names
    }

    fn may_have_sessions(&self) -> bool {
        let abilities = self.agent.current().map(|link| link.abilities());
        // One that does not run is started and asked.
        abilities.is_none_or(|abilities| abilities.load || abilities.resume)
    }

    fn declares(&self, capability: &str) -> bool {
        self.agent.declares(capability)
    }

    fn delete(&self, id: &str) -> BoxFuture<'static, Result<(), EngineError>> {
        let agent = self.agent.clone();
        let params = json!({ "sessionId": id }).to_string();
        Box::pin(async move {
            match agent.current().filter(|link| link.abilities().delete) {
                Some(link) => link
                    .request("session/delete", &params)
                    .outcome()
                    .await
                    .map(drop),
                None => Ok(()),
            }
        })
    }

    fn leave(&self, patience: Patience) -> BoxFuture<'static, ()> {
        let agent = self.agent.clone();
        Box::pin(async move { agent.leave(patience).await })
    }
}
