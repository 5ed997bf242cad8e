//! `rejoin sessions prune`.

use std::time::Duration;

use crate::cli::count::count;
use crate::cli::exit::Failure;
use crate::cli::output::Output;
use crate::history::{Retired, has_aged, last_used, retire};
use crate::index::{Catalog, Listed};
use crate::store::Store;
use crate::sys::{Sys, Timestamp};

use super::age::age;
use super::list::line;

/// Which sessions are to go.
#[derive(Debug, clap::Args)]
#[group(id = "which", required = true, multiple = true)]
pub(super) struct Which {
    /// Only those whose last prompt is older, such as 90d, 12h or 2w; of a session that was never
    /// prompted, its making counts.
    #[arg(long, value_name = "AGE", value_parser = age)]
    older_than: Option<Duration>,
    /// Keep the N that were prompted last, however old they are.
    #[arg(long, value_name = "N")]
    keep: Option<usize>,
}

/// What to do.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(super) struct Args {
    #[command(flatten)]
    which: Which,
    /// Only say what would go.
    #[arg(long)]
    dry_run: bool,
}

pub(super) fn empty(args: &Args, output: &mut Output) -> Result<(), Failure> {
    done(args, 0, output)
}

pub(super) fn run(
    store: &Store,
    catalog: &Catalog,
    sys: &Sys,
    args: &Args,
    output: &mut Output,
) -> Result<(), Failure> {
    let mut gone = 0;
    for session in old(catalog, sys, &args.which)? {
        let what = if args.dry_run {
            Retired::Trashed
        } else {
            retire(store, catalog, &session)?
        };
        match what {
            Retired::Trashed => {
                gone += 1;
                output.line(line(&session))?;
            }
            Retired::InUse => output.line(format!("{} is in use and stays", session.id))?,
            Retired::Changed => {}
        }
    }
    done(args, gone, output)
}

/// The sessions that are to go, oldest first.
fn old(catalog: &Catalog, sys: &Sys, which: &Which) -> Result<Vec<Listed>, Failure> {
    let mut sessions = Vec::new();
    let mut after = None;
    loop {
        let some = catalog
            .every(after.as_ref())
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
        let age = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
        let now = sys.clock.now().as_millis();
        let before = Timestamp::from_millis(now.saturating_sub(age)).to_string();
        sessions.retain(|session| has_aged(&session.summary, &before));
    }
    Ok(sessions)
}

fn done(args: &Args, gone: usize, output: &mut Output) -> Result<(), Failure> {
    let sessions = count(gone, "session");
    output.line(match (args.dry_run, gone) {
        (true, _) => format!("{sessions} would go to the trash"),
        (false, 0) => format!("{sessions} moved to the trash"),
        (false, _) => {
            format!("{sessions} moved to the trash; `rejoin sessions restore` lists what is there")
        }
    })
}
