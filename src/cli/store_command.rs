//! `rejoin store`: stores as a whole.

use std::path::PathBuf;

use clap::Subcommand;
use serde_json::{Value, json};

use rejoin::index::Catalog;
#[cfg(feature = "store-postgres")]
use rejoin::store::Rights;
use rejoin::store::place::{is_address, shown};
use rejoin::store::{Copied, Durability, Store, StoreError, Trashed};
use rejoin::sys::{SessionId, Sys, Zone};

use super::exit::Failure;
use super::global::Global;
use super::sessions;
use super::store_path;
use super::term::{Output, Progress, count};

/// What to do.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: StoreCommand,
}

#[derive(Debug, Subcommand)]
enum StoreCommand {
    /// Make the tables of a store in PostgreSQL, or bring them up to date.
    #[command(
        after_help = "Example:\n  rejoin store migrate --store postgres://rejoin@localhost/work"
    )]
    Migrate,
    /// Let a role of the database use a store in PostgreSQL.
    #[command(
        after_help = "Example:\n  rejoin store grant --as writer agents --store postgres://rejoin@localhost/work"
    )]
    Grant(GrantArgs),
    /// Check that a store can be reached and is of a known version.
    Check,
    /// Copy sessions from one store to another, byte for byte.
    #[command(
        after_help = "Example:\n  rejoin store copy --from ~/acp --to postgres://rejoin@localhost/work"
    )]
    Copy(CopyArgs),
}

#[derive(Debug, clap::Args)]
struct GrantArgs {
    /// Role of the database, which must exist.
    #[arg(value_name = "ROLE")]
    role: String,
    /// What the role is for.
    #[arg(long = "as", value_name = "KIND")]
    kind: RoleKind,
}

/// What a role of a database is for.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum RoleKind {
    /// It sees sessions.
    Reader,
    /// It also makes sessions and appends to them, and changes or removes nothing in a log.
    Writer,
    /// It also removes what is in the trash.
    Janitor,
}

#[derive(Debug, clap::Args)]
struct CopyArgs {
    /// Store to copy from: a folder or a `postgres://` address.
    #[arg(long, value_name = "PLACE")]
    from: PathBuf,
    /// Store to copy to: a folder or a `postgres://` address.
    #[arg(long, value_name = "PLACE")]
    to: PathBuf,
    /// Copy this session only; may be repeated.
    #[arg(long = "session", value_name = "ID")]
    sessions: Vec<String>,
    /// Only sessions written to since then: an age such as `7d`, a date, or a time.
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Read each copy and compare it with the original.
    #[arg(long)]
    verify: bool,
    /// Move what was copied to the trash of the store from which it comes, once it was compared.
    #[arg(long = "move")]
    moves: bool,
    /// Print a JSON array with what became of each session.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(global: &Global, args: &Args, output: &mut Output) -> Result<(), Failure> {
    match &args.command {
        StoreCommand::Migrate => migrate(global, output),
        StoreCommand::Grant(grant) => self::grant(global, grant, output),
        StoreCommand::Check => check(global, output),
        StoreCommand::Copy(copy) => copy_all(copy, output),
    }
}

fn migrate(global: &Global, output: &mut Output) -> Result<(), Failure> {
    let root = store_path::root(global)?;
    let made = Store::migrate(&root, &Sys::real())?;
    let shown = shown(&root);
    if made {
        output.say(format!("made the store at {shown}"))
    } else {
        output.say(format!("the store at {shown} is up to date"))
    }
}

#[cfg(feature = "store-postgres")]
fn grant(global: &Global, args: &GrantArgs, output: &mut Output) -> Result<(), Failure> {
    let root = store_path::root(global)?;
    if !is_address(&root) {
        return Err(Failure::usage("a store in a folder has no roles")
            .hint("name the address of a store in PostgreSQL with --store"));
    }
    let (rights, kind) = match args.kind {
        RoleKind::Reader => (Rights::Read, "reader"),
        RoleKind::Writer => (Rights::Write, "writer"),
        RoleKind::Janitor => (Rights::Clean, "janitor"),
    };
    Store::grant(&root, &args.role, rights)?;
    output.line(format!("{} is a {kind} of {}", args.role, shown(&root)))
}

#[cfg(not(feature = "store-postgres"))]
fn grant(_: &Global, args: &GrantArgs, _: &mut Output) -> Result<(), Failure> {
    let (role, kind) = (&args.role, args.kind);
    Err(Failure::usage(format!(
        "cannot make {role} a {kind:?}: this rejoin was built without the feature store-postgres"
    )))
}

fn check(global: &Global, output: &mut Output) -> Result<(), Failure> {
    let root = store_path::root(global)?;
    let store = Store::at(&root, Sys::real(), Durability::default());
    if !is_address(&root) && !store.is_there()? {
        return Err(store_path::missing(&root));
    }
    store.prepare()?;
    let sessions = count(store.ids()?.len(), "session");
    output.say(format!("{}: {sessions}", shown(&root)))
}

