//! Files that Codex has compressed.

#![expect(
    clippy::disallowed_methods,
    reason = "the files of other tools are no store"
)]

use std::fs;
use std::path::Path;

use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use super::{home, read_all, source};

#[test]
fn a_compressed_file_is_read_like_the_plain_one() {
    let home = home();
    fs::remove_dir_all(home.path().join(".codex/sessions/2026")).unwrap();
    let codex = source("codex");
    let (found, plain) = read_all(codex, home.path()).remove(0);
    let bytes = fs::read(&found.path).unwrap();
    let packed = found.path.with_added_extension("zst");
    fs::write(
        &packed,
        compress_to_vec(bytes.as_slice(), CompressionLevel::Fastest),
    )
    .unwrap();
    // The plain one counts while both are there.
    let both = read_all(codex, home.path());
    assert_eq!(both.len(), 1);
    assert_eq!(both[0].0.path, found.path);
    // Also if it is no longer where the other one is.
    let archive = home.path().join(".codex/archived_sessions");
    fs::create_dir(&archive).unwrap();
    let put_away = archive.join(found.path.file_name().unwrap());
    fs::rename(&found.path, &put_away).unwrap();
    let both = read_all(codex, home.path());
    assert_eq!(both.len(), 1);
    assert_eq!(both[0].0.path, put_away);
    fs::rename(&put_away, &found.path).unwrap();
    fs::remove_file(&found.path).unwrap();
    let (_, unpacked) = read_all(codex, home.path()).remove(0);
    assert_eq!(unpacked.id, plain.id);
    assert_eq!(unpacked.entries, plain.entries);
    assert!(unpacked.damage.is_empty());
    // Cut off, or changed, it is read as far as possible.
    let whole = fs::read(&packed).unwrap();
    for at in 0..whole.len() {
        fs::write(&packed, &whole[..at]).unwrap();
        assert_eq!(
            read_all(codex, home.path()).remove(0).1.damage.len(),
            1,
            "cut at {at}"
        );
        let mut changed = whole.clone();
        changed[at] ^= 0x55;
        fs::write(&packed, changed).unwrap();
        read_all(codex, home.path());
    }
}

#[test]
fn a_file_that_codex_compressed_is_read() {
    let project = Path::new(env!("CARGO_MANIFEST_DIR"));
    let samples = project.parent().unwrap().join("shared/samples/codex");
    let name = "rollout-2026-02-23T12-40-23-019c8a4c-ed82-79a1-aa28-7738fc5ab61a.jsonl";
    let Ok(plain) = fs::read(samples.join(format!("localpush-{name}"))) else {
        eprintln!("skipped: there are no samples of codex");
        return;
    };
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join(".codex/sessions/2025/06/01");
    fs::create_dir_all(&folder).unwrap();
    let packed = samples
        .join("archived_sessions")
        .join(name)
        .with_added_extension("zst");
    fs::copy(packed, folder.join(name).with_added_extension("zst")).unwrap();
    fs::write(
        folder.join(name).with_file_name("rollout-plain.jsonl"),
        plain,
    )
    .unwrap();
    let mut read = read_all(source("codex"), home.path()).into_iter();
    let (packed, plain) = (read.next().unwrap().1, read.next().unwrap().1);
    assert!(!packed.entries.is_empty());
    assert_eq!((packed.id, packed.entries), (plain.id, plain.entries));
}
