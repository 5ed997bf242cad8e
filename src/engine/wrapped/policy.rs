//! What is decided for all conversations with an agent.

/// How conversations are handed to an agent.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    /// The most bytes of a transcript.
    pub context_budget: usize,
    /// Whether the agent is always given a transcript, even if it may know the conversation.
    pub adopt: bool,
}
