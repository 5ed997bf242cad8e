//! The options of the commands that pass prompts on to another agent.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rejoin::engine::agent::{DOWNLOAD_TIMEOUT, Policy, Reach, Recall, may_download};
use rejoin::engine::process::Launch;
use rejoin::store::place;

use crate::cli::exit::Failure;
use crate::cli::global::Global;
use crate::cli::values::{Timeout, bytes};
use crate::cli::{serve, sources, store_path};

use super::lend::Lender;

/// How long an agent may take to start and to answer `initialize`.
const START: Duration = Duration::from_secs(30);

/// How to pass prompts on to another agent.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
#[group(id = "agent")]
pub(super) struct Args {
    #[command(flatten, next_help_heading = "Serve options")]
    pub(super) serve: serve::Args,
    /// Folder that is searched for programs before those of PATH, also by the agent: the one of `node`,
    /// if an editor that is started from a desktop does not find it. May be repeated.
    #[arg(long = "path", value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    folders: Vec<PathBuf>,
    /// Maximum size of the briefing given to an agent that has lost the conversation.
    #[arg(long, value_name = "SIZE", default_value = "64K", value_parser = bytes)]
    context_budget: usize,
    /// Give the agent a briefing of each session that is opened again, even if the agent may
    /// still have the conversation.
    #[arg(long)]
    adopt: bool,
    /// Time limit for the agent to start and to answer `initialize`, such as `1m`, or `none`. By
    /// default `30s`, or `5m` for a command of `npx` or `uvx`, which may have to download it.
    #[arg(long, value_name = "TIME")]
    start_timeout: Option<Timeout>,
    /// How long the agent may be silent while it creates or opens a session, or `none`.
    #[arg(long, value_name = "TIME", default_value = "2m")]
    load_timeout: Timeout,
    /// How long the agent may take to exit after its input was closed, or `none`.
    #[arg(long, value_name = "TIME", default_value = "2s")]
    pub(super) exit_timeout: Timeout,
}

impl Args {
    /// Our `PATH`, behind the folders of `--path`; none without that option.
    pub(super) fn path(&self) -> Result<Option<OsString>, Failure> {
        if self.folders.is_empty() {
            return Ok(None);
        }
        let ours = std::env::var_os("PATH").unwrap_or_default();
        let folders = self
            .folders
            .iter()
            .cloned()
            .chain(std::env::split_paths(&ours));
        let joined = std::env::join_paths(folders);
        joined
            .map(Some)
            .map_err(|error| Failure::usage(format!("--path: {error}")))
    }

    /// How the agent is started.
    pub(super) fn launch(&self, global: &Global) -> Result<Launch, Failure> {
        Ok(Launch {
            path: self.path()?,
            ..store_path::launch(global)?
        })
    }

    /// How `rejoin mcp` reaches the conversations. What leads to a database stays with this process.
    fn reach(&self, global: &Global, lists_tools: bool) -> Result<Reach, Failure> {
        let (store, sources) = (store_path::named(global)?, self.serve.sources());
        if place::is_address(&store) {
            let sources = sources.live(global, lists_tools)?;
            return Ok(Reach::Through(Arc::new(Lender::new(store, sources))));
        }
        let sources = sources.named(global, lists_tools)?;
        Ok(Reach::Directly {
            store,
            env: sources::folders(&sources),
            sources,
        })
    }

    /// How an agent with this command is treated. `lists_tools` is as for `serve::on`.
    pub(super) fn policy(
        &self,
        global: &Global,
        lists_tools: bool,
        command: &[OsString],
    ) -> Result<Policy, Failure> {
        let recall = match std::env::current_exe() {
            Ok(command) if self.serve.persists() => {
                let reach = self.reach(global, lists_tools)?;
                Some(Recall { command, reach })
            }
            _ => None,
        };
        Ok(Policy {
            context_budget: self.context_budget,
            adopt: self.adopt,
            start_timeout: match self.start_timeout {
                Some(timeout) => timeout.or_forever(),
                None if may_download(command) => DOWNLOAD_TIMEOUT,
                None => START,
            },
            load_timeout: self.load_timeout.or_forever(),
            recall,
        })
    }
}
