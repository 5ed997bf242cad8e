//! Determines where sessions are stored.

use std::path::{Path, PathBuf};

use rejoin::engine::process::Launch;
use rejoin::store::{Store, place};
use rejoin::sys::environment::keep_private;
use rejoin::sys::{Sys, folders};

use super::exit::Failure;
use super::global::Global;
use super::term::busy;

/// How the names of our variables about stores begin.
const OF_STORE: &str = "REJOIN_STORE";

/// The store's folder, which is no file, nor below one, or its address.
pub(super) fn root(global: &Global) -> Result<PathBuf, Failure> {
    let root = named(global)?;
    let mut folders = root.ancestors().filter(|_| !place::is_address(&root));
    match folders.find(|folder| folder.is_file()) {
        Some(file) => Err(no_folder(file, &root)),
        None => Ok(root),
    }
}

/// Where the store is, whatever is there: the folder or address that was given, or the platform's default for
/// user data. A server answers its client with what is wrong.
pub(super) fn named(global: &Global) -> Result<PathBuf, Failure> {
    if global.names_no_store() {
        return Err(Failure::usage("--store is empty")
            .hint("name a folder, or leave it out for the usual store"));
    }
    match global.store() {
        Some(root) if global.names_store() && place::has_password(root) => {
            let why = "a password on the command line is seen by all users of the machine";
            Err(Failure::usage(why)
                .hint("put it into PGPASSWORD, a file that PGPASSFILE names, or REJOIN_STORE"))
        }
        Some(root) => {
            let root = absolute(root)?;
            Ok(match global.store_password_command() {
                Some(command) => place::with_password_command(&root, command),
                None => root,
            })
        }
        None => folders::data().ok_or_else(|| {
            Failure::usage("cannot determine where to store sessions: the home folder is unknown")
                .hint("name a folder with --store DIR or REJOIN_STORE")
        }),
    }
}

/// A store that was named: an address as it is, a folder from the root of the file system.
pub(super) fn absolute(root: &Path) -> Result<PathBuf, Failure> {
    if let Some(scheme) = place::unknown_scheme(root) {
        let why = format!(
            "stores of the kind `{scheme}` are not known: {}",
            root.display()
        );
        return Err(Failure::usage(why).hint(format!(
            "name a folder, `./{}` if it is one, or an address such as postgres://HOST/DATABASE",
            root.display()
        )));
    }
    if !place::is_address(root) {
        return std::path::absolute(root).map_err(|error| {
            Failure::new(format!("cannot find the store {}: {error}", root.display()))
        });
    }
    if cfg!(feature = "store-postgres") {
        return Ok(root.to_owned());
    }
    Err(
        Failure::usage("this rejoin was built without the feature store-postgres")
            .hint("name a folder with --store DIR"),
    )
}

/// How engines start programs: without what leads to a store in a database. With a store in a folder,
/// they get our environment as it is.
pub(super) fn launch(global: &Global) -> Result<Launch, Failure> {
    let named = named(global)?;
    let withheld = if place::is_address(&named) {
        let all = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        let of_store = all.filter(|name| name.starts_with(OF_STORE));
        keep_private();
        of_store.chain(Store::variables(&named)).collect()
    } else {
        Vec::new()
    };
    Ok(Launch {
        guard: std::env::current_exe().ok(),
        withheld,
        path: None,
    })
}

/// Whether there is a store at `root`. Creates nothing. A database without the tables of one is a
/// failure: more likely its name is wrong. A terminal shows if it is slow to answer.
pub(super) fn is_there(root: &Path, sys: &Sys) -> Result<bool, Failure> {
    if !place::is_address(root) {
        return Ok(Store::is_at(root, sys)?);
    }
    let is_there = busy(
        || format!("Connecting to {} …", place::shown(root)),
        || Store::is_at(root, sys),
    )?;
    is_there.then_some(true).ok_or_else(|| missing(root))
}

/// The failure for a store whose folder would be where a file is.
fn no_folder(file: &Path, root: &Path) -> Failure {
    let (file, root) = (file.display(), root.display());
    Failure::new(format!("cannot use the store {root}: {file} is a file"))
        .hint("--store and REJOIN_STORE name the folder in which the sessions are")
}

/// The failure for a command that needs a store which does not exist.
pub(super) fn missing(root: &Path) -> Failure {
    if place::is_address(root) {
        let shown = place::shown(root);
        return Failure::new(format!("there is no store at {shown}")).hint(format!(
            "make its tables with `rejoin store migrate --store {shown}`"
        ));
    }
    let failure = Failure::new(format!("there is no store at {}", root.display()));
    if folders::data().as_deref() == Some(root) {
        return failure.hint(
            "the first session creates it: `rejoin setup` puts rejoin in front of the agents of \
             your editor, and `rejoin demo` shows what it does",
        );
    }
    failure.hint("mount its disk, or name another store with --store")
}
