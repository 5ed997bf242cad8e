//! `rejoin guard`: ends the processes that another rejoin started, when that rejoin has died.
//!
//! Another rejoin starts it; users do not.

use std::time::Duration;

use rejoin::engine::process::{LEAVES, guard};
use rejoin::transport::stdio;

use crate::cli::exit::Failure;

/// What to guard.
#[derive(Clone, Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// The process group.
    #[arg(value_parser = clap::value_parser!(u32).range(2..))]
    group: u32,
    /// How long it may take to exit on its own, in milliseconds.
    #[arg(default_value_t = LEAVES.as_millis().try_into().unwrap_or(u64::MAX))]
    leaves: u64,
}

pub(in crate::cli) fn run(args: &Args) -> Result<(), Failure> {
    let input = stdio::input().map_err(Failure::cannot_start)?;
    let leaves = Duration::from_millis(args.leaves);
    guard(input, stdio::given(), args.group, leaves);
    Ok(())
}
