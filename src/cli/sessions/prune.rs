//! `rejoin prune`.

use std::time::Duration;

use crate::cli::exit::Failure;
use crate::cli::term::{Output, Progress, count};
use crate::cli::values::{duration, number};
use rejoin::history::{Expired, expire, has_aged, last_used, long_before};
use rejoin::index::Listed;

use super::context::CommandContext;
use super::list::{line, row};
use super::table::{ON_A_SCREEN, SessionTable, TableRow};

/// Which sessions to move.
#[derive(Debug, clap::Args)]
#[group(id = "which", required = true, multiple = true)]
pub(super) struct Which {
    /// Only sessions whose last activity (or creation, if never prompted) is older than AGE, such
    /// as 90d, 12h or 2w.
    #[arg(long, value_name = "AGE", value_parser = duration)]
    older_than: Option<Duration>,
    /// Keep the N most recently active sessions, however old they are.
    #[arg(long, value_name = "N", value_parser = number)]
    keep: Option<usize>,
}

/// What to do.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    which: Which,
    /// Only show what would be moved.
    #[arg(long)]
    dry_run: bool,
    /// List every session. By default a terminal shows only the first ones.
    #[arg(long, short)]
    verbose: bool,
}

pub(super) fn empty(args: &Args, output: &mut Output) -> Result<(), Failure> {
    output.say(summary(args, 0))
}

pub(super) fn run(
    context: &CommandContext<'_>,
    args: &Args,
    output: &mut Output,
) -> Result<(), Failure> {
    if context.store.ids()?.is_empty() {
        context.no_sessions();
    }
    let shown = if args.verbose || !output.is_terminal() {
        usize::MAX
    } else {
        ON_A_SCREEN
    };
    let mut moved = 0;
    let old = old(context, &args.which)?;
    let look = output.look().clone();
    let rows = for_people(context, &old, output)?;
    let table = SessionTable::of(look.width, "Used", &rows);
    if !rows.is_empty() {
        output.line(table.head().text(look.colour))?;
    }
    let mut progress = Progress::new();
    for (at, session) in old.iter().enumerate() {
        progress.at(|| format!("{at} of {} …", count(old.len(), "session")));
        let what = if args.dry_run {
            Expired::Trashed
        } else {
            expire(&context.store, &context.catalog, session)?
        };
        let line = match what {
            Expired::Trashed => {
                moved += 1;
                if moved > shown {
                    continue;
                }
                rows.get(at)
                    .map_or_else(|| line(session), |row| table.row(row).text(look.colour))
            }
            Expired::InUse => format!("{} is in use and was not moved", session.id),
            Expired::Changed => continue,
        };
        progress.clear();
        output.line(line)?;
    }
    drop(progress);
    if moved > shown {
        let more = count(moved - shown, "more session");
        output.line(format!("… and {more} (--verbose lists all)"))?;
    }
    output.say(context.global.with_store(&summary(args, moved)))
}

/// The sessions as people see them; none if the output is for a program.
fn for_people(
    context: &CommandContext<'_>,
    sessions: &[Listed],
    output: &Output,
) -> Result<Vec<TableRow>, Failure> {
    if !output.is_terminal() {
        return Ok(Vec::new());
    }
    let (short, now) = (context.short(&[])?, context.sys.clock.now());
    let rows = sessions
        .iter()
        .map(|session| row(session, short, output.look(), now));
    Ok(rows.collect())
}

/// The sessions to remove, oldest first.
fn old(context: &CommandContext<'_>, which: &Which) -> Result<Vec<Listed>, Failure> {
    let mut sessions = Vec::new();
    let mut after = None;
    loop {
        let some = context
            .reading(|catalog| catalog.every(after.as_ref()))
            .map_err(|error| Failure::new(format!("cannot list sessions: {error}")))?;
        let Some(last) = some.last() else { break };
        after = Some(last.id.clone());
        sessions.extend(some);
    }
    sessions.sort_by(|a, b| {
        let key = |session: &Listed| (last_used(&session.summary).to_owned(), session.id.clone());
        key(a).cmp(&key(b))
    });
    sessions.truncate(sessions.len().saturating_sub(which.keep.unwrap_or(0)));
    if let Some(age) = which.older_than {
        let before = long_before(context.sys.clock.now(), age).to_string();
        sessions.retain(|session| has_aged(&session.summary, &before));
    }
    Ok(sessions)
}

fn summary(args: &Args, moved: usize) -> String {
    let sessions = count(moved, "session");
    match (args.dry_run, moved) {
        (true, _) => format!("{sessions} would go to the trash"),
        (false, 0) => format!("{sessions} moved to the trash"),
        (false, _) => format!(
            "{sessions} moved to the trash; `rejoin restore` lists what is there, \
             with `--all` or `--deleted-within 10m` it brings them back"
        ),
    }
}
