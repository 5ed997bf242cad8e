//! `rejoin proxy`: a component of a chain of ACP proxies; the next component answers prompts.

use std::sync::Arc;

use rejoin::engine::agent::WrappedEngine;
use rejoin::engine::proxy;
use rejoin::transport::stdio;

use crate::cli::exit::Failure;
use crate::cli::global::Global;
use crate::cli::serve;

use super::options;

/// How to be a proxy.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
#[group(id = "proxy")]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    agent: options::Args,
    /// Name under which the agent's sessions are stored. By default the agent's own name.
    #[arg(long, value_name = "NAME", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    name: Option<String>,
}

pub(in crate::cli) fn run(global: &Global, args: &Args) -> Result<(), Failure> {
    if args.agent.serve.keeps() {
        let why = "the sessions of a proxy end with its conductor";
        return Err(Failure::usage(why).hint("leave out `--keep`"));
    }
    let input = stdio::input().map_err(Failure::cannot_start)?;
    let limit = args.agent.serve.line_limit();
    let (port, client) = proxy::split(input, limit).map_err(Failure::cannot_start)?;
    let engine = WrappedEngine::successor(
        port,
        args.name.clone(),
        args.agent.policy(global, false, &[])?,
    );
    serve::on(global, &args.agent.serve, false, Arc::new(engine), client)
}
