//! `rejoin rewind`.

use crate::cli::exit::{Failure, IN_USE, NOT_FOUND};
use crate::cli::socket;
use crate::cli::term::{Output, count};
use rejoin::NAME;
use rejoin::history::rewind;
use rejoin::record::RewindTarget;
use rejoin::session::Refusal;
use rejoin::session::link::message::Passed;
use rejoin::store::{RewindError, StoreError};

use super::context::CommandContext;
use super::id::find;
use super::named::SESSION;

/// Where to go back to.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    #[arg(value_name = "ID", help = SESSION)]
    id: String,
    /// Keep the turns 1 to N, with the numbers that `rejoin show` prints, and go on from there.
    #[arg(long, value_name = "N", required_unless_present = "undo")]
    to: Option<u64>,
    /// Bring back what the last rewind has undone. What was said since is undone then.
    #[arg(long, conflicts_with = "to")]
    undo: bool,
}

pub(super) fn run(
    context: &CommandContext<'_>,
    args: &Args,
    output: &mut Output,
) -> Result<(), Failure> {
    let id = find(context, &args.id)?;
    let name = context.name(&id, output)?;
    let target = args.to.map_or(RewindTarget::Undo, RewindTarget::Turns);
    let store = &context.store;
    match rewind(store, Some(&context.catalog), &id, &target, NAME) {
        Ok(()) => {}
        Err(RewindError::NoSuchPlace | RewindError::NotOfUser | RewindError::NothingUndone) => {
            return Err(no_such_place(args));
        }
        Err(RewindError::Store(StoreError::InUse {
            holder: Some(holder),
            ..
        })) => {
            let request = Passed::Rewind {
                target,
                client: Some(NAME.to_owned()),
            };
            match socket::pass(store, holder, &id, &request)? {
                Ok(()) => {}
                Err(Refusal::RewindPointNotFound) => return Err(no_such_place(args)),
                Err(refusal) => return Err(Failure::with_code(IN_USE, refusal.to_string())),
            }
        }
        Err(RewindError::Store(error)) => return Err(error.into()),
    }
    let turns = store.read(&id)?.scan()?.prompts.len();
    let turns = count(turns, "turn");
    output.say(format!(
        "{name} goes on with {turns}; files in its folder were not changed"
    ))
}

fn no_such_place(args: &Args) -> Failure {
    match args.to {
        Some(to) => Failure::with_code(
            NOT_FOUND,
            format!("nothing was said after turn {to}, or there is no such turn"),
        )
        .hint("`rejoin show` prints the turns with their numbers"),
        None => Failure::with_code(NOT_FOUND, "nothing was undone in this session"),
    }
}
