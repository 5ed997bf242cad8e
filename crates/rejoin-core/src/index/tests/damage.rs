//! Tests with a catalog file that is missing, damaged, foreign or inaccessible.

use rusqlite::Connection;

use super::*;
use crate::index::Search;

/// A world whose catalog is on disk, in one file.
pub(super) fn world() -> (World, Vec<u8>) {
    let (world, _) = World::with_sessions(100);
    world.check(&world.catalog());
    assert!(!beside(&world, "-wal").exists(), "folded in when closed");
    let bytes = std::fs::read(world.path()).unwrap();
    (world, bytes)
}

pub(super) fn beside(world: &World, suffix: &str) -> PathBuf {
    world.path().with_file_name(format!("index.sqlite{suffix}"))
}

/// Whether the complete catalog is in the file.
pub(super) fn is_in_file(world: &World) -> bool {
    let file = Connection::open(world.path()).unwrap();
    let rows = file.query_row("SELECT count(*) FROM sessions", [], |row| row.get(0));
    let count: isize = rows.unwrap_or_default();
    count.unsigned_abs() == world.logs.folder().logs.len()
}

#[test]
fn files_are_open_to_their_owner_only() {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let (world, _) = World::with_sessions(3);
        let catalog = world.catalog();
        world.check(&catalog);
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        for path in [world.path(), beside(&world, "-wal"), beside(&world, "-shm")] {
            assert_eq!(mode(&path), 0o600, "{path:?}");
        }
        assert_eq!(mode(world.path().parent().unwrap()), 0o700);
    }
}

#[test]
fn a_cut_file() {
    let (world, good) = world();
    for len in (0..good.len()).step_by(5003) {
        overwrite(&world.path(), &good[..len]);
        world.check(&world.catalog());
    }
}

#[test]
fn a_file_with_a_bad_page() {
    let (world, good) = world();
    for page in 0..good.len() / 4096 {
        for fill in [0, 0xa5] {
            let mut bad = good.clone();
            // Without its mark it would not be ours.
            let from = if page == 0 { 100 } else { page * 4096 };
            bad[from..(page + 1) * 4096].fill(fill);
            overwrite(&world.path(), &bad);
            let catalog = world.catalog();
            assert_eq!(first(&catalog), world.expected(None), "page {page}, {fill}");
            // The catalog also keeps working.
            world.copy_in("/later");
            world.check(&catalog);
        }
    }
}

#[test]
fn a_strange_write_ahead_log() {
    let (world, _) = world();
    for bytes in [&b""[..], b"garbage", &[0xff; 10_000], &[0; 10_000]] {
        overwrite(&beside(&world, "-wal"), bytes);
        world.check(&world.catalog());
    }
    std::fs::create_dir(beside(&world, "-journal")).unwrap();
    world.check(&world.catalog());
}

#[test]
fn deleted_before_and_under_us() {
    let (world, _) = world();
    remove(&world, &world.path());
    let catalog = world.catalog();
    world.check(&catalog);
    for suffix in ["", "-wal", "-shm"] {
        remove(&world, &beside(&world, suffix));
    }
    let id = world.create(&catalog, "/work");
    world.prompt(&catalog, &id);
    world.check(&catalog);
    drop(catalog);
    assert!(is_in_file(&world));
}

#[test]
fn damaged_under_us() {
    let (world, good) = world();
    let catalog = world.catalog();
    world.check(&catalog);
    for fill in [0u8, 0xa5] {
        // In place, as a failing disk damages a file.
        #[expect(clippy::disallowed_methods, reason = "the damage is the test")]
        let mut file = std::fs::File::options()
            .write(true)
            .open(world.path())
            .unwrap();
        file.write_all(&good[..100]).unwrap();
        file.write_all(&vec![fill; good.len() - 100]).unwrap();
        drop(file);
        let id = world.create(&catalog, "/work");
        world.prompt(&catalog, &id);
        world.check(&catalog);
        world.check(&world.catalog());
    }
}

