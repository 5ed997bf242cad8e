//! Lists that the database answers are those of the catalog.

use std::path::Path;

use rejoin::index::{Archived, Catalog, Filter, Order, Page};
use rejoin::store::{Durability, Store};
use rejoin::sys::Sys;
use serde_json::json;

use super::cluster;
use super::processes::{Process, prompt};

fn catalog(place: &Path) -> (Store, Catalog) {
    let store = Store::at(place, Sys::real(), Durability::Turn);
    (store.clone(), Catalog::open(store))
}

/// All pages of a list.
fn all(catalog: &Catalog, filter: &Filter, limit: usize) -> Vec<Page> {
    let mut pages = vec![catalog.list(filter, None, limit).unwrap()];
    while let Some(cursor) = pages.last().unwrap().next_cursor.clone() {
        pages.push(catalog.list(filter, Some(&cursor), limit).unwrap());
    }
    for page in &mut pages {
        catalog.add_agent_ids(page).unwrap();
    }
    pages
}

#[test]
fn both_catalogs_answer_alike() {
    let Some(place) = cluster::store() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let mut process = Process::start(folder.path());
    let mut sessions = Vec::new();
    for n in 0..12 {
        let cwd = ["/work", "/a", "/b"][n % 3];
        let made = process.ask("session/new", &json!({ "cwd": cwd, "mcpServers": [] }));
        let id = made.unwrap()["sessionId"].as_str().unwrap().to_owned();
        if n % 5 != 4 {
            let text = format!("the question number {n}");
            process.ask("session/prompt", &prompt(&id, &text)).unwrap();
        }
        sessions.push(id);
    }
    process.leave();
    let (files, ours) = catalog(folder.path());
    let (tables, theirs) = catalog(&place);
    for id in files.ids().unwrap() {
        files.copy_to(&id, &tables, true).unwrap();
    }
    let filters = [
        Filter::default(),
        Filter {
            order: Order::Prompted,
            ..Filter::default()
        },
        Filter {
            cwd: Some("/work".to_owned()),
            ..Filter::default()
        },
        Filter {
            cwd: Some("/work".to_owned()),
            worktrees: Some(vec!["/b".to_owned()]),
            archived: Archived::Include,
            ..Filter::default()
        },
        Filter {
            archived: Archived::Only,
            ..Filter::default()
        },
        Filter {
            agent: Some("none".to_owned()),
            ..Filter::default()
        },
        Filter {
            since: Some("2020-01-01T00:00:00.000Z".to_owned()),
            ..Filter::default()
        },
    ];
    for filter in &filters {
        for limit in [1, 3, 100] {
            assert_eq!(
                all(&theirs, filter, limit),
                all(&ours, filter, limit),
                "{filter:?}"
            );
        }
    }
    assert_eq!(
        theirs.every(None).unwrap().len(),
        ours.every(None).unwrap().len()
    );
    for id in files.ids().unwrap() {
        assert_eq!(theirs.find(&id), ours.find(&id));
    }
    let (id, last) = (&files.ids().unwrap()[0], &files.ids().unwrap()[1]);
    assert!(tables.trash(id).unwrap());
    assert_eq!(theirs.find(id), None);
    assert!(theirs.find(last).is_some());
}

#[test]
fn a_list_shows_what_another_process_does() {
    let Some(place) = cluster::store() else {
        return;
    };
    let mut process = Process::start(&place);
    let session = process.new_session();
    let (_, catalog) = catalog(&place);
    let list = || catalog.list(&Filter::default(), None, 10).unwrap().sessions;
    assert_eq!(list().len(), 0);
    process
        .ask("session/prompt", &prompt(&session, "what is listed"))
        .unwrap();
    let listed = list();
    assert_eq!(listed[0].summary.title.as_deref(), Some("what is listed"));
    assert_eq!(listed[0].summary.prompts, 1);
    process
        .ask("session/prompt", &prompt(&session, "more"))
        .unwrap();
    process.leave();
    assert_eq!(list()[0].summary.prompts, 2);
    let search = rejoin::index::Search::parse("listed");
    let found = Filter {
        search,
        ..Filter::default()
    };
    assert_eq!(catalog.list(&found, None, 10).unwrap().sessions.len(), 1);
}
