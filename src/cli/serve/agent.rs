//! `rejoin agent`: an ACP agent on stdin and stdout; the agents of this machine answer prompts.

use std::sync::Arc;

use rejoin::engine::choice::{self, ChoiceEngine, Config};
use rejoin::store::{Durability, Store};
use rejoin::sys::Sys;
use rejoin::transport::stdio;

use crate::cli::exit::Failure;
use crate::cli::global::Global;
use crate::cli::term::{note, stdin_is_terminal};
use crate::cli::{serve, store_path};

use super::options;

/// Which agent answers.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
#[group(id = "choice")]
pub(in crate::cli) struct Args {
    /// The agent of new sessions: its id in the ACP registry, such as `claude-acp`, its name, or its
    /// command. By default the one that was chosen last, or else the first that is found.
    #[arg(id = "chosen", long = "agent", value_name = "NAME", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    chosen: Option<String>,
    #[command(flatten)]
    options: options::Args,
}

pub(in crate::cli) fn run(global: &Global, args: &Args) -> Result<(), Failure> {
    let store = if args.options.serve.persists() {
        let root = store_path::named(global)?;
        Some(Store::at(&root, Sys::real(), Durability::Os))
    } else {
        None
    };
    let path = args.options.path()?;
    let path = path
        .or_else(|| std::env::var_os("PATH"))
        .unwrap_or_default();
    if let Some(chosen) = &args.chosen
        && let Some(why) = choice::no_agent_called(chosen, &path)
    {
        if stdin_is_terminal() {
            return Err(Failure::usage(why));
        }
        // Earlier sessions can be read without it, so clients are served in any case.
        note(global, &why, None);
    }
    let engine = ChoiceEngine::new(Config {
        path,
        agent: args.chosen.clone(),
        store,
        launch: args.options.launch(global)?,
        exit_timeout: args.options.exit_timeout.or_forever(),
        policy: args.options.policy(global, true, &[])?,
    });
    let input = stdio::input().map_err(Failure::cannot_start)?;
    serve::on(global, &args.options.serve, true, Arc::new(engine), input)
}
