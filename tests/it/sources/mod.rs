//! Conversations of other tools: read, and imported into a store.

#![expect(
    clippy::disallowed_methods,
    reason = "the files of other tools are no store"
)]

mod cases;
mod cli;
mod client;
mod clipped;
mod compressed;
mod copies;
mod damage;
mod deletion;
mod files;
mod import;
mod inherited;
mod listed;
mod opened;
mod pinned;
mod reading;
mod samples;
mod searched;
mod since;
mod spent;
mod subagents;
mod wrapped;
#[cfg(unix)]
mod watch;

use std::fs;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use rejoin::sources::{FoundConversation, SOURCES, Source, ToolConversation, ToolFolders};
use rusqlite::Connection;
use serde_json::json;
use tempfile::TempDir;

/// A home folder of the test's own with conversations of each tool.
pub(crate) fn home() -> TempDir {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/sources");
    let home = tempfile::tempdir().unwrap();
    copy(&fixtures.join("home"), home.path());
    for (content, path) in [
        ("crush.sql", "crush/app/crush.db"),
        ("goose.sql", "goose/sessions/sessions.db"),
        ("hermes.sql", "../../.hermes/state.db"),
        ("kilo.sql", "kilo/kilo.db"),
        ("opencode.sql", "opencode/opencode.db"),
        ("zed.sql", "zed/threads/threads.db"),
    ] {
        let path = home.path().join(".local/share").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let database = Connection::open(path).unwrap();
        let content = fs::read_to_string(fixtures.join(content)).unwrap();
        database.execute_batch(&content).unwrap();
    }
    // The list of its projects has whole paths.
    let crush = home.path().join(".local/share/crush");
    let project = json!({ "path": "/srv/app", "data_dir": crush.join("app") });
    let projects = json!({ "projects": [project] }).to_string();
    fs::write(crush.join("projects.json"), projects).unwrap();
    home
}

/// When all files were changed: on 2026-04-02, at noon.
const CHANGED: Duration = Duration::from_hours(493_092);

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let copied = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &copied);
        } else {
            fs::copy(&path, &copied).unwrap();
            // Some have no times, and get that of their file.
            let file = fs::File::options().append(true).open(&copied).unwrap();
            file.set_modified(UNIX_EPOCH + CHANGED).unwrap();
        }
    }
}

/// A home folder, and no variables.
fn places(home: &Path) -> ToolFolders {
    ToolFolders {
        home: home.to_owned(),
        ..ToolFolders::default()
    }
}

fn source(name: &str) -> &'static Source {
    let found = SOURCES.iter().find(|source| source.name == name);
    found.unwrap_or_else(|| panic!("there is no source {name}"))
}

/// The sources that are files; a database is SQLite's to read.
fn of_files() -> impl Iterator<Item = &'static Source> {
    let is_database = |name| {
        matches!(
            name,
            "crush" | "goose" | "hermes" | "kilo" | "opencode" | "zed"
        )
    };
    SOURCES
        .iter()
        .filter(move |source| !is_database(source.name))
}

/// The conversations that a source has in a home folder, the oldest file name first.
fn read_all(source: &Source, home: &Path) -> Vec<(FoundConversation, ToolConversation)> {
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
