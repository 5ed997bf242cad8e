//! Reads the files that the rules are about.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A text file of the project.
#[derive(Debug)]
pub(crate) struct SourceFile {
    /// Its place below the project's folder, with `/` between the parts.
    pub(crate) path: String,
    /// All of it.
    pub(crate) text: String,
}

impl SourceFile {
    /// A file made up by a test.
    pub(crate) fn new(path: &str, text: &str) -> Self {
        Self {
            path: path.to_owned(),
            text: text.to_owned(),
        }
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The Rust files of a folder, sorted by path.
pub(crate) fn rust_files(folder: &str) -> Vec<SourceFile> {
    let mut paths = Vec::new();
    walk(&root().join(folder), &mut paths);
    paths.retain(|path| path.extension().is_some_and(|ext| ext == "rs"));
    read(paths)
}

/// The text files under version control; outside of a working copy, all those of the package.
pub(crate) fn tracked_files() -> Vec<SourceFile> {
    let listing = Command::new("git")
        .args(["ls-files", "-z"])
        .current_dir(root())
        .output();
    let names = match listing {
        Ok(output) if output.status.success() => output.stdout,
        _ => Vec::new(),
    };
    let names = String::from_utf8(names).expect("tracked names are UTF-8");
    let mut paths: Vec<PathBuf> = names
        .split_terminator('\0')
        .map(|name| root().join(name))
        .collect();
    if paths.is_empty() {
        walk(root(), &mut paths);
    }
    read(paths)
}

fn walk(folder: &Path, paths: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries {
        let path = entry.expect("a folder of the project can be read").path();
        let built = ["target", "node_modules", ".git", ".venv"];
        if !path.is_dir() {
            paths.push(path);
        } else if !built.iter().any(|name| path.ends_with(name)) {
            walk(&path, paths);
        }
    }
}

fn read(mut paths: Vec<PathBuf>) -> Vec<SourceFile> {
    paths.sort();
    let mut files = Vec::new();
    for path in paths {
        // What is deleted but not committed yet, or no text, has nothing to check.
        let Ok(text) = fs::read_to_string(&path) else {
            continue;
        };
        let path = path.strip_prefix(root()).expect("it was found below root");
        let parts: Vec<_> = path.iter().map(|part| part.to_string_lossy()).collect();
        files.push(SourceFile {
            path: parts.join("/"),
            text,
        });
    }
    files
}
