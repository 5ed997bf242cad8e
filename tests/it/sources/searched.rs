//! Searches in the files of tools: without an index, those that cannot have what is sought are not read as
//! conversations, and with one, a file that has grown is read from there.

#![expect(
    clippy::disallowed_methods,
    reason = "the files of other tools are no store"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::Arc;

use rejoin::conversation::SearchText;
use rejoin::index::{Archived, Catalog, Filter, Pattern, Query, Search};
use rejoin::sources::{LiveSources, SOURCES};
use rejoin::store::{Durability, Store};
use rejoin::sys::{SessionId, Sys, Timestamp};
use serde_json::json;

use super::{home, places};

/// The lines of a turn of Claude Code with this number.
fn turn(number: usize) -> String {
    let name = |kind: &str, of: usize| format!("{kind}{of}");
    let words = |what: &str| {
        let words = (0..90).map(|word| format!("{what}{number}x{word}"));
        words.collect::<Vec<_>>().join(" ")
    };
    let before = number.checked_sub(1).map(|before| name("a", before));
    let at = Timestamp::from_millis(1_780_000_000_000 + 1000 * i64::try_from(number).unwrap());
    let record = |kind: &str, id: String, parent: Option<String>, text: String| {
        json!({"type": kind, "uuid": id, "parentUuid": parent, "timestamp": at.to_string(),
            "cwd": "/srv/app", "message": {"role": kind, "content": text}})
    };
    let prompt = record("user", name("u", number), before, words("ask"));
    let parent = Some(name("u", number));
    let answer = record("assistant", name("a", number), parent, words("say"));
    format!("{prompt}\n{answer}\n")
}

#[test]
fn a_file_that_has_grown_is_found_as_it_is_now() {
    let (home, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = Store::open(folder.path(), Sys::real(), Durability::Os).unwrap();
    let project = home.path().join(".claude/projects/-srv-app");
    fs::create_dir_all(&project).unwrap();
    let file = project.join("0190aaaa-0000-7000-8000-000000000009.jsonl");
    let turns = |range: std::ops::Range<usize>| range.map(turn).collect::<String>();
    fs::write(&file, turns(0..60)).unwrap();
    let sources = Arc::new(LiveSources::new(
        SOURCES.iter().collect(),
        places(home.path()),
    ));
    let catalog = Catalog::with_tools(store.clone(), Some(sources.clone()));
    let prompts = || {
        sources.scan(&store, &catalog).unwrap();
        while sources.count_some(&catalog).unwrap() {}
        let listed = catalog.list(&Filter::default(), None, 10).unwrap().sessions;
        assert_eq!(listed.len(), 1);
        listed[0].summary.prompts
    };
    let is_found = |word: &str| {
        let query = Query::new(Pattern::Words(Search::parse(word).unwrap()));
        let hits = catalog.hits(&query, None, &|| false).unwrap().hits;
        !hits.is_empty()
    };
    assert_eq!(prompts(), 60);
    assert!(is_found("ask20x7") && is_found("say59x7"));
    fs::write(&file, turns(0..61)).unwrap();
    assert_eq!(prompts(), 61);
    assert!(is_found("ask20x7") && is_found("say60x7"));
    // A change before the place where it has grown, of the same length, is seen.
    let other = turns(0..62).replace("ask20x", "ask20y");
    fs::write(&file, other).unwrap();
    assert_eq!(prompts(), 62);
    assert!(!is_found("ask20x7") && is_found("ask20y7") && is_found("say61x7"));
    // The next reading is of all.
    fs::write(&file, turns(0..30) + &turns(70..72)).unwrap();
    assert_eq!(prompts(), 32);
    assert!(is_found("ask20x7") && !is_found("say59x7") && is_found("say71x7"));
}

#[test]
fn every_word_of_every_conversation_is_found() {
    let (home, folder) = (home(), tempfile::tempdir().unwrap());
    let store = Store::open(folder.path(), Sys::real(), Durability::Os).unwrap();
    let sources = Arc::new(LiveSources::new(
        SOURCES.iter().collect(),
        places(home.path()),
    ));
    let catalog = Catalog::with_tools(store.clone(), Some(sources.clone()));
    sources.scan(&store, &catalog).unwrap();
    while sources.count_some(&catalog).unwrap() {}
    let mut words: BTreeMap<String, BTreeSet<SessionId>> = BTreeMap::new();
    for id in catalog.tool_files().ids().unwrap() {
        let mut log = sources.read(&catalog, &id).unwrap().unwrap();
        let mut text = SearchText::whole();
        while let Some(entry) = log.next().unwrap() {
            text.record(entry.offset, &entry.record);
        }
        for passage in text.take() {
            for word in passage
                .text
                .split(|c: char| !c.is_alphanumeric() && c != '_')
            {
                words.entry(word.to_owned()).or_default().insert(id.clone());
            }
        }
    }
    words.remove("");
    assert!(words.len() > 200, "{}", words.len());
    for (word, expected) in words {
        let query = Query {
            limit: 1000,
            ..Query::new(Pattern::Substring(word.clone()))
        };
        let hits = catalog.hits(&query, None, &|| false).unwrap().hits;
        let found: BTreeSet<SessionId> = hits.into_iter().map(|hit| hit.session.id).collect();
        assert!(
            expected.is_subset(&found),
            "{word}: {:?}",
            expected.difference(&found)
        );
    }
}

#[test]
fn a_session_that_qwen_code_has_put_away_is_archived() {
    let (home, folder) = (home(), tempfile::tempdir().unwrap());
    let store = Store::open(folder.path(), Sys::real(), Durability::Os).unwrap();
    let qwen = SOURCES.iter().filter(|source| source.name == "qwen");
    let sources = Arc::new(LiveSources::new(qwen.collect(), places(home.path())));
    let catalog = Catalog::with_tools(store.clone(), Some(sources.clone()));
    let listed = |archived| {
        sources.scan(&store, &catalog).unwrap();
        let filter = Filter {
            archived,
            ..Filter::default()
        };
        let page = catalog.list(&filter, None, 10).unwrap();
        assert_eq!(page.total, Some(page.sessions.len() as u64));
        let ids = page.sessions.into_iter().map(|listed| listed.id);
        ids.collect::<Vec<_>>()
    };
    let all = listed(Archived::Exclude);
    assert_eq!(all.len(), 1);
    let chats = home.path().join(".qwen/projects/-srv-app/chats");
    let name = "9a000000-0000-4000-8000-000000000001.jsonl";
    fs::create_dir(chats.join("archive")).unwrap();
    fs::rename(chats.join(name), chats.join("archive").join(name)).unwrap();
    // What is beside it is no conversation.
    let ledger = name.replace(".jsonl", ".ledger.jsonl");
    fs::copy(chats.join("archive").join(name), chats.join(ledger)).unwrap();
    assert_eq!(listed(Archived::Only), all);
    assert_eq!(listed(Archived::Include), all);
    assert_eq!(listed(Archived::Exclude), []);
    let mut log = sources.read(&catalog, &all[0]).unwrap().unwrap();
    let mut has_subagent = false;
    while let Some(entry) = log.next().unwrap() {
        has_subagent |= entry.record.payload.contains("agent-look-1");
    }
    assert!(has_subagent, "its subagents are beside the archive");
    fs::rename(chats.join("archive").join(name), chats.join(name)).unwrap();
    assert_eq!(listed(Archived::Exclude), all);
    assert_eq!(listed(Archived::Only), []);
}
