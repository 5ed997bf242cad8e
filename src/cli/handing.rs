//! The options of the commands that stand in front of another agent.

use crate::engine::wrapped::Policy;

use super::serve;

/// How much of a conversation is handed to an agent that does not know it, by default, in bytes.
const CONTEXT: usize = 64 * 1024;

/// How to serve with another agent.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
#[group(id = "handing")]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) serve: serve::Args,
    /// How many bytes of the conversation an agent is given that does not know it any more.
    #[arg(long, value_name = "BYTES", default_value_t = CONTEXT)]
    context_budget: usize,
    /// Give the agent a transcript of each session that is opened again, even if it may know it.
    #[arg(long)]
    adopt: bool,
}

impl Args {
    pub(super) fn policy(&self) -> Policy {
        Policy {
            context_budget: self.context_budget,
            adopt: self.adopt,
        }
    }
}
