//! Determines the folder in which sessions are stored.

use std::path::{Path, PathBuf};

use super::exit::Failure;
use super::global::Global;

/// The store's folder: the one that was given, or the platform's default for user data.
pub(super) fn root(global: &Global) -> Result<PathBuf, Failure> {
    match global.store() {
        Some(root) => std::path::absolute(root).map_err(|error| {
            Failure::new(format!("cannot find the store {}: {error}", root.display()))
        }),
        None => standard().ok_or_else(|| {
            Failure::usage("cannot determine where to store sessions: the home folder is unknown")
                .hint("name a folder with --store DIR or REJOIN_STORE")
        }),
    }
}

/// That there is no store, for a command that needs one.
pub(super) fn missing(root: &Path) -> Failure {
    Failure::new(format!("there is no store at {}", root.display()))
        .hint("mount its disk, or name another store with --store")
}

fn standard() -> Option<PathBuf> {
    users(
        "Library/Application Support",
        "XDG_DATA_HOME",
        ".local/share",
    )
}

/// The platform's folder for data that can be made again.
pub(super) fn cache() -> Option<PathBuf> {
    let cache = users("Library/Caches", "XDG_CACHE_HOME", ".cache")?;
    // There, the folder is the one for data.
    Some(if cfg!(windows) {
        cache.join("cache")
    } else {
        cache
    })
}

/// Our folder in one of the platform's: `mac` and `other` are below the home folder, and `variable`
/// may name another one.
fn users(mac: &str, variable: &str, other: &str) -> Option<PathBuf> {
    let home = || std::env::home_dir().filter(|home| home.is_absolute());
    let folder = |name: &str| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|folder| folder.is_absolute())
    };
    let data = if cfg!(windows) {
        folder("LOCALAPPDATA")
    } else if cfg!(target_os = "macos") {
        home().map(|home| home.join(mac))
    } else {
        folder(variable).or_else(|| home().map(|home| home.join(other)))
    };
    data.map(|data| data.join("rejoin"))
}
