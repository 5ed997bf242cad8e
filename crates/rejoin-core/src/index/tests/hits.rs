//! Tests of finding places in conversations.

use super::*;
use crate::conversation::Field;
use crate::index::{Hit, Pattern, Query, Search};

fn words(text: &str) -> Query {
    Query::new(Pattern::Words(Search::parse(text).unwrap()))
}

/// All hits, from all pages.
#[track_caller]
fn all(catalog: &Catalog, query: &Query) -> Vec<Hit> {
    while !catalog.read_words(1 << 20).unwrap() {}
    let mut found = Vec::new();
    let mut cursor = None;
    loop {
        let page = catalog.hits(query, cursor.as_deref(), &|| false).unwrap();
        assert!(page.complete);
        assert!(page.hits.len() <= query.limit);
        found.extend(page.hits);
        cursor = page.next_cursor;
        if cursor.is_none() {
            return found;
        }
    }
}

fn snippets(hits: &[Hit]) -> Vec<&str> {
    hits.iter().map(|hit| hit.snippet.as_str()).collect()
}

#[test]
fn places_are_found_by_words_and_pages_show_each_once() {
    let (world, ids) = World::with_sessions(4);
    let say = |id, words| {
        world.append(id, Entry::Said { words });
        world.append(id, Entry::Prompt { at: world.now() });
    };
    say(&ids[0], "Redis keeps timing out");
    for _ in 0..20 {
        say(&ids[1], "nothing of interest");
    }
    say(&ids[1], "and then MyRedisConfig was wrong");
    say(&ids[2], "redis, and more rédis");
    for _ in 0..5 {
        say(&ids[2], "redis out");
    }
    let catalog = world.catalog();
    let query = words("redis");
    let hits = all(&catalog, &query);
    assert_eq!(hits.len(), 5);
    for limit in 1..6 {
        let query = Query {
            limit,
            ..query.clone()
        };
        assert_eq!(all(&catalog, &query), hits, "{limit}");
    }
    let later = hits.iter().find(|hit| hit.session.id == ids[1]).unwrap();
    assert_eq!(later.snippet, "and then MyRedisConfig was wrong");
    assert_eq!(later.field, Field::Answer);
    let mut log = world.store.read(&ids[1]).unwrap();
    log.seek(later.offset.unwrap());
    let record = log.next().unwrap().unwrap().record;
    assert!(
        record.payload.contains("MyRedisConfig"),
        "{}",
        record.payload
    );

    // A place with all words comes before those that have some.
    let found = all(&catalog, &words("out redis"));
    assert!(snippets(&found).contains(&"Redis keeps timing out"));
    assert!(!snippets(&found).contains(&"redis, and more rédis"));
    let found = all(&catalog, &words("\"keeps timing\""));
    assert_eq!(snippets(&found), ["Redis keeps timing out"]);
    assert_eq!(all(&catalog, &words("\"timing keeps\"")), []);
    assert_eq!(all(&catalog, &words("?")), []);
}

#[test]
fn filters_leave_out_what_they_do_not_name() {
    let (world, ids) = World::with_sessions(3);
    for id in &ids {
        world.append(id, Entry::Said { words: "redis" });
    }
    let catalog = world.catalog();
    let count = |query: Query| all(&catalog, &query).len();
    let query = words("redis");
    assert_eq!(count(query.clone()), 3);
    let of_fields = |fields: &[Field]| Query {
        fields: fields.to_vec(),
        ..query.clone()
    };
    assert_eq!(count(of_fields(&[Field::Answer])), 3);
    assert_eq!(count(of_fields(&[Field::Prompt, Field::ToolOutput])), 0);
    let session = Some(ids[1].clone());
    let narrow = Query {
        session,
        ..query.clone()
    };
    assert_eq!(count(narrow), 1);
    let sources = vec!["other".to_owned()];
    let narrow = Query {
        sources,
        ..query.clone()
    };
    assert_eq!(count(narrow), 0);
    let at = |at: &str| Some(at.to_owned());
    let (since, until) = (at("2100"), at("1969"));
    let since = Query {
        since,
        ..query.clone()
    };
    let until = Query {
        until,
        ..query.clone()
    };
    assert_eq!((count(since), count(until)), (0, 0));
    let tool = Some("read".to_owned());
    let narrow = Query {
        tool,
        ..query.clone()
    };
    assert_eq!(count(narrow), 0);
    let elsewhere = Filter {
        cwd: Some("/elsewhere".to_owned()),
        ..Filter::default()
    };
    let narrow = Query {
        sessions: elsewhere,
        ..query.clone()
    };
    assert_eq!(count(narrow), 0);
}

