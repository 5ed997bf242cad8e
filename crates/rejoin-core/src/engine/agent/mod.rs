//! Another agent, run as a subprocess or reached through a conductor, as the engine of our sessions.
//!
//! A single agent serves all sessions. It is started when it is needed, and again after it has
//! ended.
//! `process` starts it, `wire` exchanges messages with it, `parse` takes them apart as text, `ids` makes
//! their ids unique, and `route` sends them through the session's outlet into its log and to its client.
//! When the client opens a session, `session` has it created in the agent or opened there again.

mod capabilities;
mod ids;
mod members;
mod parse;
mod process;
mod route;
mod session;
mod shared_agent;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

pub use process::names::{AgentNames, DOWNLOAD_TIMEOUT, may_download};
pub use process::probe::{Introduced, probe};
pub use process::transport::Program;
pub use session::recall::{KEY, Lend, Lent, Reach, Recall};
pub use shared_agent::FOR_PEOPLE;

use crate::engine::proxy::Port;
use crate::engine::{
    AgentListQuery, BoxFuture, Caller, Conversation, Engine, EngineError, Foreign,
    InitializeOutcome, Introduction, Opening, Patience, Upstream,
};
use crate::protocol::method;
use crate::record::CurrentSettings;
use crate::record::header::Implementation;
use crate::transport::ClientConnection;

use process::transport::AgentSource;
use route::settings::AgentSettings;
use session::agent_session::AgentSession;
use session::not_found;
use shared_agent::Agent;
use wire::{extensions, list};

/// The name of a successor that has none in its `agentInfo`.
const DEFAULT_NAME: &str = "successor";

/// How sessions are opened in an agent.
#[derive(Clone, Debug)]
pub struct Policy {
    /// The maximum size of a briefing, in bytes.
    pub context_budget: usize,
    /// Whether the agent always gets a briefing, even if it may have the conversation.
    pub adopt: bool,
    /// How long the agent may take to start and to answer `initialize`.
    pub start_timeout: Duration,
    /// How long it may be silent while it creates or opens a session.
    pub load_timeout: Duration,
    /// How an agent that was handed a conversation looks it up, if sessions are stored.
    pub recall: Option<Recall>,
}

/// The engine that is another agent.
#[derive(Debug)]
pub struct WrappedEngine {
    agent: Arc<Agent>,
    policy: Policy,
}

impl WrappedEngine {
    /// An agent that is started by this program. The store has its sessions under its names, so these
    /// must stay the same.
    pub fn new(program: Program, names: AgentNames, policy: Policy) -> Self {
        Self::of(AgentSource::Program(program), names, policy, None)
    }

    /// An agent that is started by this program, and that the client is introduced to when the
    /// agent is first started.
    pub(in crate::engine) fn introduced(
        program: Program,
        names: AgentNames,
        policy: Policy,
        introduction: &Introduction,
    ) -> Self {
        let source = AgentSource::Program(program);
        Self::of(source, names, policy, Some(introduction))
    }

    /// The agent that is our successor. Without a name, the store has its sessions under the name
    /// that it reports.
    pub fn successor(port: Port, name: Option<String>, policy: Policy) -> Self {
        let names = name.map_or_else(|| AgentNames::asked(DEFAULT_NAME), AgentNames::chosen);
        Self::of(AgentSource::Successor(port), names, policy, None)
    }

    fn of(
        source: AgentSource,
        names: AgentNames,
        policy: Policy,
        introduction: Option<&Introduction>,
    ) -> Self {
        let mut agent = Agent::new(source, names, policy.start_timeout);
        if let Some(introduction) = introduction {
            agent = agent.introduced(introduction);
        }
        let agent = Arc::new(agent);
        Self { agent, policy }
    }

    /// The ways to sign in that the agent has offered, as JSON text.
    pub(in crate::engine) async fn sign_in_methods(&self) -> Option<String> {
        self.agent.sign_in_methods().await
    }
}

/// The members of the response of an agent that has opened a session, as far as the session's log has them.
pub fn answer_from_log(settings: &CurrentSettings) -> String {
    let agent = settings.agent.as_deref().unwrap_or_default();
    AgentSettings::response_from_log(settings, agent)
}

