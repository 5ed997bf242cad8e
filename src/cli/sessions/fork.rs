//! `rejoin fork`.

use crate::cli::exit::Failure;
use crate::cli::term::Output;
use rejoin::history::{ForkAfterError, fork_after};

use super::context::CommandContext;
use super::id::find;
use super::named::SESSION;

/// What to fork, and where.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    #[arg(value_name = "ID", help = SESSION)]
    id: String,
    /// Keep the turns up to this one, by the number that `rejoin show` prints.
    #[arg(long, value_name = "TURN", value_parser = clap::value_parser!(u64).range(1..))]
    at: u64,
}

pub(super) fn run(
    context: &CommandContext<'_>,
    args: &Args,
    output: &mut Output,
) -> Result<(), Failure> {
    let source = find(context, &args.id)?;
    let id = context.sys.ids.session();
    let forked = fork_after(&context.store, &context.catalog, &source, &id, args.at);
    forked.map_err(|error| failure(error, args.at))?;
    let (source, fork) = (context.name(&source, output)?, context.name(&id, output)?);
    output.say(format!("{source} is forked after turn {}: {fork}", args.at))
}

fn failure(error: ForkAfterError, turn: u64) -> Failure {
    match error {
        ForkAfterError::Store(error) => error.into(),
        error @ ForkAfterError::Turns(_) => {
            let hint = "`rejoin show` prints the numbers of the turns";
            Failure::usage(format!("there is no turn {turn}: {error}")).hint(hint)
        }
        ForkAfterError::Open => Failure::new(format!("turn {turn} has not ended"))
            .hint("wait for its end, or fork after an earlier one"),
    }
}
