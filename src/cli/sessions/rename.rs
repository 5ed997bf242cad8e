//! `rejoin rename`.

use crate::cli::exit::{Failure, IN_USE};
use crate::cli::socket;
use crate::cli::term::Output;
use rejoin::history::change_metadata;
use rejoin::record::metadata::MetadataChange;
use rejoin::session::link::message::Passed;
use rejoin::store::StoreError;
use rejoin::sys::SessionId;

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
    let id = find(context, &args.id)?;
    set_title(context, &id, &args.title.join(" "))?;
    output.say(format!("{} is renamed", context.name(&id, output)?))
}

/// Gives a session another title, also if another process has it open.
pub(super) fn set_title(
    context: &CommandContext<'_>,
    id: &SessionId,
    title: &str,
) -> Result<(), Failure> {
    let change = MetadataChange::title(title)
        .ok_or_else(|| Failure::usage("the title has no visible character"))?;
    let store = &context.store;
    match change_metadata(store, Some(&context.catalog), id, &change) {
        Err(StoreError::InUse {
            holder: Some(holder),
            ..
        }) => socket::pass(store, holder, id, &Passed::Metadata(change))?
            .map_err(|refusal| Failure::with_code(IN_USE, refusal.to_string())),
        changed => Ok(changed?),
    }
}
