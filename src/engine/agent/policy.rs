//! What is decided for all conversations with an agent.

use std::time::Duration;

/// How conversations are handed to an agent.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    /// The most bytes of a transcript.
    pub context_budget: usize,
    /// Whether the agent is always given a transcript, even if it may know the conversation.
    pub adopt: bool,
    /// How long the agent may take to start and to answer `initialize`.
    pub start_timeout: Duration,
    /// How long it may be silent before it has made or opened a session.
    pub load_timeout: Duration,
}
