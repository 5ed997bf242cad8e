//! `rejoin delete`.

use std::collections::BTreeSet;

use crate::cli::exit::{Failure, IN_USE};
use crate::cli::page_file::{name_of, remove_page};
use crate::cli::socket::{in_use, stop_session};
use crate::cli::term::{Output, confirm, count};
use rejoin::store::StoreError;
use rejoin::sys::SessionId;

use super::context::CommandContext;
use super::id::{find, find_anywhere};
use super::named::SESSIONS;

/// What to delete.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    #[arg(value_name = "ID", required = true, help = SESSIONS)]
    ids: Vec<String>,
    /// Remove them permanently, with their copies in the trash and their words in the search index.
    #[arg(long)]
    forever: bool,
    /// Stop sessions that are open, for all their clients.
    #[arg(long)]
    force: bool,
    /// Do not ask for confirmation.
    #[arg(long, short, requires = "forever")]
    yes: bool,
}

pub(super) fn run(
    context: &CommandContext<'_>,
    args: &Args,
    output: &mut Output,
) -> Result<(), Failure> {
    if args.forever {
        return forever(context, args, output);
    }
    let ids = args.ids.iter().map(|text| find(context, text));
    for id in ids.collect::<Result<Vec<_>, _>>()? {
        let name = context.name(&id, output)?;
        if args.force {
            stop_session(&context.store, &id, false)?;
        }
        to_trash(context, &id).map_err(|failure| or_force(failure, args))?;
        let shown = if output.is_terminal() {
            "last".to_owned()
        } else {
            id.to_string()
        };
        output.say(context.global.with_store(&format!(
            "{name} is in the trash; `rejoin restore {shown}` brings it back"
        )))?;
    }
    Ok(())
}

/// A failure whose hint says what to do if a session is in use.
fn or_force(failure: Failure, args: &Args) -> Failure {
    if failure.code() != IN_USE {
        failure
    } else if args.force {
        // The session was stopped, and opened again since, or cannot be stopped from here.
        failure.hint("close the session there first")
    } else {
        failure.hint("add `--force`, which ends that first")
    }
}

/// Moves a session to the trash.
pub(super) fn to_trash(context: &CommandContext<'_>, id: &SessionId) -> Result<(), Failure> {
    let before = context.catalog.before_change();
    let trashed = context.store.trash(id);
    if !trashed.map_err(|error| in_use(&context.store, error))? {
        return Err(StoreError::NotFound { id: id.clone() }.into());
    }
    context.catalog.removed(id, before);
    Ok(())
}

fn forever(context: &CommandContext<'_>, args: &Args, output: &mut Output) -> Result<(), Failure> {
    let ids = args.ids.iter().map(|text| find_anywhere(context, text));
    let ids: BTreeSet<SessionId> = ids.collect::<Result<_, _>>()?;
    for id in &ids {
        if !context.store.has_traces_of(id)? {
            // Its words may remain if its files were removed by hand.
            context.erase_from_catalog()?;
            return Err(StoreError::NotFound { id: id.clone() }.into());
        }
    }
    let question = match ids.first() {
        Some(id) if ids.len() == 1 => {
            format!("Remove {} for good?", context.name(id, output)?)
        }
        _ => format!("Remove {} for good?", count(ids.len(), "session")),
    };
    confirm(args.yes, &question)?;
    let removed = ids.iter().try_for_each(|id| {
        let name = context.name(id, output)?;
        if args.force {
            stop_session(&context.store, id, false)?;
        }
        let before = context.catalog.before_change();
        context
            .store
            .erase(id)
            .map_err(|error| or_force(in_use(&context.store, error), args))?;
        remove_page(&name_of(id))?;
        context.catalog.removed(id, before);
        output.say(format!("{name} is removed for good"))
    });
    // Even if one of them is in use: others may have been removed.
    let erased = context.erase_from_catalog();
    removed.and(erased)
}
