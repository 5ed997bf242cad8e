//! Conversations of other tools: read, and imported into a store.

mod damage;
mod import;
mod reading;
mod samples;

use std::fs;
use std::path::Path;

use rejoin::sources::{Conversation, Found, Places, SOURCES, Source};
use rusqlite::Connection;
use tempfile::TempDir;

/// A home folder of the test's own with conversations of each tool.
fn home() -> TempDir {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/sources");
    let home = tempfile::tempdir().unwrap();
    copy(&fixtures.join("home"), home.path());
    let folder = home.path().join(".local/share/opencode");
    fs::create_dir_all(&folder).unwrap();
    let database = Connection::open(folder.join("opencode.db")).unwrap();
    let content = fs::read_to_string(fixtures.join("opencode.sql")).unwrap();
    database.execute_batch(&content).unwrap();
    home
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let copied = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &copied);
        } else {
            fs::copy(&path, &copied).unwrap();
        }
    }
}

/// A home folder, and no variables.
fn places(home: &Path) -> Places {
    Places {
        home: home.to_owned(),
        ..Places::default()
    }
}

fn source(name: &str) -> &'static Source {
    let found = SOURCES.iter().find(|source| source.name == name);
    found.unwrap_or_else(|| panic!("there is no source {name}"))
}

/// The conversations that a source has in a home folder, the oldest file name first.
fn read_all(source: &Source, home: &Path) -> Vec<(Found, Conversation)> {
    let search = source.find(&places(home));
    assert!(search.errors.is_empty(), "{:?}", search.errors);
    let mut found = search.found;
    found.sort_by_key(|found| (found.path.clone(), found.key.clone()));
    let read = found.into_iter().map(|found| {
        let conversation = source.read(&found).unwrap();
        (found, conversation)
    });
    read.collect()
}
