//! Conversations of other tools: read, and imported into a store.

mod damage;
mod import;
mod reading;
mod samples;

use std::path::{Path, PathBuf};

use rejoin::sources::{Conversation, Found, Places, SOURCES, Source};

/// A home folder with conversations of each tool.
fn home() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/sources/home")
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
fn read_all(source: &Source, home: &Path) -> Vec<(Found, Option<Conversation>)> {
    let search = source.find(&places(home));
    assert!(search.errors.is_empty(), "{:?}", search.errors);
    let mut found = search.found;
    found.sort_by_key(|found| found.path.clone());
    let read = found.into_iter().map(|found| {
        let conversation = source.read(&found).unwrap();
        (found, conversation)
    });
    read.collect()
}
