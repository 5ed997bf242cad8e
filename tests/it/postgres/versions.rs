//! Tables of earlier versions, which are brought up to date, and of later ones.

use std::path::Path;

use rejoin::record::Kind;
use rejoin::store::{Durability, Rights, Store, StoreError, Sync};
use rejoin::sys::{SessionId, Sys};

use super::cluster;
use super::logs::{header, new_id, open, texts, update};
use crate::support::rows::Rows;

/// How the tables of each version are made from those of the one before.
const STEPS: [&str; 6] = [
    include_str!("../../../crates/rejoin-core/src/store/postgres/version_1.sql"),
    include_str!("../../../crates/rejoin-core/src/store/postgres/version_2.sql"),
    include_str!("../../../crates/rejoin-core/src/store/postgres/version_3.sql"),
    include_str!("../../../crates/rejoin-core/src/store/postgres/version_4.sql"),
    include_str!("../../../crates/rejoin-core/src/store/postgres/version_5.sql"),
    include_str!("../../../crates/rejoin-core/src/store/postgres/version_6.sql"),
];

/// What version 3 granted to a writer.
const WRITER_3: &str = "
    GRANT USAGE ON SCHEMA @ TO ?; GRANT SELECT ON ALL TABLES IN SCHEMA @ TO ?;
    GRANT INSERT ON @.session, @.fence, @.writer, @.block, @.torn, @.agent_id, @.note TO ?;
    GRANT UPDATE ON @.session, @.fence, @.writer, @.note TO ?;";

/// Tables of an early version with a session in them, as a program of that time has left them: open in
/// a process.
fn early(place: &Path, version: usize) -> (Rows, SessionId) {
    let rows = Rows::at(place);
    rows.run(&STEPS[..version].concat()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let files = open(folder.path());
    let id = new_id();
    let mut log = files.create(&id, &header(&id)).unwrap();
    log.append(Kind::Update, None, &update("before"), Sync::Turn)
        .unwrap();
    drop(log);
    let log = folder.path().join("sessions").join(format!("{id}.jsonl"));
    let bytes = std::fs::read(log).unwrap();
    let (end, uuid) = (i64::try_from(bytes.len()).unwrap(), id.to_uuid());
    let sql = "
        WITH made AS (INSERT INTO @.session (id, state, since) VALUES ($1, 'l', 0) RETURNING no),
        fence AS (INSERT INTO @.fence SELECT no, 3, $2, $1, 0 FROM made),
        writer AS (INSERT INTO @.writer SELECT $1, 'h', 1, 'b', NULL, false, now()),
        note AS (INSERT INTO @.note VALUES ('cleaned.json', '{}'))
        INSERT INTO @.block SELECT no, 0, 3, $3 FROM made";
    rows.ask(sql, &[&uuid, &end, &bytes]).unwrap();
    (rows, id)
}

#[test]
fn tables_of_each_earlier_version_are_brought_up_to_date() {
    for version in 1..STEPS.len() {
        let Some(place) = cluster::place() else {
            return;
        };
        let (rows, id) = early(&place, version);
        let store = Store::at(&place, Sys::real(), Durability::Turn);
        let error = store.prepare().unwrap_err().to_string();
        assert!(error.contains("those of an earlier rejoin"), "{error}");
        assert!(Store::migrate(&place, &Sys::real()).unwrap());
        assert!(!Store::migrate(&place, &Sys::real()).unwrap());

        let store = open(&place);
        assert_eq!(texts(&store, &id)[1..], [update("before")]);
        // That of an earlier program does not count any longer, and that of one which can go on does.
        let opened = store.open_log(&id);
        assert_eq!(opened.is_err(), version >= 4);
        drop(opened);
        let mut log = store.take_over_with(&id, &mut |_| {}).unwrap().log;
        log.append(Kind::Update, None, &update("after"), Sync::Turn)
            .unwrap();
        assert_eq!(texts(&store, &id)[1..], [update("before"), update("after")]);
        let earlier = "SELECT @.append(1, 3::bigint, 0, 1, 'on', 'x', 9)";
        let refused = rows.ask(earlier, &[]);
        // Version 1 and 2 had no such function, and get one on the way.
        assert!(refused.unwrap_err().contains("start a later one"));
    }
}

#[test]
fn what_roles_may_do_follows_the_tables() {
    let Some(place) = cluster::place() else {
        return;
    };
    let (rows, _) = early(&place, 3);
    let (_, schema) = place.to_str().unwrap().split_once("schema=").unwrap();
    let role = format!("early_{schema}");
    rows.run(&format!("CREATE ROLE {role} LOGIN")).unwrap();
    rows.run(&WRITER_3.replace('?', &role)).unwrap();
    let theirs = place
        .to_str()
        .unwrap()
        .replace("rejoin@", &format!("{role}@"));
    let as_role = Rows::at(theirs.as_ref());
    as_role.run("UPDATE @.fence SET end_off = end_off").unwrap();
    assert!(Store::migrate(&place, &Sys::real()).unwrap());
    let refused = as_role.run("UPDATE @.fence SET end_off = end_off");
    assert!(refused.unwrap_err().contains("permission denied"));
    let id = new_id();
    let store = open(theirs.as_ref());
    let mut log = store.create(&id, &header(&id)).unwrap();
    log.append(Kind::Update, None, &update("a"), Sync::Turn)
        .unwrap();
}

#[test]
fn later_tables_are_read_if_they_allow_it() {
    let Some(place) = cluster::store() else {
        return;
    };
    let rows = Rows::at(&place);
    let id = new_id();
    drop(open(&place).create(&id, &header(&id)).unwrap());
    rows.run("UPDATE @.store SET version = 99, min_writer = 99")
        .unwrap();
    let store = open(&place);
    assert_eq!(texts(&store, &id).len(), 1);
    assert_eq!(store.ids().unwrap(), std::slice::from_ref(&id));
    let other = new_id();
    for refused in [
        store.open_log(&id).map(drop),
        store.create(&other, &header(&other)).map(drop),
    ] {
        assert!(
            matches!(&refused, Err(StoreError::ReadOnly { cause, .. })
                if cause.to_string().contains("of a later rejoin")),
            "{refused:?}"
        );
    }
    rows.run("UPDATE @.store SET min_reader = 99").unwrap();
    let store = Store::at(&place, Sys::real(), Durability::Turn);
    for refused in [store.read(&id).map(drop), store.ids().map(drop)] {
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("of a later rejoin"), "{refused}");
    }
}

