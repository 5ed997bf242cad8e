//! Tests with several processes: several catalogs over one file.

use std::thread;

use super::*;

#[test]
fn one_sees_what_the_other_does() {
    let (world, ids) = World::with_sessions(20);
    let (ours, theirs) = (world.catalog(), world.catalog());
    world.check(&ours);
    world.check(&theirs);
    world.pass(5);
    world.prompt(&theirs, &ids[3]);
    world.check(&ours);
    let id = world.create(&theirs, "/work");
    world.prompt(&theirs, &id);
    world.check(&ours);
    // The other process deletes a session that we have open, and we report it again.
    world.prompt(&ours, &ids[4]);
    let late = world.summary(&ids[4]);
    world.delete(&theirs, &ids[4]);
    ours.put(&ids[4], &late);
    world.check(&ours);
    world.check(&theirs);
}

#[test]
fn a_report_wins_over_what_was_read_before_it() {
    let (world, ids) = World::with_sessions(5);
    let world = Arc::new(world);
    let (ours, theirs) = (world.catalog(), world.catalog());
    world.check(&ours);
    world.append(&ids[4], Entry::Update);
    world.meanwhile(move |world| world.prompt(&theirs, &ids[4]));
    assert_eq!(first(&ours), world.expected(None));
}

#[test]
fn a_mark_that_is_renewed_is_not_forgotten() {
    let (world, ids) = World::with_sessions(5);
    let world = Arc::new(world);
    let (ours, theirs) = (world.catalog(), world.catalog());
    let id = ids[0].clone();
    world.check(&ours);
    theirs.opened(&id);
    world.pass(25 * 3_600_000);
    world.append(&id, Entry::Update);
    world.meanwhile(move |_| theirs.opened(&id));
    first(&ours);
    world.append(&ids[0], Entry::Prompt { at: world.now() });
    let page = ours.list(&Filter::default(), None, 1).unwrap();
    assert_eq!(page.sessions[0].id, ids[0]);
}

#[test]
fn one_deletes_the_file_and_the_other_follows() {
    let (world, ids) = World::with_sessions(20);
    let (ours, theirs) = (world.catalog(), world.catalog());
    world.check(&ours);
    world.check(&theirs);
    for suffix in ["", "-wal", "-shm"] {
        remove(
            &world,
            &world.path().with_file_name(format!("index.sqlite{suffix}")),
        );
    }
    world.check(&theirs);
    world.prompt(&ours, &ids[2]);
    world.logs.touched();
    world.check(&theirs);
    assert_eq!(
        world.logs.touched().0,
        0,
        "they are reported in the new file"
    );
}

#[test]
fn one_holds_the_lock_for_ever() {
    let (world, ids) = World::with_sessions(5);
    let catalog = world.catalog();
    world.check(&catalog);
    let file = rusqlite::Connection::open(world.path()).unwrap();
    file.execute_batch("BEGIN EXCLUSIVE").unwrap();
    // Reading continues.
    world.check(&catalog);
    // Writing fails, and the list works without it.
    world.prompt(&catalog, &ids[1]);
    world.check(&catalog);
}

#[test]
fn a_database_that_hangs_keeps_no_session_waiting() {
    let (world, ids) = World::with_sessions(5);
    let catalog = world.catalog();
    world.check(&catalog);
    let (started, has_started) = std::sync::mpsc::channel();
    let (release, is_released) = std::sync::mpsc::channel::<()>();
    thread::scope(|scope| {
        let database = &catalog.tool_files.database;
        scope.spawn(move || {
            let hang = |_: &rusqlite::Transaction<'_>| {
                started.send(()).unwrap();
                is_released.recv().ok();
                Ok(())
            };
            database.write(hang).unwrap();
        });
        has_started.recv().unwrap();
        // The database is released only when all of these have returned.
        let id = world.create(&catalog, "/work");
        world.prompt(&catalog, &id);
        world.prompt(&catalog, &ids[2]);
        catalog.closed(&ids[2], &world.summary(&ids[2]));
        world.delete(&catalog, &ids[1]);
        // Nor does it keep a list waiting.
        world.check(&catalog);
        assert!(catalog.tool_files.database.is_private());
        drop(release);
    });
    // Another process finds what was not reported, and so does this one.
    world.check(&world.catalog());
    world.check(&catalog);
    let id = world.create(&catalog, "/work");
    world.prompt(&catalog, &id);
    drop(catalog);
    world.check(&world.catalog());
}

#[test]
fn a_file_that_cannot_be_opened_for_long_keeps_no_list_waiting() {
    let (world, ids) = World::with_sessions(5);
    let catalog = world.catalog();
    let (release, is_released) = std::sync::mpsc::channel::<()>();
    catalog.tool_files.database.before_opening(move || {
        is_released.recv().ok();
    });
    world.prompt(&catalog, &ids[1]);
    world.check(&catalog);
    assert!(catalog.tool_files.database.is_private());
    let id = world.create(&catalog, "/work");
    world.prompt(&catalog, &id);
    drop(release);
    // When the file is there, it is used, and misses nothing.
    while catalog.tool_files.database.is_private() {
        world.check(&catalog);
    }
    world.prompt(&catalog, &ids[2]);
    world.check(&catalog);
    drop(catalog);
    world.check(&world.catalog());
}

#[test]
fn at_once() {
    let (world, ids) = World::with_sessions(400);
    let world = &world;
    thread::scope(|scope| {
        for share in ids.chunks(100) {
            scope.spawn(move || {
                let catalog = world.catalog();
                for (n, id) in share.iter().enumerate() {
                    match n % 5 {
                        0 => world.prompt(&catalog, id),
                        1 => world.delete(&catalog, id),
                        2 => {
                            let id = world.create(&catalog, "/new");
                            world.prompt(&catalog, &id);
                        }
                        3 => {
                            let page = catalog.list(&Filter::default(), None, 20).unwrap();
                            assert_eq!(page.sessions.len(), 20);
                        }
                        _ => {
                            catalog.opened(id);
                            catalog.closed(id, &world.summary(id));
                        }
                    }
                }
            });
        }
    });
    world.pass(3000);
    world.check(&world.catalog());
}

#[test]
fn at_once_with_a_damaged_file() {
    let (world, _) = World::with_sessions(200);
    let world = &world;
    for round in 0..5 {
        std::fs::create_dir_all(world.path().parent().unwrap()).unwrap();
        for suffix in ["-wal", "-shm"] {
            let path = world.path().with_file_name(format!("index.sqlite{suffix}"));
            if path.exists() {
                remove(world, &path);
            }
        }
        overwrite(&world.path(), &vec![round; 50_000]);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| world.check(&world.catalog()));
            }
        });
    }
}

#[test]
fn threads_of_one_process_share_the_work_of_a_rebuild() {
    let (world, _) = World::with_sessions(500);
    let catalog = world.catalog();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| world.check(&catalog));
        }
    });
    assert_eq!(world.logs.touched().0, 500);
}
