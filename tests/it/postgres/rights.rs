//! What roles of the database may do, and what they see of each other.

use std::path::{Path, PathBuf};

use rejoin::index::{Catalog, Filter, Search};
use rejoin::record::Kind;
use rejoin::store::{Durability, Rights, Store, StoreError, Sync};
use rejoin::sys::{SessionId, Sys, Timestamp};
use tokio_postgres::Row;

use super::cluster;
use super::logs::{header, new_id, open, texts, update};
use super::processes::{Process, load, prompt};
use crate::support::command::{fails, runs};
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
    let empty = ["sessions", "trash", "empty", "--yes"];
    fails(&stage.place_of("writer"), &empty, 1, "granted `janitor`");
    assert_eq!(store.trashed().unwrap().len(), 1);
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
fn a_server_that_only_reads_is_listed_without_a_wait() {
    let Some(stage) = Stage::new(&[("writer", Rights::Write)]) else {
        return;
    };
    let (store, _) = stage.as_role("writer");
    let id = new_id();
    let mut log = store.create(&id, &header(&id)).unwrap();
    let words = r#"{"prompt":[{"type":"text","text":"unmistakable"}]}"#;
    log.append(Kind::Prompt, Some("msg_1"), words, Sync::Turn)
        .unwrap();
    drop((log, store));
    let only_reads = format!(
        "ALTER ROLE writer_{} SET default_transaction_read_only = on",
        stage.schema
    );
    stage.owner.run(&only_reads).unwrap();
    let place = stage.place_of("writer");
    for search in ["", "unmistakable"] {
        let filter = Filter {
            search: Search::parse(search),
            ..Filter::default()
        };
        let page = Catalog::open(open(&place)).list(&filter, None, 10);
        page.unwrap();
    }
    runs(&place, &["sessions", "list"]);
    assert_eq!(texts(&open(&place), &id).len(), 2);
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
    let (bob, _) = stage.as_role("bob");
    assert!(matches!(
        bob.open_log(&id),
        Err(StoreError::NotFound { .. })
    ));
    assert!(!bob.trash(&id).unwrap());
}

/// What must come of a statement.
#[derive(Clone, Copy, Debug)]
enum Comes {
    /// The database refuses it.
    Refused,
    /// A function refuses its arguments.
    Invalid,
    /// It finds and changes nothing: it returns no row, or `false`.
    ToNothing,
    /// It works.
    True,
}
use Comes::{Invalid, Refused, ToNothing, True};

