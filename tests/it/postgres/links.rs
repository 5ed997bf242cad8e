//! What a slow connection to the database costs.

use rejoin::record::Kind;
use rejoin::store::{Store, Sync};
use rejoin::sys::Sys;

use super::cluster;
use super::logs::{header, new_id, open, texts, update};
use super::processes::{Process, prompt};
use super::proxy::Proxy;
use crate::support::rows::Rows;

#[test]
fn what_takes_long_to_send_is_sent_once() {
    let Some(cluster) = cluster::shared() else {
        return;
    };
    let proxy = Proxy::start(cluster.port);
    let (direct, behind) = cluster.through(proxy.port);
    Store::migrate(&direct, &Sys::real()).unwrap();
    let behind = format!("{}&patience=1s", behind.display());
    let store = open(behind.as_ref());
    let id = new_id();
    let mut log = store.create(&id, &header(&id)).unwrap();
    proxy.be_slow();
    // It takes some seconds.
    let long = update(&"x".repeat(1 << 20));
    let before = proxy.sent();
    log.append(Kind::Update, None, &long, Sync::Turn).unwrap();
    let sent = proxy.sent() - before;
    assert!(sent < long.len() * 3 / 2, "{sent} bytes");
    assert_eq!(texts(&open(&direct), &id)[1..], [long]);
}

#[test]
fn updates_that_come_during_an_append_share_the_next_one() {
    const UPDATES: i64 = 200;
    let Some(cluster) = cluster::shared() else {
        return;
    };
    let proxy = Proxy::start(cluster.port);
    let (direct, behind) = cluster.through(proxy.port);
    Store::migrate(&direct, &Sys::real()).unwrap();
    let mut process = Process::start(&behind);
    let session = process.new_session();
    proxy.be_slow();
    let flood = format!("/flood {UPDATES} 40");
    let answer = process.ask("session/prompt", &prompt(&session, &flood));
    assert_eq!(answer.unwrap()["stopReason"], "end_turn");
    process.leave();
    let blocks = Rows::at(&direct).ask("SELECT count(*) FROM @.block", &[]);
    let blocks: i64 = blocks.unwrap()[0].get(0);
    assert!(blocks < UPDATES / 2, "{blocks} blocks");
}
