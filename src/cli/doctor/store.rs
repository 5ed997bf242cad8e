//! The store: its place, whether it can be written, its content and file system.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::cli::exit::{ANOTHER, UNREACHABLE};
use crate::cli::global::Global;
use crate::cli::store_path;
use crate::cli::term::{Look, count};
use rejoin::store::{Durability, Store, StoreError, place};
use rejoin::sys::file_system::{Special, free_bytes, special};
use rejoin::sys::{SessionId, Sys, in_parallel};

use super::finding::Finding;

/// Less room than this is short, in bytes.
const SHORT: u64 = 1 << 30;
/// With less room than this, nothing can be recorded, in bytes.
const FULL: u64 = 50 << 20;

/// The findings, and the names of the agents that sessions were begun with.
pub(super) fn check(global: &Global, look: &Look) -> (Vec<Finding>, BTreeSet<String>) {
    let mut agents = BTreeSet::new();
    let found = match store_path::root(global) {
        Ok(root) => findings(global, &root, look, &mut agents),
        Err(failure) => vec![Finding::error(
            "store",
            failure.message(),
            "name a folder with --store DIR",
        )],
    };
    (found, agents)
}

fn findings(
    global: &Global,
    root: &Path,
    look: &Look,
    agents: &mut BTreeSet<String>,
) -> Vec<Finding> {
    let sys = Sys::real();
    if place::is_address(root) {
        return vec![database(root, &sys)];
    }
    let shown = look.folder(&root.to_string_lossy());
    let mut found = Vec::new();
    match Store::is_at(root, &sys) {
        Err(error) => {
            let hint = match error {
                StoreError::OfAnother { .. } => ANOTHER,
                _ => "make the folder accessible to you, or name another one with --store",
            };
            return vec![Finding::error("store", error, hint)];
        }
        Ok(false) if global.names_store() => {
            let why = format!("there is no store at {shown}");
            found.push(Finding::warning(
                "store",
                why,
                "check the path; the first session would create it",
            ));
        }
        Ok(false) => {
            found.push(Finding::ok(
                "store",
                format!("{shown}: the first session will create it"),
            ));
        }
        Ok(true) => {
            let store = Store::at(root, sys.clone(), Durability::Turn);
            found.extend(sessions(&store, &shown, agents));
            found.push(writing(root, &sys));
        }
    }
    // A store that does not exist yet will be where the nearest folder is.
    if let Some(place) = root.ancestors().find(|folder| folder.exists()) {
        found.push(kind(place));
        found.extend(room(place));
    }
    found
}

/// Whether a store in a database can be used.
fn database(root: &Path, sys: &Sys) -> Finding {
    let store = Store::at(root, sys.clone(), Durability::Turn);
    let shown = place::shown(root);
    match store.prepare().and_then(|()| store.ids()) {
        Ok(ids) => Finding::ok("store", format!("{shown}: {}", count(ids.len(), "session"))),
        Err(error) => Finding::error("store", error, UNREACHABLE),
    }
}

/// The findings about the sessions of the store, and about the processes that use it.
fn sessions(store: &Store, shown: &str, agents: &mut BTreeSet<String>) -> Vec<Finding> {
    let ids = match store.ids() {
        Ok(ids) => ids,
        Err(error) => return vec![Finding::error("store", error, "make the folder readable")],
    };
    let read = in_parallel(&ids, usize::MAX, |id| look_at(store, id));
    agents.extend(read.iter().filter_map(|state| match state {
        LogCondition::Fine(agent) => agent.clone(),
        _ => None,
    }));
    let number = count(ids.len(), "session");
    let mut found = vec![Finding::ok("store", format!("{shown}: {number}"))];
    let number_of = |wanted: &LogCondition| read.iter().filter(|state| *state == wanted).count();
    let newer = number_of(&LogCondition::Newer);
    if newer > 0 {
        let why = format!(
            "{} written by a later version of rejoin",
            are(newer, "session")
        );
        found.push(Finding::error(
            "sessions",
            why,
            "update this rejoin to open them; nothing is changed until then",
        ));
    }
    let damaged = number_of(&LogCondition::Damaged);
    if damaged > 0 {
        let why = format!(
            "{} damaged at the beginning and cannot be opened",
            are(damaged, "session")
        );
        found.push(Finding::error(
            "sessions",
            why,
            "`rejoin verify` says where; restore them from a backup",
        ));
    }
    let mut holders = BTreeMap::<String, usize>::new();
    for holder in ids.iter().filter_map(|id| store.holder(id)) {
        let name = holder.client.clone();
        let name = name.unwrap_or_else(|| format!("process {} on {}", holder.pid, holder.host));
        *holders.entry(name).or_default() += 1;
    }
    if !holders.is_empty() {
        let each = holders
            .iter()
            .map(|(name, number)| format!("{number} in {name}"));
        let each: Vec<_> = each.collect();
        found.push(Finding::ok("open sessions", each.join(", ")));
    }
    found
}

