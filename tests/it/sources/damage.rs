//! Files that are cut off, overwritten or not text: as much of them is read as can be, and nothing
//! panics.

#![expect(
    clippy::disallowed_methods,
    reason = "the files of other tools are no store"
)]

use std::fs;
use std::sync::LazyLock;

use proptest::prelude::*;
use rejoin::sources::{FoundConversation, ToolConversation};
use rejoin::sys::Timestamp;

use super::{home, of_files, read_all, source};

/// Reads these bytes as a file of the source.
fn read(name: &str, file: &str, bytes: &[u8]) -> ToolConversation {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(file);
    fs::write(&path, bytes).unwrap();
    let found = FoundConversation {
        root: folder.path().to_owned(),
        path,
        key: None,
        modified: Timestamp::from_millis(0),
        size: 0,
    };
    source(name).read(&found).unwrap()
}

/// A source, and the name and the bytes of a file of its tool.
type Whole = (&'static str, String, Vec<u8>);

static WHOLE: LazyLock<Vec<Whole>> = LazyLock::new(|| {
    let home = home();
    let files = of_files().flat_map(|source| {
        let files = read_all(source, home.path()).into_iter();
        files.map(|(found, _)| {
            let name = found.path.file_name().unwrap().to_str().unwrap();
            (source.name, name.to_owned(), fs::read(&found.path).unwrap())
        })
    });
    files.collect()
});

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Anything may be anywhere in a file.
    #[test]
    fn damaged_files_are_read_as_far_as_possible(
        which in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        bytes in proptest::collection::vec(any::<u8>(), 0..40),
        cut in any::<bool>(),
    ) {
        let (source, name, file) = which.get(WHOLE.as_slice());
        let mut file = file.clone();
        let at = at.index(file.len() + 1);
        if cut {
            file.truncate(at);
        }
        let end = (at + bytes.len()).min(file.len());
        file.splice(at..end, bytes);
        read(source, name, &file);
    }
}

#[test]
fn one_damaged_line_costs_no_other() {
    let home = home();
    let (found, whole) = read_all(source("codex"), home.path()).remove(1);
    let name = found.path.file_name().unwrap().to_str().unwrap();
    drop(whole);
    let file = fs::read(&found.path).unwrap();
    let expected = read("codex", name, &file).entries;
    let mut damaged = file.clone();
    damaged.extend_from_slice(b"\0\0\0\0\n{\"type\": \xFF\xFE\n[1]\n");
    // A line of 20 MB, which is a record of no known kind.
    damaged.extend_from_slice(b"{\"type\":\"x\",\"payload\":{\"a\":\"");
    damaged.resize(damaged.len() + 20_000_000, b'a');
    damaged.extend_from_slice(b"\"}}\n");
    let read_anyway = read("codex", name, &damaged);
    assert_eq!(read_anyway.entries, expected);
    assert_eq!(read_anyway.damaged, 2);
}

#[test]
fn a_file_of_nothing_but_damage_is_counted() {
    for source in of_files() {
        let name = if source.name == "gemini" {
            "session-x.json"
        } else {
            "x.jsonl"
        };
        let read = read(source.name, name, b"{broken\n");
        assert_eq!(
            (read.entries.len(), read.damaged),
            (0, 1),
            "{}",
            source.name
        );
    }
}