#[test]
fn what_a_tool_returns_long_after_its_title_is_its_own() {
    let (world, ids) = World::with_sessions(1);
    let (begun, done) = (
        ("title", "Run the linter"),
        ("rawOutput", "all of redis is fine"),
    );
    for (member, text) in [begun, done] {
        world.append(&ids[0], Entry::Tool { member, text });
        // Pieces are shorter than this.
        let words = "nothing else that is of any interest here";
        world.append(&ids[0], Entry::Said { words });
        world.append(&ids[0], Entry::Prompt { at: world.now() });
    }
    let catalog = world.catalog();
    for pattern in [
        words("redis").pattern,
        Pattern::Substring("redis".to_owned()),
    ] {
        let of_tool = |tool: &str| Query {
            tool: Some(tool.to_owned()),
            ..Query::new(pattern.clone())
        };
        assert_eq!(
            snippets(&all(&catalog, &of_tool("linter"))),
            ["all of redis is fine"]
        );
        assert_eq!(all(&catalog, &of_tool("other")), []);
    }
}

#[test]
fn what_was_said_comes_before_what_tools_returned_wherever_it_is() {
    let (world, ids) = World::with_sessions(1);
    let say = |entry| {
        world.append(&ids[0], entry);
        world.append(&ids[0], Entry::Prompt { at: world.now() });
    };
    let text = "telemetry opt out";
    for _ in 0..6 {
        let member = "rawOutput";
        say(Entry::Tool { member, text });
    }
    let said = "after a long while of thinking about it we may well opt for telemetry to be out";
    say(Entry::Said { words: said });
    let catalog = world.catalog();
    for per_session in 1..4 {
        let query = Query {
            per_session,
            ..words("telemetry opt out")
        };
        let hits = all(&catalog, &query);
        assert_eq!(hits[0].field, Field::Answer, "{per_session}");
        assert_eq!(hits.len(), per_session);
    }
}

#[test]
fn prompts_come_first_however_often_others_have_the_words_and_paths_last() {
    let (world, ids) = World::with_sessions(1);
    let at = world.now();
    world.append(&ids[0], Entry::Prompt { at });
    let text: &str = Box::leak(format!("asked {at}, asked {at}").into_boxed_str());
    let also = "nothing else that is of any interest here";
    for member in ["title"].into_iter().chain(["rawOutput"; 20]) {
        world.append(&ids[0], Entry::Tool { member, text });
        world.append(&ids[0], Entry::Said { words: also });
    }
    let catalog = world.catalog();
    let query = Query {
        per_session: 100,
        ..words(&format!("asked {at}"))
    };
    let hits = all(&catalog, &query);
    let fields: Vec<_> = hits.iter().map(|hit| hit.field).collect();
    assert_eq!(fields[..2], [Field::Prompt, Field::ToolOutput]);
    let few = Query {
        per_session: 1,
        ..query
    };
    assert_eq!(all(&catalog, &few)[..], hits[..1]);
}

#[test]
fn a_cursor_belongs_to_its_query_and_a_search_can_be_cancelled() {
    let (world, ids) = World::with_sessions(3);
    for id in &ids {
        world.append(id, Entry::Said { words: "redis" });
    }
    let catalog = world.catalog();
    let query = Query {
        limit: 1,
        ..words("redis")
    };
    all(&catalog, &query);
    let page = catalog.hits(&query, None, &|| false).unwrap();
    let cursor = page.next_cursor.unwrap();
    let other = Query {
        tool: Some("x".to_owned()),
        ..query.clone()
    };
    catalog.hits(&other, Some(&cursor), &|| false).unwrap_err();
    catalog.hits(&query, Some("1-0"), &|| false).unwrap_err();
    catalog.hits(&query, None, &|| true).unwrap_err();
}

#[test]
fn logs_are_searched_without_an_index() {
    let (world, ids) = World::with_sessions(70);
    world.append(
        &ids[3],
        Entry::Said {
            words: "C:\\new \"é\"",
        },
    );
    world.append(&ids[69], Entry::Said { words: "a/b\nnew" });
    let catalog = world.catalog();
    let substring = |text: &str| Query::new(Pattern::Substring(text.to_owned()));
    let regex = |text: &str| Query::new(Pattern::regex(text).unwrap());
    let found = |query: Query| -> Vec<usize> {
        let mut sessions = Vec::new();
        let mut cursor = None;
        loop {
            let query = Query {
                limit: 1,
                ..query.clone()
            };
            let page = catalog.hits(&query, cursor.as_deref(), &|| false).unwrap();
            assert!(page.complete);
            let places = page.hits.iter().map(|hit| &hit.session.id);
            sessions.extend(places.filter_map(|id| ids.iter().position(|other| other == id)));
            cursor = page.next_cursor;
            if cursor.is_none() {
                return sessions;
            }
        }
    };
    assert_eq!(found(substring("C:\\new \"é")), [3]);
    assert_eq!(found(substring("new")), [69, 3]);
    assert_eq!(found(substring("a/b\nn")), [69]);
    assert_eq!(found(substring("New")), [0; 0]);
    assert_eq!(found(substring("\\u")), [0; 0]);
    assert_eq!(found(regex("(?i)NEW$")), [69]);
    assert_eq!(found(regex(r":\\n\w+")), [3]);
    world.logs.folder().damaged.insert(ids[3].clone());
    let page = catalog.hits(&substring("new"), None, &|| false).unwrap();
    assert_eq!((page.hits.len(), page.complete), (1, false));
    catalog.hits(&substring("new"), None, &|| true).unwrap_err();
}
