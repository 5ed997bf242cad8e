//! `rejoin store`: stores as a whole.

use std::path::PathBuf;

use clap::Subcommand;
use serde_json::{Value, json};

#[cfg(feature = "store-postgres")]
use crate::store::Rights;
use crate::store::place::{is_address, shown};
use crate::store::{Copied, Durability, Store, StoreError};
use crate::sys::{SessionId, Sys, Zone};

use super::count::count;
use super::exit::Failure;
use super::global::Global;
use super::output::Output;
use super::sessions;
use super::store;
use super::terminal::Progress;

/// What to do.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make the tables of a store in PostgreSQL, or bring them up to date.
    #[command(
        after_help = "Example:\n  rejoin store migrate --store postgres://rejoin@localhost/work"
    )]
    Migrate,
    /// Let a role of the database use a store in PostgreSQL.
    #[command(
        after_help = "Example:\n  rejoin store grant --as writer agents --store postgres://rejoin@localhost/work"
    )]
    Grant(Grant),
    /// Check that a store can be reached and is of a known version.
    Check,
    /// Copy sessions from one store to another, byte for byte.
    #[command(
        after_help = "Example:\n  rejoin store copy --from ~/acp --to postgres://rejoin@localhost/work"
    )]
    Copy(Copy),
}

#[derive(Debug, clap::Args)]
struct Grant {
    /// Role of the database, which must exist.
    #[arg(value_name = "ROLE")]
    role: String,
    /// What the role is for.
    #[arg(long = "as", value_name = "KIND")]
    kind: Kind,
}

/// What a role of a database is for.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Kind {
    /// It sees sessions.
    Reader,
    /// It also makes sessions and appends to them, and changes or removes nothing in a log.
    Writer,
    /// It also removes what is in the trash.
    Janitor,
}

#[derive(Debug, clap::Args)]
struct Copy {
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
        Command::Migrate => migrate(global, output),
        Command::Grant(grant) => self::grant(global, grant, output),
        Command::Check => check(global, output),
        Command::Copy(copy) => copy_all(copy, output),
    }
}

fn migrate(global: &Global, output: &mut Output) -> Result<(), Failure> {
    let root = store::root(global)?;
    let made = Store::migrate(&root, &Sys::real())?;
    let shown = shown(&root);
    if made {
        output.say(format!("made the store at {shown}"))
    } else {
        output.say(format!("the store at {shown} is up to date"))
    }
}

#[cfg(feature = "store-postgres")]
fn grant(global: &Global, args: &Grant, output: &mut Output) -> Result<(), Failure> {
    let root = store::root(global)?;
    if !is_address(&root) {
        return Err(Failure::usage("a store in a folder has no roles")
            .hint("name the address of a store in PostgreSQL with --store"));
    }
    let (rights, kind) = match args.kind {
        Kind::Reader => (Rights::Read, "reader"),
        Kind::Writer => (Rights::Write, "writer"),
        Kind::Janitor => (Rights::Clean, "janitor"),
    };
    Store::grant(&root, &args.role, rights)?;
    output.line(format!("{} is a {kind} of {}", args.role, shown(&root)))
}

#[cfg(not(feature = "store-postgres"))]
fn grant(_: &Global, args: &Grant, _: &mut Output) -> Result<(), Failure> {
    let (role, kind) = (&args.role, args.kind);
    Err(Failure::usage(format!(
        "cannot make {role} a {kind:?}: this rejoin was built without the feature store-postgres"
    )))
}

fn check(global: &Global, output: &mut Output) -> Result<(), Failure> {
    let root = store::root(global)?;
    let store = Store::at(&root, Sys::real(), Durability::default());
    if !is_address(&root) && !store.is_there()? {
        return Err(store::missing(&root));
    }
    store.prepare()?;
    let sessions = count(store.ids()?.len(), "session");
    output.say(format!("{}: {sessions}", shown(&root)))
}

fn copy_all(args: &Copy, output: &mut Output) -> Result<(), Failure> {
    let (from, to) = (store::absolute(&args.from)?, store::absolute(&args.to)?);
    let sys = Sys::real();
    let source = Store::at(&from, sys.clone(), Durability::default());
    if !source.is_there()? {
        return Err(store::missing(&from));
    }
    let mut in_trash = 0;
    let mut ids = match &args.sessions[..] {
        [] => {
            in_trash = source.trashed()?.len();
            source.ids()?
        }
        named => named.iter().map(|id| parse(id)).collect::<Result<_, _>>()?,
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
    }
    let target = Store::at(&to, sys, Durability::default());
    let mut reports = Vec::new();
    let mut done = [0; 3];
    let mut failed = 0;
    let mut progress = Progress::new();
    for (at, id) in ids.iter().enumerate() {
        progress.at(|| format!("Copying {} … {at}", count(ids.len(), "session")));
        let copied = copy_one(args, &source, &target, id);
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
        match &copied {
            Ok(Copied::New) => done[0] += 1,
            Ok(Copied::Continued) => done[1] += 1,
            Ok(Copied::Same) => done[2] += 1,
            _ => failed += 1,
        }
        if args.json {
            reports.push(json!({ "sessionId": id.as_str(), "outcome": outcome, "reason": why }));
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
        if in_trash > 0 {
            let trashed = count(in_trash, "session");
            output.say(format!("the trash is not copied: {trashed} in it"))?;
        }
    }
    if failed > 0 {
        return Err(Failure::reported());
    }
    Ok(())
}

/// Copies a session, and moves it to the trash if that is wanted.
fn copy_one(
    args: &Copy,
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
            .hint("run `rejoin sessions list --json` to see whole ids")
    })
}
