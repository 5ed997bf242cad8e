//! Tests of the words of conversations that other tools keep.

use super::*;
use crate::conversation::{Field, Passage};
use crate::index::sqlite::erase_words::erase_some;
use crate::index::{FileOfTool, ReadFile};

/// The tool of these tests.
const TOOL: &str = "tool";

fn passage(text: &str) -> Passage {
    Passage {
        field: Field::Answer,
        offset: 0,
        at: "2027-01-15T08:00:00.000Z".to_owned(),
        id: None,
        tool_kind: None,
        text: text.to_owned(),
    }
}

/// Reports that the file of a conversation has this text now, in pieces.
fn put(catalog: &Catalog, id: &SessionId, text: &[&str]) {
    let pieces = text.iter().map(|text| vec![passage(text)]);
    let read = ReadFile {
        file: FileOfTool {
            path: "/file".to_owned(),
            part: String::new(),
            size: text.iter().map(|text| text.len() as u64).sum(),
            changed: 1,
        },
        conversation: Some((
            id.clone(),
            Summary {
                updated_at: Some("2027-01-15T08:00:00.000Z".to_owned()),
                ..Summary::default()
            },
        )),
        counted: true,
        text: pieces.collect(),
        so_far: None,
        after: None,
    };
    catalog.tool_files.put(&[(TOOL, read)]).unwrap();
}

/// The result of a query of the catalog's file.
fn queried(world: &World, sql: &str) -> Vec<i64> {
    let database = rusqlite::Connection::open(world.path()).unwrap();
    let mut query = database.prepare(sql).unwrap();
    let rows = query.query_map([], |row| row.get(0)).unwrap();
    rows.map(Result::unwrap).collect()
}

/// Where pieces begin, as far as anybody says.
fn starts(world: &World) -> Vec<i64> {
    queried(world, "SELECT start FROM pieces ORDER BY piece")
}

/// How many pieces have a word.
fn with(world: &World, word: &str) -> i64 {
    let sql = format!("SELECT count(*) FROM words WHERE words MATCH '{word}'");
    queried(world, &sql)[0]
}

fn has_nothing_to_erase(world: &World) -> bool {
    queried(world, "SELECT erasing FROM names") == [0]
}

#[test]
fn what_a_file_had_before_it_grew_stays_in_the_index() {
    let world = World::new();
    let (catalog, id) = (world.catalog(), world.copy_in("/work"));
    world.take_out(&id);
    put(&catalog, &id, &["one", "two"]);
    // A mark that only a new row would lack.
    let database = rusqlite::Connection::open(world.path()).unwrap();
    let marked = database.execute("UPDATE pieces SET start = start + 70", []);
    assert_eq!(marked.unwrap(), 2);
    put(&catalog, &id, &["one", "two three", "four"]);
    assert_eq!(starts(&world), [70, 1, 2]);
    for word in ["one", "two", "three", "four"] {
        assert_eq!(with(&world, word), 1, "{word}");
    }
    assert!(has_nothing_to_erase(&world), "no word is gone");
    put(&catalog, &id, &["one", "two three", "four"]);
    assert_eq!(starts(&world), [70, 1, 2]);
}

#[test]
fn what_a_file_lacks_now_is_erased() {
    let world = World::new();
    let (catalog, id) = (world.catalog(), world.copy_in("/work"));
    world.take_out(&id);
    put(&catalog, &id, &["one", "two zanzibarhunter", "three"]);
    put(&catalog, &id, &["one", "two five"]);
    assert_eq!(starts(&world).len(), 2);
    for (word, pieces) in [("one", 1), ("zanzibarhunter", 0), ("three", 0), ("five", 1)] {
        assert_eq!(with(&world, word), pieces, "{word}");
    }
    assert!(!has_nothing_to_erase(&world));
    while !erase_some(&catalog.tool_files.database).unwrap() {}
    put(&catalog, &id, &[]);
    assert_eq!(starts(&world), [0; 0]);
    assert_eq!(with(&world, "one"), 0);
}
