//! `rejoin fork`.

use std::sync::Arc;

use clap::ArgGroup;

use crate::cli::exit::Failure;
use crate::cli::sources;
use crate::cli::term::Output;
use rejoin::history::{ForkAfterError, fork_after};
use rejoin::sys::SessionId;

use super::context::{CommandContext, OtherTools, unread};
use super::id::find;
use super::named::SESSION;

/// What to fork, and where.
#[derive(Debug, clap::Args)]
#[command(group(ArgGroup::new("place").args(["at", "tool_branch"]).required(true)))]
pub(in crate::cli) struct Args {
    #[arg(value_name = "ID", help = SESSION)]
    id: String,
    /// Keep the turns up to this one, by the number that `rejoin show` prints.
    #[arg(long, value_name = "TURN", value_parser = clap::value_parser!(u64).range(1..))]
    at: Option<u64>,
    /// Of a conversation of another tool that was continued here: what the tool has now, with what was
    /// said there since, and without what was said here.
    #[arg(long)]
    tool_branch: bool,
    #[command(flatten)]
    pub(super) sources: sources::Args,
}

pub(super) fn run(
    context: &CommandContext<'_>,
    args: &Args,
    output: &mut Output,
) -> Result<(), Failure> {
    let source = find(context, &args.id)?;
    let id = context.sys.ids.session();
    let Some(at) = args.at else {
        return fork_branch(context, &source, &id, output);
    };
    let forked = fork_after(&context.store, &context.catalog, &source, &id, at);
    forked.map_err(|error| failure(error, at))?;
    let (source, fork) = (context.name(&source, output)?, context.name(&id, output)?);
    output.say(format!("{source} is forked after turn {at}: {fork}"))
}

/// Forks what the tool of a session has now.
fn fork_branch(
    context: &CommandContext<'_>,
    source: &SessionId,
    id: &SessionId,
    output: &mut Output,
) -> Result<(), Failure> {
    let tools = context.tools()?.map(Arc::as_ref);
    let forked = match tools {
        Some(OtherTools { catalog, live }) => live
            .fork_branch(&context.store, catalog, source, id)
            .map_err(|error| unread(&error))?,
        None => false,
    };
    let name = context.name(source, output)?;
    if !forked {
        let why = format!("no tool that is shown has the conversation of {name}");
        return Err(Failure::new(why).hint("`--sources all` shows those of all tools"));
    }
    let fork = context.name(id, output)?;
    output.say(format!("{name} is forked as its tool has it: {fork}"))
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