/// What roles try: `$mine` and `$theirs` are the numbers of sessions of ann and of bob, `$token` and
/// `$stranger` those of their claims, `$process` the id of bob's process, `$any` some UUID.
const TRIED: &[(&str, &str, Comes)] = &[
    // Nobody erases, buries, reopens, cuts or re-owns a log by hand.
    (
        "ann",
        "UPDATE @.session SET state = 't', since = 0 WHERE no = $mine",
        Refused,
    ),
    (
        "ann",
        "UPDATE @.session SET state = 'm', since = 0 WHERE no = $mine",
        Refused,
    ),
    (
        "ann",
        "UPDATE @.session SET since = 0 WHERE no = $mine",
        Refused,
    ),
    (
        "ann",
        "UPDATE @.session SET owner = 'rejoin' WHERE no = $mine",
        Refused,
    ),
    (
        "ann",
        "UPDATE @.session SET id = '$any' WHERE no = $mine",
        Refused,
    ),
    ("ann", "DELETE FROM @.session WHERE no = $mine", Refused),
    (
        "ann",
        "INSERT INTO @.session (id, state, since) VALUES ('$any', 'l', 0)",
        Refused,
    ),
    (
        "ann",
        "UPDATE @.fence SET end_off = 481 WHERE no = $mine",
        Refused,
    ),
    (
        "ann",
        "UPDATE @.fence SET epoch = 9, writer = '$any', token = '$any'",
        Refused,
    ),
    ("ann", "DELETE FROM @.fence", Refused),
    (
        "ann",
        "INSERT INTO @.fence VALUES ($mine, 1, 0, NULL, 0, NULL)",
        Refused,
    ),
    ("ann", "UPDATE @.block SET bytes = ''", Refused),
    ("ann", "DELETE FROM @.block", Refused),
    ("ann", "TRUNCATE @.block", Refused),
    (
        "ann",
        "INSERT INTO @.block SELECT $mine, 100000, 1, 'x'",
        Refused,
    ),
    (
        "ann",
        "INSERT INTO @.torn VALUES ('$any', 0, 0, 'x')",
        Refused,
    ),
    ("ann", "DROP TABLE @.block", Refused),
    (
        "ann",
        "ALTER TABLE @.block DISABLE ROW LEVEL SECURITY",
        Refused,
    ),
    (
        "ann",
        "CREATE OR REPLACE FUNCTION @.now_ms() RETURNS bigint LANGUAGE sql AS 'SELECT 0::bigint'",
        Refused,
    ),
    ("ann", "UPDATE @.store SET min_writer = 99", Refused),
    ("ann", "SET ROLE rejoin", Refused),
    // Not even with the token of a claim of one's own.
    ("ann", "SELECT @.cut($mine, '$token', 0, false)", Refused),
    ("ann", "SELECT @.keep_aside($mine, '$token', 0)", Refused),
    ("ann", "SELECT @.join_blocks($mine, 1, 0, 1)", Refused),
    (
        "ann",
        "SELECT @.publish($mine, '$token', 0, false)",
        ToNothing,
    ),
    ("ann", "SELECT @.abandon($mine, '$token')", True),
    (
        "ann",
        "SELECT @.append($mine, '$any', 0, 1, false, 'x', 9)",
        ToNothing,
    ),
    ("ann", "SELECT @.sync($mine, '$token')", True),
    // Nor puts a gap into it, with the length of a block that is not that of its bytes.
    (
        "ann",
        "SELECT @.append(no, token, end_off, end_off + 5000, true, 'x', 1000000) FROM @.fence WHERE no = $mine",
        Invalid,
    ),
    (
        "ann",
        "SELECT @.append(no, token, end_off, end_off, true, '', 9) FROM @.fence WHERE no = $mine",
        Invalid,
    ),
    (
        "ann",
        "SELECT @.append(no, token, end_off, end_off + 2, true, 'xx', -1) FROM @.fence WHERE no = $mine",
        Invalid,
    ),
    (
        "ann",
        "SELECT @.append(no, token, end_off, end_off + 2, true, 'xx', NULL) FROM @.fence WHERE no = $mine",
        ToNothing,
    ),
    (
        "ann",
        "UPDATE @.session SET summary = summary WHERE no = $mine RETURNING 1",
        True,
    ),
    // Rows of another team.
    ("ann", "SELECT FROM @.session WHERE no = $theirs", ToNothing),
    ("ann", "SELECT FROM @.fence WHERE no = $theirs", ToNothing),
    ("ann", "SELECT FROM @.block WHERE no = $theirs", ToNothing),
    (
        "ann",
        "SELECT FROM @.writer WHERE id = '$process'",
        ToNothing,
    ),
    ("ann", "SELECT FROM @.note WHERE name = 'of bob'", ToNothing),
    (
        "ann",
        "UPDATE @.session SET summary = 'x' WHERE no = $theirs RETURNING 1",
        ToNothing,
    ),
    (
        "ann",
        "UPDATE @.note SET text = 'x' WHERE name = 'of bob' RETURNING 1",
        ToNothing,
    ),
    (
        "ann",
        "UPDATE @.writer SET client = 'x', seen = now()",
        Refused,
    ),
    (
        "ann",
        "INSERT INTO @.writer VALUES ('$any', 'h', 1, '', NULL, false, now())",
        Refused,
    ),
    ("ann", "DELETE FROM @.writer", Refused),
    (
        "ann",
        "DELETE FROM @.words WHERE no = $theirs RETURNING 1",
        ToNothing,
    ),
    (
        "ann",
        "INSERT INTO @.words VALUES ($theirs, 9, 0, 0, 0, 'x')",
        Refused,
    ),
    (
        "ann",
        "INSERT INTO @.agent_id (agent, id, session) SELECT 'a', 'b', '$bobs'",
        Refused,
    ),
    (
        "ann",
        "INSERT INTO @.note (name, text, owner) VALUES ('of bob', 'x', '$bob')",
        Refused,
    ),
    (
        "ann",
        "SELECT FROM @.claim('$bobs', NULL, true, '$any', NULL, '$any', false)",
        ToNothing,
    ),
    (
        "ann",
        "SELECT @.append($theirs, '$any', 0, 1, false, 'x', 9)",
        ToNothing,
    ),
    (
        "ann",
        "SELECT @.move($theirs, '$any', true, false)",
        ToNothing,
    ),
    ("ann", "SELECT @.sync($theirs, '$any')", ToNothing),
    // Neither changes anything, which the end of the test shows.
    (
        "ann",
        "SELECT @.sign_of_life('$process', 'h', 1, '', 'x', true)",
        True,
    ),
    (
        "ann",
        "SELECT @.release('$process', ARRAY['$any'::uuid])",
        True,
    ),
    // A reader.
    ("lead", "SELECT FROM @.block WHERE no = $mine", True),
    (
        "lead",
        "SELECT FROM @.draft('$any', '$any', '$any')",
        Refused,
    ),
    (
        "lead",
        "SELECT FROM @.claim('$anns', NULL, true, '$any', NULL, '$any', false)",
        Refused,
    ),
    (
        "lead",
        "SELECT @.append($mine, '$token', 0, 1, false, 'x', 9)",
        Refused,
    ),
    (
        "lead",
        "SELECT @.move($mine, '$token', true, false)",
        Refused,
    ),
    (
        "lead",
        "SELECT @.sign_of_life('$any', 'h', 1, '', 'x', true)",
        Refused,
    ),
    ("lead", "UPDATE @.session SET summary = 'x'", Refused),
    (
        "lead",
        "INSERT INTO @.note (name, text) VALUES ('a', 'b')",
        Refused,
    ),
    // A janitor removes what its team has, and changes nothing.
    (
        "janitor",
        "UPDATE @.session SET state = 't', since = 0",
        Refused,
    ),
    ("janitor", "UPDATE @.fence SET end_off = 0", Refused),
    ("janitor", "UPDATE @.block SET bytes = ''", Refused),
    (
        "janitor",
        "INSERT INTO @.block SELECT $mine, 100000, 1, 'x'",
        Refused,
    ),
    (
        "janitor",
        "DELETE FROM @.session WHERE no = $theirs RETURNING 1",
        ToNothing,
    ),
    (
        "janitor",
        "DELETE FROM @.block WHERE no = $theirs RETURNING 1",
        ToNothing,
    ),
    (
        "janitor",
        "SELECT @.join_blocks($theirs, 1, 0, 1)",
        ToNothing,
    ),
    (
        "janitor",
        "SELECT @.cut($theirs, '$any', 0, false)",
        ToNothing,
    ),
    (
        "janitor",
        "DELETE FROM @.block WHERE no = $mine AND off > 1000000 RETURNING 1",
        ToNothing,
    ),
];

