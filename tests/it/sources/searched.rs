//! Searches without an index: files that cannot have what is sought are not read as conversations.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rejoin::conversation::SearchText;
use rejoin::index::{Catalog, Pattern, Query};
use rejoin::sources::{LiveSources, SOURCES};
use rejoin::store::{Durability, Store};
use rejoin::sys::{SessionId, Sys};

use super::{home, places};

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
