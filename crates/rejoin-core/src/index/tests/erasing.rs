//! Tests that deleted text is gone from every file of the catalog.

use super::*;
use crate::index::Search;
use crate::index::sqlite::erase_words::erase_some;

/// The names of the files in the store that contain this text.
fn files_with(world: &World, text: &str) -> Vec<String> {
    let folder = world.path().parent().unwrap().to_owned();
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        if memchr::memmem::find(&bytes, text.as_bytes()).is_some() {
            found.push(path.file_name().unwrap().to_string_lossy().into_owned());
        }
    }
    found
}

fn fill(catalog: &Catalog) {
    while !catalog.read_words(1 << 20).unwrap() {}
}

/// A world in which a session says `zanzibarhunter2`, among many others.
fn world_with_a_secret() -> (World, Vec<SessionId>) {
    let (world, ids) = World::with_sessions(300);
    for id in &ids {
        let words = "nobody minds who reads this";
        world.append(id, Entry::Said { words });
    }
    let words = "my password is zanzibarhunter2";
    world.append(&ids[150], Entry::Said { words });
    world.append(
        &ids[150],
        Entry::Reopen {
            cwd: "/secret/quetzalcoatl".to_owned(),
        },
    );
    (world, ids)
}

#[test]
fn nothing_of_a_deleted_session_is_left() {
    let (world, ids) = world_with_a_secret();
    let catalog = world.catalog();
    fill(&catalog);
    world.check(&catalog);
    assert_ne!(files_with(&world, "zanzibarhunter"), [""; 0]);
    world.delete(&catalog, &ids[150]);
    catalog.erase_deleted().unwrap();
    // While the catalog is open, and after it was closed.
    for word in ["zanzibarhunter", "quetzalcoatl"] {
        assert_eq!(files_with(&world, word), [""; 0]);
    }
    drop(catalog);
    assert_eq!(files_with(&world, "zanzibarhunter"), [""; 0]);

    // Everything else is found as before, and no words are read again.
    let catalog = world.catalog();
    world.logs.touched();
    let filter = Filter {
        search: Search::parse("minds"),
        ..Filter::default()
    };
    let page = catalog.list(&filter, None, 1000).unwrap();
    assert_eq!((page.sessions.len(), page.complete), (299, true));
    assert_eq!(world.logs.touched().0, 50, "only the text to show");
}

#[test]
fn a_log_that_somebody_else_removed_is_erased_too() {
    let (world, ids) = world_with_a_secret();
    let catalog = world.catalog();
    fill(&catalog);
    world.take_out(&ids[150]);
    catalog.erase_deleted().unwrap();
    assert_eq!(files_with(&world, "zanzibarhunter"), [""; 0]);
}

#[test]
fn it_works_while_another_process_has_the_catalog_open() {
    let (world, ids) = world_with_a_secret();
    let (ours, theirs) = (world.catalog(), world.catalog());
    fill(&theirs);
    world.check(&ours);
    world.delete(&ours, &ids[150]);
    ours.erase_deleted().unwrap();
    assert_eq!(files_with(&world, "zanzibarhunter"), [""; 0]);
    world.check(&theirs);
}

#[test]
fn it_is_an_error_if_a_reader_keeps_old_pages() {
    let (world, ids) = world_with_a_secret();
    let catalog = world.catalog();
    fill(&catalog);
    let reader = rusqlite::Connection::open(world.path()).unwrap();
    reader.execute_batch("BEGIN; SELECT * FROM names").unwrap();
    world.delete(&catalog, &ids[150]);
    catalog.erase_deleted().unwrap_err();
    reader.execute_batch("COMMIT").unwrap();
    catalog.erase_deleted().unwrap();
    assert_eq!(files_with(&world, "zanzibarhunter"), [""; 0]);
}

#[test]
fn an_ordinary_delete_is_erased_a_little_at_a_time() {
    let (world, ids) = world_with_a_secret();
    let catalog = world.catalog();
    fill(&catalog);
    assert!(
        erase_some(&catalog.tool_files.database).unwrap(),
        "nothing was deleted"
    );
    world.take_out(&ids[150]);
    first(&catalog);
    assert_ne!(files_with(&world, "zanzibarhunter"), [""; 0]);
    while !erase_some(&catalog.tool_files.database).unwrap() {}
    assert_eq!(files_with(&world, "zanzibarhunter"), [""; 0]);
    world.check(&catalog);
}

#[test]
fn a_process_erases_what_it_deleted_before_it_ends() {
    let (world, ids) = world_with_a_secret();
    fill(&world.catalog());
    let catalog = world.catalog();
    world.delete(&catalog, &ids[150]);
    drop(catalog);
    assert_eq!(files_with(&world, "zanzibarhunter"), [""; 0]);
    world.check(&world.catalog());
}
