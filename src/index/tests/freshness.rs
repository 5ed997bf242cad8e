//! What a list reads to be right, and what it leaves alone.

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
    assert_eq!(world.logs.touched().0, 2000);

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

    // Long after, the names are compared once, in case another change hid behind ours.
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

    // In the same millisecond as the change that was just seen, and with one of ours on top.
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
    catalog.created(&own, &world.logs.summary(&own), before);
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
    // The session lives, and tells before it writes.
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
    catalog.closed(&ids[0], &world.logs.summary(&ids[0]));
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
    // Nobody told: the last of the list moves to the top once it is looked at.
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

    // A permission is given: no length tells, but time does.
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
