//! The options of the commands that pass prompts on to another agent.

use crate::engine::agent::{Policy, Recall};

use super::exit::Failure;
use super::global::Global;
use super::size::bytes;
use super::timeout::Timeout;
use super::{serve, store};

/// How to pass prompts on to another agent.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
#[group(id = "agent")]
pub(super) struct Args {
    #[command(flatten, next_help_heading = "Serve options")]
    pub(super) serve: serve::Args,
    /// Maximum size of the briefing given to an agent that has lost the conversation.
    #[arg(long, value_name = "SIZE", default_value = "64K", value_parser = bytes)]
    context_budget: usize,
    /// Give the agent a briefing of each session that is opened again, even if the agent may
    /// still have the conversation.
    #[arg(long)]
    adopt: bool,
    /// Time limit for the agent to start and to answer `initialize`, such as `30s`, or `none`.
    #[arg(long, value_name = "TIME", default_value = "30s")]
    start_timeout: Timeout,
    /// How long the agent may be silent while it creates or opens a session, or `none`.
    #[arg(long, value_name = "TIME", default_value = "2m")]
    load_timeout: Timeout,
    /// How long the agent may take to exit after its input was closed, or `none`.
    #[arg(long, value_name = "TIME", default_value = "2s")]
    pub(super) exit_timeout: Timeout,
}

impl Args {
    pub(super) fn policy(&self, global: &Global) -> Result<Policy, Failure> {
        let recall = match std::env::current_exe() {
            Ok(command) if self.serve.persists() => Some(Recall {
                command,
                store: store::root(global)?,
            }),
            _ => None,
        };
        Ok(Policy {
            context_budget: self.context_budget,
            adopt: self.adopt,
            start_timeout: self.start_timeout.or_forever(),
            load_timeout: self.load_timeout.or_forever(),
            recall,
        })
    }
}