fn copy_all(args: &CopyArgs, output: &mut Output) -> Result<(), Failure> {
    let (from, to) = (
        store_path::absolute(&args.from)?,
        store_path::absolute(&args.to)?,
    );
    let sys = Sys::real();
    let source = Store::at(&from, sys.clone(), Durability::default());
    if !source.is_there()? {
        return Err(store_path::missing(&from));
    }
    let jobs = jobs(args, &source, &sys)?;
    let target = Store::at(&to, sys, Durability::default());
    // A list knows the agents' ids of what is in the trash, too.
    let agent_ids = Catalog::open(target.clone());
    let mut reports = Vec::new();
    let (mut done, mut of_trash) = ([0; 3], [0; 3]);
    let mut failed = 0;
    let mut progress = Progress::new();
    for (at, job) in jobs.iter().enumerate() {
        progress.at(|| format!("Copying {} … {at}", count(jobs.len(), "session")));
        let (id, copied) = match job {
            Job::Live(id) => (id, copy_one(args, &source, &target, id)),
            Job::Trashed(trashed) => (
                &trashed.id,
                copy_trashed(args, &source, &target, &agent_ids, trashed),
            ),
        };
        let (outcome, why) = match &copied {
            Ok(Copied::New) => ("copied", None),
            Ok(Copied::Continued) => ("continued", None),
            Ok(Copied::Same) => ("same", None),
            Ok(Copied::Differs) => {
                let why = format!("{} has another session {id}", shown(&to));
                ("differs", Some(why))
            }
            Ok(Copied::InUse(holder)) => {
                let (id, holder) = (id.clone(), holder.clone());
                let why = StoreError::InUse { id, holder };
                ("in_use", Some(why.to_string()))
            }
            Err(error) => ("failed", Some(error.to_string())),
        };
        let counted = match job {
            Job::Live(_) => &mut done,
            Job::Trashed(_) => &mut of_trash,
        };
        match &copied {
            Ok(Copied::New) => counted[0] += 1,
            Ok(Copied::Continued) => counted[1] += 1,
            Ok(Copied::Same) => counted[2] += 1,
            _ => failed += 1,
        }
        if args.json {
            let mut report = json!({ "sessionId": id.as_str(), "outcome": outcome, "reason": why });
            if let Job::Trashed(trashed) = job {
                report["deletedAt"] = trashed.at.to_string().into();
            }
            reports.push(report);
        } else if let Some(why) = why {
            progress.clear();
            output.say(why)?;
        }
        // Nothing else would be copied, either.
        if let Err(error @ (StoreError::Unreachable { .. } | StoreError::Unusable { .. })) = copied
        {
            progress.clear();
            return Err(error.into());
        }
    }
    progress.clear();
    if args.json {
        output.json(&Value::Array(reports))?;
    } else {
        let [new, continued, same] = done;
        let new = count(new, "session");
        output.say(format!(
            "copied {new}, continued {continued}, {same} were there already, {failed} left alone"
        ))?;
        let [new, _, same] = of_trash;
        if new + same > 0 {
            let new = count(new, "session");
            output.say(format!(
                "copied {new} in the trash, {same} were there already"
            ))?;
        }
    }
    if failed > 0 {
        return Err(Failure::reported());
    }
    Ok(())
}

/// A session to copy.
enum Job {
    Live(SessionId),
    Trashed(Trashed),
}

/// The sessions that were named, or all of them and those in the trash.
fn jobs(args: &CopyArgs, source: &Store, sys: &Sys) -> Result<Vec<Job>, Failure> {
    let (mut ids, mut trashed) = match &args.sessions[..] {
        [] => (source.ids()?, source.trashed()?),
        named => {
            let ids = named.iter().map(|id| parse(id));
            (ids.collect::<Result<_, _>>()?, Vec::new())
        }
    };
    if let Some(since) = &args.since {
        let since = sessions::time_of("--since", since, false, &*sys.clock, Zone::Local)?;
        let mut recent = Vec::new();
        for id in ids {
            let changed = source.changed_at(&id)?;
            if changed.is_none_or(|at| at.to_string() >= since) {
                recent.push(id);
            }
        }
        ids = recent;
        trashed.retain(|trashed| trashed.at.to_string() >= since);
    }
    let live = ids.into_iter().map(Job::Live);
    Ok(live.chain(trashed.into_iter().map(Job::Trashed)).collect())
}

/// Copies a session in the trash, with what a list has to know of it.
fn copy_trashed(
    args: &CopyArgs,
    source: &Store,
    target: &Store,
    agent_ids: &Catalog,
    trashed: &Trashed,
) -> Result<Copied, StoreError> {
    let copied = source.copy_trashed_to(trashed, target, args.verify)?;
    let read = || source.read_trashed(trashed)?.scan();
    if copied == Copied::New
        && let Ok(scan) = read()
    {
        for known in &scan.agent_ids {
            agent_ids.knows(&trashed.id, known);
        }
    }
    Ok(copied)
}

/// Copies a session, and moves it to the trash if that is wanted.
fn copy_one(
    args: &CopyArgs,
    source: &Store,
    target: &Store,
    id: &SessionId,
) -> Result<Copied, StoreError> {
    let copied = source.copy_to(id, target, args.verify || args.moves)?;
    let is_there = matches!(copied, Copied::New | Copied::Continued | Copied::Same);
    if args.moves && is_there {
        // Nothing may have been appended since.
        let is_whole = || match (source.len_of(id), target.len_of(id)) {
            (Ok(have), Ok(copied)) => have == copied,
            _ => false,
        };
        source.trash_if(id, is_whole)?;
    }
    Ok(copied)
}

fn parse(id: &str) -> Result<SessionId, Failure> {
    SessionId::parse(id).ok_or_else(|| {
        Failure::usage(format!("not the whole id of a session: {id}"))
            .hint("run `rejoin list --json` to see whole ids")
    })
}
