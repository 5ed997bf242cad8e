//! `rejoin sessions trash`: lists deleted sessions, and removes them permanently.

use std::time::Duration;

use serde_json::json;

use crate::cli::count::count;
use crate::cli::exit::Failure;
use crate::cli::output::Output;
use crate::cli::page_file::{name_of, remove_page};
use crate::cli::terminal::confirm;
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
    /// Permanently remove deleted sessions, and torn ends of logs, from the trash.
    Empty {
        /// Only what has been in the trash for longer than AGE, such as 30d, 12h or 2w.
        #[arg(long, value_name = "AGE", value_parser = age)]
        older_than: Option<Duration>,
        /// Do not ask for confirmation.
        #[arg(long, short)]
        yes: bool,
    },
}

pub(super) fn empty(args: &Args, output: &mut Output) -> Result<(), Failure> {
    match args.command {
        Command::List { json } => super::list::empty(json, output),
        Command::Empty { .. } => output.line(Content::default().removed()),
    }
}

pub(super) fn run(context: &Context<'_>, args: &Args, output: &mut Output) -> Result<(), Failure> {
    match args.command {
        Command::List { json } => list(context, json, output),
        Command::Empty { older_than, yes } => remove(context, older_than, yes, output),
    }
}

/// What is in the trash.
#[derive(Debug, Default)]
struct Content {
    sessions: usize,
    torn_ends: usize,
}

impl Content {
    /// What has been in the trash since before `until`.
    fn before(store: &Store, until: Timestamp) -> Result<Self, Failure> {
        let files = store.count_trash_before(until)?;
        let trashed = store.trashed()?;
        let sessions = trashed.iter().filter(|trashed| trashed.at < until).count();
        Ok(Self {
            sessions,
            torn_ends: files.saturating_sub(sessions),
        })
    }

    fn without(&self, left: &Self) -> Self {
        Self {
            sessions: self.sessions.saturating_sub(left.sessions),
            torn_ends: self.torn_ends.saturating_sub(left.torn_ends),
        }
    }

    fn is_empty(&self) -> bool {
        self.sessions + self.torn_ends == 0
    }

    fn count(&self) -> String {
        let sessions = count(self.sessions, "session");
        match self.torn_ends {
            0 => sessions,
            torn => format!("{sessions} and {}", count(torn, "torn end")),
        }
    }

    fn removed(&self) -> String {
        format!("{} removed for good", self.count())
    }
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
    let found = Content::before(store, until)?;
    if !found.is_empty() {
        let question = format!("Remove what is in the trash for good ({})?", found.count());
        confirm(yes, &question)?;
    }
    for trashed in store.trashed()?.iter().filter(|one| one.at < until) {
        remove_page(&name_of(&trashed.id))?;
    }
    store.empty_trash(until)?;
    let left = Content::before(store, until)?;
    output.line(found.without(&left).removed())?;
    context.erase_from_catalog()
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