fn are(number: usize, thing: &str) -> String {
    let verb = if number == 1 { "is" } else { "are" };
    format!("{} {verb}", count(number, thing))
}

/// The state of a log by its beginning.
#[derive(PartialEq, Eq)]
enum LogCondition {
    /// The log can be read; the agent that is named in it.
    Fine(Option<String>),
    Newer,
    Damaged,
}

fn look_at(store: &Store, id: &SessionId) -> LogCondition {
    match store.read(id) {
        Err(StoreError::Newer { .. }) => LogCondition::Newer,
        // A power cut may leave an empty file of a session that was never synced.
        Err(StoreError::Headerless { .. }) if store.len_of(id).is_ok_and(|len| len == Some(0)) => {
            LogCondition::Fine(None)
        }
        Err(StoreError::Headerless { .. } | StoreError::WrongId { .. }) => LogCondition::Damaged,
        Ok(reader) => LogCondition::Fine(Some(reader.header().engine.name.clone())),
        Err(_) => LogCondition::Fine(None),
    }
}

/// Whether files can be created and locked in the store, and are synced.
fn writing(root: &Path, sys: &Sys) -> Finding {
    let path = root.join(format!("doctor-{}", std::process::id()));
    let tried = (|| {
        let mut file = sys.disk.create_new(&path)?;
        file.append_all(b"rejoin doctor\n")?;
        file.sync()?;
        let is_locked = file.try_lock()?;
        // Another lock on the file must fail while this one is held.
        let is_exclusive = match sys.disk.open_append(&path) {
            Ok(other) => !other.try_lock()?,
            Err(error) => error.kind() == std::io::ErrorKind::ResourceBusy,
        };
        file.unlock()?;
        Ok::<_, std::io::Error>(is_locked && is_exclusive)
    })();
    sys.disk.remove_if_exists(&path).ok();
    match tried {
        Ok(true) => Finding::ok("writing", "files can be written, synced and locked"),
        Ok(false) => Finding::error(
            "locks",
            "locks have no effect here: two programs could write to one session",
            "move the store to a local disk, with --store or REJOIN_STORE",
        ),
        Err(error) => Finding::error(
            "writing",
            format!("the store cannot be written: {error}"),
            "make its folder writable for you, or name another one with --store",
        ),
    }
}

fn kind(place: &Path) -> Finding {
    match special(place) {
        None => Finding::ok("file system", "no problem is known of it"),
        Some(Special::Network(name)) => Finding::warning(
            "file system",
            format!(
                "{name}, a network file system: locks and syncs depend on its server, and the index \
                 is kept on this machine"
            ),
            "a store on a local disk is safer; never use one store from several machines at once",
        ),
        Some(Special::LocalLocks(name)) => Finding::error(
            "file system",
            format!("{name}, mounted so that locks are not seen by other machines"),
            "mount it with `flock`, or name a store on a local disk with --store or REJOIN_STORE",
        ),
        Some(Special::Memory) => Finding::warning(
            "file system",
            "it is in memory: the sessions are gone when the machine restarts",
            "name a folder on a disk with --store or REJOIN_STORE",
        ),
    }
}

fn room(place: &Path) -> Option<Finding> {
    let free = free_bytes(place)?;
    let shown = format!("{} free", size(free));
    Some(if free < FULL {
        Finding::error(
            "disk space",
            shown,
            "make room: sessions that cannot be recorded end with an error",
        )
    } else if free < SHORT {
        Finding::warning(
            "disk space",
            shown,
            "`rejoin prune` moves old sessions to the trash, `rejoin trash empty` empties it",
        )
    } else {
        Finding::ok("disk space", shown)
    })
}

/// A number of bytes as people read it.
fn size(bytes: u64) -> String {
    let units = ["bytes", "kB", "MB", "GB", "TB"];
    let power = bytes.max(1).ilog(1000).min(4);
    let unit = units[power as usize];
    let scale = 1000_u64.pow(power);
    let (whole, tenth) = (bytes / scale, bytes % scale * 10 / scale);
    if whole < 10 && power > 0 {
        format!("{whole}.{tenth} {unit}")
    } else {
        format!("{whole} {unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn sizes_are_short() {
        for (bytes, shown) in [
            (0, "0 bytes"),
            (999, "999 bytes"),
            (1000, "1.0 kB"),
            (45_800_000_000, "45 GB"),
            (1_290_000, "1.2 MB"),
            (u64::MAX, "18446744 TB"),
        ] {
            assert_eq!(size(bytes), shown);
        }
    }
}
