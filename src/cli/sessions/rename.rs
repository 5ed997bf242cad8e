//! `rejoin rename`.

use crate::cli::exit::{Failure, IN_USE};
use crate::cli::socket;
use crate::cli::term::Output;
use rejoin::history::change_metadata;
use rejoin::record::metadata::MetadataChange;
use rejoin::session::link::message::Passed;
use rejoin::store::StoreError;

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
    let store = &context.store;
    match change_metadata(store, Some(&context.catalog), &id, &change) {
        Err(StoreError::InUse {
            holder: Some(holder),
            ..
        }) if holder.local_socket().is_some() => {
            let socket = holder.local_socket().unwrap_or_default();
            match socket::pass(store, socket, &id, &Passed::Metadata(change)) {
                Ok(Ok(())) => {}
                Ok(Err(refusal)) => return Err(Failure::with_code(IN_USE, refusal.to_string())),
                Err(error) => return Err(socket::unreachable(&holder, &error.to_string())),
            }
        }
        changed => changed?,
    }
    output.say(format!("{} is renamed", context.name(&id, output)?))
}
