//! `rejoin proxy`: a component of a chain of proxies, whose prompts the next component answers.

use std::sync::Arc;

use crate::engine::agent::WrappedEngine;
use crate::engine::proxy;
use crate::transport::stdio;

use super::exit::Failure;
use super::global::Global;
use super::{handing, serve};

/// How to be a proxy.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
#[group(id = "proxy")]
pub(super) struct Args {
    #[command(flatten)]
    handing: handing::Args,
    /// The name by which the agent's sessions are known. By default the one that it gives itself.
    #[arg(long, value_name = "NAME", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    name: Option<String>,
}

pub(super) fn run(global: &Global, args: &Args) -> Result<(), Failure> {
    let cannot_start = |error| Failure::new(format!("cannot start: {error}"));
    let input = stdio::input().map_err(cannot_start)?;
    let limit = args.handing.serve.line_limit();
    let (port, client) = proxy::split(input, limit).map_err(cannot_start)?;
    let engine = WrappedEngine::successor(port, args.name.clone(), args.handing.policy());
    serve::on(global, &args.handing.serve, Arc::new(engine), client)
}
