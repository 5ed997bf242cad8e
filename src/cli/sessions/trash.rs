//! `rejoin sessions trash`: what was deleted, and removing it for good.

use std::time::Duration;

use serde_json::json;

use crate::cli::count::count;
use crate::cli::exit::Failure;
use crate::cli::output::Output;
use crate::cli::terminal::agree;
use crate::history::long_before;
use crate::index::first_title;
use crate::store::{Store, Trashed};
use crate::sys::Timestamp;

use super::age::age;
use super::context::Context;
use super::list::one_line;

/// What to do with the trash.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List the sessions in the trash.
    List {
        /// Print a JSON array.
        #[arg(long)]
        json: bool,
    },
    /// Remove for good what is in the trash: deleted sessions, and torn ends that were cut off.
    Empty {
        /// Only what has been there for longer, such as 30d, 12h or 2w.
        #[arg(long, value_name = "AGE", value_parser = age)]
        older_than: Option<Duration>,
        /// Ask no question.
        #[arg(long, short)]
        yes: bool,
    },
}

pub(super) fn empty(args: &Args, output: &mut Output) -> Result<(), Failure> {
    match args.command {
        Command::List { json } => empty_list(json, output),
        Command::Empty { .. } => output.line(removed(0)),
    }
}

pub(super) fn run(context: &Context<'_>, args: &Args, output: &mut Output) -> Result<(), Failure> {
    match args.command {
        Command::List { json } => list(context, json, output),
        Command::Empty { older_than, yes } => remove(context, older_than, yes, output),
    }
}

fn removed(sessions: usize) -> String {
    format!("{} removed for good", count(sessions, "session"))
}

/// Removes for good what has been in the trash for longer than `age`.
fn remove(
    context: &Context<'_>,
    age: Option<Duration>,
    yes: bool,
    output: &mut Output,
) -> Result<(), Failure> {
    let store = &context.store;
    // Without an age, remove everything, also what a clock that was set back dates in the future.
    let all = Timestamp::from_millis(i64::MAX);
    let until = age.map_or(all, |age| long_before(context.sys.clock.now(), age));
    let sessions = || -> Result<usize, Failure> {
        let trashed = store.trashed()?;
        Ok(trashed.iter().filter(|trashed| trashed.at < until).count())
    };
    let there = sessions()?;
    if store.count_trash_before(until)? > 0 {
        let what = count(there, "session");
        agree(
            yes,
            &format!("Remove what is in the trash for good ({what})?"),
        )?;
    }
    store.empty_trash_before(until)?;
    output.line(removed(there.saturating_sub(sessions()?)))?;
    context.erase_from_catalog()
}

pub(super) fn empty_list(json: bool, output: &mut Output) -> Result<(), Failure> {
    if json {
        output.json(&json!([]))
    } else {
        Ok(())
    }
}

/// Shows the sessions in the trash.
pub(super) fn list(context: &Context<'_>, json: bool, output: &mut Output) -> Result<(), Failure> {
    let store = &context.store;
    let trashed = store.trashed()?;
    if trashed.is_empty() {
        let root = store.root().display();
        context.nothing(&format!("there are no sessions in the trash of {root}"));
    }
    if json {
        let each = trashed.iter().map(|trashed| {
            json!({
                "sessionId": trashed.id.as_str(),
                "deletedAt": trashed.at.to_string(),
                "title": title(store, trashed),
            })
        });
        return output.json(&each.collect());
    }
    for trashed in trashed {
        let title = title(store, &trashed);
        output.line(format!(
            "{}  deleted {}  {}",
            trashed.id,
            trashed.at,
            one_line(title.as_deref().unwrap_or("(no text)"))
        ))?;
        if output.closed() {
            break;
        }
    }
    Ok(())
}

/// The session's title; none if its log cannot be read.
fn title(store: &Store, trashed: &Trashed) -> Option<String> {
    let mut reader = store.read_trashed(trashed).ok()?;
    first_title(&mut reader).ok().flatten()
}
