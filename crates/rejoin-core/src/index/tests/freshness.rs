//! Tests of what a list reads to be correct, and of what it does not read.

use super::*;
use crate::index::ListError;

#[test]
fn opening_touches_nothing() {
    let (world, _) = World::with_sessions(3);
    let catalog = world.catalog();
    assert!(!world.path().exists());
    assert_eq!(world.logs.touched(), (0, 0, 0));
    drop(catalog);
    assert!(!world.path().parent().unwrap().exists());
}

#[test]
fn a_later_process_reads_no_log_and_no_names() {
    let (world, _) = World::with_sessions(1000);
    world.check(&world.catalog());
    assert_eq!(world.logs.touched().0, 1000);

    let catalog = world.catalog();
    let page = catalog.list(&Filter::default(), None, 10).unwrap();
    assert_eq!(page.sessions, world.expected(None)[..10]);
    let (read, listed, looked) = world.logs.touched();
    assert_eq!((read, listed, looked), (0, 0, 11));
}

#[test]
fn our_own_changes_of_the_folder_need_no_comparison() {
    let (world, ids) = World::with_sessions(10);
    let catalog = world.catalog();
    world.check(&catalog);
    world.logs.touched();
    for deleted in &ids[..3] {
        world.pass(1000);
        let id = world.create(&catalog, "/work");
        world.prompt(&catalog, &id);
        world.delete(&catalog, deleted);
        world.check(&catalog);
    }
    let (read, listed, _) = world.logs.touched();
    assert_eq!((read, listed), (0, 0));

    // Much later the names are compared once, in case another change hid behind ours.
    world.pass(600_000);
    world.check(&catalog);
    world.check(&catalog);
    assert_eq!(world.logs.touched().1, 1);
}

#[test]
fn changes_of_the_folder_by_others_are_seen_at_once() {
    let (world, ids) = World::with_sessions(5);
    let catalog = world.catalog();
    world.check(&catalog);
    world.pass(1);
    let id = world.copy_in("/other");
    world.append(&id, Entry::Prompt { at: 3 });
    world.take_out(&ids[2]);
    world.check(&catalog);

    // In the same millisecond as the change that was just seen, followed by one of ours.
    let id = world.copy_in("/other");
    world.append(&id, Entry::Prompt { at: 4 });
    let own = world.create(&catalog, "/work");
    world.prompt(&catalog, &own);
    world.check(&catalog);
}

#[test]
fn rows_of_logs_that_are_gone_go_too() {
    let (world, ids) = World::with_sessions(10);
    let catalog = world.catalog();
    world.check(&catalog);
    for id in &ids[..6] {
        world.take_out(id);
    }
    catalog.list(&Filter::default(), None, 1).unwrap();
    world.logs.touched();
    catalog.audit(None);
    assert_eq!(world.logs.touched().2, 4);
}

#[test]
fn a_change_hidden_behind_ours_is_seen_later() {
    let (world, _) = World::with_sessions(5);
    let catalog = world.catalog();
    world.check(&catalog);
    let before = catalog.before_change();
    let hidden = world.copy_in("/other");
    world.append(&hidden, Entry::Prompt { at: 4 });
    let own = world.copy_in("/work");
    catalog.created(&own, &world.summary(&own), before);
    world.pass(600_000);
    world.check(&catalog);
}

#[test]
fn a_crash_costs_the_tail_of_one_log() {
    let (world, ids) = World::with_sessions(10);
    let catalog = world.catalog();
    world.check(&catalog);
    catalog.opened(&ids[0]);
    world.append(&ids[0], Entry::Prompt { at: world.now() });
    drop(catalog);
    world.logs.touched();

    let catalog = world.catalog();
    assert_eq!(first(&catalog)[0].id, ids[0]);
    world.check(&catalog);
    assert_eq!(world.logs.touched().0, 1);
}

