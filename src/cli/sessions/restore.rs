//! `rejoin restore`.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::cli::exit::{Failure, NOT_FOUND};
use crate::cli::term::{Output, Progress, count};
use crate::cli::values::duration;
use rejoin::history::long_before;
use rejoin::store::{StoreError, Trashed};
use rejoin::sys::SessionId;

use super::context::CommandContext;
use super::id::find_trashed;
use super::named::{LAST, SESSIONS};
use super::trash;

/// What to restore.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    #[arg(value_name = "ID", help = format!("{SESSIONS}; without one, the trash is listed"))]
    ids: Vec<String>,
    /// Restore all sessions in the trash.
    #[arg(long, conflicts_with_all = ["ids", "json"])]
    all: bool,
    /// Restore the sessions that were deleted within AGE, such as 10m, 12h or 2d, for example to
    /// undo a `prune`.
    #[arg(long, value_name = "AGE", value_parser = duration, conflicts_with_all = ["ids", "json", "all"])]
    deleted_within: Option<Duration>,
    /// Print the list as a JSON array.
    #[arg(long, conflicts_with = "ids")]
    pub(super) json: bool,
}

impl Args {
    /// Whether no session is named, so that none need exist.
    pub(super) fn is_for_all(&self) -> bool {
        self.ids.is_empty()
    }
}

pub(super) fn run(
    context: &CommandContext<'_>,
    args: &Args,
    output: &mut Output,
) -> Result<(), Failure> {
    let trashed = context.store.trashed()?;
    if let Some(age) = args.deleted_within {
        let from = long_before(context.sys.clock.now(), age);
        let recent = trashed.into_iter().filter(|trashed| trashed.at >= from);
        return restore_all(context, recent.collect(), output);
    }
    if args.all {
        return restore_all(context, trashed, output);
    }
    if args.ids.is_empty() {
        let list = trash::TrashListArgs {
            json: args.json,
            ..trash::TrashListArgs::default()
        };
        return trash::list(context, &list, "`trash list --all` shows more", output);
    }
    for text in &args.ids {
        let absent = || {
            if trashed.is_empty() && text == LAST {
                return Failure::with_code(NOT_FOUND, "the trash is empty");
            }
            Failure::with_code(NOT_FOUND, format!("session {text} is not in the trash"))
                .hint("run `rejoin trash list` to see the trash")
        };
        let id = find_trashed(context, &trashed, text)?.ok_or_else(absent)?;
        context.store.restore(&id).map_err(|error| match error {
            StoreError::NotFound { .. } => absent(),
            error => error.into(),
        })?;
        output.say(format!("{} is back", context.name(&id, output)?))?;
    }
    Ok(())
}

/// Restores the newest log of each session, and continues if one cannot be restored.
fn restore_all(
    context: &CommandContext<'_>,
    trashed: Vec<Trashed>,
    output: &mut Output,
) -> Result<(), Failure> {
    // The logs are sorted by time, so the newest comes last and replaces the others.
    let newest: BTreeMap<SessionId, Trashed> = trashed
        .into_iter()
        .map(|trashed| (trashed.id.clone(), trashed))
        .collect();
    let (mut restored, mut failed) = (0, 0);
    let mut progress = Progress::new();
    for trashed in newest.values() {
        progress.at(|| format!("{} restored …", count(restored, "session")));
        match context.store.restore_trashed(trashed) {
            Ok(()) => restored += 1,
            // Another process restored it or removed it.
            Err(StoreError::NotFound { .. }) => {}
            Err(error) => {
                progress.clear();
                context.nothing(&error.to_string());
                failed += 1;
            }
        }
    }
    drop(progress);
    output.line(format!("{} restored", count(restored, "session")))?;
    match failed {
        0 => Ok(()),
        failed => Err(Failure::new(format!(
            "{} could not be restored",
            count(failed, "session")
        ))),
    }
}
