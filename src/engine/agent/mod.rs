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
mod relay;
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

pub use identity::Names;
pub use policy::Policy;
pub use transport::Program;

use crate::engine::proxy::Port;
use crate::engine::{Conversation, Engine, Opening, Relay};
use crate::record::header::Implementation;

use conversation::AgentSession;
use relay::Front;
use shared_agent::Agent;
use transport::Source;

/// The name of a successor that does not say what it is called.
const NAMELESS: &str = "successor";

/// The engine that is another agent.
#[derive(Debug)]
pub struct WrappedEngine {
    agent: Arc<Agent>,
    policy: Policy,
    front: Front,
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
        let front = Front::new(agent.clone());
        Self {
            agent,
            policy,
            front,
        }
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

    fn relay(&self) -> Option<&dyn Relay> {
        Some(&self.front)
    }
}
