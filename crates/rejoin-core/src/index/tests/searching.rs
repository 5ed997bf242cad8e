//! Property tests: after any events, in any order, a search agrees with the logs.

use proptest::prelude::*;

use super::*;
use crate::index::Search;
use crate::record::{Header, Kind, RewindTarget};
use crate::store::{Log, Sync};

const SAID: [&str; 6] = [
    "Redis keeps timing out",
    "check the red config",
    "数据库 timed out 🚀",
    "naïve CAFÉ",
    "\"quoted\" AND (not) x*",
    "",
];

const SOUGHT: [&str; 12] = [
    "red",
    "REDIS",
    "tim out",
    "out check",
    "据库",
    "🚀",
    "cafe",
    "naive café",
    "and",
    "x",
    "nothing",
    "quoted red",
];

#[derive(Clone, Debug)]
enum Event {
    Prompt {
        process: usize,
        pick: usize,
        said: usize,
    },
    Say {
        pick: usize,
        said: usize,
    },
    Create {
        process: usize,
    },
    Delete {
        process: usize,
        pick: usize,
    },
    Replace {
        pick: usize,
        said: usize,
    },
    TakeOut {
        pick: usize,
    },
    Spoil {
        at: usize,
    },
    DeleteFile,
    Restart {
        process: usize,
    },
    Search {
        process: usize,
        sought: usize,
        limit: usize,
    },
}

fn event() -> impl Strategy<Value = Event> {
    let process = 0usize..2;
    let pick = 0usize..1000;
    let said = 0..SAID.len();
    prop_oneof![
        4 => (process.clone(), pick.clone(), said.clone())
            .prop_map(|(process, pick, said)| Event::Prompt { process, pick, said }),
        3 => (pick.clone(), said.clone()).prop_map(|(pick, said)| Event::Say { pick, said }),
        2 => process.clone().prop_map(|process| Event::Create { process }),
        1 => (process.clone(), pick.clone())
            .prop_map(|(process, pick)| Event::Delete { process, pick }),
        1 => (pick.clone(), said).prop_map(|(pick, said)| Event::Replace { pick, said }),
        1 => pick.clone().prop_map(|pick| Event::TakeOut { pick }),
        1 => pick.prop_map(|at| Event::Spoil { at }),
        1 => Just(Event::DeleteFile),
        1 => process.clone().prop_map(|process| Event::Restart { process }),
        6 => (process, 0..SOUGHT.len(), 1usize..5)
            .prop_map(|(process, sought, limit)| Event::Search { process, sought, limit }),
    ]
}