#[test]
fn each_role_does_what_it_may_and_no_more() {
    let roles = [
        ("ann", Rights::Write),
        ("bob", Rights::Write),
        ("lead", Rights::Read),
        ("janitor", Rights::Clean),
    ];
    let Some(stage) = Stage::new(&roles) else {
        return;
    };
    let (owner, schema) = (&stage.owner, &stage.schema);
    owner
        .run(&format!(
            "ALTER ROLE lead_{schema} NOINHERIT;
             GRANT ann_{schema} TO lead_{schema}; GRANT ann_{schema} TO janitor_{schema}"
        ))
        .unwrap();
    let (ann, bob) = (stage.as_role("ann").0, stage.as_role("bob").0);
    let [anns, bobs] = [(); 2].map(|()| new_id());
    let logs = [(&ann, &anns), (&bob, &bobs)].map(|(store, id)| {
        let mut log = store.create(id, &header(id)).unwrap();
        log.append(Kind::Update, None, &update("a"), Sync::Turn)
            .unwrap();
        log
    });
    let as_bob = Rows::at(&stage.place_of("bob"));
    as_bob
        .run("INSERT INTO @.note (name, text) VALUES ('of bob', 'own')")
        .unwrap();
    let fence = |id: &SessionId| {
        let sql =
            "SELECT no::text, token::text, writer::text FROM @.fence JOIN @.session USING (no)
                   WHERE id = $1";
        let rows = owner.ask(sql, &[&id.to_uuid()]).unwrap();
        [0, 1, 2].map(|column| rows[0].get::<_, String>(column))
    };
    let ([mine, token, _], [theirs, _, process]) = (fence(&anns), fence(&bobs));
    let any = new_id().to_uuid().to_string();
    let state = "
        SELECT s::text, f::text, (SELECT string_agg(b::text, ' ' ORDER BY off) FROM @.block b
                WHERE b.no = s.no), (SELECT string_agg(n::text, ' ') FROM @.note n),
            w.id::text || w.host || w.pid || coalesce(w.client, '')
        FROM @.session s JOIN @.fence f USING (no) JOIN @.writer w ON w.id = f.writer ORDER BY s.no";
    let state = || {
        let rows = owner.ask(state, &[]).unwrap();
        let text = |row: &Row| [0, 1, 2, 3, 4].map(|n| row.get::<_, Option<String>>(n));
        rows.iter().map(text).collect::<Vec<_>>()
    };
    let before = state();
    let (named_anns, named_bobs) = (anns.to_uuid().to_string(), bobs.to_uuid().to_string());
    let names = [
        ("$mine", &*mine),
        ("$theirs", &theirs),
        ("$token", &token),
        ("$process", &process),
        ("$anns", &named_anns),
        ("$bobs", &named_bobs),
        ("$bob", &format!("bob_{schema}")),
        ("$any", &any),
    ];
    for (role, tried, comes) in TRIED {
        let mut sql = (*tried).to_owned();
        for (name, value) in names {
            sql = sql.replace(name, value);
        }
        let rows = Rows::at(&stage.place_of(role));
        let tried = rows.ask(&sql, &[]);
        match (comes, &tried) {
            (Refused, Err(refused)) => {
                let known = [
                    "permission denied",
                    "must be owner",
                    "must be member",
                    "row-level security",
                ];
                let is_known = known.iter().any(|known| refused.contains(known));
                assert!(is_known, "{role}: {sql}: {refused}");
            }
            (Invalid, Err(refused)) => {
                assert!(
                    refused.contains("a block has as many bytes"),
                    "{role}: {sql}: {refused}"
                );
            }
            (ToNothing, Ok(rows)) => {
                let is_nothing = |row: &Row| match row.try_get::<_, Option<bool>>(0) {
                    Ok(is_done) => is_done != Some(true),
                    Err(_) => row.try_get::<_, i64>(0).is_ok_and(|made| made == 0),
                };
                assert!(rows.iter().all(is_nothing), "{role}: {sql}: {rows:?}");
            }
            (True, Ok(rows)) => assert!(!rows.is_empty(), "{role}: {sql}"),
            _ => panic!("{role}: {sql} should come to {comes:?}: {tried:?}"),
        }
    }
    assert_eq!(state(), before);
    drop(logs);
}