#[test]
fn a_crash_before_the_first_prompt_was_reported() {
    let world = World::new();
    let catalog = world.catalog();
    let id = world.create(&catalog, "/work");
    catalog.opened(&id);
    world.append(&id, Entry::Prompt { at: 5 });
    drop(catalog);
    world.check(&world.catalog());
}

#[test]
fn a_mark_is_forgotten_after_a_day_of_silence() {
    let (world, ids) = World::with_sessions(100);
    let catalog = world.catalog();
    world.check(&catalog);
    for id in &ids[..50] {
        catalog.opened(id);
    }
    let page = || {
        world.logs.touched();
        catalog.list(&Filter::default(), None, 10).unwrap();
        world.logs.touched().2
    };
    assert_eq!(page(), 50 + 11);
    world.pass(25 * 3_600_000);
    page();
    assert_eq!(page(), 11);
    // The session is still there, and reports before it writes.
    world.prompt(&catalog, &ids[0]);
    world.check(&catalog);
}

#[test]
fn a_closed_session_is_left_alone() {
    let (world, ids) = World::with_sessions(100);
    let catalog = world.catalog();
    world.check(&catalog);
    catalog.opened(&ids[0]);
    world.append(
        &ids[0],
        Entry::Reopen {
            cwd: "/moved".into(),
        },
    );
    catalog.closed(&ids[0], &world.summary(&ids[0]));
    world.logs.touched();
    catalog.list(&Filter::default(), None, 10).unwrap();
    assert_eq!(world.logs.touched(), (0, 0, 11));
    assert_eq!(all(&catalog, Some("/moved"), 5).len(), 1);
}

#[test]
fn a_session_that_is_opened_before_it_is_known() {
    let (world, ids) = World::with_sessions(3);
    let catalog = world.catalog();
    catalog.opened(&ids[1]);
    let gone = SessionId::from_uuid(Uuid::now_v7());
    catalog.opened(&gone);
    world.check(&catalog);
}

#[test]
fn rows_that_are_shown_are_checked() {
    let (world, ids) = World::with_sessions(10);
    let catalog = world.catalog();
    world.check(&catalog);
    // A change without a report: the list's last entry moves to the top once its log is checked.
    world.append(&ids[0], Entry::Prompt { at: world.now() });
    world.append(&ids[9], Entry::Update);
    assert_eq!(first(&catalog), world.expected(None));
}

#[test]
fn an_audit_finds_what_no_page_shows() {
    let (world, ids) = World::with_sessions(2500);
    let catalog = world.catalog();
    catalog.list(&Filter::default(), None, 1).unwrap();
    world.append(&ids[0], Entry::Prompt { at: world.now() });
    let mut from = None;
    let mut steps = 0;
    loop {
        from = catalog.audit(from.as_ref());
        if from.is_none() {
            break;
        }
        steps += 1;
    }
    assert_eq!(steps, 3);
    let page = catalog.list(&Filter::default(), None, 1).unwrap();
    assert_eq!(page.sessions, world.expected(None)[..1]);
}

#[test]
fn an_unreadable_log_is_read_once_until_it_changes() {
    let (world, ids) = World::with_sessions(5);
    let readable_again = || world.logs.folder().damaged.clear();
    world.logs.folder().damaged.insert(ids[2].clone());
    let catalog = world.catalog();
    world.check(&catalog);
    world.logs.touched();
    world.check(&catalog);
    assert_eq!(world.logs.touched().0, 0);

    // A permission is granted: no length shows it, so the logs are retried after some time.
    readable_again();
    world.pass(60_000);
    world.check(&catalog);

    // An open session whose log is damaged meanwhile.
    catalog.opened(&ids[3]);
    world.append(&ids[3], Entry::Update);
    world.logs.folder().damaged.insert(ids[3].clone());
    world.check(&catalog);
    world.logs.touched();
    world.check(&catalog);
    assert_eq!(world.logs.touched().0, 0);
    readable_again();
    world.append(&ids[3], Entry::Update);
    world.check(&catalog);
}

