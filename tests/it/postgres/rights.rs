//! What roles of the database may do, and what they see of each other.

use std::path::{Path, PathBuf};

use rejoin::index::{Catalog, Filter, Search};
use rejoin::record::Kind;
use rejoin::store::{Durability, Rights, Store, StoreError, Sync};
use rejoin::sys::{Sys, Timestamp};

use super::cluster;
use super::logs::{header, new_id, open, texts, update};
use crate::support::rows::Rows;

/// A store with roles of its own, by these names with the name of its schema behind.
struct Stage {
    place: PathBuf,
    owner: Rows,
    schema: String,
}

impl Stage {
    fn new(roles: &[(&str, Rights)]) -> Option<Self> {
        let place = cluster::store()?;
        let text = place.to_str().unwrap();
        let (_, schema) = text.split_once("schema=").unwrap();
        let stage = Self {
            owner: Rows::at(&place),
            schema: schema.to_owned(),
            place: place.clone(),
        };
        for (role, rights) in roles {
            let role = format!("{role}_{schema}");
            stage
                .owner
                .run(&format!("CREATE ROLE {role} LOGIN"))
                .unwrap();
            Store::grant(&place, &role, *rights).unwrap();
        }
        Some(stage)
    }

    /// The store for a role.
    fn place_of(&self, role: &str) -> PathBuf {
        let text = self.place.to_str().unwrap();
        text.replace("rejoin@", &format!("{role}_{}@", self.schema))
            .into()
    }

    fn as_role(&self, role: &str) -> (Store, Rows) {
        let place = self.place_of(role);
        (open(&place), Rows::at(&place))
    }
}

#[test]
fn a_writer_changes_nothing_in_a_log() {
    let Some(stage) = Stage::new(&[("writer", Rights::Write), ("janitor", Rights::Clean)]) else {
        return;
    };
    let (store, rows) = stage.as_role("writer");
    let id = new_id();
    let mut log = store.create(&id, &header(&id)).unwrap();
    log.append(Kind::Update, None, &update("a"), Sync::Turn)
        .unwrap();
    drop(log);
    assert_eq!(texts(&store, &id).len(), 2);
    for sql in [
        "DELETE FROM @.block",
        "UPDATE @.block SET bytes = ''",
        "TRUNCATE @.block",
        "DELETE FROM @.session",
        "DROP TABLE @.block",
        "ALTER TABLE @.block DISABLE ROW LEVEL SECURITY",
    ] {
        let refused = rows.run(sql).unwrap_err();
        assert!(
            refused.contains("permission denied") || refused.contains("must be owner"),
            "{sql}: {refused}"
        );
    }
    // It does what serving needs, and leaves the trash to others.
    assert!(store.trash(&id).unwrap());
    let later = Timestamp::from_millis(store.trashed().unwrap()[0].at.as_millis() + 1);
    assert_eq!(store.empty_trash(later).unwrap(), 0);
    store.restore(&id).unwrap();
    assert!(store.trash(&id).unwrap());
    assert!(store.erase(&id).is_err());
    stage
        .owner
        .run(&format!("GRANT writer_{0} TO janitor_{0}", stage.schema))
        .unwrap();
    let (janitor, _) = stage.as_role("janitor");
    let later = Timestamp::from_millis(janitor.trashed().unwrap()[0].at.as_millis() + 1);
    assert_eq!(janitor.empty_trash(later).unwrap(), 1);
    assert!(!store.join_blocks(later).unwrap());
}

#[test]
fn a_reader_writes_nothing() {
    let Some(stage) = Stage::new(&[("reader", Rights::Read)]) else {
        return;
    };
    let owner = open(&stage.place);
    let (store, rows) = stage.as_role("reader");
    let id = new_id();
    let refused = store.create(&id, &header(&id)).unwrap_err();
    assert!(
        refused.to_string().contains("permission denied"),
        "{refused}"
    );
    drop(owner.create(&id, &header(&id)).unwrap());
    // The owner of the tables has not made it a member.
    assert!(matches!(store.read(&id), Err(StoreError::NotFound { .. })));
    let refused = rows.run("INSERT INTO @.note VALUES ('a', 'b')");
    let refused = refused.unwrap_err();
    assert!(refused.contains("permission denied"), "{refused}");
}

