//! Normalizes paths without accessing the disk.

use std::path::{Component, Path, PathBuf};

/// An absolute path without `.`, `..`, doubled or trailing slashes. Symbolic links are not
/// resolved: the client's name of a directory is the one that is shown.
pub fn normalize(path: &str) -> String {
    let mut plain = PathBuf::new();
    for component in Path::new(path).components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            other => plain.push(other),
        }
    }
    // Every component comes from a string, so nothing is lost.
    plain.to_string_lossy().into_owned()
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn one_folder_has_one_form() {
        for (path, plain) in [
            ("/w", "/w"),
            ("/w/", "/w"),
            ("//w///x//", "/w/x"),
            ("/w/./x/../y/.", "/w/y"),
            ("/../..", "/"),
            ("/", "/"),
            ("/with space/ü", "/with space/ü"),
        ] {
            assert_eq!(normalize(path), plain);
        }
    }
}
