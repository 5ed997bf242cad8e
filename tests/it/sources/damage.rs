//! Files that are cut off, overwritten or not text: as much of them is read as can be, and nothing
//! panics.

#![expect(
    clippy::disallowed_methods,
    reason = "the files of other tools are no store"
)]

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use proptest::prelude::*;
use rejoin::sources::{DamageKind, FoundConversation, ToolConversation};
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
    // One of 80 MB, which is none.
    damaged.resize(damaged.len() + 80_000_000, b'a');
    damaged.push(b'\n');
    let read_anyway = read("codex", name, &damaged);
    assert_eq!(read_anyway.entries, expected);
    let lines = String::from_utf8_lossy(&file).lines().count();
    let damage = read_anyway.damage.iter();
    let damage: Vec<_> = damage
        .map(|damage| (damage.line - lines, damage.kind))
        .collect();
    let expected = [
        (1, DamageKind::Zeros),
        (2, DamageKind::Torn),
        (3, DamageKind::NoRecord),
        (5, DamageKind::TooLong),
    ];
    assert_eq!(damage, expected);
}

/// Records that are whole are read, wherever another one was cut off before them, whatever zeros are
/// between them, and however their line feeds are written.
#[test]
fn damage_costs_no_record_that_is_whole() {
    let is_of_lines = |name: &str| {
        Path::new(name)
            .extension()
            .is_some_and(|end| end == "jsonl")
    };
    for (source, name, file) in WHOLE.iter().filter(|(_, name, _)| is_of_lines(name)) {
        let lines: Vec<&[u8]> = file.split_inclusive(|byte| *byte == b'\n').collect();
        let whole = read(source, name, file);
        if lines.len() < 3 || whole.entries.is_empty() || !whole.damage.is_empty() {
            continue;
        }
        let step = (file.len() / 200).max(1);
        let (mut start, mut at) = (lines[0].len(), step);
        for number in 1..lines.len() - 1 {
            let without = [&lines[..number], &lines[number + 1..]].concat().concat();
            let expected = read(source, name, &without);
            while at < start + lines[number].len() {
                let cut = at.saturating_sub(start).min(lines[number].len() - 2);
                at += step;
                // Behind it, a record may be a part of the one that was cut off.
                let before = lines[number][..cut].trim_ascii_end();
                if before.ends_with(b":") || before.ends_with(b"[") {
                    continue;
                }
                let torn = [
                    &lines[..number],
                    &[&lines[number][..cut]],
                    &lines[number + 1..],
                ];
                let found = read(source, name, &torn.concat().concat());
                let at_cut = format!("{source} {name}, line {}, cut at {cut}", number + 1);
                assert_eq!(found.entries, expected.entries, "{at_cut}");
                assert_eq!(found.damage.len(), usize::from(cut > 0), "{at_cut}");
            }
            start += lines[number].len();
            let zeros = [
                &lines[..number],
                &[&[0; 7][..], b"\n", &[0; 3]],
                &lines[number..],
            ];
            let found = read(source, name, &zeros.concat().concat());
            assert_eq!(found.entries, whole.entries, "{source} {name}");
            assert_eq!(found.damage.len(), 2, "{source} {name}");
        }
        let text = str::from_utf8(file).unwrap();
        let raw = text
            .replace("\\\\", "\0")
            .replace("\\n", "\n")
            .replace('\0', "\\\\");
        let found = read(source, name, raw.as_bytes());
        assert_eq!(found.entries, whole.entries, "{source} {name}");
    }
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
            (read.entries.len(), read.damage.len()),
            (0, 1),
            "{}",
            source.name
        );
    }
}