#[test]
fn a_reader_lists_what_others_have_read() {
    let Some(stage) = Stage::new(&[("reader", Rights::Read)]) else {
        return;
    };
    stage
        .owner
        .run(&format!(
            "ALTER ROLE reader_{0} NOINHERIT; GRANT rejoin TO reader_{0}",
            stage.schema
        ))
        .unwrap();
    let owner = open(&stage.place);
    let id = new_id();
    let mut log = owner.create(&id, &header(&id)).unwrap();
    let words = r#"{"prompt":[{"type":"text","text":"unmistakable"}]}"#;
    log.append(Kind::Prompt, Some("msg_1"), words, Sync::Turn)
        .unwrap();
    drop(log);
    let listed = |store: &Store, words: &str| {
        let filter = Filter {
            search: Search::parse(words),
            ..Filter::default()
        };
        let page = Catalog::open(store.clone()).list(&filter, None, 10);
        let page = page.unwrap();
        (page.sessions.len(), page.complete)
    };
    let (reader, _) = stage.as_role("reader");
    assert_eq!(listed(&reader, ""), (0, true));
    assert_eq!(listed(&owner, "").0, 1);
    assert_eq!(listed(&reader, ""), (1, true));
    assert_eq!(listed(&reader, "unmistakable"), (0, false));
    assert_eq!(listed(&owner, "unmistakable"), (1, true));
    assert_eq!(listed(&reader, "unmistakable"), (1, true));
    // What is behind its summary is read for each list.
    drop(owner.open_log(&id).unwrap());
    assert_eq!(listed(&reader, ""), (1, true));
}

#[test]
fn teams_see_nothing_of_each_other() {
    let roles = [
        ("ann", Rights::Write),
        ("bob", Rights::Write),
        ("lead", Rights::Read),
    ];
    let Some(stage) = Stage::new(&roles) else {
        return;
    };
    stage
        .owner
        .run(&format!("GRANT ann_{0} TO lead_{0}", stage.schema))
        .unwrap();
    let (ann, _) = stage.as_role("ann");
    let id = new_id();
    let mut log = ann.create(&id, &header(&id)).unwrap();
    let words = r#"{"prompt":[{"type":"text","text":"unmistakable"}]}"#;
    log.append(Kind::Prompt, Some("msg_1"), words, Sync::Turn)
        .unwrap();
    log.append(Kind::End, None, r#"{"stopReason":"end_turn"}"#, Sync::Turn)
        .unwrap();
    drop(log);
    let uuid = id.to_uuid();
    for sql in [
        format!("INSERT INTO @.torn VALUES ('{uuid}', 0, 0, 'x')"),
        format!("INSERT INTO @.agent_id (agent, id, session) VALUES ('a', 'b', '{uuid}')"),
    ] {
        stage.owner.run(&sql).unwrap();
    }
    let listed = |place: &Path, search: Option<&str>| {
        let catalog = Catalog::open(Store::at(place, Sys::real(), Durability::Turn));
        let search = search.and_then(Search::parse);
        let filter = Filter {
            search,
            ..Filter::default()
        };
        catalog.list(&filter, None, 10).unwrap().sessions.len()
    };
    for (role, sees) in [("ann", 1), ("lead", 1), ("bob", 0)] {
        let place = stage.place_of(role);
        assert_eq!(listed(&place, None), sees, "{role}");
        assert_eq!(listed(&place, Some("unmistakable")), sees, "{role}");
        let (store, rows) = stage.as_role(role);
        assert_eq!(store.ids().unwrap().len(), sees);
        assert_eq!(store.exists(&id).unwrap(), sees == 1);
        assert_eq!(store.holder(&id), None);
        for table in ["session", "fence", "block", "agent_id", "words", "torn"] {
            let found = rows.ask(&format!("SELECT FROM @.{table}"), &[]).unwrap();
            assert_eq!(found.is_empty(), sees == 0, "{role}: {table}");
        }
    }
    let (bob, rows) = stage.as_role("bob");
    assert!(matches!(
        bob.open_log(&id),
        Err(StoreError::NotFound { .. })
    ));
    assert!(!bob.trash(&id).unwrap());
    let taken = "UPDATE @.fence SET epoch = epoch + 1 RETURNING 1";
    assert!(rows.ask(taken, &[]).unwrap().is_empty());
    let forged = "INSERT INTO @.block SELECT 1, 100000, 1, 'x'";
    let refused = rows.run(forged).unwrap_err();
    assert!(refused.contains("row-level security"), "{refused}");
}
