//! Tests of the agents' session ids.

use crate::index::Archived;

use super::*;

/// Which of some ids belong to our sessions.
#[track_caller]
fn ours(catalog: &Catalog) -> Vec<String> {
    let ids = ["a", "b", "c", "d"].map(str::to_owned);
    let ours = catalog.ours("agent", &ids).unwrap();
    assert_eq!(catalog.ours("other", &ids).unwrap(), BTreeSet::new());
    ours.into_iter().collect()
}

fn session(catalog: &Catalog, id: &str) -> Option<SessionId> {
    catalog.of_inner("agent", id).unwrap()
}

#[test]
fn are_found_in_logs_old_and_new_and_in_the_trash() {
    let (world, ids) = World::with_sessions(2);
    world.append(&ids[0], Entry::AgentSessionId { id: "a" });
    let gone = SessionId::from_uuid(Uuid::now_v7());
    world.copy_to_trash(&gone, Entry::AgentSessionId { id: "d" });
    let catalog = world.catalog();
    assert_eq!(ours(&catalog), ["a", "d"]);
    assert_eq!(session(&catalog, "a").as_ref(), Some(&ids[0]));
    assert_eq!(session(&catalog, "d"), None, "it is in the trash");

    // Another process reports that it writes, and then writes.
    let other = world.catalog();
    other.opened(&ids[1]);
    world.append(&ids[1], Entry::AgentSessionId { id: "b" });
    assert_eq!(ours(&catalog), ["a", "b", "d"]);
    catalog.knows(&ids[1], &inner("c"));
    catalog.knows(&ids[1], &inner("c"));
    assert_eq!(ours(&other), ["a", "b", "c", "d"]);
    assert_eq!(session(&other, "c").as_ref(), Some(&ids[1]));
}

#[test]
fn stay_when_the_session_goes_and_serve_it_when_it_comes_back() {
    let world = World::new();
    let catalog = world.catalog();
    let id = world.create(&catalog, "/work");
    world.prompt(&catalog, &id);
    world.append(&id, Entry::AgentSessionId { id: "a" });
    catalog.closed(&id, &world.summary(&id));
    let log = world.logs.folder().logs[&id].clone();
    world.delete(&catalog, &id);
    assert_eq!(ours(&catalog), ["a"]);
    assert_eq!(session(&catalog, "a"), None);
    world.pass(60_000);
    world.restore(&id, log);
    assert_eq!(ours(&catalog), ["a"]);
    assert_eq!(session(&catalog, "a"), Some(id));
}

#[test]
fn of_a_page_are_in_the_order_of_the_log() {
    let (world, ids) = World::with_sessions(2);
    for id in ["b", "a", "c", "a"] {
        world.append(&ids[0], Entry::AgentSessionId { id });
    }
    let catalog = world.catalog();
    let mut page = catalog.list(&Filter::default(), None, 10).unwrap();
    catalog.add_agent_ids(&mut page.sessions).unwrap();
    for listed in page.sessions {
        let known = listed.summary.agent_ids;
        let known: Vec<_> = known.iter().map(|known| &*known.id).collect();
        let expected = if listed.id == ids[0] {
            vec!["b", "a", "c"]
        } else {
            Vec::new()
        };
        assert_eq!(known, expected);
    }
}

#[test]
fn of_a_session_that_the_agent_had_first_are_left_to_it_until_ours_is_listed() {
    let world = World::new();
    let catalog = world.catalog();
    for known_as in [Some("a"), None] {
        let id = world.copy_in("/work");
        let mut summary = world.summary(&id);
        summary.known_as = known_as.map(str::to_owned);
        summary.agent_ids = vec![inner(known_as.unwrap_or("b"))];
        let before = catalog.before_change();
        catalog.created(&id, &summary, before);
        let unlisted = if known_as.is_some() {
            vec![]
        } else {
            vec!["a", "b"]
        };
        assert_eq!(ours(&catalog), unlisted);
        summary.prompts = 1;
        summary.updated_at = Some(world.clock.now().to_string());
        catalog.put(&id, &summary);
        let listed = if known_as.is_some() {
            vec!["a"]
        } else {
            vec!["a", "b"]
        };
        assert_eq!(ours(&catalog), listed);
        let known = catalog.find(&id).unwrap().known_as;
        assert_eq!(known.as_deref(), known_as);
        world.delete(&catalog, &id);
        assert_eq!(ours(&catalog), listed);
    }
}

#[test]
fn of_listed_sessions_are_not_listed_themselves_unless_they_went_on_alone() {
    let (world, ids) = World::with_sessions(2);
    let [outer, nested] = [&ids[0], &ids[1]];
    let catalog = world.catalog();
    let listed = || {
        let page = catalog.list(&Filter::default(), None, 10).unwrap();
        let cwd = Filter {
            cwd: page.sessions.first().map(|one| one.summary.cwd.clone()),
            ..Filter::default()
        };
        assert_eq!(page.total, catalog.list(&cwd, None, 10).unwrap().total);
        assert_eq!(page.total, Some(page.sessions.len() as u64));
        let with_archived = Filter {
            archived: Archived::Include,
            ..Filter::default()
        };
        let all = catalog.list(&with_archived, None, 10).unwrap();
        assert_eq!(all.total, Some(all.sessions.len() as u64));
        let ids: BTreeSet<_> = page.sessions.into_iter().map(|one| one.id).collect();
        ids
    };
    assert_eq!(listed().len(), 2);
    let inner = AgentSessionId {
        agent: "any".to_owned(),
        id: nested.to_string(),
    };
    catalog.knows(outer, &inner);
    assert_eq!(listed(), BTreeSet::from([outer.clone()]));
    let ours = catalog.ours("another", &[outer.to_string()]).unwrap();
    assert_eq!(ours.len(), 1, "an agent with our store lists it by our id");
    assert!(catalog.find(nested).is_some());

    world.prompt(&catalog, nested);
    assert_eq!(listed().len(), 2, "it has what the other one has not");
    world.prompt(&catalog, outer);
    assert_eq!(listed(), BTreeSet::from([outer.clone()]));
    world.delete(&catalog, outer);
    assert_eq!(listed(), BTreeSet::from([nested.clone()]));
}
