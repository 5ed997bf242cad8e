//! Determines the folder in which sessions are stored.

use std::path::PathBuf;

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

fn standard() -> Option<PathBuf> {
    let home = || std::env::home_dir().filter(|home| home.is_absolute());
    let folder = |name: &str| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|folder| folder.is_absolute())
    };
    let data = if cfg!(windows) {
        folder("LOCALAPPDATA")
    } else if cfg!(target_os = "macos") {
        home().map(|home| home.join("Library/Application Support"))
    } else {
        folder("XDG_DATA_HOME").or_else(|| home().map(|home| home.join(".local/share")))
    };
    data.map(|data| data.join("rejoin"))
}