#[test]
fn tables_of_another_version_or_program() {
    let (world, _) = world();
    for sql in [
        "PRAGMA user_version = 1",
        "PRAGMA user_version = 999999999",
        "PRAGMA user_version = -1",
        "DROP TABLE sessions",
        "DROP TABLE names",
        "DELETE FROM names",
        "INSERT INTO names SELECT * FROM names",
        "UPDATE names SET epoch = CAST(x'ff' AS TEXT), stamp = NULL",
        "DROP INDEX listed",
        "ALTER TABLE sessions RENAME COLUMN title TO caption",
        "DROP TABLE sessions; CREATE TABLE sessions (id)",
        "DROP TABLE sessions; CREATE VIEW sessions AS SELECT 1",
        "CREATE TABLE \"odd \"\" name\" (x); PRAGMA user_version = 7",
        "UPDATE sessions SET id = 'nobody' WHERE rowid = 5",
        "UPDATE sessions SET dirs = '{' WHERE rowid = 5",
        "UPDATE sessions SET scanned = -5 WHERE rowid = 5",
        "UPDATE sessions SET title = CAST(x'ff' AS TEXT) WHERE rowid = 5",
    ] {
        let file = Connection::open(world.path()).unwrap();
        file.execute_batch(sql).unwrap();
        drop(file);
        let catalog = world.catalog();
        assert_eq!(all(&catalog, None, 500), world.expected(None), "{sql}");
        drop(catalog);
        assert!(is_in_file(&world), "{sql}");
    }
}

#[test]
fn another_version_takes_the_file_while_we_run() {
    let (world, _) = world();
    let catalog = world.catalog();
    world.check(&catalog);
    let other = Connection::open(world.path()).unwrap();
    other
        .execute_batch("DROP TABLE sessions; PRAGMA user_version = 77")
        .unwrap();
    world.check(&catalog);
    let version: i64 = other
        .query_row("PRAGMA user_version", [], |row| row.get(0))
        .unwrap();
    assert_eq!(version, 77, "the file is not fought over");
}

/// Copied back together with the file beside it, an older catalog looks as if nothing was missing.
#[test]
fn an_older_copy_lacks_no_session_that_was_prompted_since() {
    let (world, _) = world();
    let catalog = world.catalog();
    let id = world.create(&catalog, "/work");
    world.check(&catalog);
    drop(catalog);
    let files = [world.path(), beside(&world, ".generation")];
    let copies = files.map(|path| (std::fs::read(&path).unwrap(), path));
    let catalog = world.catalog();
    world.prompt(&catalog, &id);
    catalog.closed(&id, &world.summary(&id));
    world.check(&catalog);
    drop(catalog);
    for (bytes, path) in copies {
        overwrite(&path, &bytes);
    }
    world.check(&world.catalog());
    let filter = Filter {
        search: Search::parse("asked"),
        ..Filter::default()
    };
    let found = world.catalog().list(&filter, None, 100).unwrap().sessions;
    assert!(found.iter().any(|found| found.id == id), "{found:?}");
}

#[test]
fn out_of_reach() {
    for in_the_way in ["a folder of its name", "a file where its folder would be"] {
        let (world, _) = World::with_sessions(5);
        if in_the_way.starts_with("a folder") {
            std::fs::create_dir_all(world.path()).unwrap();
        } else {
            overwrite(world.store.root(), b"");
        }
        let catalog = world.catalog();
        world.check(&catalog);
        let id = world.create(&catalog, "/work");
        world.prompt(&catalog, &id);
        world.check(&catalog);
        world.logs.touched();
        world.check(&catalog);
        assert_eq!(world.logs.touched().0, 0, "memory serves as well");
        // Another process cannot mark rows in our memory.
        world.pass(1);
        let oldest = world.expected(None).pop().unwrap().id;
        world.append(&oldest, Entry::Prompt { at: world.now() });
        let page = catalog.list(&Filter::default(), None, 1).unwrap();
        assert_eq!(page.sessions[0].id, oldest);
    }
}
