//! Files that are cut off, overwritten or not text: as much of them is read as can be, and nothing
//! panics.

#![expect(
    clippy::disallowed_methods,
    reason = "the files of other tools are no store"
)]

use std::fs;

use proptest::prelude::*;
use rejoin::sources::{Found, SOURCES};
use rejoin::sys::Timestamp;

use super::{home, read_all, source};

/// Reads these bytes as a file of the source.
fn read(name: &str, file: &str, bytes: &[u8]) -> Option<usize> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(file);
    fs::write(&path, bytes).unwrap();
    let found = Found {
        root: folder.path().to_owned(),
        path,
        modified: Timestamp::from_millis(0),
    };
    let conversation = source(name).read(&found).unwrap();
    conversation.map(|conversation| conversation.entries.len())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Anything may be anywhere in a file.
    #[test]
    fn damaged_files_are_read_as_far_as_possible(
        at in any::<prop::sample::Index>(),
        bytes in proptest::collection::vec(any::<u8>(), 0..40),
        cut in any::<bool>(),
    ) {
        for source in &SOURCES {
            for (found, _) in read_all(source, &home()) {
                let mut file = fs::read(&found.path).unwrap();
                let at = at.index(file.len() + 1);
                if cut {
                    file.truncate(at);
                }
                let end = (at + bytes.len()).min(file.len());
                file.splice(at..end, bytes.iter().copied());
                let name = found.path.file_name().unwrap().to_str().unwrap();
                read(source.name, name, &file);
            }
        }
    }
}

#[test]
fn one_damaged_line_costs_no_other() {
    let (found, whole) = read_all(source("codex"), &home()).pop().unwrap();
    let name = found.path.file_name().unwrap().to_str().unwrap();
    drop(whole);
    let file = fs::read(&found.path).unwrap();
    let expected = read("codex", name, &file);
    let mut damaged = file.clone();
    damaged.extend_from_slice(b"\0\0\0\0\n{\"type\": \xFF\xFE\n[1]\n");
    // A line of 20 MB, which is a record of no known kind.
    damaged.extend_from_slice(b"{\"type\":\"x\",\"payload\":{\"a\":\"");
    damaged.resize(damaged.len() + 20_000_000, b'a');
    damaged.extend_from_slice(b"\"}}\n");
    assert_eq!(read("codex", name, &damaged), expected);
}