/// The words of a text, as a person would separate them.
fn words(text: &str) -> Vec<String> {
    let text = text.to_lowercase().replace('ï', "i").replace('é', "e");
    let text = text
        .replace('数', " 数 ")
        .replace('据', " 据 ")
        .replace('库', " 库 ");
    let split = text.split(|c: char| !c.is_alphanumeric() && c != '🚀');
    split
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Whether the words of `sought`, which form one phrase, occur next to each other.
fn says(all: &[String], sought: &str) -> bool {
    let sought = words(sought);
    let Some((last, first)) = sought.split_last() else {
        return false;
    };
    all.windows(sought.len())
        .any(|words| words[..first.len()] == *first && words[first.len()].starts_with(last))
}

impl World {
    /// The expected result of a search.
    fn saying(&self, sought: &str) -> Vec<Listed> {
        let mut found = self.expected(None);
        found.retain(|listed| {
            let folder = self.logs.folder();
            let said = folder.logs[&listed.id].iter().map(|entry| match entry {
                Entry::Said { words: said } => words(said),
                _ => Vec::new(),
            });
            let said: Vec<_> = said.collect();
            let somewhere = |word| said.iter().any(|all| says(all, word));
            sought.split(' ').all(somewhere)
        });
        found
    }
}

/// All pages of a search, once every word is read.
#[track_caller]
fn found(catalog: &Catalog, sought: &str, limit: usize) -> Vec<Listed> {
    while !catalog.read_words(1).unwrap() {}
    let filter = Filter {
        search: Search::parse(sought),
        ..Filter::default()
    };
    let mut sessions = Vec::new();
    let mut cursor = None;
    loop {
        let mut page = catalog.list(&filter, cursor.as_deref(), limit).unwrap();
        assert!(page.complete);
        // Another test checks the snippets.
        page.sessions.iter_mut().for_each(|l| l.snippet = None);
        sessions.extend(page.sessions);
        cursor = page.next_cursor;
        if cursor.is_none() {
            assert_eq!(page.total, Some(sessions.len() as u64));
            let half = sessions.len() / 2;
            let mut page = catalog.list_at(&filter, half as u64, 100).unwrap();
            page.sessions.iter_mut().for_each(|l| l.snippet = None);
            assert_eq!(page.sessions, sessions[half..]);
            return sessions;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_search_finds_what_the_logs_say(events in prop::collection::vec(event(), 1..40)) {
        let (world, mut ids) = World::with_sessions(3);
        let mut processes = [world.catalog(), world.catalog()];
        let living = |ids: &Vec<SessionId>, pick: usize| ids.get(pick % ids.len().max(1)).cloned();
        for event in events {
            world.pass(1);
            match event {
                Event::Prompt { process, pick, said } => if let Some(id) = living(&ids, pick) {
                    processes[process].opened(&id);
                    world.append(&id, Entry::Prompt { at: world.now() });
                    world.append(&id, Entry::Said { words: SAID[said] });
                    processes[process].put(&id, &world.summary(&id));
                },
                Event::Say { pick, said } => if let Some(id) = living(&ids, pick) {
                    processes[0].opened(&id);
                    world.append(&id, Entry::Said { words: SAID[said] });
                },
                Event::Create { process } => ids.push(world.create(&processes[process], "/new")),
                Event::Delete { process, pick } => if let Some(id) = living(&ids, pick) {
                    world.delete(&processes[process], &id);
                    ids.retain(|other| *other != id);
                },
                // A replaced log is noticed if it is shorter than what was read.
                Event::Replace { pick, said } => if let Some(id) = living(&ids, pick) {
                    world.delete(&processes[0], &id);
                    world.pass(1);
                    let log = vec![
                        Entry::Header { cwd: "/work".into() },
                        Entry::Prompt { at: world.now() },
                        Entry::Said { words: SAID[said] },
                    ];
                    world.restore(&id, log);
                },
                Event::TakeOut { pick } => if let Some(id) = living(&ids, pick) {
                    world.take_out(&id);
                    ids.retain(|other| *other != id);
                },
                Event::Spoil { at } => {
                    processes = [world.catalog(), world.catalog()];
                    let mut bytes = std::fs::read(world.path()).unwrap_or_default();
                    if let Some(page) = bytes.len().checked_div(4096).and_then(|n| at.checked_rem(n)) {
                        let from = if page == 0 { 100 } else { page * 4096 };
                        bytes[from..(page + 1) * 4096].fill(0xa5);
                        overwrite(&world.path(), &bytes);
                    }
                }
                Event::DeleteFile => {
                    if world.path().exists() {
                        remove(&world, &world.path());
                    }
                }
                Event::Restart { process } => processes[process] = world.catalog(),
                Event::Search { process, sought, limit } => {
                    let sought = SOUGHT[sought];
                    prop_assert_eq!(found(&processes[process], sought, limit), world.saying(sought));
                }
            }
        }
        for sought in SOUGHT {
            prop_assert_eq!(found(&processes[1], sought, 7), world.saying(sought), "{}", sought);
        }
    }
}

#[test]
fn names_are_found_by_their_parts_and_capitals_in_full() {
    let (world, ids) = World::with_sessions(8);
    for (id, words) in ids.iter().zip([
        "see MyRedisConfig.load()",
        "the file my_redis_config.toml",
        "upgrade to v1.2.3",
        "in der Straße",
        "config is not redis",
        "HTTPServer and fooBar",
        "3f786850e387550fdab836ed7e6dc881de23001b",
    ]) {
        world.append(id, Entry::Said { words });
    }
    let catalog = world.catalog();
    for (sought, expected) in [
        ("config", &[0, 1, 4][..]),
        ("redisconfig", &[]),
        ("RedisConfig", &[0, 1]),
        ("redis_config", &[0, 1]),
        ("myredis", &[0]),
        ("load", &[0]),
        ("1.2", &[2]),
        ("v1.2", &[2]),
        ("2.3", &[2]),
        ("3.2", &[]),
        ("strasse", &[3]),
        ("STRASSE", &[3]),
        ("straße", &[3]),
        ("server", &[5]),
        ("http", &[5]),
        ("bar", &[5]),
        ("ServerFoo", &[]),
        ("3f78", &[6]),
        ("786850", &[]),
    ] {
        let mut found = found(&catalog, sought, 100);
        found.sort_by(|a, b| a.id.cmp(&b.id));
        let found: Vec<_> = found.into_iter().map(|listed| listed.id).collect();
        let expected: Vec<_> = expected.iter().map(|n: &usize| ids[*n].clone()).collect();
        assert_eq!(found, expected, "{sought}");
    }
}

#[test]
fn a_search_shows_where_it_found_something() {
    let (world, ids) = World::with_sessions(3);
    let say = |id, words| {
        world.append(id, Entry::Said { words });
        world.append(id, Entry::Prompt { at: world.now() });
    };
    say(&ids[0], "Redis keeps timing out");
    for _ in 0..50 {
        say(&ids[1], "nothing of interest");
    }
    say(&ids[1], "and then MyRedisConfig was wrong");
    say(&ids[2], "a rédis with an accent");
    let catalog = world.catalog();
    assert_eq!(found(&catalog, "redis", 10).len(), 3);
    let filter = Filter {
        search: Search::parse("redis"),
        ..Filter::default()
    };
    let snippet = |id: &SessionId| {
        let page = catalog.list(&filter, None, 10).unwrap();
        let mut sessions = page.sessions.into_iter();
        sessions.find(|listed| listed.id == *id).unwrap().snippet
    };
    assert_eq!(snippet(&ids[0]).as_deref(), Some("Redis keeps timing out"));
    let later = "and then MyRedisConfig was wrong";
    assert_eq!(snippet(&ids[1]).as_deref(), Some(later));
    assert_eq!(snippet(&ids[2]).as_deref(), Some("a rédis with an accent"));
    // A list without a search has no snippets.
    assert!(
        first(&catalog)
            .iter()
            .all(|listed| listed.snippet.is_none())
    );
    // A log that is gone or damaged by now has no snippet.
    world.logs.folder().damaged.insert(ids[0].clone());
    assert_eq!(snippet(&ids[0]), None);
}

#[test]
fn what_is_not_read_yet_is_told() {
    let (world, ids) = World::with_sessions(200);
    for id in &ids {
        for words in ["first", "second", "third"] {
            world.append(id, Entry::Said { words });
            world.append(id, Entry::Prompt { at: world.now() });
        }
    }
    let catalog = world.catalog();
    assert!(!catalog.read_words(1).unwrap());
    assert_eq!(found(&catalog, "second", 500).len(), ids.len());
    // Once read, it is not read again.
    assert!(catalog.read_words(1).unwrap());
    world.prompt(&catalog, &ids[0]);
    assert_eq!(found(&catalog, "third", 500).len(), ids.len());
}

#[test]
fn an_index_that_is_damaged_is_made_anew() {
    let (world, ids) = World::with_sessions(50);
    for id in &ids {
        world.append(id, Entry::Said { words: SAID[0] });
    }
    // Rows of `words_idx` that are missing are no damage to SQLite: words on later pages are then
    // not found, or found, depending on where pages end.
    for sql in [
        "DROP TABLE words",
        "DELETE FROM words_data",
        "DELETE FROM words_docsize; UPDATE words_data SET block = x'00'",
        "UPDATE words_data SET block = x'0a0b0c'",
        "DROP TABLE words_data",
        "UPDATE words_config SET v = 99",
        "UPDATE sessions SET text_len = -5, text_from = -9, text_pieces = -1",
    ] {
        let catalog = world.catalog();
        assert_eq!(found(&catalog, "redis", 500).len(), ids.len(), "{sql}");
        drop(catalog);
        let file = rusqlite::Connection::open(world.path()).unwrap();
        let config = rusqlite::config::DbConfig::SQLITE_DBCONFIG_DEFENSIVE;
        file.set_db_config(config, false).unwrap();
        file.execute_batch(sql).unwrap();
        drop(file);
        let catalog = world.catalog();
        // An empty index looks like sessions without words until it is written.
        world.append(&ids[0], Entry::Said { words: "zebra" });
        catalog.opened(&ids[0]);
        assert_eq!(found(&catalog, "zebra", 500).len(), 1, "{sql}");
        drop(catalog);
        remove(&world, &world.path());
        for suffix in ["-wal", "-shm"] {
            let beside = world.path().with_file_name(format!("index.sqlite{suffix}"));
            world.sys.disk.remove_file(&beside).ok();
        }
    }
}

#[test]
fn the_index_is_filled_between_two_searches() {
    let (world, ids) = World::with_sessions(6000);
    for id in &ids {
        world.append(id, Entry::Said { words: "redis" });
    }
    let catalog = Arc::new(world.catalog());
    let filter = Filter {
        search: Search::parse("redis"),
        ..Filter::default()
    };
    let page = catalog.list(&filter, None, 10).unwrap();
    assert!(!page.complete);
    assert_eq!(page.total, None);
    let filling = catalog.read_words_in_background().unwrap();
    filling.join().unwrap();
    world.logs.touched();
    let page = catalog.list(&filter, None, 10).unwrap();
    assert_eq!((page.total, page.complete), (Some(6000), true));
    // The thread can be started again, and ends with the catalog.
    assert!(catalog.read_words_in_background().is_some());
    drop(catalog);
}

#[test]
fn what_was_undone_is_not_found() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), Sys::real(), Durability::Os).unwrap();
    let id = SessionId::from_uuid(Uuid::now_v7());
    let mut log = store.create(&id, &Header::new(&id, "/w")).unwrap();
    let mut logs = Logs::new(store);
    logs.piece = PIECE;
    let catalog = Catalog::of(logs, None);
    let search = |word: &str| {
        catalog.opened(&id);
        found(&catalog, word, 10).len()
    };
    let turn = |log: &mut Log, word: &str| {
        let prompt =
            format!(r#"{{"prompt":[{{"type":"text","text":"this turn is about {word}"}}]}}"#);
        let end = r#"{"stopReason":"end_turn"}"#;
        let records = [(Kind::Prompt, Some(word), &*prompt), (Kind::End, None, end)];
        log.append_all(records.into_iter(), Sync::Buffered).unwrap();
    };
    for word in ["first", "second", "third"] {
        turn(&mut log, word);
    }
    assert_eq!(search("third"), 1);
    // Once the words of a rewind are read, the log is read on from there.
    for _ in 0..2 {
        let target = RewindTarget::Message("second".to_owned());
        log.rewind(&target, "mark", None).unwrap();
        assert_eq!(
            (search("first"), search("second"), search("third")),
            (1, 0, 0)
        );
        turn(&mut log, "other");
        assert_eq!(
            (search("other"), search("second"), search("third")),
            (1, 0, 0)
        );
        log.rewind(&RewindTarget::Undo, "mark", None).unwrap();
        assert_eq!(
            (search("other"), search("second"), search("third")),
            (0, 1, 1)
        );
        turn(&mut log, "fourth");
        assert_eq!((search("fourth"), search("other")), (1, 0));
    }
}
