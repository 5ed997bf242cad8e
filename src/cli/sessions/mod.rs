//! `rejoin sessions`: what is kept, seen without a client.

mod age;
mod delete;
mod id;
mod list;
mod prune;
mod restore;
mod search;
mod show;
mod verify;

use std::sync::Arc;

use clap::Subcommand;

use crate::index::Catalog;
use crate::session::logs::StoreLogs;
use crate::store::{Durability, Store};
use crate::sys::Sys;

use super::exit::{Failure, NOT_FOUND};
use super::global::Global;
use super::output::Output;
use super::store;

/// What to do with the sessions.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the sessions that were prompted, newest first.
    List(list::Args),
    /// Find the sessions in which something was said, newest first.
    Search(search::Args),
    /// Show a conversation.
    Show(show::Args),
    /// Move sessions to the trash.
    Delete(delete::Args),
    /// Move sessions to the trash that were not prompted for long.
    Prune(prune::Args),
    /// Bring a session back from the trash; without an id, list what is there.
    Restore(restore::Args),
    /// Check that logs can be read whole. Changes nothing.
    Verify(verify::Args),
}

pub(super) fn run(global: &Global, args: &Args, output: &mut Output) -> Result<(), Failure> {
    let root = store::root(global)?;
    let sys = Sys::real();
    // Looking at a store that is not there makes none.
    if !Store::is_at(&root, &sys)? {
        return match &args.command {
            Command::List(args) => list::empty(args, output),
            Command::Search(args) => list::empty(&args.list, output),
            Command::Prune(args) => prune::empty(args, output),
            Command::Verify(args) if args.is_for_all() => verify::empty(args, output),
            Command::Restore(args) if args.is_for_all() => restore::empty(args, output),
            _ => Err(
                Failure::with_code(NOT_FOUND, "there are no sessions").hint(format!(
                    "the store would be {}; name another with --store",
                    root.display()
                )),
            ),
        };
    }
    let store = Store::open(&root, sys.clone(), Durability::Turn)?;
    match &args.command {
        Command::List(args) => list::run(&catalog(&store, &sys), args, output),
        Command::Search(args) => search::run(&catalog(&store, &sys), args, output),
        Command::Prune(args) => prune::run(&store, &catalog(&store, &sys), &sys, args, output),
        Command::Show(args) => show::run(&store, &catalog(&store, &sys), args, output),
        Command::Delete(args) => delete::run(&store, &catalog(&store, &sys), args, output),
        Command::Restore(args) => restore::run(&store, args, output),
        Command::Verify(args) => verify::run(&store, &catalog(&store, &sys), args, output),
    }
}

fn catalog(store: &Store, sys: &Sys) -> Catalog {
    let path = sys.disk.native_path(&store.root().join("index.sqlite"));
    Catalog::open(path.as_deref(), Arc::new(StoreLogs(store.clone())), sys)
}
