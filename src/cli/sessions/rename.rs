//! `rejoin rename`.

use crate::cli::exit::Failure;
use crate::cli::term::Output;
use rejoin::history::change_metadata;
use rejoin::record::metadata::MetadataChange;

use super::context::CommandContext;
use super::id::find;
use super::named::SESSION;

/// What to rename.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    #[arg(value_name = "ID", help = SESSION)]
    id: String,
    /// Its new title.
    #[arg(value_name = "TITLE", required = true)]
    title: Vec<String>,
}

pub(super) fn run(
    context: &CommandContext<'_>,
    args: &Args,
    output: &mut Output,
) -> Result<(), Failure> {
    let change = MetadataChange::title(&args.title.join(" "))
        .ok_or_else(|| Failure::usage("the title has no visible character"))?;
    let id = find(context, &args.id)?;
    change_metadata(&context.store, Some(&context.catalog), &id, &change)?;
    output.say(format!("{} is renamed", context.name(&id, output)?))
}
