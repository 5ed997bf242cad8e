//! `rejoin trash`: lists deleted sessions, and removes them permanently.

use std::cmp::Reverse;
use std::time::Duration;

use serde_json::json;

use crate::cli::exit::Failure;
use crate::cli::page_file::{name_of, remove_page};
use crate::cli::term::{Output, confirm, count, one_line};
use crate::cli::values::{self, duration};
use rejoin::engine::known::title;
use rejoin::history::long_before;
use rejoin::store::{Store, Trashed};
use rejoin::sys::Timestamp;

use super::context::CommandContext;
use super::list::more;
use super::named::{ShortIds, TrashedContent, UNTITLED};
use super::table::{ON_A_SCREEN, TableRow, print_table};

/// What to do with the trash.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(in crate::cli) struct Args {
    #[command(subcommand)]
    command: Option<TrashCommand>,
    #[command(flatten)]
    list: TrashListArgs,
}

/// The action of `rejoin trash`.
enum What<'a> {
    List(&'a TrashListArgs),
    Empty(Option<Duration>, bool),
}

impl Args {
    /// The action: to list the trash, if nothing else is said.
    fn what(&self) -> What<'_> {
        match &self.command {
            None => What::List(&self.list),
            Some(TrashCommand::List(list)) => What::List(list),
            Some(TrashCommand::Empty { older_than, yes }) => What::Empty(*older_than, *yes),
        }
    }
}

#[derive(Debug, clap::Subcommand)]
enum TrashCommand {
    /// List the sessions in the trash.
    #[command(
        visible_alias = "ls",
        after_help = "Example:\n  rejoin trash list -n 5"
    )]
    List(TrashListArgs),
    /// Permanently remove deleted sessions, and torn ends of logs, from the trash.
    #[command(after_help = "Example:\n  rejoin trash empty --older-than 30d")]
    Empty {
        /// Only what has been in the trash for longer than AGE, such as 30d, 12h or 2w.
        #[arg(long, value_name = "AGE", value_parser = duration)]
        older_than: Option<Duration>,
        /// Do not ask for confirmation.
        #[arg(long, short)]
        yes: bool,
    },
}

/// What to list.
#[derive(Debug, Default, clap::Args)]
pub(super) struct TrashListArgs {
    /// At most N sessions. By default a terminal shows the 20 that were deleted last.
    #[arg(long, short = 'n', value_name = "N", value_parser = values::limit)]
    pub(super) limit: Option<usize>,
    /// Every session, also on a terminal.
    #[arg(long, conflicts_with = "limit")]
    pub(super) all: bool,
    /// Print a JSON array.
    #[arg(long)]
    pub(super) json: bool,
}

pub(super) fn empty(args: &Args, output: &mut Output) -> Result<(), Failure> {
    match args.what() {
        What::List(args) => super::list::empty(args.json, output),
        What::Empty(..) => output.line(Amount::default().removed()),
    }
}

pub(super) fn run(
    context: &CommandContext<'_>,
    args: &Args,
    output: &mut Output,
) -> Result<(), Failure> {
    match args.what() {
        What::List(args) => list(context, args, "-n N or --all shows more", output),
        What::Empty(older_than, yes) => remove(context, older_than, yes, output),
    }
}

/// How much is in the trash.
#[derive(Debug, Default)]
struct Amount {
    sessions: usize,
    torn_ends: usize,
}

impl Amount {
    /// The amount that has been in the trash since before `until`.
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
    context: &CommandContext<'_>,
    age: Option<Duration>,
    yes: bool,
    output: &mut Output,
) -> Result<(), Failure> {
    let store = &context.store;
    // Without an age, remove everything, also what a clock that was set back dates in the future.
    let all = Timestamp::from_millis(i64::MAX);
    let until = age.map_or(all, |age| long_before(context.sys.clock.now(), age));
    let found = Amount::before(store, until)?;
    if !found.is_empty() {
        if !store.may_remove()? {
            let text = "this role of the database may not remove sessions permanently";
            let hint = "let the owner of the tables, or a role that was granted `janitor`, empty the trash";
            return Err(Failure::new(text).hint(hint));
        }
        let question = format!("Remove what is in the trash for good ({})?", found.count());
        confirm(yes, &question)?;
    }
    for trashed in store.trashed()?.iter().filter(|one| one.at < until) {
        remove_page(&name_of(&trashed.id))?;
    }
    store.empty_trash(until)?;
    let left = Amount::before(store, until)?;
    output.line(found.without(&left).removed())?;
    context.erase_from_catalog()
}

/// Shows the sessions in the trash; `how` says how to see more of them.
pub(super) fn list(
    context: &CommandContext<'_>,
    args: &TrashListArgs,
    how: &str,
    output: &mut Output,
) -> Result<(), Failure> {
    let store = &context.store;
    let mut trashed = store.trashed()?;
    if trashed.is_empty() {
        let root = store.root().display();
        context.nothing(&format!("there are no sessions in the trash of {root}"));
    }
    if output.is_terminal() && !args.json {
        return print(context, trashed, args, how, output);
    }
    trashed.truncate(args.limit.unwrap_or(usize::MAX));
    if args.json {
        let each = trashed.iter().map(|trashed| {
            json!({
                "sessionId": trashed.id.as_str(),
                "deletedAt": trashed.at.to_string(),
                "title": TrashedContent::of(store, trashed).title,
            })
        });
        return output.json(&each.collect());
    }
    for trashed in trashed {
        let title = TrashedContent::of(store, &trashed).title;
        output.line(format!(
            "{}  deleted {}  {}",
            trashed.id,
            trashed.at,
            one_line(title.as_deref().unwrap_or(UNTITLED))
        ))?;
        if output.closed() {
            break;
        }
    }
    Ok(())
}

/// Prints the sessions that were deleted last, for people.
fn print(
    context: &CommandContext<'_>,
    mut trashed: Vec<Trashed>,
    args: &TrashListArgs,
    how: &str,
    output: &mut Output,
) -> Result<(), Failure> {
    trashed.sort_by_key(|trashed| Reverse(trashed.at));
    let total = trashed.len();
    let short = ShortIds::of(trashed.iter().map(|trashed| &trashed.id));
    let usual = if args.all { usize::MAX } else { ON_A_SCREEN };
    trashed.truncate(args.limit.unwrap_or(usual));
    let look = output.look().clone();
    let now = context.sys.clock.now();
    let rows = trashed.iter().map(|trashed| {
        let content = TrashedContent::of(&context.store, trashed);
        TableRow {
            title: one_line(content.title.as_deref().unwrap_or(UNTITLED)),
            id: short.id(&trashed.id),
            agent: one_line(title(&content.agent)),
            when: look.when(trashed.at, now),
            folder: one_line(&look.folder(&content.cwd)),
            ..TableRow::default()
        }
    });
    let rows: Vec<TableRow> = rows.collect();
    print_table(&rows, "Deleted", output)?;
    if args.limit.is_none() {
        more(rows.len(), Some(total), how, output)?;
    }
    Ok(())
}