#[test]
fn a_log_that_was_replaced_by_a_shorter_one_is_read_from_its_beginning() {
    let (world, ids) = World::with_sessions(3);
    let catalog = world.catalog();
    world.check(&catalog);
    catalog.opened(&ids[0]);
    let header = Entry::Header {
        cwd: "/else".into(),
    };
    world.restore(&ids[0], vec![header]);
    world.check(&catalog);
}

#[test]
fn a_folder_that_cannot_be_read_is_an_error_and_not_an_empty_list() {
    let (world, _) = World::with_sessions(3);
    let catalog = world.catalog();
    world.check(&catalog);
    world.logs.folder().forbidden = true;
    let failed = catalog.list(&Filter::default(), None, 10);
    assert!(matches!(failed, Err(ListError::Folder(_))));
    world.logs.folder().forbidden = false;
    world.check(&catalog);
}

/// The files in the store, with their content.
fn files(world: &World) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = std::fs::read_dir(world.path().parent().unwrap()).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .map(|path| (path.clone(), std::fs::read(path).unwrap()))
        .collect()
}

/// A store in which the first prompt of a session is missing from the catalog without a trace, as
/// after a power cut, or if an older copy of the file was put back.
fn without_the_last_changes() -> (World, Vec<(PathBuf, Vec<u8>)>) {
    let (world, _) = World::with_sessions(100);
    let catalog = world.catalog();
    let id = world.create(&catalog, "/work");
    catalog.closed(&id, &world.summary(&id));
    world.pass(3000);
    world.check(&catalog);
    drop(catalog);
    let old = files(&world);
    let catalog = world.catalog();
    world.prompt(&catalog, &id);
    catalog.closed(&id, &world.summary(&id));
    world.check(&catalog);
    drop(catalog);
    (world, old)
}

#[test]
fn an_older_copy_of_the_catalog_hides_no_session() {
    let (world, old) = without_the_last_changes();
    for (path, bytes) in old {
        if path == world.path() {
            overwrite(&path, &bytes);
        }
    }
    world.check(&world.catalog());
    // What was found is kept, and is searched for only once.
    world.logs.touched();
    world.catalog().list(&Filter::default(), None, 1).unwrap();
    assert_eq!(world.logs.touched(), (0, 0, 2));
}

#[test]
fn changes_that_a_power_cut_took_hide_no_session() {
    let (world, old) = without_the_last_changes();
    for (path, bytes) in old {
        let mut bytes = bytes;
        if path != world.path() {
            // The system was rebooted.
            let text = String::from_utf8(bytes).unwrap();
            let lines = text.lines().map(|line| line.split_once(' ').unwrap().1);
            let lines = lines.map(|number| format!("6f1f5a34-another-start {number}\n"));
            bytes = lines.collect::<String>().into_bytes();
        }
        overwrite(&path, &bytes);
    }
    world.check(&world.catalog());
    // A report before the first list does not hide it either.
    let (world, old) = without_the_last_changes();
    for (path, bytes) in old {
        if path == world.path() {
            overwrite(&path, &bytes);
        }
    }
    let catalog = world.catalog();
    let other = world.expected(None).pop().unwrap().id;
    world.prompt(&catalog, &other);
    world.check(&catalog);
}

#[cfg(unix)]
#[test]
fn the_generation_is_no_link_or_pipe() {
    let (world, _) = World::with_sessions(3);
    let target = world.dir.path().join("target");
    overwrite(&target, b"precious");
    std::fs::create_dir(world.path().parent().unwrap()).unwrap();
    let path = world.path().with_file_name("index.sqlite.generation");
    std::os::unix::fs::symlink(&target, &path).unwrap();
    world.check(&world.catalog());
    let id = world.create(&world.catalog(), "/work");
    world.prompt(&world.catalog(), &id);
    world.check(&world.catalog());
    assert_eq!(std::fs::read(target).unwrap(), b"precious");
}
