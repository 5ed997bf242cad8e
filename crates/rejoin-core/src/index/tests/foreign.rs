//! Tests with files that other programs made or changed.

use rusqlite::Connection;

use super::damage::{beside, is_in_file, world};
use super::*;

#[test]
fn an_empty_file_is_taken() {
    let (world, _) = world();
    overwrite(&world.path(), b"");
    world.check(&world.catalog());
    assert!(is_in_file(&world));
}

#[test]
fn a_file_of_another_program_is_left_alone() {
    let (world, good) = world();
    let mut no_head = good;
    no_head[..4096].fill(0);
    let noise: Vec<u8> = (0..20_000u32).map(|n| ((n * n) >> 5) as u8).collect();
    let database = |name: &str, sql: &str| {
        let path = world.dir.path().join(name);
        let made = Connection::open(&path).unwrap();
        made.execute_batch(sql).unwrap();
        drop(made);
        std::fs::read(path).unwrap()
    };
    let tables = "CREATE TABLE precious (x); INSERT INTO precious VALUES (42);
        CREATE TABLE sessions (mine)";
    for (name, bytes) in [
        ("one byte", b"S".to_vec()),
        ("text", b"not a database\n".repeat(1000)),
        ("noise", noise),
        ("zeros", vec![0; 5000]),
        ("no first page", no_head),
        ("tables", database("a", tables)),
        (
            "a version",
            database("b", "CREATE TABLE t (x); PRAGMA user_version = 5"),
        ),
        (
            "an old version of ours with other tables",
            database(
                "c",
                "CREATE TABLE sessions (x); CREATE TABLE names (x); CREATE TABLE precious (x);
                 PRAGMA user_version = 5001",
            ),
        ),
        (
            "an old version of ours without tables",
            database("d", "PRAGMA user_version = 5001"),
        ),
        ("another mark", database("e", "PRAGMA application_id = 7")),
        (
            "a write-ahead log",
            database(
                "f",
                "PRAGMA journal_mode = WAL; CREATE TABLE precious (x); PRAGMA user_version = 5001",
            ),
        ),
    ] {
        overwrite(&world.path(), &bytes);
        let catalog = world.catalog();
        world.check(&catalog);
        let id = world.create(&catalog, "/work");
        world.prompt(&catalog, &id);
        world.check(&catalog);
        // The file may hold the words of deleted sessions.
        catalog.erase_deleted().unwrap_err();
        drop(catalog);
        assert_eq!(std::fs::read(world.path()).unwrap(), bytes, "{name}");
        for suffix in ["-wal", "-shm", "-journal", ".damaged"] {
            assert!(!beside(&world, suffix).exists(), "{name}: {suffix}");
        }
    }
}

#[test]
fn a_file_that_is_replaced_while_we_run_is_left_alone() {
    let (world, _) = world();
    let catalog = world.catalog();
    world.check(&catalog);
    let text = b"somebody's text\n".repeat(20_000);
    remove(&world, &world.path());
    overwrite(&world.path(), &text);
    world.check(&catalog);
    drop(catalog);
    assert_eq!(std::fs::read(world.path()).unwrap(), text);
}

#[cfg(unix)]
#[test]
fn links_are_not_followed() {
    use std::os::unix::fs::symlink;
    for suffix in ["", "-wal", "-shm", "-journal"] {
        for content in [None, Some(&b""[..]), Some(b"precious")] {
            let (world, _) = World::with_sessions(3);
            std::fs::create_dir(world.path().parent().unwrap()).unwrap();
            let target = world.dir.path().join("target");
            if let Some(content) = content {
                overwrite(&target, content);
            }
            symlink(&target, beside(&world, suffix)).unwrap();
            let catalog = world.catalog();
            world.check(&catalog);
            let id = world.create(&catalog, "/work");
            world.prompt(&catalog, &id);
            world.check(&catalog);
            drop(catalog);
            assert_eq!(std::fs::read(&target).ok().as_deref(), content, "{suffix}");
        }
    }
}

