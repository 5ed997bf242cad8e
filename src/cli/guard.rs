//! `rejoin guard`: ends a process that another rejoin has started, if that is killed. Started by
//! it, not by people.

use crate::engine::process::guard;
use crate::wire::stdio;

use super::exit::Failure;

/// What to guard.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Args {
    /// The process group.
    #[arg(value_parser = clap::value_parser!(u32).range(2..))]
    group: u32,
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let input = stdio::input().map_err(|error| Failure::new(format!("cannot start: {error}")))?;
    guard(input, args.group);
    Ok(())
}