impl Engine for WrappedEngine {
    fn identity(&self) -> Implementation {
        let current = self.agent.current();
        Implementation {
            name: self.agent.name().to_owned(),
            version: current.and_then(|connection| connection.capabilities().version),
        }
    }

    fn open(&self, opening: Opening) -> Arc<dyn Conversation> {
        Arc::new(AgentSession::new(
            self.agent.clone(),
            self.policy.clone(),
            opening,
        ))
    }

    fn leave(&self, patience: Patience) -> BoxFuture<'static, ()> {
        let agent = self.agent.clone();
        Box::pin(async move { agent.leave(patience).await })
    }

    fn recorded_options(&self, settings: &CurrentSettings) -> String {
        answer_from_log(settings)
    }

    fn upstream(&self) -> Option<&dyn Upstream> {
        Some(self)
    }
}

impl Upstream for WrappedEngine {
    fn may_want_sign_in(&self) -> bool {
        self.agent.may_want_sign_in()
    }

    fn is_native(&self) -> bool {
        self.agent.is_native()
    }

    fn another(&self) -> Option<Arc<dyn Engine>> {
        let AgentSource::Program(program) = self.agent.source.clone() else {
            return None;
        };
        let names = self.agent.names.given.clone();
        Some(Arc::new(Self::new(program, names, self.policy.clone())))
    }

    fn connect(&self, client: Arc<ClientConnection>) {
        self.agent.connect(client);
    }

    fn initialize(&self, introduction: Introduction) -> BoxFuture<'static, InitializeOutcome> {
        let agent = self.agent.clone();
        Box::pin(async move { agent.greet(&introduction).await })
    }

    fn call(
        &self,
        caller: Caller,
        method: &str,
        params: &str,
        cancelled: BoxFuture<'static, ()>,
    ) -> BoxFuture<'static, Result<String, EngineError>> {
        let agent = self.agent.clone();
        let (method, params) = (method.to_owned(), params.to_owned());
        Box::pin(async move { agent.call(caller, &method, &params, cancelled).await })
    }

    fn notify(&self, method: &str, params: &str) {
        // An agent that does not run needs no notification.
        if let Some(connection) = self.agent.current() {
            let params = extensions::for_agent(&connection.routes, method, params.to_owned());
            connection.notify(method, &params);
        }
    }

    fn sessions(&self, asked: AgentListQuery) -> BoxFuture<'static, Result<Foreign, EngineError>> {
        let agent = self.agent.clone();
        Box::pin(async move {
            let connection = agent.current();
            let connection =
                connection.ok_or_else(|| EngineError::internal("the agent does not run"))?;
            if !connection.capabilities().list {
                // An agent need not have a list.
                return Ok(Foreign {
                    source: agent.name().to_owned(),
                    ..Foreign::default()
                });
            }
            list::page(&connection, agent.name(), asked).await
        })
    }

    fn names(&self) -> Vec<String> {
        self.agent.names.all()
    }

    fn may_have_sessions(&self) -> bool {
        let capabilities = self
            .agent
            .current()
            .map(|connection| connection.capabilities());
        // An agent that does not run is started and asked.
        capabilities.is_none_or(|capabilities| capabilities.load || capabilities.resume)
    }

    fn declares(&self, capability: &str) -> bool {
        self.agent.declares(capability)
    }

    fn is_subagent(&self, id: &str) -> bool {
        self.agent.is_subagent(id)
    }

    fn cancel_subagent(&self, id: &str, params: &str) {
        let current = self.agent.current();
        if let Some(connection) =
            current.filter(|connection| connection.routes.of_subagent(id).is_some())
        {
            connection.notify(method::SESSION_CANCEL, params);
        }
    }

    fn delete(&self, id: &str) -> BoxFuture<'static, Result<(), EngineError>> {
        let (agent, id, limit) = (self.agent.clone(), id.to_owned(), self.policy.load_timeout);
        let params = json!({ "sessionId": id }).to_string();
        Box::pin(async move {
            let current = agent.current();
            let able = current.filter(|connection| connection.capabilities().delete);
            let Some(connection) = able else {
                return Ok(());
            };
            let request = connection.request(method::SESSION_DELETE, &params);
            match request.outcome_within(method::SESSION_DELETE, limit).await {
                // What does not exist is deleted.
                Err(error) if !not_found::is_not_found(&error, &id) => Err(error),
                _ => Ok(()),
            }
        })
    }
}
