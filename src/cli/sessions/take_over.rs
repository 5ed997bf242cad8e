//! `rejoin take-over`.

use crate::cli::exit::Failure;
use crate::cli::term::Output;
use rejoin::store::StoreError;

use super::context::CommandContext;
use super::id::find;
use super::named::SESSION;

/// What to take over.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    #[arg(value_name = "ID", help = SESSION)]
    id: String,
}

/// Takes a session from the process that has it open, and lets it go, so that any process can open
/// it.
pub(super) fn run(
    context: &CommandContext<'_>,
    args: &Args,
    output: &mut Output,
) -> Result<(), Failure> {
    let id = find(context, &args.id)?;
    let name = context.name(&id, output)?;
    let holder = context.store.holder(&id);
    match context.store.take_over_with(&id, &mut |_| {}) {
        Ok(opened) => drop(opened),
        Err(error @ StoreError::InUse { .. }) => {
            return Err(Failure::from(error)
                .hint("end that process: files cannot be taken from a process that runs"));
        }
        Err(error) => return Err(error.into()),
    }
    match holder {
        Some(holder) => output.say(format!(
            "{name} was taken from process {} on host {}",
            holder.pid, holder.host
        )),
        None => output.say(format!("{name} was open nowhere")),
    }
}
