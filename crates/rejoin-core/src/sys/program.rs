//! Programs in the folders of a `PATH`.

use std::env::split_paths;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// The path of the first file with one of these names that can be started. Folders whose path is
/// relative do not count: what they mean depends on where rejoin was started.
pub fn find(path: &OsStr, names: &[String]) -> Option<PathBuf> {
    let folders = split_paths(path).filter(|folder| folder.is_absolute());
    let mut files = folders.flat_map(|folder| names.iter().map(move |name| folder.join(name)));
    files.find(|file| is_program(file))
}

/// Whether a file can be started.
pub fn is_program(file: &Path) -> bool {
    let Ok(metadata) = file.metadata() else {
        return false;
    };
    #[cfg(unix)]
    let may_run = std::os::unix::fs::MetadataExt::mode(&metadata) & 0o111 != 0;
    #[cfg(not(unix))]
    let may_run = true;
    metadata.is_file() && may_run
}
