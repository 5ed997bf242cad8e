//! Tests of order, pages, cursors and filters.

use proptest::prelude::*;

use super::*;
use crate::index::ListError;

/// A catalog that has no file.
fn in_memory(world: &World) -> Catalog {
    world.logs.simulated.store(true, Ordering::Relaxed);
    world.catalog()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_union_of_the_pages_is_the_list(
        sessions in prop::collection::vec((0i64..5, 0usize..3, 0usize..3), 0..40),
        limit in 1usize..45,
    ) {
        let world = World::new();
        for (at, prompts, folder) in sessions {
            let id = world.copy_in(["/a", "/a/b", "/é"][folder]);
            for _ in 0..prompts {
                world.append(&id, Entry::Prompt { at });
            }
        }
        let catalog = in_memory(&world);
        prop_assert_eq!(all(&catalog, None, limit), world.expected(None));
        for cwd in ["/a", "/a/b", "/é", "/A", "/a/", ""] {
            prop_assert_eq!(all(&catalog, Some(cwd), limit), world.expected(Some(cwd)));
        }
    }

    /// Prompts move sessions to the top, and others are added and removed, between pages.
    #[test]
    fn changes_between_pages_make_no_duplicates(
        limit in 1usize..6,
        changes in prop::collection::vec((0usize..30, 0u8..3), 30),
    ) {
        let (world, mut ids) = World::with_sessions(20);
        let catalog = in_memory(&world);
        let mut seen = BTreeSet::new();
        let mut cursor = None;
        for (pick, change) in changes {
            let page = catalog.list(&Filter::default(), cursor.as_deref(), limit).unwrap();
            for listed in page.sessions {
                prop_assert!(seen.insert(listed.id), "listed twice");
            }
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
            world.pass(1);
            let id = ids[pick % ids.len()].clone();
            match change {
                0 => world.prompt(&catalog, &id),
                1 => ids.push(world.create(&catalog, "/new")),
                _ if ids.len() > 1 => {
                    world.delete(&catalog, &id);
                    ids.retain(|other| *other != id);
                }
                _ => {}
            }
        }
    }
}

#[test]
fn twelve_hundred_sessions_of_which_half_have_one_time() {
    let world = World::new();
    for n in 0..1200 {
        let id = world.copy_in("/work");
        let at = if n % 2 == 0 { 777 } else { n };
        world.append(&id, Entry::Prompt { at });
    }
    let catalog = in_memory(&world);
    for limit in [100, 500, 1199, 1200, 1201, usize::MAX] {
        assert_eq!(all(&catalog, None, limit), world.expected(None), "{limit}");
    }
}

#[test]
fn an_empty_store() {
    let world = World::new();
    let catalog = in_memory(&world);
    assert_eq!(all(&catalog, None, 10), []);
}

#[test]
fn the_filter_comes_before_the_pages() {
    let world = World::new();
    for n in 0..30 {
        let id = world.copy_in(if n % 10 == 0 { "/rare" } else { "/often" });
        world.append(&id, Entry::Prompt { at: n });
    }
    let catalog = in_memory(&world);
    let filter = Filter {
        cwd: Some("/rare".into()),
        ..Filter::default()
    };
    let page = catalog.list(&filter, None, 3).unwrap();
    assert_eq!(page.sessions, world.expected(Some("/rare")));
    assert_eq!(page.next_cursor, None);
}

#[test]
fn an_unprompted_session_is_listed_with_its_first_prompt() {
    let world = World::new();
    let catalog = world.catalog();
    let id = world.create(&catalog, "/work");
    world.append(&id, Entry::Update);
    assert_eq!(first(&catalog), []);
    world.prompt(&catalog, &id);
    assert_eq!(first(&catalog).len(), 1);
    world.check(&catalog);
}

#[test]
fn cursors_that_are_refused() {
    let (world, _) = World::with_sessions(3);
    let catalog = in_memory(&world);
    let cursor = catalog.list(&Filter::default(), None, 1).unwrap();
    let cursor = cursor.next_cursor.unwrap();
    let filter = Filter {
        cwd: Some("/work".into()),
        ..Filter::default()
    };
    let long = "a".repeat(10_000);
    let cut = &cursor[1..];
    for (filter, cursor) in [
        (&filter, cursor.as_str()),
        (&Filter::default(), ""),
        (&Filter::default(), &long),
        (&Filter::default(), cut),
        (&Filter::default(), "2"),
    ] {
        let refused = catalog.list(filter, Some(cursor), 1);
        assert!(matches!(refused, Err(ListError::Cursor)), "{cursor}");
    }
}

#[test]
fn a_cursor_survives_a_rebuild() {
    let (world, ids) = World::with_sessions(9);
    let page = world.catalog().list(&Filter::default(), None, 4).unwrap();
    remove(&world, &world.path());
    world.take_out(&ids[5]);
    let cursor = page.next_cursor.as_deref();
    let rest = world
        .catalog()
        .list(&Filter::default(), cursor, 99)
        .unwrap();
    assert_eq!(rest.sessions, world.expected(None)[3..]);
}
