//! The folders of the user in which programs keep what is theirs.

use std::path::PathBuf;

/// Our folder for data, by the rules of the platform.
pub fn data() -> Option<PathBuf> {
    users(
        "Library/Application Support",
        "XDG_DATA_HOME",
        ".local/share",
    )
}

/// Our folder for data that can be made again.
pub fn cache() -> Option<PathBuf> {
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