// `rustix` makes no pipes on macOS.
#[cfg(all(unix, not(target_vendor = "apple")))]
#[test]
fn a_pipe_is_not_waited_for() {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    for suffix in ["", "-wal", "-shm", "-journal", ".damaged"] {
        let (world, _) = world();
        let pipe = beside(&world, suffix);
        if pipe.exists() {
            remove(&world, &pipe);
        }
        let mode = Mode::from_raw_mode(0o600);
        mknodat(CWD, &pipe, FileType::Fifo, mode, 0).unwrap();
        world.check(&world.catalog());
    }
}

#[test]
fn a_catalog_without_a_mark_is_upgraded() {
    for version in [1001, 2001, 3001, 4001, 5001] {
        let (world, _) = World::with_sessions(20);
        std::fs::create_dir(world.path().parent().unwrap()).unwrap();
        let old = Connection::open(world.path()).unwrap();
        old.execute_batch(&format!(
            "PRAGMA journal_mode = WAL;
             CREATE TABLE sessions (id TEXT PRIMARY KEY NOT NULL, cwd TEXT) STRICT;
             CREATE INDEX listed ON sessions (cwd);
             CREATE TABLE names (epoch TEXT NOT NULL) STRICT;
             CREATE TRIGGER one_more AFTER INSERT ON sessions BEGIN SELECT 1; END;
             CREATE VIRTUAL TABLE words USING fts5(text, content='', contentless_delete=1);
             PRAGMA user_version = {version}"
        ))
        .unwrap();
        if version == 5001 {
            // As a killed process leaves it: everything is in the write-ahead log.
            let config = rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
            old.set_db_config(config, true).unwrap();
        }
        drop(old);
        world.check(&world.catalog());
        assert!(is_in_file(&world), "{version}");
        assert!(!beside(&world, ".damaged").exists(), "{version}");
        let file = Connection::open(world.path()).unwrap();
        let mark: i32 = file
            .query_row("PRAGMA application_id", [], |row| row.get(0))
            .unwrap();
        assert_ne!(mark, 0);
    }
}

#[test]
fn what_others_put_into_it_is_kept_aside_and_not_trusted() {
    for sql in [
        "CREATE TABLE precious (x); INSERT INTO precious VALUES ('kept aside')",
        "CREATE VIEW lies AS SELECT 1 AS x, 'kept aside'",
        "CREATE TRIGGER lie AFTER UPDATE ON names BEGIN
             UPDATE sessions SET title = 'kept aside'; END",
        "CREATE INDEX kept ON sessions (title) WHERE title <> 'kept aside'",
        "DROP TRIGGER one_less; CREATE TRIGGER one_less AFTER INSERT ON sessions BEGIN
             UPDATE sessions SET title = 'kept aside'; END",
        "UPDATE sessions SET title = 'kept aside' || printf('%.*c', 40000000, 'x')
             WHERE number = 7",
    ] {
        let (world, _) = world();
        let file = Connection::open(world.path()).unwrap();
        file.execute_batch(sql).unwrap();
        drop(file);
        let catalog = world.catalog();
        world.check(&catalog);
        drop(catalog);
        assert!(is_in_file(&world), "{sql}");
        let copy = std::fs::read(beside(&world, ".damaged")).unwrap();
        let found = memchr::memmem::find(&copy, b"kept aside");
        assert!(found.is_some(), "{sql}");
        // The copy has words of sessions, so it must be erased with them.
        world.catalog().erase_deleted().unwrap();
        assert!(!beside(&world, ".damaged").exists(), "{sql}");
    }
}

#[test]
fn a_title_that_others_wrote_is_one_visible_line() {
    let (world, _) = world();
    let file = Connection::open(world.path()).unwrap();
    file.execute_batch("UPDATE sessions SET title = 'a\u{1b}[2J\u{9b}\u{202e}b\nc'")
        .unwrap();
    drop(file);
    for listed in first(&world.catalog()) {
        assert_eq!(listed.summary.title.as_deref(), Some("a[2Jb"));
    }
}