/// Reading a log needs no right to repair it.
#[test]
fn a_writer_reads_a_log_with_a_torn_end() {
    let Some(stage) = Stage::new(&[("writer", Rights::Write)]) else {
        return;
    };
    let (store, rows) = stage.as_role("writer");
    let id = new_id();
    let mut log = store.create(&id, &header(&id)).unwrap();
    let said = |kind, id, payload| (kind, id, payload);
    for (kind, id, payload) in [
        said(
            Kind::Prompt,
            Some("msg_1"),
            r#"{"prompt":[{"type":"text","text":"a"}]}"#,
        ),
        said(
            Kind::Update,
            None,
            r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"known"}}"#,
        ),
        said(Kind::End, None, r#"{"stopReason":"end_turn"}"#),
    ] {
        log.append(kind, id, payload, Sync::Turn).unwrap();
    }
    let torn = "SELECT @.append(no, token, end_off, end_off + 4, true, 'torn', 9) FROM @.fence";
    let appended = rows.ask(torn, &[]).unwrap();
    assert!(appended[0].get::<_, bool>(0));
    drop((log, store));
    let place = stage.place_of("writer");
    let mut process = Process::start(&place);
    let loaded = process
        .ask("session/load", &load(id.as_str(), false))
        .unwrap();
    assert_eq!(process.text, "known");
    let why = loaded["_meta"]["rejoin"]["readOnly"].as_str();
    assert!(
        why.is_some_and(|why| why.contains("permission denied")),
        "{loaded}"
    );
    let refused = process.ask("session/prompt", &prompt(id.as_str(), "/echo on"));
    assert_eq!(refused.unwrap_err()["data"]["error"], "storage_failed");
    process.leave();
    // Who may do so, cuts it off.
    let mut process = Process::start(&stage.place);
    process
        .ask("session/load", &load(id.as_str(), false))
        .unwrap();
    let answer = process.ask("session/prompt", &prompt(id.as_str(), "/echo on"));
    assert_eq!(answer.unwrap()["stopReason"], "end_turn");
    process.leave();
}
