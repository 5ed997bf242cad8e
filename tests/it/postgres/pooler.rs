//! A pooler between rejoin and the database, which gives a connection to each transaction only.
//!
//! `REJOIN_TEST_POSTGRES=pooled` runs all the other tests in this way.

use rejoin::record::Kind;
use rejoin::store::Sync;

use super::cluster;
use super::logs::{header, new_id, open, texts, update};
use super::processes::{Process, load, prompt};

#[test]
fn nothing_needs_a_connection_of_its_own() {
    let (Some(place), Some(cluster)) = (cluster::store(), cluster::shared()) else {
        return;
    };
    let Some(pooled) = cluster.pooled(&place) else {
        eprintln!("skipped: there is no PgBouncer here");
        return;
    };
    let (store, direct) = (open(&pooled), open(&place));
    let id = new_id();
    let mut log = store.create(&id, &header(&id)).unwrap();
    let expected: Vec<_> = (0..100).map(|n| update(&format!("{n}"))).collect();
    for text in &expected {
        log.append(Kind::Update, None, text, Sync::Buffered)
            .unwrap();
    }
    log.sync().unwrap();
    assert!(direct.is_open(&id));
    drop(log);
    assert_eq!(texts(&direct, &id)[1..], expected);
    assert_eq!(texts(&store, &id)[1..], expected);
    let mut processes: Vec<_> = (0..8).map(|_| Process::start(&pooled)).collect();
    for process in &mut processes {
        let session = process.new_session();
        let answer = process.ask("session/prompt", &prompt(&session, "/echo pooled"));
        assert_eq!(answer.unwrap()["stopReason"], "end_turn");
        process.ask("session/load", &load(&session, false)).unwrap();
    }
    for process in processes {
        process.leave();
    }
}