#[test]
fn tables_without_a_version_are_left_alone() {
    let Some(place) = cluster::store() else {
        return;
    };
    Rows::at(&place).run("DELETE FROM @.store").unwrap();
    for failed in [
        Store::migrate(&place, &Sys::real()).map(drop),
        Store::at(&place, Sys::real(), Durability::Turn).prepare(),
    ] {
        let failed = failed.unwrap_err().to_string();
        assert!(failed.contains("has no row"), "{failed}");
    }
}

#[test]
fn every_table_can_be_replicated() {
    let Some(place) = cluster::store() else {
        return;
    };
    let without = "
        SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = '@' AND c.relkind = 'r' AND NOT EXISTS
            (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary)";
    let without = Rows::at(&place).ask(without, &[]).unwrap();
    let names: Vec<String> = without.iter().map(|row| row.get(0)).collect();
    assert_eq!(names, Vec::<String>::new());
}

#[test]
fn a_reader_may_copy_everything_that_it_sees() {
    let Some(place) = cluster::store() else {
        return;
    };
    let (_, schema) = place.to_str().unwrap().split_once("schema=").unwrap();
    let role = format!("dumps_{schema}");
    let rows = Rows::at(&place);
    rows.run(&format!("CREATE ROLE {role} LOGIN")).unwrap();
    Store::grant(&place, &role, Rights::Read).unwrap();
    let theirs = place
        .to_str()
        .unwrap()
        .replace("rejoin@", &format!("{role}@"));
    let as_role = Rows::at(theirs.as_ref());
    for sequence in ["agent_id_number_seq", "session_no_seq", "torn_number_seq"] {
        as_role
            .ask(&format!("SELECT last_value FROM @.{sequence}"), &[])
            .unwrap();
    }
}
