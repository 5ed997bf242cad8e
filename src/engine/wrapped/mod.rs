//! Another agent, run as a child process or reached through a conductor, as the engine of our
//! sessions.
//!
//! One agent serves all sessions. It is started when it is needed, and again when it has ended.
//! What it says is read as text (`intake`, `shape`), and goes by way of each session's outlet into
//! its log and to its client. Sessions are made in the agent, or brought back to it (`restore`),
//! when the client opens them.

mod abilities;
mod agent;
mod child;
mod conversation;
mod far_end;
mod fold;
mod import;
mod intake;
mod link;
mod past;
mod policy;
mod relay;
mod restore;
mod route;
mod said;
mod screens;
mod settings;
pub mod shape;
mod transcript;
mod unclaimed;

use std::sync::Arc;

pub use child::Program;
pub use policy::Policy;

use crate::engine::successor::Port;
use crate::engine::{Conversation, Engine, Opening, Relay};
use crate::record::header::Party;

use agent::Agent;
use conversation::Talk;
use far_end::Source;
use relay::Front;

/// The engine that is another agent.
#[derive(Debug)]
pub struct WrappedEngine {
    agent: Arc<Agent>,
    policy: Policy,
    front: Front,
}

impl WrappedEngine {
    /// An agent that is started by this program. `name` is what its sessions are known by; it must
    /// stay the same.
    pub fn new(program: Program, name: String, policy: Policy) -> Self {
        Self::of(Source::Program(program), Some(name), policy)
    }

    /// The agent that is our successor. Without a name, its sessions are known by the name that it
    /// gives itself.
    pub fn successor(port: Port, name: Option<String>, policy: Policy) -> Self {
        Self::of(Source::Successor(port), name, policy)
    }

    fn of(source: Source, name: Option<String>, policy: Policy) -> Self {
        let agent = Arc::new(Agent::new(source, name));
        let front = Front::new(agent.clone());
        Self {
            agent,
            policy,
            front,
        }
    }
}

impl Engine for WrappedEngine {
    fn identity(&self) -> Party {
        let current = self.agent.current();
        Party {
            name: self.agent.name().to_owned(),
            version: current.and_then(|link| link.abilities().version),
        }
    }

    fn open(&self, opening: Opening) -> Arc<dyn Conversation> {
        Arc::new(Talk::new(self.agent.clone(), self.policy, opening))
    }

    fn relay(&self) -> Option<&dyn Relay> {
        Some(&self.front)
    }
}
