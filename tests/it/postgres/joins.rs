//! Small blocks of a log are joined, and nobody who reads or writes it notices.

use rejoin::index::{Catalog, Filter};
use rejoin::record::Kind;
use rejoin::store::{Copied, Store, Sync};
use rejoin::sys::{Sys, Timestamp};

use super::cluster;
use super::logs::{header, new_id, open, texts, update};
use crate::support::rows::Rows;

/// How many updates are streamed, and how long each is.
const UPDATES: usize = 600;
const TEXT: usize = 1000;

#[test]
fn what_was_streamed_has_fewer_rows_and_the_same_bytes() {
    let Some(place) = cluster::store() else {
        return;
    };
    let (store, rows) = (open(&place), Rows::at(&place));
    let id = new_id();
    let mut log = store.create(&id, &header(&id)).unwrap();
    let prompt = r#"{"prompt":[{"type":"text","text":"a story"}]}"#;
    log.append(Kind::Prompt, Some("msg_1"), prompt, Sync::Turn)
        .unwrap();
    let text = |n: usize| update(&format!("{n}{}", "x".repeat(TEXT)));
    for n in 0..UPDATES {
        log.append(Kind::Update, None, &text(n), Sync::Buffered)
            .unwrap();
    }
    let later = Timestamp::from_millis(Sys::real().clock.now().as_millis() + 60_000);
    let join = |store: &Store| while store.join_blocks(later).unwrap() {};
    let count = || rows.ask("SELECT FROM @.block", &[]).unwrap().len();
    // A list brings the summary up to date, by which resting sessions are found.
    let list = || {
        let listed = Catalog::open(store.clone()).list(&Filter::default(), None, 10);
        assert_eq!(listed.unwrap().sessions.len(), 1);
    };
    list();
    join(&store);
    assert!(count() > UPDATES, "a process has it open");
    drop(log);
    rows.run("DELETE FROM @.note").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let copy = open(folder.path());
    assert_eq!(store.copy_to(&id, &copy, true).unwrap(), Copied::New);
    let other = open(&place);
    let mut reader = other.read(&id).unwrap();
    for _ in 0..UPDATES / 2 {
        reader.next().unwrap().unwrap();
    }
    list();
    join(&store);
    assert!(count() < 20, "{}", count());
    let mut left = 0;
    while reader.next().unwrap().is_some() {
        left += 1;
    }
    assert_eq!(left, UPDATES + 2 - UPDATES / 2);
    assert_eq!(store.copy_to(&id, &copy, true).unwrap(), Copied::Same);
    // It goes on, and only what is new is joined.
    let mut log = other.open_log(&id).unwrap().log;
    for n in 0..UPDATES {
        log.append(Kind::Update, None, &text(n), Sync::Buffered)
            .unwrap();
    }
    drop(log);
    rows.run("DELETE FROM @.note").unwrap();
    let made = "SELECT count(*) FROM @.block WHERE xmin::text::bigint > $1";
    let before = "SELECT max(xmin::text::bigint) FROM @.block WHERE off < 65536 * 8";
    let before: i64 = rows.ask(before, &[]).unwrap()[0].get(0);
    join(&store);
    assert!(count() < 40, "{}", count());
    let made: i64 = rows.ask(made, &[&before]).unwrap()[0].get(0);
    assert!((1..20).contains(&made), "{made}");
    // Opening it has ended the turn that was left open.
    assert_eq!(texts(&store, &id).len(), 2 * UPDATES + 3);
}
