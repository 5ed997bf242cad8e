//! `rejoin sessions`: works on stored sessions without a client.

pub(super) mod context;
mod delete;
mod fork;
pub(super) mod id;
pub(super) mod list;
pub(super) mod named;
pub(super) mod open_sessions;
pub(super) mod picker;
mod prune;
mod rename;
mod restore;
mod rewind;
mod search;
pub(super) mod show;
#[cfg(test)]
pub(in crate::cli) mod snapshots;
mod table;
mod take_over;
mod trash;
mod verify;

use clap::Subcommand;

use rejoin::store::place;
use rejoin::sys::Sys;

use super::exit::Failure;
use super::global::Global;
use super::sources::{self, SourceChoice};
use super::store_path;
use super::term::{Output, note};
use context::CommandContext;
pub(super) use search::{since, time_of};

/// What to do with the sessions.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    pub(super) command: SessionsCommand,
}

/// The commands for sessions.
#[derive(Debug, Subcommand)]
pub(super) enum SessionsCommand {
    /// List sessions that have a prompt, newest first.
    #[command(
        visible_alias = "ls",
        after_help = "Example:\n  rejoin list --cwd . -n 5"
    )]
    List(list::Args),
    /// Search the text of sessions.
    #[command(after_help = "Example:\n  rejoin search \"connection pool\" --since 7d")]
    Search(Box<search::Args>),
    /// Show a conversation.
    #[command(after_help = "Example:\n  rejoin show last --last 3")]
    Show(show::Args),
    /// Give a session another title.
    #[command(after_help = "Example:\n  rejoin rename last Fix the cache")]
    Rename(rename::Args),
    /// Make a new session of the first turns of one, to go on from there.
    #[command(after_help = "Example:\n  rejoin fork last --at 3")]
    Fork(fork::Args),
    /// Move sessions to the trash, or remove them permanently.
    #[command(
        visible_alias = "rm",
        after_help = "Example:\n  rejoin delete 1c2d3e4f"
    )]
    Delete(delete::Args),
    /// Move inactive sessions to the trash.
    #[command(after_help = "Example:\n  rejoin prune --older-than 90d --dry-run")]
    Prune(prune::Args),
    /// Restore sessions from the trash; without an ID, list the trash.
    #[command(after_help = "Example:\n  rejoin restore last")]
    Restore(restore::Args),
    /// List the trash, or empty it.
    Trash(trash::Args),
    /// Choose a session from a list: what `rejoin` alone does in a terminal.
    #[command(hide = true)]
    Pick,
    /// Let a session go on from an earlier turn, or bring back what that has undone.
    #[command(after_help = "Example:\n  rejoin rewind last --to 3")]
    Rewind(rewind::Args),
    /// Take a session from the process that has it open, if the store is a database.
    #[command(after_help = "Example:\n  rejoin take-over last")]
    TakeOver(take_over::Args),
    /// Check logs for damage. Changes nothing.
    #[command(after_help = "Example:\n  rejoin verify --json")]
    Verify(verify::Args),
}

/// The hint for somebody who has no conversations.
const FIRST_STEPS: &str = "`rejoin setup` puts rejoin in front of your editor's agents, `rejoin demo` \
    shows what it does, `rejoin --help` has the rest";

pub(super) fn run(
    global: &Global,
    command: &SessionsCommand,
    output: &mut Output,
) -> Result<(), Failure> {
    let root = store_path::root(global)?;
    let sys = Sys::real();
    // Reading must not create a store.
    let live = match command {
        SessionsCommand::Search(args) => args.sources.live(global, true)?,
        SessionsCommand::Show(args) => args.sources.live(global, true)?,
        SessionsCommand::List(args) => args.sources.live(global, true)?,
        SessionsCommand::Fork(args) => args.sources.live(global, true)?,
        SessionsCommand::Pick
        | SessionsCommand::Rename(_)
        | SessionsCommand::Rewind(_)
        | SessionsCommand::Delete(_) => sources::usual(global)?,
        _ => None,
    };
    // Commands that only say that they change nothing of other tools.
    let changes = matches!(
        command,
        SessionsCommand::Rename(_)
            | SessionsCommand::Fork(_)
            | SessionsCommand::Rewind(_)
            | SessionsCommand::Delete(_)
    );
    let shows_tools = !changes && live.as_ref().is_some_and(|live| live.are_there());
    if !shows_tools && !store_path::is_there(&root, &sys)? {
        let none = "there are no sessions";
        let place = place::shown(&root);
        let hint = match SourceChoice::Unset.live(global.store().is_none()) {
            Some(tools) if tools.are_there() => format!(
                "`rejoin list` has the conversations of other tools; the \
                 store would be {place}"
            ),
            _ => format!("the store would be {place}; name another with --store"),
        };
        match command {
            SessionsCommand::Pick => {
                note(
                    global,
                    "there are no conversations so far",
                    Some(FIRST_STEPS),
                );
                return Ok(());
            }
            SessionsCommand::List(args) => list::empty(args.json, output),
            SessionsCommand::Search(args) => list::empty(args.json, output),
            SessionsCommand::Prune(args) => prune::empty(args, output),
            SessionsCommand::Restore(args) if args.is_for_all() => list::empty(args.json, output),
            SessionsCommand::Trash(args) => trash::empty(args, output),
            // A store that does not exist has nothing to verify: more likely its name is wrong.
            _ => return Err(store_path::missing(&root)),
        }?;
        note(global, none, Some(&hint));
        return Ok(());
    }
    let context = CommandContext {
        live,
        ..CommandContext::open(global, &root, sys)?
    };
    perform(context, command, output)
}

fn perform(
    context: CommandContext<'_>,
    command: &SessionsCommand,
    output: &mut Output,
) -> Result<(), Failure> {
    match command {
        SessionsCommand::Pick => picker::run(&context, output),
        SessionsCommand::List(args) => list::run(&context, args, output),
        SessionsCommand::Search(args) => search::run(&context, args, output),
        SessionsCommand::Prune(args) => prune::run(&context, args, output),
        SessionsCommand::Show(args) => show::run(&context, args, output),
        SessionsCommand::Rename(args) => rename::run(&context, args, output),
        SessionsCommand::Fork(args) => fork::run(&context, args, output),
        SessionsCommand::Delete(args) => delete::run(&context, args, output),
        SessionsCommand::Restore(args) => restore::run(&context, args, output),
        SessionsCommand::Trash(args) => trash::run(&context, args, output),
        SessionsCommand::Rewind(args) => rewind::run(&context, args, output),
        SessionsCommand::TakeOver(args) => take_over::run(&context, args, output),
        SessionsCommand::Verify(args) => verify::run(&context, args, output),
    }
}
