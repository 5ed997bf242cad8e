//! The server is killed, and another one that has followed it takes its place.

use std::sync::mpsc::channel;

use rejoin::record::Kind;
use rejoin::store::{Durability, Store, Sync};
use rejoin::sys::Sys;

use super::cluster::Cluster;
use super::logs::{header, new_id, texts, update};
use crate::support::rows::Rows;
use crate::support::wrapped::until;

/// How many updates are appended before the server is killed, and in all.
const BEFORE: usize = 300;
const IN_ALL: usize = 1000;

#[test]
fn nothing_is_lost_if_each_update_is_safe() {
    fail_over(Durability::Each);
}

#[test]
fn nothing_is_lost_of_a_turn_that_goes_on() {
    fail_over(Durability::Turn);
}

/// Has a server wait for the one that follows it.
pub(super) fn await_with_each_commit(server: &Rows) {
    for sql in [
        "ALTER SYSTEM SET synchronous_standby_names = '*'",
        "SELECT pg_reload_conf()",
    ] {
        server.run(sql).unwrap();
    }
    let follows = "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'";
    until(|| match server.ask(follows, &[])?.first() {
        Some(_) => Ok(()),
        None => Err("no server follows".to_owned()),
    })
    .unwrap();
}

fn fail_over(durability: Durability) {
    let Some(mut cluster) = Cluster::start(false) else {
        return;
    };
    let Some((place, standby)) = cluster.standby() else {
        eprintln!("skipped: there is no pg_basebackup here");
        return;
    };
    await_with_each_commit(&Rows::at(&cluster.place("")));
    let standby = Rows::at(&standby);
    Store::migrate(&place, &Sys::real()).unwrap();
    let store = Store::open(&place, Sys::real(), durability).unwrap();
    let id = new_id();
    let mut log = store.create(&id, &header(&id)).unwrap();
    let (send, enough) = channel();
    let texts_of = |n: usize| update(&format!("{n}"));
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for n in 0..IN_ALL {
                if n == BEFORE {
                    send.send(()).unwrap();
                }
                log.append(Kind::Update, None, &texts_of(n), Sync::Buffered)
                    .unwrap();
            }
        });
        enough.recv().unwrap();
        cluster.crash();
        standby.run("SELECT pg_promote(true, 60)").unwrap();
    });
    let expected: Vec<_> = (0..IN_ALL).map(texts_of).collect();
    assert_eq!(texts(&store, &id)[1..], expected);
}
